// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Local makes the replicas on this node what the map says. Its methods are called one at a time.
type Local struct {
	Node topology.NodeID
	Host interface {
		// Has reports whether a replica of the partition is here.
		Has(id topology.PartitionID) bool
		// Member is the id of that replica, 0 if it is in no replica set.
		Member(id topology.PartitionID) topology.ReplicaID
		Create(ps ...*topology.Partition) error
		Join(id topology.PartitionID, replica topology.ReplicaID) error
		Drop(ids ...topology.PartitionID) error
		// IDs are those of all replicas here, TableOf is the table of one: 0 if it waits for its first snapshot.
		IDs() []topology.PartitionID
		TableOf(id topology.PartitionID) uint32
		// Absorber is the partition of a replica here that may be yet to take the span of a frozen one, and its epoch;
		// 0 if there is none.
		Absorber(id topology.PartitionID) (left topology.PartitionID, epoch uint64)
		// Holds reports whether a replica here holds a part of a span of a table.
		Holds(table uint32, span topology.Span) bool
	}

	// now is the newest map that Make was given, late are partitions of it that wait for a split.
	now  *topology.Snapshot
	late map[topology.PartitionID]bool
}

// Make makes the replicas that a map gives to this node and that are not here yet. A replica that is there already is
// left alone (RC1). One that is there under another id left the set in a version of the map that this node has passed
// over: it makes room.
func (l *Local) Make(old, next *topology.Snapshot) error {
	l.now = next
	return l.make(changed(old, next))
}

func (l *Local) make(ps func(yield func(*topology.Partition) bool)) error {
	var births []*topology.Partition
	var errs []error
	for p := range ps {
		delete(l.late, p.ID)
		m := l.member(p)
		if m != nil && l.other(p.ID, m.ID) {
			if err := l.Host.Drop(p.ID); err != nil {
				errs = append(errs, fmt.Errorf("make room for replica %d of partition %d: %w", m.ID, p.ID, err))
				continue
			}
		}
		// What has split since its birth, or was born of a split, is not born by the map: it would begin empty, at the
		// wrong place of its log (RC4).
		original := p.Parent == 0 && p.Epoch == keys.InitialEpoch
		switch {
		case m == nil || l.Host.Has(p.ID):
		case l.Host.Holds(p.Table, p.Span):
			// An ancestor is here that has not split yet: its log brings this replica, or a snapshot makes room for it.
			// Or a neighbour has taken the span, and the map does not know that yet.
			if l.late == nil {
				l.late = map[topology.PartitionID]bool{}
			}
			l.late[p.ID] = true
		case original && m.State == topology.Voter && p.Moves == 0:
			births = append(births, p)
		default:
			// It comes later than the others, or slept while they changed: the leader's snapshot tells it everything.
			if err := l.Host.Join(p.ID, m.ID); err != nil {
				errs = append(errs, fmt.Errorf("make replica %d of partition %d: %w", m.ID, p.ID, err))
			}
		}
	}
	if len(births) > 0 {
		errs = append(errs, l.Host.Create(births...))
	}
	return errors.Join(errs...)
}

// Check looks again at what logs bring and not the map: replicas that waited for the split of an ancestor, and those
// that came of a split when this node was no member any more. It is called every now and then.
func (l *Local) Check() error {
	if l.now == nil {
		return nil
	}
	err := l.make(func(yield func(*topology.Partition) bool) {
		for _, id := range slices.Sorted(maps.Keys(l.late)) {
			if p := l.now.Partition(id); p == nil {
				delete(l.late, id)
			} else if !yield(p) {
				return
			}
		}
	})
	var gone []topology.PartitionID
	for _, id := range l.Host.IDs() {
		if l.orphan(l.now, id) {
			gone = append(gone, id) // it was kept before
		}
		if p := l.now.Partition(id); p != nil && p.Parent != 0 && l.member(p) == nil {
			gone = append(gone, id)
		}
	}
	if len(gone) > 0 {
		err = errors.Join(err, l.Host.Drop(gone...))
	}
	return err
}

// other reports whether a replica of the partition is here that is not this member.
func (l *Local) other(id topology.PartitionID, m topology.ReplicaID) bool {
	here := l.Host.Member(id)
	return here != 0 && here != m
}

// Remove removes the replicas that are no members any more, with all they hold. The map that a node has on its disk is
// never older than its replicas, because they were made durable after it, in the same log; so what is not in the map is
// really gone (RC2).
//
// The replica of the meta partition stays although it is no member: a node that was taken for dead may hear of its own
// removal, and what is here is all by which it will find out that it was given another place (Return). It keeps the
// node from making that of an id which it had, too, and has forgotten the votes of.
func (l *Local) Remove(old, next *topology.Snapshot) error {
	var gone []topology.PartitionID
	for was, is := range next.Changes(old) {
		switch {
		case is != nil && (is.ID == topology.MetaPartition || l.member(is) != nil):
		case is != nil && l.Host.Has(is.ID):
			gone = append(gone, is.ID)
		case is == nil && l.Host.Has(was.ID) && !l.keeps(next, was.ID):
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

// dropTables removes what is left of dropped tables: what split off from partitions of theirs before these were removed
// here, and is in none of the maps that this node has seen.
func (l *Local) dropTables(old, next *topology.Snapshot) error {
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

// Return makes the node a member of the meta partition again: it was away for so long that its replica of it was taken
// out, and was given another one since it is back. What it knows stays in force until the records have come with the
// new replica's snapshot. It may be told again and again; done says that it was news.
func (l *Local) Return(replica topology.ReplicaID) (done bool, err error) {
	if l.Host.Has(topology.MetaPartition) && l.Host.Member(topology.MetaPartition) >= replica {
		return false, nil
	}
	if err = l.Host.Drop(topology.MetaPartition); err == nil {
		err = l.Host.Join(topology.MetaPartition, replica)
	}
	if err != nil {
		return false, fmt.Errorf("become a member of the meta partition again: %w", err)
	}
	return true, nil
}

// Orphans removes those of the replicas here that a map does not know: a crash has left them (RC2). That of the meta
// partition stays. So does a child of a split that the map has as ordered, or has not heard of yet: the log of its
// parent may be ahead of the records. And so does what is kept for a merge.
func (l *Local) Orphans(m *topology.Snapshot, here []topology.PartitionID) error {
	var orphans []topology.PartitionID
	for _, id := range here {
		if id == topology.MetaPartition || m.Partition(id) != nil {
			continue
		}
		if m.Partitions(l.Host.TableOf(id)) == nil || l.orphan(m, id) {
			orphans = append(orphans, id)
		}
	}
	if len(orphans) == 0 {
		return nil
	}
	return l.Host.Drop(orphans...)
}

// orphan reports whether a replica is one of a partition that the map had once, of a table that is still there.
func (l *Local) orphan(m *topology.Snapshot, id topology.PartitionID) bool {
	return m.Partition(id) == nil && id < m.NextPartition() && m.Partitions(l.Host.TableOf(id)) != nil &&
		m.CutOf(id) == nil && !l.keeps(m, id)
}

// keeps reports whether a replica stays that the map does not know: it was frozen to be merged, and the neighbour here
// that is to have its rows has not come to that in its log, so that its epoch is lower than in the map. Nothing else
// brings the rows.
func (l *Local) keeps(m *topology.Snapshot, id topology.PartitionID) bool {
	left, epoch := l.Host.Absorber(id)
	if left == 0 || m.Partitions(l.Host.TableOf(id)) == nil {
		return false
	}
	p := m.Partition(left)
	return p == nil || epoch < p.Epoch
}

// member is this node's place in a replica set, nil if it has none.
func (l *Local) member(p *topology.Partition) *topology.Replica {
	for i := range p.Sets {
		if m := p.Sets[i].On(l.Node); m != nil {
			return m
		}
	}
	return nil
}

// changed yields the partitions of next that are not the same in old.
func changed(old, next *topology.Snapshot) func(yield func(*topology.Partition) bool) {
	return func(yield func(*topology.Partition) bool) {
		for _, p := range next.Changes(old) {
			if p != nil && !yield(p) {
				return
			}
		}
	}
}
