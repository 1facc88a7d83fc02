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
	// statsTTL is how long the stats of replicas are cached.
	statsTTL = 5 * time.Second
	// loadHalfLife is the time after which a measured load has half its weight.
	loadHalfLife = time.Minute
)

// loadTracker measures the loads of the local replicas.
type loadTracker struct {
	mu         sync.Mutex
	measuredAt time.Time
	report     peers.NodeStats
	rates      map[topology.PartitionID]loadRate
}

// loadRate is the total and the rate of the request units of a replica.
type loadRate struct {
	replica topology.ReplicaID
	units   ru.Units
	rate    float64
}

// next returns the rate at a later measurement. A replica that replaced another one counts from zero, so it keeps the
// previous rate for the first interval.
func (p loadRate) next(replica topology.ReplicaID, units ru.Units, elapsed time.Duration) loadRate {
	next := loadRate{replica, units, p.rate}
	if replica == p.replica {
		keep := math.Exp2(-elapsed.Seconds() / loadHalfLife.Seconds())
		next.rate = p.rate*keep + (units-p.units).Float()/elapsed.Seconds()*(1-keep)
	}
	return next
}

// replicaStats returns the stats of this node, which are cached for some seconds.
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
			continue // reported with the next measurement
		}
		h.Replicas = append(h.Replicas, peers.ReplicaStats{Partition: p.ID, Bytes: bytes, Load: uint64(is.rate)})
	}
	w.measuredAt, w.report, w.rates = now, h, rates
	return h
}

// capacity returns the number of bytes that this node has room for, or 0 if unknown.
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
