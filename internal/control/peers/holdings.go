// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Holding is what a replica on a node takes.
type Holding struct {
	Partition topology.PartitionID
	// Bytes are those on disk, told in whole MiB.
	Bytes uint64
	// Load is in request units a second.
	Load uint64
}

// Holdings is all that the replicas on a node take. It is about 5 bytes for each on its way: 50 KB for 10,000.
type Holdings struct {
	// Capacity is how many bytes the node has room for, what it has included; 0 if that is not known.
	Capacity uint64
	Replicas []Holding
}

const (
	mib = 1 << 20
	// holdingsVersion is the first byte.
	holdingsVersion = 1
)

var errHoldings = errors.New("malformed sizes of replicas")

// append appends the holdings; it sorts the replicas.
func (h *Holdings) append(dst []byte) []byte {
	slices.SortFunc(h.Replicas, func(a, b Holding) int { return cmp.Compare(a.Partition, b.Partition) })
	w := codec.Writer(append(dst, holdingsVersion))
	w.Uint(h.Capacity / mib)
	w.Uint(uint64(len(h.Replicas)))
	last := topology.PartitionID(0)
	for _, r := range h.Replicas {
		w.Uint(uint64(r.Partition - last))
		w.Uint((r.Bytes + mib/2) / mib)
		w.Uint(r.Load)
		last = r.Partition
	}
	return w
}

func decodeHoldings(b []byte) (h Holdings, err error) {
	r := codec.NewReader(b, errHoldings)
	if r.Byte() != holdingsVersion {
		return h, errHoldings
	}
	h.Capacity = r.UpTo(1<<43) * mib
	n := r.Count(3)
	h.Replicas = make([]Holding, 0, n)
	last := topology.PartitionID(0)
	for range n {
		last += topology.PartitionID(r.Uint())
		h.Replicas = append(h.Replicas, Holding{last, r.UpTo(1<<43) * mib, r.Uint()})
	}
	return h, r.End()
}

// Holdings asks a node what its replicas take.
func (p *Peers) Holdings(ctx context.Context, node topology.NodeID) (Holdings, error) {
	b, err := p.caller.Call(ctx, node, []byte{kindHoldings})
	if err != nil {
		return Holdings{}, err
	}
	return decodeHoldings(b)
}
