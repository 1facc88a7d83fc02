// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"math"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

const (
	// statsTTL is the time for which the stats of replicas are cached.
	statsTTL = 5 * time.Second
	// loadHalfLife is the time after which the weight of a measured load is halved.
	loadHalfLife = time.Minute
)

// LoadTracker measures the sizes and loads of the replicas on this node.
type LoadTracker struct {
	host  *partition.Host
	store *storage.Store
	// capacity is the configured capacity of the node in bytes, or 0.
	capacity uint64

	mu         sync.Mutex
	measuredAt time.Time
	stats      peers.NodeStats
	rates      map[topology.PartitionID]loadRate
}

// NewLoadTracker returns a LoadTracker. capacity is the number of bytes that the node can store. If capacity is 0, the
// size of the disk applies.
func NewLoadTracker(host *partition.Host, store *storage.Store, capacity uint64) *LoadTracker {
	return &LoadTracker{host: host, store: store, capacity: capacity}
}

// loadRate is the total and the rate of the request units of a replica.
type loadRate struct {
	replica topology.ReplicaID
	units   ru.Units
	rate    float64
}

// next returns the rate at a later measurement. If the replica has replaced another replica, next returns the previous
// rate for the first interval, because the new replica counts from zero.
func (p loadRate) next(replica topology.ReplicaID, units ru.Units, elapsed time.Duration) loadRate {
	next := loadRate{replica, units, p.rate}
	if replica == p.replica {
		keep := math.Exp2(-elapsed.Seconds() / loadHalfLife.Seconds())
		next.rate = p.rate*keep + (units-p.units).Float()/elapsed.Seconds()*(1-keep)
	}
	return next
}

// Stats returns the stats of the local replicas in a topology. The stats are cached for statsTTL.
func (w *LoadTracker) Stats(m *topology.Snapshot) peers.NodeStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	elapsed := now.Sub(w.measuredAt)
	if elapsed < statsTTL {
		return w.stats
	}
	rates := map[topology.PartitionID]loadRate{}
	h := peers.NodeStats{Capacity: w.room()}
	for _, r := range w.host.Replicas() {
		p := m.Partition(r.ID())
		if p == nil || p.ID == topology.MetaPartition || r.Table() == 0 {
			continue
		}
		is := w.rates[p.ID].next(r.Member(), r.Load().Counts().Units, elapsed)
		rates[p.ID] = is
		bytes, err := w.store.DiskBytes(p.Span.Keys(p.Table))
		if err != nil {
			continue // the next measurement includes this replica
		}
		h.Replicas = append(h.Replicas, peers.ReplicaStats{Partition: p.ID, Bytes: bytes, Load: uint64(is.rate)})
	}
	w.measuredAt, w.stats, w.rates = now, h, rates
	return h
}

// room returns the number of bytes that this node can store, or 0 if this number is unknown.
func (w *LoadTracker) room() uint64 {
	if w.capacity > 0 {
		return w.capacity
	}
	m := w.store.Metrics()
	if m.DiskAvailable == 0 {
		return 0
	}
	return m.DiskBytes + m.DiskAvailable
}
