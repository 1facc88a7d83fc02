// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// SplitReconciler executes or cancels the splits in the topology. Every leader can repeat every step. The log accepts
// only one entry at the epoch of the topology, which is either the split or its cancellation. The topology records the
// result after the replica has reached the next epoch.
type SplitReconciler struct {
	// Region is the region of this node.
	Region string
	Keeper *meta.Keeper
	// Store may be nil.
	Store Store
	Log   *slog.Logger
	// Sched provides the time. It is nil outside simulations.
	Sched *sched.Scheduler
}

// Splittable is a replica that can be split. *partition.Replica implements it.
type Splittable interface {
	ID() topology.PartitionID
	Span() (topology.Span, uint64)
	Split(ctx context.Context, epoch uint64, s *command.Split) error
	Unfreeze(ctx context.Context, epoch uint64) error
}

// Run executes or cancels the pending split of a partition that this node leads, and records the result.
func (s *SplitReconciler) Run(ctx context.Context, r Splittable, p *topology.Partition) error {
	var ceded time.Time
	size := sizeOf(s.Store, p) // estimate the size before the right half must wait for the topology
	switch _, epoch := r.Span(); {
	case epoch < p.Epoch:
		return fmt.Errorf("cannot split partition %d: its epoch is %d, but the topology has %d", p.ID, epoch, p.Epoch)
	case epoch == p.Epoch && p.Split.Canceled:
		if err := r.Unfreeze(ctx, epoch); err != nil {
			return fmt.Errorf("cannot cancel the split of partition %d: %w", p.ID, err)
		}
	case epoch == p.Epoch:
		ceded = s.Sched.Now()
		if err := r.Split(ctx, epoch, splitEntry(p, s.Region)); err != nil {
			return fmt.Errorf("cannot split partition %d: %w", p.ID, err)
		}
	}
	// The epoch alone does not identify the accepted log entry, because another leader may have canceled the split.
	span, _ := r.Span()
	recalled := span.Limit.Compare(p.Split.At) != 0
	done := false
	_, err := s.Keeper.Update(ctx, func(st *meta.State) (*meta.State, error) {
		now := st.Topology.Partition(p.ID)
		if done = now != nil && now.Split != nil && now.Epoch == p.Epoch; !done {
			return st, nil // another leader has recorded the result, or the table was dropped
		}
		at, end := s.Sched.Wall(), st.Topology.EndSplit
		if recalled {
			end = st.Topology.EndSplitCancel
		}
		next, err := end(p.ID, at)
		if err != nil {
			return nil, err
		}
		e := meta.Event{Kind: meta.Split, Table: p.Table, Partition: p.ID, Other: now.Split.Child,
			Reason: reasonOf(now, at), Ended: at.UnixMilli(), Bytes: size, Abandoned: recalled}
		if !ceded.IsZero() && !recalled { // otherwise, another leader or process has started the split
			e.Pause = max(s.Sched.Since(ceded), time.Microsecond) // not 0, because 0 means unknown
		}
		return st.WithTopology(next).WithEvent(e), nil
	})
	if err != nil {
		return fmt.Errorf("cannot record the split of partition %d: %w", p.ID, err)
	}
	if done {
		logSplit(s.Log, p, recalled)
	}
	return nil
}

// splitEntry returns the log entry of a pending split for the replica set in a region. The entry contains the child's
// members in this region, or no members if the partition has no replica sets.
func splitEntry(p *topology.Partition, region string) *command.Split {
	s := &command.Split{Child: uint64(p.Split.Child), At: p.Split.At.Boundary(p.Table)}
	for _, set := range p.ChildSets() {
		if set.Region != region {
			continue
		}
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

// areMembers reports whether the members of a Raft group match the topology and no membership change is in progress.
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
