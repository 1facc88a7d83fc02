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

// lagMax is how many entries a joining replica may lack when it is counted from now on.
const lagMax = 2000

// Step is the next thing that the leader of a partition does to its replica set. At most one field is set; none says
// that there is nothing to do, or that something must happen first.
type Step struct {
	// Changes are to be made in one stroke.
	Changes []raftgroup.Change
	// Transfer is the replica that is to lead first, because this replica is to go.
	Transfer topology.ReplicaID
	// Voters are the voters that the map is to be told of, if the status was that of the leader: another one may have
	// changed them since.
	Voters []topology.ReplicaID
}

// NextStep decides what the leader of a partition does, from what the map wants and what its replica set is: at most
// one change of voters is under way, and the map hears of each before the next.
func NextStep(set *topology.ReplicaSet, s *raftgroup.Status) Step {
	if len(s.Members.GetVotersOutgoing()) > 0 || len(s.Members.GetLearnersNext()) > 0 {
		return Step{} // a change is under way
	}
	now := placement.Config{Voters: ids(s.Members.GetVoters()), Learners: ids(s.Members.GetLearners())}
	if outdated(set, now.Voters) {
		return Step{Voters: now.Voters}
	}
	plan := placement.Plan(set, now, func(id topology.ReplicaID) bool { return caughtUp(s, id) })
	// the only voter has nobody to give it to
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
	return raftgroup.Member{Replica: uint64(r.ID), Node: raftgroup.NodeID(r.Node)}
}

// outdated reports whether RecordVoters would change the set.
func outdated(set *topology.ReplicaSet, voters []topology.ReplicaID) bool {
	return slices.ContainsFunc(set.Replicas, func(r topology.Replica) bool {
		votes := slices.Contains(voters, r.ID)
		return votes && (r.State == topology.Joining || r.State == topology.Learner) || !votes &&
			r.State == topology.Leaving
	})
}

// successor is the other voter that knows most and stays, one that abstains only if all do; 0 if there is none that
// answers.
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

// Replica is what Members does things to; *partition.Replica is one.
type Replica interface {
	Leading() bool
	Status() (raftgroup.Status, error)
	// Confirm returns nil only if this replica led after it was called.
	Confirm(ctx context.Context) error
	ChangeMembers(ctx context.Context, changes []raftgroup.Change) error
	Transfer(to topology.ReplicaID) error
	Level() feature.Level
	RaiseLevel(ctx context.Context, level feature.Level) error
	Splittable
	Mergeable
}

// step carries out, for one replica, what Next says if it leads, and then a split that was ordered, and raises the
// feature level of its partition to that of the map. It reports whether nothing is left to be done here.
func (m *MembershipReconciler) step(ctx context.Context, r Replica, p *topology.Partition,
	level feature.Level) (converged bool,
	err error) {
	if len(p.Sets) == 0 {
		return true, nil
	}
	set := &p.Sets[0]
	agreed := set.Count(topology.Joining)+set.Count(topology.Leaving) == 0
	s, err := r.Status()
	if err != nil {
		return false, err
	}
	if p.Merge != nil && (!r.Leading() || r.Frozen() != 0 || r.Level() >= level) {
		return false, m.stepMerge(ctx, r, p, &s)
	}
	if !r.Leading() {
		// Who is to lead hears of it before it may act, and leadership may come here while others begin what they
		// cannot end.
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
			return false, fmt.Errorf("change the members of partition %d: %w", p.ID, err)
		}
		return false, nil
	case p.Split != nil && (p.Split.Canceled || areMembers(set, s.Members)):
		return false, (&SplitReconciler{Keeper: m.Keeper, Done: m.SplitDone, Size: m.Size, Sched: m.Sched}).Run(ctx, r,
			p)
	}
	return agreed && p.Split == nil, nil
}

// confirm proves that a replica has led from the beginning of a term until now.
func confirm(ctx context.Context, r Replica, term uint64) error {
	if err := r.Confirm(ctx); err != nil {
		return err
	}
	s, err := r.Status()
	if err == nil && (s.Term != term || !s.Leading) {
		err = fmt.Errorf("partition %d: term %d is over", r.ID(), term)
	}
	return err
}
