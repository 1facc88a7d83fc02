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
	// statsTTL is for how long what replicas take is not measured again.
	statsTTL = 5 * time.Second
	// loadHalfLife is the time in which the load of a replica is half forgotten.
	loadHalfLife = time.Minute
)

// loadTracker measure what the replicas on this node take.
type loadTracker struct {
	mu         sync.Mutex
	measuredAt time.Time
	report     peers.NodeStats
	rates      map[topology.PartitionID]loadRate
}

// loadRate is how much a replica has done, and does in a second.
type loadRate struct {
	replica topology.ReplicaID
	units   ru.Units
	rate    float64
}

// next is the pace of a replica of the same partition that has done so many units some time later. One that has come
// in the place of another begins with that one's rate, for it counts from nothing: what it has done is no difference
// to what the other had.
func (p loadRate) next(replica topology.ReplicaID, units ru.Units, elapsed time.Duration) loadRate {
	next := loadRate{replica, units, p.rate}
	if replica == p.replica {
		keep := math.Exp2(-elapsed.Seconds() / loadHalfLife.Seconds())
		next.rate = p.rate*keep + (units-p.units).Float()/elapsed.Seconds()*(1-keep)
	}
	return next
}

// replicaStats is what this node tells of its replicas, measured anew if the last time was some seconds ago.
func (n *Node) replicaStats() peers.NodeStats {
	w := &n.loads
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	elapsed := now.Sub(w.measuredAt)
	if elapsed < statsTTL {
		return w.report
	}
	rates := map[topology.PartitionID]loadRate{}
	h := peers.NodeStats{Capacity: n.capacity()}
	state := n.metadata.State()
	for _, r := range n.host.Replicas() {
		p := state.Topology.Partition(r.ID())
		if p == nil || p.ID == topology.MetaPartition || r.Table() == 0 {
			continue
		}
		is := w.rates[p.ID].next(r.Member(), r.Counts().Units, elapsed)
		rates[p.ID] = is
		bytes, err := n.store.DiskBytes(p.Span.Keys(p.Table))
		if err != nil {
			continue // it is told of the next time
		}
		h.Replicas = append(h.Replicas, peers.ReplicaStats{Partition: p.ID, Bytes: bytes, Load: uint64(is.rate)})
	}
	w.measuredAt, w.report, w.rates = now, h, rates
	return h
}

// capacity is how many bytes this node has room for, 0 if it is not known.
func (n *Node) capacity() uint64 {
	if c := n.opts.Cluster.CapacityGB; c > 0 {
		return uint64(c) << 30
	}
	m := n.store.Metrics()
	if m.DiskAvailable == 0 {
		return 0
	}
	return m.DiskBytes + m.DiskAvailable
}
