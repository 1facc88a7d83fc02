// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// Local makes the replicas on this node what the map says.
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
	}
}

// Make makes the replicas that a map gives to this node and that are not here yet. A replica that is there already is
// left alone (RC1). One that is there under another id left the set in a version of the map that this node has passed
// over: it makes room.
func (l *Local) Make(old, next *topology.Snapshot) error {
	var births []*topology.Partition
	var errs []error
	for p := range changed(old, next) {
		m := l.member(p)
		if m != nil && l.other(p.ID, m.ID) {
			if err := l.Host.Drop(p.ID); err != nil {
				errs = append(errs, fmt.Errorf("make room for replica %d of partition %d: %w", m.ID, p.ID, err))
				continue
			}
		}
		switch {
		case m == nil || l.Host.Has(p.ID):
		case m.State == topology.Voter && p.Moves == 0:
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
	for p := range changed(old, next) {
		if p.ID != topology.MetaPartition && l.member(p) == nil && l.Host.Has(p.ID) {
			gone = append(gone, p.ID)
		}
	}
	for p := range changed(next, old) {
		if next.Partition(p.ID) == nil && l.Host.Has(p.ID) {
			gone = append(gone, p.ID)
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
// partition stays.
func (l *Local) Orphans(m *topology.Snapshot, here []topology.PartitionID) error {
	var orphans []topology.PartitionID
	for _, id := range here {
		if id != topology.MetaPartition && m.Partition(id) == nil {
			orphans = append(orphans, id)
		}
	}
	if len(orphans) == 0 {
		return nil
	}
	return l.Host.Drop(orphans...)
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
		if m := next.Meta(); m != nil && m != old.Meta() && !yield(m) {
			return
		}
		for _, t := range next.Tables() {
			if next.SameTable(old, t) {
				continue
			}
			for _, p := range next.Partitions(t) {
				if old.Partition(p.ID) != p && !yield(p) {
					return
				}
			}
		}
	}
}
