// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// replicaMap holds the replicas of a node by partition.
type replicaMap struct {
	// listing serializes all changes of the map. A change replaces the whole map. The holder of listing may wait only
	// for the disk.
	listing  sync.Mutex
	replicas atomic.Pointer[map[topology.PartitionID]*Replica]
	// retired maps IDs to replicas whose spans have moved to other replicas, while the machine may receive entries for
	// the retired replicas.
	retired sync.Map
}

// Replica returns the local replica of a partition, or nil if this node has no replica of the partition.
func (m *replicaMap) Replica(id topology.PartitionID) *Replica { return (*m.replicas.Load())[id] }

// Leader returns the node that leads a partition. ok is false if the leader is unknown or if this node has no replica
// of the partition.
func (m *replicaMap) Leader(id topology.PartitionID) (node topology.NodeID, ok bool) {
	if r := m.Replica(id); r != nil {
		return r.Leader()
	}
	return node, false
}

// Replicas returns all replicas, ordered by ID.
func (m *replicaMap) Replicas() []*Replica { return values(*m.replicas.Load()) }

func values(replicas map[topology.PartitionID]*Replica) []*Replica {
	out := make([]*Replica, 0, len(replicas))
	for _, r := range replicas {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *Replica) int { return cmp.Compare(a.id, b.id) })
	return out
}

// Len returns the number of replicas.
func (m *replicaMap) Len() int { return len(*m.replicas.Load()) }

// Member returns the ID of the local replica of a partition, or 0 if this node has no replica of the partition.
func (m *replicaMap) Member(id topology.PartitionID) topology.ReplicaID {
	if r := m.Replica(id); r != nil {
		return r.Member()
	}
	return 0
}

// IDs returns the IDs of the partitions with a replica on this node, in ascending order.
func (m *replicaMap) IDs() []topology.PartitionID {
	return slices.Sorted(maps.Keys(*m.replicas.Load()))
}

// TableOf returns the table of a partition. It returns 0 if this node has no replica of the partition or if the replica
// waits for its first snapshot.
func (m *replicaMap) TableOf(id topology.PartitionID) uint32 {
	if r := m.Replica(id); r != nil {
		return r.Table()
	}
	return 0
}

// Holds reports whether a local replica holds at least a part of a table's span.
func (m *replicaMap) Holds(table uint32, span topology.Span) bool {
	for _, r := range *m.replicas.Load() {
		if s := r.state.Load(); s.keys.Table == table && s.span.Overlaps(span) {
			return true
		}
	}
	return false
}

// NewestStamp returns the highest timestamp that a local replica has assigned or applied, in microseconds. It returns 0
// if no replica has a timestamp.
func (m *replicaMap) NewestStamp() (newest int64) {
	for _, r := range *m.replicas.Load() {
		newest = max(newest, r.stamps.last.Load())
	}
	return newest
}

// Spans returns the spans that the node's replicas lead and may sweep, ordered by partition ID.
func (m *replicaMap) Spans() []keys.Span {
	rs := m.Replicas()
	out := make([]keys.Span, 0, len(rs))
	for _, r := range rs {
		if r.Leading() && !r.isMeta() && r.Frozen() == 0 {
			out = append(out, r.state.Load().keys)
		}
	}
	return out
}

// removeFromMap removes replicas whose sequencers could not be opened.
func (m *replicaMap) removeFromMap(list []replicaInit) {
	m.listing.Lock()
	defer m.listing.Unlock()
	stay := m.clone()
	for i := range list {
		delete(stay, list[i].id)
	}
	m.replicas.Store(&stay)
}

func (m *replicaMap) clone() map[topology.PartitionID]*Replica { return maps.Clone(*m.replicas.Load()) }

// retire removes replicas from the map before other replicas take over their spans. The machine ignores later entries
// of these replicas. The caller must hold listing, and must discard the sequencers after the state has been removed.
func (m *replicaMap) retire(dead ...*Replica) {
	replicas := m.clone()
	for _, r := range dead {
		m.retired.Store(r.id, r)
		r.dead.Store(true)
		delete(replicas, r.id)
	}
	m.replicas.Store(&replicas)
	for _, r := range dead {
		r.requests.refuseNew()
	}
}

// retiredReplica returns a retired replica, or nil if the partition has no retired replica.
func (m *replicaMap) retiredReplica(id topology.PartitionID) *Replica {
	if r, ok := m.retired.Load(id); ok {
		return r.(*Replica)
	}
	return nil
}
