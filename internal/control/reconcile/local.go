// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// LocalReconciler makes the replicas on this node match the topology. It is safe for concurrent use.
type LocalReconciler struct {
	Node topology.NodeID
	Host interface {
		// Has reports whether this node has a replica of the partition.
		Has(id topology.PartitionID) bool
		// Member returns the ID of the local replica of a partition, or 0 if the replica does not belong to a replica
		// set.
		Member(id topology.PartitionID) topology.ReplicaID
		Create(ps ...*topology.Partition) error
		Join(id topology.PartitionID, replica topology.ReplicaID) error
		Drop(ids ...topology.PartitionID) error
		// IDs returns the partitions of all local replicas. TableOf returns the table of a replica, or 0 if the replica
		// waits for its first snapshot.
		IDs() []topology.PartitionID
		TableOf(id topology.PartitionID) uint32
		// Absorber returns the partition whose local replica may still take over the span of a frozen local replica,
		// and the epoch of this partition. It returns 0 if no such partition exists.
		Absorber(id topology.PartitionID) (left topology.PartitionID, epoch uint64)
		// Holds reports whether a local replica holds a part of a table's span.
		Holds(table uint32, span topology.Span) bool
	}

	mu sync.Mutex // serializes the exported methods
	// current is the last topology that was passed to Create. waiting holds the partitions of current that wait for a
	// split.
	current *topology.Snapshot
	waiting map[topology.PartitionID]bool
}

// NewLocalReconciler returns a LocalReconciler for the replicas of a host.
func NewLocalReconciler(node topology.NodeID, host *partition.Host) *LocalReconciler {
	return &LocalReconciler{Node: node, Host: hostReplicas{host}}
}

// hostReplicas implements LocalReconciler.Host.
type hostReplicas struct{ *partition.Host }

// Has implements LocalReconciler.Host.
func (r hostReplicas) Has(id topology.PartitionID) bool { return r.Replica(id) != nil }

// Create creates the missing replicas that the topology assigns to this node. It does not change existing replicas
// (RC1). It replaces an existing replica that has another ID, because that replica left the set in a topology version
// that this node skipped.
func (l *LocalReconciler) Create(old, next *topology.Snapshot) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = next
	return l.create(changed(old, next))
}

func (l *LocalReconciler) create(ps func(yield func(*topology.Partition) bool)) error {
	var births []*topology.Partition
	var errs []error
	for p := range ps {
		delete(l.waiting, p.ID)
		m := l.member(p)
		if m != nil && l.hasOtherMember(p.ID, m.ID) {
			if err := l.Host.Drop(p.ID); err != nil {
				errs = append(errs, fmt.Errorf("cannot replace the previous replica of partition %d by %d: %w", p.ID,
					m.ID, err))
				continue
			}
		}
		switch {
		case m == nil || l.Host.Has(p.ID):
		case l.Host.Holds(p.Table, p.Span):
			// Either a local ancestor has not been split yet, and its log or a snapshot will create this replica. Or a
			// neighbor has taken over the span, and the topology does not contain the merge yet.
			if l.waiting == nil {
				l.waiting = map[topology.PartitionID]bool{}
			}
			l.waiting[p.ID] = true
		default:
			if first := initial(p, m); first != nil {
				births = append(births, first)
				continue
			}
			// The replica joins later than the other replicas or was offline during a change. It needs the leader's
			// snapshot.
			if err := l.Host.Join(p.ID, m.ID); err != nil {
				errs = append(errs, fmt.Errorf("cannot create replica %d of partition %d: %w", m.ID, p.ID, err))
			}
		}
	}
	if len(births) > 0 {
		errs = append(errs, l.Host.Create(births...))
	}
	return errors.Join(errs...)
}

// initial returns the partition with its initial members if the missing replica m is certainly one of these members.
// Otherwise, it returns nil.
//
// A replica that was created by a split or has been split must not be created from the topology, because it would start
// empty at the wrong log position (RC4). A partition whose members have changed may have other initial members than the
// topology contains. The only voter of a set is an exception. A set with several voters never has one voter again
// (PL2), and a replica becomes a voter only after it exists. The only voter must be created, because no other replica
// can lead the partition.
func initial(p *topology.Partition, m *topology.Replica) *topology.Partition {
	switch {
	case p.Parent != 0 || p.Epoch != keys.InitialEpoch || m.State != topology.Voter:
		return nil
	case p.Moves == 0:
		return p
	}
	set := p.SetOn(m.Node)
	if set.Voters() != 1 {
		return nil
	}
	first, only := *p, *set
	only.Replicas = []topology.Replica{*m}
	first.Sets = []topology.ReplicaSet{only}
	return &first
}

// CheckPending repeats checks that depend on logs instead of the topology. It creates the replicas that have waited for
// the split of an ancestor. It removes replicas that a split created after this node had left the replica set. It must
// be called periodically.
func (l *LocalReconciler) CheckPending() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return nil
	}
	err := l.create(func(yield func(*topology.Partition) bool) {
		for _, id := range slices.Sorted(maps.Keys(l.waiting)) {
			if p := l.current.Partition(id); p == nil {
				delete(l.waiting, id)
			} else if !yield(p) {
				return
			}
		}
	})
	var gone []topology.PartitionID
	for _, id := range l.Host.IDs() {
		if l.isOrphan(l.current, id) {
			gone = append(gone, id) // no merge needs the replica now
		}
		if p := l.current.Partition(id); p != nil && p.Parent != 0 && l.member(p) == nil {
			gone = append(gone, id)
		}
	}
	if len(gone) > 0 {
		err = errors.Join(err, l.Host.Drop(gone...))
	}
	return err
}

// hasOtherMember reports whether this node has a replica of the partition with another ID.
func (l *LocalReconciler) hasOtherMember(id topology.PartitionID, m topology.ReplicaID) bool {
	here := l.Host.Member(id)
	return here != 0 && here != m
}

// Remove removes the replicas that are no longer members, including their data. The topology on a node's disk is never
// older than the node's replicas, because both use the same log and the replicas are written later. A replica that is
// not in the topology has therefore been removed from the topology (RC2).
//
// Remove keeps the replica of the meta partition even after its removal from the topology. A node that was considered
// dead may receive its own removal. Without this replica, the node could not learn the ID of its new replica (see
// Rejoin). The replica also prevents the node from recreating a replica with an earlier ID, whose votes would be lost.
func (l *LocalReconciler) Remove(old, next *topology.Snapshot) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var gone []topology.PartitionID
	for was, is := range next.Changes(old) {
		switch {
		case is != nil && (is.ID == topology.MetaPartition || l.member(is) != nil):
		case is != nil && l.Host.Has(is.ID):
			gone = append(gone, is.ID)
		case is == nil && l.Host.Has(was.ID) && !l.neededForMerge(next, was.ID):
			gone = append(gone, was.ID)
		}
	}
	if len(gone) > 0 {
		if err := l.Host.Drop(gone...); err != nil {
			return err
		}
	}
	return l.dropTables(old, next)
}

// dropTables removes the remaining replicas of dropped tables. Splits that this node has not seen in the topology may
// have created them.
func (l *LocalReconciler) dropTables(old, next *topology.Snapshot) error {
	dropped := next.Dropped(old)
	if len(dropped) == 0 {
		return nil
	}
	var gone []topology.PartitionID
	for _, id := range l.Host.IDs() {
		if slices.Contains(dropped, l.Host.TableOf(id)) {
			gone = append(gone, id)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return l.Host.Drop(gone...)
}

// Rejoin makes the node a member of the meta partition again. It must be called if the node's replica was removed and
// replaced with a new replica while the node was unavailable. The node uses the known metadata until the snapshot of
// the new replica arrives. Rejoin is idempotent. done reports whether Rejoin had an effect.
func (l *LocalReconciler) Rejoin(replica topology.ReplicaID) (done bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Host.Has(topology.MetaPartition) && l.Host.Member(topology.MetaPartition) >= replica {
		return false, nil
	}
	if err = l.Host.Drop(topology.MetaPartition); err == nil {
		err = l.Host.Join(topology.MetaPartition, replica)
	}
	if err != nil {
		return false, fmt.Errorf("cannot rejoin the meta partition: %w", err)
	}
	return true, nil
}

// RemoveOrphans removes the local replicas that remain after a crash and are not in the topology (RC2). It keeps the
// replica of the meta partition and replicas that are needed for a merge. It also keeps the children of pending and
// unknown splits, because the parent's log may be ahead of the metadata.
func (l *LocalReconciler) RemoveOrphans(m *topology.Snapshot, here []topology.PartitionID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var orphans []topology.PartitionID
	for _, id := range here {
		if id == topology.MetaPartition || m.Partition(id) != nil {
			continue
		}
		if m.Partitions(l.Host.TableOf(id)) == nil || l.isOrphan(m, id) {
			orphans = append(orphans, id)
		}
	}
	if len(orphans) == 0 {
		return nil
	}
	return l.Host.Drop(orphans...)
}

// isOrphan reports whether a replica belongs to an existing table and to a partition that the topology contained
// earlier.
func (l *LocalReconciler) isOrphan(m *topology.Snapshot, id topology.PartitionID) bool {
	return m.Partition(id) == nil && id < m.NextPartition() && m.Partitions(l.Host.TableOf(id)) != nil &&
		parentOf(m, id) == nil && !l.neededForMerge(m, id)
}

// parentOf returns the partition whose pending split creates child, or nil if no such partition exists.
func parentOf(m *topology.Snapshot, child topology.PartitionID) *topology.Partition {
	for p := range m.InMotion() {
		if p.Split != nil && p.Split.Child == child {
			return p
		}
	}
	return nil
}

// neededForMerge reports whether a merge still needs a replica that is not in the topology. It returns true if the
// replica is frozen and the log of the local left neighbor has not reached the merge. The epoch of this neighbor is
// then lower than its epoch in the topology.
func (l *LocalReconciler) neededForMerge(m *topology.Snapshot, id topology.PartitionID) bool {
	left, epoch := l.Host.Absorber(id)
	if left == 0 || m.Partitions(l.Host.TableOf(id)) == nil {
		return false
	}
	p := m.Partition(left)
	return p == nil || epoch < p.Epoch
}

// member returns this node's member of a partition, or nil.
func (l *LocalReconciler) member(p *topology.Partition) *topology.Replica {
	for i := range p.Sets {
		if m := p.Sets[i].On(l.Node); m != nil {
			return m
		}
	}
	return nil
}

// changed yields the partitions of next that differ from old.
func changed(old, next *topology.Snapshot) func(yield func(*topology.Partition) bool) {
	return func(yield func(*topology.Partition) bool) {
		for _, p := range next.Changes(old) {
			if p != nil && !yield(p) {
				return
			}
		}
	}
}
