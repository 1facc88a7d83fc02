// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
)

// A member goes through these states. AddMember adds it as Joining or Learner. RecordVoters makes it a Voter once it
// votes. Mark requests its removal, and RecordVoters removes it when it no longer votes. Only RecordVoters removes a
// member, because only the leader of a partition knows its voters. The initial members of a new table are Voters.

// AddMember adds a new replica of a partition on a node. state must be Joining or Learner.
func (s *Snapshot) AddMember(id PartitionID, region string, node NodeID, state MemberState) (*Snapshot, ReplicaID,
	error) {
	if state != Joining && state != Learner {
		return nil, 0, fmt.Errorf("a new replica of partition %d cannot be %s", id, state)
	}
	replica := s.nextReplica
	out, err := changeSet(s, id, region, func(p *Partition, set *ReplicaSet) error {
		for i := range p.Sets {
			if r := p.Sets[i].On(node); r != nil {
				return fmt.Errorf("partition %d already has replica %d on node %x", id, r.ID, node)
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

// markable maps each state that Mark can set to the states from which a member can change to it.
var markable = map[MemberState][]MemberState{
	Leaving: {Voter, Joining, Learner},
	Joining: {Learner, Leaving},
	Learner: {Joining},
}

// Mark requests another state for a member. Leaving requests its removal. Joining requests that a learner become a
// voter, or that a leaving member remain a voter. Learner cancels the promotion of a replica to a voter.
func (s *Snapshot) Mark(id PartitionID, replica ReplicaID, to MemberState) (*Snapshot, error) {
	p := s.Partition(id)
	if p != nil {
		for i := range p.Sets {
			if m := p.Sets[i].Member(replica); m != nil && slices.Contains(markable[to], m.State) {
				return changeSet(s, id, p.Sets[i].Region, func(_ *Partition, set *ReplicaSet) error {
					set.Member(replica).State = to
					return nil
				})
			} else if m != nil {
				return nil, fmt.Errorf("replica %d of partition %d is %s and cannot be %s", replica, id, m.State, to)
			}
		}
	}
	return nil, fmt.Errorf("partition %d has no replica %d", id, replica)
}

// RecordVoters records which replicas of a set are voters. Joining members that vote become voters, and leaving
// members that do not vote are removed. voters lists the voters of the Raft configuration of a confirmed leader. The
// leader must have applied the log up to its own term. If nothing changes, RecordVoters returns s itself.
func (s *Snapshot) RecordVoters(id PartitionID, region string, voters []ReplicaID) (*Snapshot, error) {
	if p := s.Partition(id); p != nil && p.pendingChange() != nil {
		return s, nil // All members of the partition vote or learn, and they cannot change.
	}
	changed := false
	out, err := changeSet(s, id, region, func(_ *Partition, set *ReplicaSet) error {
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

// changeSet calls f on a copy of the replica set of a partition in a region.
func changeSet(s *Snapshot, id PartitionID, region string, f func(p *Partition, set *ReplicaSet) error) (*Snapshot,
	error) {
	p := s.Partition(id)
	if p == nil {
		return nil, fmt.Errorf("partition %d does not exist", id)
	}
	if err := p.pendingChange(); err != nil {
		return nil, err
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
	if changed.AtRest() {
		changed.Reason = nil
	}
	return with(s, &changed), nil
}
