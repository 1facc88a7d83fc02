// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const (
	// weighedFor is for how long what replicas take is not measured again.
	weighedFor = 5 * time.Second
	// loadFades is the time in which the load of a replica is half forgotten.
	loadFades = time.Minute
)

// scales measure what the replicas on this node take.
type scales struct {
	mu    sync.Mutex
	at    time.Time
	last  peers.Holdings
	paces map[topology.PartitionID]pace
}

// pace is how much a replica has done, and does in a second.
type pace struct {
	replica topology.ReplicaID
	units   ru.Units
	rate    float64
}

// after is the pace of a replica of the same partition that has done so many units some time later. One that has come
// in the place of another begins with that one's rate, for it counts from nothing: what it has done is no difference
// to what the other had.
func (p pace) after(replica topology.ReplicaID, units ru.Units, passed time.Duration) pace {
	next := pace{replica, units, p.rate}
	if replica == p.replica {
		keep := math.Exp2(-passed.Seconds() / loadFades.Seconds())
		next.rate = p.rate*keep + (units-p.units).Float()/passed.Seconds()*(1-keep)
	}
	return next
}

// held is what this node tells of its replicas, measured anew if the last time was some seconds ago.
func (n *Node) held() peers.Holdings {
	w := &n.scales
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	passed := now.Sub(w.at)
	if passed < weighedFor {
		return w.last
	}
	paces := map[topology.PartitionID]pace{}
	h := peers.Holdings{Capacity: n.capacity()}
	state := n.records.State()
	for _, r := range n.host.Replicas() {
		p := state.Map.Partition(r.ID())
		if p == nil || p.ID == topology.MetaPartition || r.Table() == 0 {
			continue
		}
		is := w.paces[p.ID].after(r.Member(), r.Counts().Units, passed)
		paces[p.ID] = is
		bytes, err := n.store.DiskBytes(p.Span.Keys(p.Table))
		if err != nil {
			continue // it is told of the next time
		}
		h.Replicas = append(h.Replicas, peers.Holding{Partition: p.ID, Bytes: bytes, Load: uint64(is.rate)})
	}
	w.at, w.last, w.paces = now, h, paces
	return h
}

// capacity is how many bytes this node has room for, 0 if it is not known.
func (n *Node) capacity() uint64 {
	if c := n.opts.Cluster.Capacity; c > 0 {
		return uint64(c)
	}
	m := n.store.Metrics()
	if m.DiskAvailable == 0 {
		return 0
	}
	return m.DiskBytes + m.DiskAvailable
}
