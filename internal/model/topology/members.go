// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
)

// The life of a member: AddMember makes it Joining or Learner; Settle, once it votes, a Voter; MarkLeaving then asks for its end, and
// Settle, once it votes no more, removes it. One that never voted is dropped by DropMember. A member that is in a new table from the
// beginning is born a Voter.

// AddMember gives a node a new replica of a partition; state is Joining or Learner.
func (s *Snapshot) AddMember(id PartitionID, region string, node NodeID, state MemberState) (*Snapshot, ReplicaID, error) {
	if state != Joining && state != Learner {
		return nil, 0, fmt.Errorf("a replica of partition %d cannot begin as %s", id, state)
	}
	replica := s.nextReplica
	out, err := s.changeSet(id, region, func(p *Partition, set *ReplicaSet) error {
		for i := range p.Sets {
			if r := p.Sets[i].On(node); r != nil {
				return fmt.Errorf("partition %d has replica %d on node %x already", id, r.ID, node)
			}
		}
		set.Replicas = append(set.Replicas, Replica{ID: replica, Node: node, State: state})
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	out.nextReplica++
	return out, replica, nil
}

// MarkLeaving asks a voter to go.
func (s *Snapshot) MarkLeaving(id PartitionID, replica ReplicaID) (*Snapshot, error) {
	return s.turn(id, replica, Voter, Leaving)
}

// MarkJoining asks a learner to become a voter.
func (s *Snapshot) MarkJoining(id PartitionID, replica ReplicaID) (*Snapshot, error) {
	return s.turn(id, replica, Learner, Joining)
}

// MarkLearner takes back that a replica is to become a voter.
func (s *Snapshot) MarkLearner(id PartitionID, replica ReplicaID) (*Snapshot, error) {
	return s.turn(id, replica, Joining, Learner)
}

// turn changes the state of a member.
func (s *Snapshot) turn(id PartitionID, replica ReplicaID, from, to MemberState) (*Snapshot, error) {
	return s.changeMember(id, replica, func(_ *ReplicaSet, r *Replica) error {
		if r.State != from {
			return fmt.Errorf("replica %d of partition %d is %s, not %s", replica, id, r.State, from)
		}
		r.State = to
		return nil
	})
}

// DropMember removes a member that does not vote.
func (s *Snapshot) DropMember(id PartitionID, replica ReplicaID) (*Snapshot, error) {
	return s.changeMember(id, replica, func(set *ReplicaSet, r *Replica) error {
		if r.State != Joining && r.State != Learner {
			return fmt.Errorf("replica %d of partition %d is %s and cannot be dropped", replica, id, r.State)
		}
		set.Replicas = slices.DeleteFunc(set.Replicas, func(o Replica) bool { return o.ID == replica })
		return nil
	})
}

// Settle records which replicas of a set vote, after its leader has changed that: those that joined are voters now, and those that were
// leaving and vote no more are gone. It returns s itself if nothing is new.
func (s *Snapshot) Settle(id PartitionID, region string, voters []ReplicaID) (*Snapshot, error) {
	changed := false
	out, err := s.changeSet(id, region, func(_ *Partition, set *ReplicaSet) error {
		kept := set.Replicas[:0]
		for _, r := range set.Replicas {
			votes := slices.Contains(voters, r.ID)
			switch {
			case votes && (r.State == Joining || r.State == Learner):
				r.State, changed = Voter, true
			case !votes && r.State == Leaving:
				changed = true
				if set.Leader == r.ID {
					set.Leader = 0
				}
				continue
			}
			kept = append(kept, r)
		}
		set.Replicas = kept
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !changed {
		return s, nil
	}
	return out, nil
}

// changeMember changes one member of a partition.
func (s *Snapshot) changeMember(id PartitionID, replica ReplicaID, f func(set *ReplicaSet, r *Replica) error) (*Snapshot, error) {
	p := s.Partition(id)
	if p != nil {
		for i := range p.Sets {
			if p.Sets[i].Member(replica) != nil {
				return s.changeSet(id, p.Sets[i].Region, func(_ *Partition, set *ReplicaSet) error { return f(set, set.Member(replica)) })
			}
		}
	}
	return nil, fmt.Errorf("partition %d has no replica %d", id, replica)
}

// changeSet changes a copy of the replica set of a partition in a region.
func (s *Snapshot) changeSet(id PartitionID, region string, f func(p *Partition, set *ReplicaSet) error) (*Snapshot, error) {
	p := s.Partition(id)
	if p == nil {
		return nil, fmt.Errorf("there is no partition %d", id)
	}
	changed := *p
	changed.Moves++
	changed.Sets = slices.Clone(p.Sets)
	set := changed.Set(region)
	if set == nil {
		return nil, fmt.Errorf("partition %d has no replicas in region %q", id, region)
	}
	set.Replicas = slices.Clone(set.Replicas)
	if err := f(&changed, set); err != nil {
		return nil, err
	}
	out := s.next()
	if id == MetaPartition {
		out.meta = &changed
		return out, nil
	}
	i := find(s.tables[p.Table], p.Span.Begin)
	out.replace(p.Table, i, i+1, &changed)
	return out, nil
}
