// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// lagMax is the maximum number of log entries that a learner may lack to become a voter.
const lagMax = 2000

// Step is the next step of a partition's leader for the replica set. Only one field can be set. If no field is set, no
// step is possible now.
type Step struct {
	// Changes are made in one joint change.
	Changes []raftgroup.Change
	// Transfer is the replica that must become the leader before this replica can be removed.
	Transfer topology.ReplicaID
	// Voters are the voters to record in the topology. The caller must first confirm that the status is from the
	// leader, because another leader may have changed the voters.
	Voters []topology.ReplicaID
}

// NextStep returns the next step of a partition's leader. It returns no change of voters while another change is in
// progress or has not been recorded in the topology.
func NextStep(set *topology.ReplicaSet, s *raftgroup.Status) Step {
	if len(s.Members.GetVotersOutgoing()) > 0 || len(s.Members.GetLearnersNext()) > 0 {
		return Step{} // a change is in progress
	}
	now := placement.Config{Voters: ids(s.Members.GetVoters()), Learners: ids(s.Members.GetLearners())}
	if outdated(set, now.Voters) {
		return Step{Voters: now.Voters}
	}
	plan := placement.Plan(set, now, func(id topology.ReplicaID) bool { return caughtUp(s, id) })
	// A single voter cannot transfer the leadership.
	if slices.Contains(plan.Remove, topology.ReplicaID(s.Replica)) && len(now.Voters) > 1 {
		return Step{Transfer: successor(plan.Remove, s)}
	}
	var step Step
	for _, r := range plan.Learn {
		step.Changes = append(step.Changes, raftgroup.Change{Member: member(r), As: raftgroup.Learner})
	}
	for _, r := range plan.Promote {
		step.Changes = append(step.Changes, raftgroup.Change{Member: member(r), As: raftgroup.Voter})
	}
	for _, id := range plan.Remove {
		step.Changes = append(step.Changes, raftgroup.Change{Member: raftgroup.Member{Replica: uint64(id)},
			As: raftgroup.Gone})
	}
	return step
}

func ids(list []uint64) []topology.ReplicaID {
	out := make([]topology.ReplicaID, len(list))
	for i, id := range list {
		out[i] = topology.ReplicaID(id)
	}
	return out
}

func member(r topology.Replica) raftgroup.Member {
	return raftgroup.Member{Replica: uint64(r.ID), Node: r.Node}
}

// outdated reports whether RecordVoters would change the set.
func outdated(set *topology.ReplicaSet, voters []topology.ReplicaID) bool {
	return slices.ContainsFunc(set.Replicas, func(r topology.Replica) bool {
		votes := slices.Contains(voters, r.ID)
		return votes && (r.State == topology.Joining || r.State == topology.Learner) || !votes &&
			r.State == topology.Leaving
	})
}

// successor returns the remaining voter with the longest log. It prefers voters that do not abstain. It returns 0 if no
// other voter is active.
func successor(leaving []topology.ReplicaID, s *raftgroup.Status) topology.ReplicaID {
	var best *raftgroup.PeerStatus
	for i := range s.Peers {
		p := &s.Peers[i]
		if !p.Active || p.Learner || slices.Contains(leaving, topology.ReplicaID(p.Replica)) {
			continue
		}
		if best == nil || best.Abstains && !p.Abstains || p.Abstains == best.Abstains && p.Match > best.Match {
			best = p
		}
	}
	if best == nil {
		return 0
	}
	return topology.ReplicaID(best.Replica)
}

func caughtUp(s *raftgroup.Status, id topology.ReplicaID) bool {
	for i := range s.Peers {
		if p := &s.Peers[i]; p.Replica == uint64(id) {
			return p.Active && p.Match > 0 && p.Lag <= lagMax
		}
	}
	return false
}

// Replica is a replica that MembershipReconciler manages. *partition.Replica implements it.
type Replica interface {
	Leading() bool
	Status() (raftgroup.Status, error)
	// Confirm returns nil only if this replica was the leader at some time after the call of Confirm.
	Confirm(ctx context.Context) error
	ChangeMembers(ctx context.Context, changes []raftgroup.Change) error
	Transfer(to topology.ReplicaID) error
	Level() feature.Level
	RaiseLevel(ctx context.Context, level feature.Level) error
	Splittable
	Mergeable
}

// step performs the result of NextStep if the replica leads. It then executes pending splits and raises the feature
// level of the partition. It reports whether no more steps are necessary.
func (m *MembershipReconciler) step(ctx context.Context, r Replica, p *topology.Partition,
	level feature.Level) (converged bool,
	err error) {
	set := p.GroupSet(m.Region)
	if set == nil {
		return true, nil
	}
	agreed := set.Count(topology.Joining)+set.Count(topology.Leaving) == 0
	s, err := r.Status()
	if err != nil {
		return false, err
	}
	if p.Merge != nil && (!r.Leading() || r.Frozen() != 0 || r.Level() >= level) {
		return false, m.stepMerge(ctx, r, p, &s)
	}
	if !r.Leading() {
		// The leadership may move to this replica while other replicas have started changes that they cannot complete.
		return agreed && p.Split == nil && !s.Leading, nil
	}
	if r.Level() < level {
		return false, r.RaiseLevel(ctx, level)
	}
	step := NextStep(set, &s)
	switch {
	case step.Voters != nil:
		if err := confirm(ctx, r, s.Term); err != nil {
			return false, err
		}
		return false, m.publish(ctx, p, set.Region, step.Voters)
	case step.Transfer != 0:
		return false, r.Transfer(step.Transfer)
	case len(step.Changes) > 0:
		if err := r.ChangeMembers(ctx, step.Changes); err != nil {
			return false, fmt.Errorf("cannot change the members of partition %d: %w", p.ID, err)
		}
		return false, nil
	case p.Split != nil && (p.Split.Canceled || areMembers(set, s.Members)):
		return false, (&SplitReconciler{Region: m.Region, Keeper: m.Keeper, Store: m.Store, Log: m.Log,
			Sched: m.Sched}).Run(ctx, r, p)
	}
	return agreed && p.Split == nil, nil
}

// confirm returns nil only if a replica has been the leader since the beginning of the given term.
func confirm(ctx context.Context, r Replica, term uint64) error {
	if err := r.Confirm(ctx); err != nil {
		return err
	}
	s, err := r.Status()
	if err == nil && (s.Term != term || !s.Leading) {
		err = fmt.Errorf("partition %d: term %d has ended", r.ID(), term)
	}
	return err
}
