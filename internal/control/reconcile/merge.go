// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// These are the timeouts of merges. The right partition is unavailable while it is frozen.
const (
	// freezeTimeout is the time for which a partition may be frozen before the merge is canceled.
	freezeTimeout = 500 * time.Millisecond
	// inheritedWait is the assumed time for which a partition has been frozen when a new leader takes over.
	inheritedWait = 300 * time.Millisecond
	// readyTimeout is the time for which the leader waits for all replicas to be ready before the freeze.
	readyTimeout = 10 * time.Second
	// requestAgeMax is the age of a merge request above which a new leader does not wait for readyTimeout. A merge
	// therefore ends even if its leader changes repeatedly.
	requestAgeMax = 2 * readyTimeout
	// freezeLag is the maximum number of log entries that a ready replica may lack.
	freezeLag = 100
)

// MergeReconciler executes or cancels the merges in the topology. Every leader can repeat every step, because the stage
// in the topology determines the step and each log accepts one entry per epoch.
type MergeReconciler struct {
	Keeper *meta.Keeper
	// Store may be nil.
	Store Store
	Log   *slog.Logger
	// Sched provides the time. It is nil outside simulations.
	Sched *sched.Scheduler
}

// Mergeable is a replica that can be merged. *partition.Replica implements it.
type Mergeable interface {
	ID() topology.PartitionID
	Span() (topology.Span, uint64)
	Member() topology.ReplicaID
	Frozen() uint64
	Freeze(ctx context.Context, epoch uint64) error
	Unfreeze(ctx context.Context, epoch uint64) error
	Merge(ctx context.Context, epoch uint64, m *command.Merge) error
}

// MarkReady records that a replica of the right partition is frozen. The local replica of the left partition must have
// reached its epoch in the topology.
func (j *MergeReconciler) MarkReady(ctx context.Context, r, left Mergeable, p *topology.Partition) error {
	if _, epoch := r.Span(); r.Frozen() == 0 || epoch != p.Epoch || left == nil {
		return nil
	}
	_, has := left.Span()
	frozen, member := r.Frozen(), r.Member()
	return j.update(ctx, p, func(s *meta.State, l, now *topology.Partition) (*meta.State, error) {
		if has != l.Epoch || now.Epoch != p.Epoch {
			return s, nil
		}
		next, err := s.Topology.MergeReady(now.ID, member, frozen, j.Sched.Wall())
		if err != nil || next == s.Topology {
			return s, err
		}
		return s.WithTopology(next), nil
	})
}

// update changes the metadata of a merge if the merge is still pending.
func (j *MergeReconciler) update(ctx context.Context, p *topology.Partition,
	f func(s *meta.State, left, right *topology.Partition) (*meta.State, error)) error {
	_, err := j.Keeper.Update(ctx, func(s *meta.State) (*meta.State, error) {
		l, r := s.Topology.Partition(p.Merge.Left), s.Topology.Partition(p.Merge.Right)
		if l == nil || r == nil || l.Merge == nil || r.Merge == nil || l.Merge.Right != r.ID {
			return s, nil // another leader has finished the merge, or the table was dropped
		}
		return f(s, l, r)
	})
	if err != nil {
		return fmt.Errorf("cannot record the merge of partitions %d and %d: %w", p.Merge.Left, p.Merge.Right, err)
	}
	return nil
}

// Cancel cancels a merge if cancellation is still possible.
func (j *MergeReconciler) Cancel(ctx context.Context, p *topology.Partition) error {
	return j.update(ctx, p, func(s *meta.State, l, r *topology.Partition) (*meta.State, error) {
		if r.Epoch != p.Epoch {
			return s, nil
		}
		next, err := s.Topology.CancelMerge(l.ID)
		if err != nil || next == s.Topology {
			return s, err
		}
		return s.WithTopology(next), nil
	})
}

// Unfreeze completes the cancellation of a merge. It makes the right partition, which this node leads, available again.
func (j *MergeReconciler) Unfreeze(ctx context.Context, r Mergeable, p *topology.Partition) error {
	if _, epoch := r.Span(); epoch == p.Epoch {
		if err := r.Unfreeze(ctx, epoch); err != nil {
			return fmt.Errorf("cannot unfreeze partition %d: %w", p.ID, err)
		}
	} else if epoch < p.Epoch {
		return fmt.Errorf("cannot unfreeze partition %d: its epoch is %d, but the topology has %d", p.ID, epoch,
			p.Epoch)
	}
	done := false
	err := j.update(ctx, p, func(s *meta.State, l, r *topology.Partition) (*meta.State, error) {
		if done = r.Merge.Stage == topology.Unfreezing && r.Epoch == p.Epoch; !done {
			return s, nil
		}
		at := j.Sched.Wall()
		next, err := s.Topology.EndMergeCancel(l.ID, at)
		if err != nil {
			return nil, err
		}
		e := j.event(l, r, at)
		e.Abandoned = true
		return s.WithTopology(next).WithEvent(e), nil
	})
	j.notify(err == nil && done, p, true)
	return err
}

// Merge makes the left partition, which this node leads, take over the span of the right partition. It then records the
// end of the merge.
func (j *MergeReconciler) Merge(ctx context.Context, l Mergeable, p, right *topology.Partition) error {
	if _, epoch := l.Span(); epoch == p.Epoch {
		m := &command.Merge{Right: uint64(right.ID), Frozen: p.Merge.Frozen, RightEpoch: right.Epoch}
		if err := l.Merge(ctx, epoch, m); err != nil {
			return fmt.Errorf("cannot merge partition %d with %d: %w", p.ID, right.ID, err)
		}
	} else if epoch < p.Epoch {
		return fmt.Errorf("cannot merge partition %d: its epoch is %d, but the topology has %d", p.ID, epoch, p.Epoch)
	}
	done, size := false, sizeOf(j.Store, right)
	err := j.update(ctx, p, func(s *meta.State, l, r *topology.Partition) (*meta.State, error) {
		if done = l.Merge.Stage == topology.Merging && l.Epoch == p.Epoch; !done {
			return s, nil
		}
		at := j.Sched.Wall()
		next, err := s.Topology.EndMerge(l.ID, at)
		if err != nil {
			return nil, err
		}
		e := j.event(l, r, at)
		e.Bytes = size
		return s.WithTopology(next).WithEvent(e), nil
	})
	j.notify(err == nil && done, p, false)
	return err
}

// event returns the event of a completed or canceled merge.
func (j *MergeReconciler) event(l, r *topology.Partition, at time.Time) meta.Event {
	e := meta.Event{Kind: meta.Merge, Table: l.Table, Partition: l.ID, Other: r.ID, Reason: reasonOf(r, at),
		Ended: at.UnixMilli()}
	if froze := r.Merge.FrozenAt; froze != 0 {
		e.Pause = max(at.Sub(time.UnixMilli(froze)), 0)
	}
	return e
}

func (j *MergeReconciler) notify(done bool, p *topology.Partition, recalled bool) {
	if done {
		logMerge(j.Log, p.Merge.Left, p.Merge.Right, recalled)
	}
}

// stepMerge performs the next step of a merge for one of its partitions.
func (m *MembershipReconciler) stepMerge(ctx context.Context, r Replica, p *topology.Partition,
	s *raftgroup.Status) error {
	j := &MergeReconciler{Keeper: m.Keeper, Store: m.Store, Log: m.Log, Sched: m.Sched}
	leads := r.Leading() && areMembers(p.GroupSet(m.Region), s.Members)
	switch stage := p.Merge.Stage; {
	case p.Merge.Left == p.ID:
		right := m.Keeper.State().Topology.Partition(p.Merge.Right)
		if stage == topology.Merging && leads && right != nil && right.Merge != nil {
			return j.Merge(ctx, r, p, right)
		}
		return nil
	case stage == topology.Unfreezing && leads:
		return j.Unfreeze(ctx, r, p)
	case stage != topology.Freezing:
		return nil
	}
	if leads {
		if err := m.freeze(ctx, j, r, p, s); err != nil {
			return err
		}
	}
	return j.MarkReady(ctx, r, m.Replicas.Replica(p.Merge.Left), p)
}

// freeze freezes the right partition of a merge when all replicas of the partition are ready. It cancels the merge
// after a timeout.
func (m *MembershipReconciler) freeze(ctx context.Context, j *MergeReconciler, r Replica, p *topology.Partition,
	s *raftgroup.Status) error {
	now := m.Sched.Wall()
	ordered := now.Sub(time.UnixMilli(reasonOf(p, now).Began))
	frozen, before := r.Frozen() != 0, time.Duration(0)
	if frozen {
		before = inheritedWait
	}
	switch {
	case shouldCancel(frozen, m.waited(p.ID, p.Epoch, frozen, before), ordered):
		return j.Cancel(ctx, p)
	case frozen || !allReplicasReady(s):
		return nil
	}
	// The freeze must use the epoch of the topology. If the merge has been canceled, no other step would unfreeze the
	// partition.
	if err := r.Freeze(ctx, p.Epoch); err != nil {
		return fmt.Errorf("cannot freeze partition %d: %w", p.ID, err)
	}
	m.waited(p.ID, p.Epoch, true, 0)
	return nil
}

// shouldCancel reports whether a leader must cancel a merge. waited is the time for which the leader has waited, and
// ordered is the age of the request. The age can only shorten the wait, because it depends on the clocks of two nodes.
func shouldCancel(frozen bool, waited, ordered time.Duration) bool {
	if frozen || ordered > requestAgeMax {
		return waited > freezeTimeout
	}
	return waited > readyTimeout
}

// allReplicasReady reports whether all members of a group are active and have nearly caught up according to the leader.
func allReplicasReady(s *raftgroup.Status) bool {
	for i := range s.Peers {
		if p := &s.Peers[i]; !p.Active || p.Match == 0 || p.Lag > freezeLag {
			return false
		}
	}
	return true
}

// wait records the time at which this leader started to wait for a freeze or for the merge of a frozen partition.
type wait struct {
	epoch  uint64
	frozen bool
	since  time.Time
}

// waited returns the duration of the wait. It includes the assumed wait of previous leaders.
func (m *MembershipReconciler) waited(id topology.PartitionID, epoch uint64, frozen bool,
	before time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Sched.Now()
	w, ok := m.waits[id]
	if !ok || w.epoch != epoch || w.frozen != frozen {
		if m.waits == nil {
			m.waits = map[topology.PartitionID]wait{}
		}
		for other, w := range m.waits { // expired waits
			if now.Sub(w.since) > requestAgeMax {
				delete(m.waits, other)
			}
		}
		w = wait{epoch, frozen, now.Add(-before)}
		m.waits[id] = w
	}
	return now.Sub(w.since)
}

// RunStandalone completes or cancels the merge of a partition on a standalone node. right returns the replica of the
// right partition. RunStandalone does not call right if the replicas have already been merged and only the topology is
// outdated.
func (j *MergeReconciler) RunStandalone(ctx context.Context, l Mergeable, right func() (Mergeable, error),
	p *topology.Partition) error {
	now := j.Keeper.State().Topology.Partition(p.Merge.Right)
	switch p.Merge.Stage {
	case topology.Unfreezing:
		r, err := right()
		if err != nil {
			return err
		}
		return j.Unfreeze(ctx, r, now)
	case topology.Freezing:
		r, err := right()
		if err == nil {
			err = r.Freeze(ctx, now.Epoch)
		}
		if err != nil {
			return fmt.Errorf("cannot freeze partition %d: %w", now.ID, err)
		}
		err = j.update(ctx, p, func(s *meta.State, _, now *topology.Partition) (*meta.State, error) {
			m := s.Topology
			for _, member := range membersOf(now) {
				var err error
				if m, err = m.MergeReady(now.ID, member, r.Frozen(), j.Sched.Wall()); err != nil {
					return nil, err
				}
			}
			return s.WithTopology(m), nil
		})
		if err != nil {
			return err
		}
	}
	s := j.Keeper.State()
	if p, now = s.Topology.Partition(p.ID), s.Topology.Partition(now.ID); p == nil || p.Merge == nil || now == nil {
		return nil // the table was dropped
	}
	return j.Merge(ctx, l, p, now)
}

// membersOf returns the IDs of a partition's replicas, or 0 if the topology has no members.
func membersOf(p *topology.Partition) (ids []topology.ReplicaID) {
	for i := range p.Sets {
		for _, m := range p.Sets[i].Replicas {
			ids = append(ids, m.ID)
		}
	}
	if len(ids) == 0 {
		return []topology.ReplicaID{0}
	}
	return ids
}
