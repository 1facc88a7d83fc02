// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// ReplicaStats is the size and the load of a replica.
type ReplicaStats struct {
	Partition topology.PartitionID
	// Bytes is the size on disk. It is transmitted in MiB.
	Bytes uint64
	// Load is the load in request units per second.
	Load uint64
}

// NodeStats holds the sizes and loads of all replicas on a node. The encoded form takes about 5 bytes per replica.
type NodeStats struct {
	// Capacity is the number of bytes that the node can store, including its current data. It is 0 if this number is
	// unknown.
	Capacity uint64
	Replicas []ReplicaStats
}

const (
	mib = 1 << 20
	// statsVersion is the first byte of encoded stats.
	statsVersion = 1
)

var errStats = errors.New("malformed replica stats")

// AppendBinary implements encoding.BinaryAppender. It sorts the replicas.
func (h *NodeStats) AppendBinary(dst []byte) ([]byte, error) {
	slices.SortFunc(h.Replicas, func(a, b ReplicaStats) int { return cmp.Compare(a.Partition, b.Partition) })
	w := codec.Writer(append(dst, statsVersion))
	w.Uint(h.Capacity / mib)
	w.Uint(uint64(len(h.Replicas)))
	last := topology.PartitionID(0)
	for _, r := range h.Replicas {
		w.Uint(uint64(r.Partition - last))
		w.Uint((r.Bytes + mib/2) / mib)
		w.Uint(r.Load)
		last = r.Partition
	}
	return w, nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (h *NodeStats) UnmarshalBinary(b []byte) error {
	r := codec.NewReader(b, errStats)
	if r.Byte() != statsVersion {
		return errStats
	}
	h.Capacity = r.UpTo(1<<43) * mib
	n := r.Count(3)
	h.Replicas = make([]ReplicaStats, 0, n)
	last := topology.PartitionID(0)
	for range n {
		last += topology.PartitionID(r.Uint())
		h.Replicas = append(h.Replicas, ReplicaStats{last, r.UpTo(1<<43) * mib, r.Uint()})
	}
	return r.End()
}
