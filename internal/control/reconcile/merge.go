// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// The patience of merges. The right partition answers nothing from its freeze on.
const (
	// freezeTimeout is how long it may be frozen before the merge is taken back.
	freezeTimeout = 500 * time.Millisecond
	// inheritedWait is for how long another leader is taken to have waited by one that finds the partition frozen: an
	// election took longer than that, and requests wait for two seconds at most.
	inheritedWait = 300 * time.Millisecond
	// readyTimeout is how long its leader waits for all replicas to be there before it freezes it.
	readyTimeout = 10 * time.Second
	// requestAgeMax is how old an order may be before a new leader no longer waits as long as that, so that a merge
	// ends although its leader changes all the time.
	requestAgeMax = 2 * readyTimeout
	// freezeLag is how many entries a replica may lack then.
	freezeLag = 100
)

// MergeReconciler carries out merges that the records have as ordered. Every step can be repeated, by any leader: what
// decides is the stage in the map, and entries are proposed at epochs at which the logs take one.
type MergeReconciler struct {
	Keeper *meta.Keeper
	// Done, if not nil, is told of a merge that the map has now, and of one that was taken back.
	Done func(left, right topology.PartitionID, recalled bool)
	// Size, if not nil, is how large a partition is on the disk of this node, in bytes.
	Size func(p *topology.Partition) uint64
	// Sched is what times are taken from, nil outside simulations.
	Sched *sched.Scheduler
}

// Mergeable is what merges; *partition.Replica is one.
type Mergeable interface {
	ID() topology.PartitionID
	Span() (topology.Span, uint64)
	Member() topology.ReplicaID
	Frozen() uint64
	Freeze(ctx context.Context, epoch uint64) error
	Thaw(ctx context.Context, epoch uint64) error
	Merge(ctx context.Context, epoch uint64, m *command.Merge) error
}

// MarkReady tells the map that a replica of the right partition is frozen, once the one of the left partition here
// knows what the map does.
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

// update changes the records of a merge, if the map still has it.
func (j *MergeReconciler) update(ctx context.Context, p *topology.Partition,
	f func(s *meta.State, left, right *topology.Partition) (*meta.State, error)) error {
	_, err := j.Keeper.Update(ctx, func(s *meta.State) (*meta.State, error) {
		l, r := s.Topology.Partition(p.Merge.Left), s.Topology.Partition(p.Merge.Right)
		if l == nil || r == nil || l.Merge == nil || r.Merge == nil || l.Merge.Right != r.ID {
			return s, nil // another leader was faster, or the table was dropped
		}
		return f(s, l, r)
	})
	if err != nil {
		return fmt.Errorf("record the merge of partitions %d and %d: %w", p.Merge.Left, p.Merge.Right, err)
	}
	return nil
}

// Cancel takes a merge back, unless it cannot be any more.
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

// Unfreeze ends a merge that was taken back: the right partition, which is led here, goes on.
func (j *MergeReconciler) Unfreeze(ctx context.Context, r Mergeable, p *topology.Partition) error {
	if _, epoch := r.Span(); epoch == p.Epoch {
		if err := r.Thaw(ctx, epoch); err != nil {
			return fmt.Errorf("thaw partition %d: %w", p.ID, err)
		}
	} else if epoch < p.Epoch {
		return fmt.Errorf("thaw partition %d: it is at epoch %d, the map at %d", p.ID, epoch, p.Epoch)
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

// Merge has the left partition, which is led here, take the span of the right one, and tells the map.
func (j *MergeReconciler) Merge(ctx context.Context, l Mergeable, p, right *topology.Partition) error {
	if _, epoch := l.Span(); epoch == p.Epoch {
		m := &command.Merge{Right: uint64(right.ID), Frozen: p.Merge.Frozen, RightEpoch: right.Epoch}
		if err := l.Merge(ctx, epoch, m); err != nil {
			return fmt.Errorf("merge partition %d with %d: %w", p.ID, right.ID, err)
		}
	} else if epoch < p.Epoch {
		return fmt.Errorf("merge partition %d: it is at epoch %d, the map at %d", p.ID, epoch, p.Epoch)
	}
	done, size := false, sizeOf(j.Size, right)
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

// event is that of a merge which ends now.
func (j *MergeReconciler) event(l, r *topology.Partition, at time.Time) meta.Event {
	e := meta.Event{Kind: meta.Merge, Table: l.Table, Partition: l.ID, Other: r.ID, Reason: reasonOf(r, at),
		Ended: at.UnixMilli()}
	if froze := r.Merge.FrozenAt; froze != 0 {
		e.Pause = max(at.Sub(time.UnixMilli(froze)), 0)
	}
	return e
}

func (j *MergeReconciler) notify(done bool, p *topology.Partition, recalled bool) {
	if done && j.Done != nil {
		j.Done(p.Merge.Left, p.Merge.Right, recalled)
	}
}

// stepMerge takes the next step of a merge at one of its partitions.
func (m *MembershipReconciler) stepMerge(ctx context.Context, r Replica, p *topology.Partition,
	s *raftgroup.Status) error {
	j := &MergeReconciler{Keeper: m.Keeper, Done: m.MergeDone, Size: m.Size, Sched: m.Sched}
	leads := r.Leading() && areMembers(&p.Sets[0], s.Members)
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
	return j.MarkReady(ctx, r, m.Replica(p.Merge.Left), p)
}

// freeze freezes the right partition of a merge when all its replicas are there, or takes the merge back when it has
// waited in vain.
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
	// At the epoch of the map: the order may be an old one that was taken back, and nobody would thaw it again.
	if err := r.Freeze(ctx, p.Epoch); err != nil {
		return fmt.Errorf("freeze partition %d: %w", p.ID, err)
	}
	m.waited(p.ID, p.Epoch, true, 0)
	return nil
}

// shouldCancel reports whether a leader that has waited for so long, since the merge was ordered so long ago, takes it
// back. The age of the order is told by the clocks of two nodes, so it only shortens the wait.
func shouldCancel(frozen bool, waited, ordered time.Duration) bool {
	if frozen || ordered > requestAgeMax {
		return waited > freezeTimeout
	}
	return waited > readyTimeout
}

// allReplicasReady reports whether all members of a group answer and lack little, as its leader sees them.
func allReplicasReady(s *raftgroup.Status) bool {
	for i := range s.Peers {
		if p := &s.Peers[i]; !p.Active || p.Match == 0 || p.Lag > freezeLag {
			return false
		}
	}
	return true
}

// wait is since when a leader here has waited for a partition to be frozen, or for a frozen one to be merged.
type wait struct {
	epoch  uint64
	frozen bool
	since  time.Time
}

// waited is how long that is. One that begins to wait counts what others have waited before.
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
		for other, w := range m.waits { // those that are over
			if now.Sub(w.since) > requestAgeMax {
				delete(m.waits, other)
			}
		}
		w = wait{epoch, frozen, now.Add(-before)}
		m.waits[id] = w
	}
	return now.Sub(w.since)
}

// RunStandalone carries out the merge of a partition on a node that stands alone, or takes it back, from where it
// stopped. right returns the replica of the other one: it is not asked for where that has been merged, and the map does
// not know it yet.
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
			return fmt.Errorf("freeze partition %d: %w", now.ID, err)
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

// membersOf are the ids of a partition's replicas; 0 for the one of a map without members.
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
