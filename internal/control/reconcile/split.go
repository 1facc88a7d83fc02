// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Splitter carries out splits that the records have as ordered, or takes them back. Every step can be repeated, by any
// leader: an entry is proposed at the epoch of the map, at which the log takes one, be it the split or what takes it
// back; the map is told which one it was once the replica has the epoch after it.
type Splitter struct {
	Keeper *meta.Keeper
	// Done, if not nil, is told of a split that the map has now, and of one that was taken back.
	Done func(p *topology.Partition, recalled bool)
	// Size, if not nil, is how large a partition is on the disk of this node, in bytes.
	Size func(p *topology.Partition) uint64
	// Sched is what the time of a split is taken from, nil outside simulations.
	Sched *sched.Scheduler
}

// Divided is what splits; *partition.Replica is one.
type Divided interface {
	ID() topology.PartitionID
	Span() (topology.Span, uint64)
	Split(ctx context.Context, epoch uint64, s *command.Split) error
	Unfreeze(ctx context.Context, epoch uint64) error
}

// Run splits a partition that is led here, by its order, or takes the order back, and tells the map.
func (s *Splitter) Run(ctx context.Context, r Divided, p *topology.Partition) error {
	var ceded time.Time
	size := sizeOf(s.Size, p) // before the right half waits for the map
	switch _, epoch := r.Span(); {
	case epoch < p.Epoch:
		return fmt.Errorf("split partition %d: it is at epoch %d, the map at %d", p.ID, epoch, p.Epoch)
	case epoch == p.Epoch && p.Cut.Recalled:
		if err := r.Unfreeze(ctx, epoch); err != nil {
			return fmt.Errorf("take the split of partition %d back: %w", p.ID, err)
		}
	case epoch == p.Epoch:
		ceded = s.Sched.Now()
		if err := r.Split(ctx, epoch, splitOf(p)); err != nil {
			return fmt.Errorf("split partition %d: %w", p.ID, err)
		}
	}
	// The epoch alone does not say what the log has taken: another leader may have had the order taken back.
	span, _ := r.Span()
	recalled := span.Limit.Compare(p.Cut.At) != 0
	done := false
	_, err := s.Keeper.Update(ctx, func(st *meta.State) (*meta.State, error) {
		now := st.Map.Partition(p.ID)
		if done = now != nil && now.Cut != nil && now.Epoch == p.Epoch; !done {
			return st, nil // another leader was faster, or the table was dropped
		}
		at, end := s.Sched.Wall(), st.Map.EndSplit
		if recalled {
			end = st.Map.EndSplitRecall
		}
		next, err := end(p.ID, at)
		if err != nil {
			return nil, err
		}
		e := meta.Event{Kind: meta.Split, Table: p.Table, Partition: p.ID, Other: now.Cut.Child,
			Reason: reasonOf(now, at), Ended: at.UnixMilli(), Bytes: size, Abandoned: recalled}
		if !ceded.IsZero() && !recalled { // else another leader has begun it, or this one before it failed
			e.Pause = max(s.Sched.Since(ceded), time.Microsecond) // 0 is not known
		}
		return st.WithMap(next).WithEvent(e), nil
	})
	if err != nil {
		return fmt.Errorf("record the split of partition %d: %w", p.ID, err)
	}
	if done && s.Done != nil {
		s.Done(p, recalled)
	}
	return nil
}

// splitOf is the entry by which an order is carried out.
func splitOf(p *topology.Partition) *command.Split {
	s := &command.Split{Child: uint64(p.Cut.Child), At: p.Cut.At.Boundary(p.Table)}
	for _, set := range p.ChildSets() {
		for _, m := range set.Replicas {
			member := keys.Member{Replica: uint64(m.ID), Node: m.Node}
			if m.State == topology.Learner {
				s.Learners = append(s.Learners, member)
			} else {
				s.Voters = append(s.Voters, member)
			}
		}
	}
	return s
}

// areMembers reports whether the members of a Raft group are those of the map, none of them on its way.
func areMembers(set *topology.ReplicaSet, now *pb.ConfState) bool {
	if len(now.GetVotersOutgoing()) > 0 || len(now.GetLearnersNext()) > 0 {
		return false
	}
	var voters, learners []topology.ReplicaID
	for _, m := range set.Replicas {
		if m.State == topology.Learner {
			learners = append(learners, m.ID)
		} else {
			voters = append(voters, m.ID)
		}
	}
	same := func(a, b []topology.ReplicaID) bool {
		slices.Sort(a)
		slices.Sort(b)
		return slices.Equal(a, b)
	}
	return same(voters, ids(now.GetVoters())) && same(learners, ids(now.GetLearners()))
}
