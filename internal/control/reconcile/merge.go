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
	// freezeMax is how long it may be frozen before the merge is taken back.
	freezeMax = 500 * time.Millisecond
	// foundFor is for how long another leader is taken to have waited by one that finds the partition frozen: an
	// election took longer than that, and requests wait for two seconds at most.
	foundFor = 300 * time.Millisecond
	// quietMax is how long its leader waits for all replicas to be there before it freezes it.
	quietMax = 10 * time.Second
	// orderedMax is how old an order may be before a new leader no longer waits as long as that, so that a merge ends
	// although its leader changes all the time.
	orderedMax = 2 * quietMax
	// freezeLag is how many entries a replica may lack then.
	freezeLag = 100
)

// Joiner carries out merges that the records have as ordered. Every step can be repeated, by any leader: what decides
// is the stage in the map, and entries are proposed at epochs at which the logs take one.
type Joiner struct {
	Keeper *meta.Keeper
	// Done, if not nil, is told of a merge that the map has now, and of one that was taken back.
	Done func(left, right topology.PartitionID, recalled bool)
	// Size, if not nil, is how large a partition is on the disk of this node, in bytes.
	Size func(p *topology.Partition) uint64
	// Sched is what times are taken from, nil outside simulations.
	Sched *sched.Scheduler
}

// Joined is what merges; *partition.Replica is one.
type Joined interface {
	ID() topology.PartitionID
	Span() (topology.Span, uint64)
	Member() topology.ReplicaID
	Frozen() uint64
	Freeze(ctx context.Context, epoch uint64) error
	Unfreeze(ctx context.Context, epoch uint64) error
	Merge(ctx context.Context, epoch uint64, m *command.Merge) error
}

// Ready tells the map that a replica of the right partition is frozen, once the one of the left partition here knows
// what the map does.
func (j *Joiner) Ready(ctx context.Context, r, left Joined, p *topology.Partition) error {
	if _, epoch := r.Span(); r.Frozen() == 0 || epoch != p.Epoch || left == nil {
		return nil
	}
	_, has := left.Span()
	frozen, member := r.Frozen(), r.Member()
	return j.update(ctx, p, func(s *meta.State, l, now *topology.Partition) (*meta.State, error) {
		if has != l.Epoch || now.Epoch != p.Epoch {
			return s, nil
		}
		next, err := s.Map.JoinReady(now.ID, member, frozen, j.Sched.Wall())
		if err != nil || next == s.Map {
			return s, err
		}
		return s.WithMap(next), nil
	})
}

// update changes the records of a merge, if the map still has it.
func (j *Joiner) update(ctx context.Context, p *topology.Partition,
	f func(s *meta.State, left, right *topology.Partition) (*meta.State, error)) error {
	_, err := j.Keeper.Update(ctx, func(s *meta.State) (*meta.State, error) {
		l, r := s.Map.Partition(p.Join.Left), s.Map.Partition(p.Join.Right)
		if l == nil || r == nil || l.Join == nil || r.Join == nil || l.Join.Right != r.ID {
			return s, nil // another leader was faster, or the table was dropped
		}
		return f(s, l, r)
	})
	if err != nil {
		return fmt.Errorf("record the merge of partitions %d and %d: %w", p.Join.Left, p.Join.Right, err)
	}
	return nil
}

// Recall takes a merge back, unless it cannot be any more.
func (j *Joiner) Recall(ctx context.Context, p *topology.Partition) error {
	return j.update(ctx, p, func(s *meta.State, l, r *topology.Partition) (*meta.State, error) {
		if r.Epoch != p.Epoch {
			return s, nil
		}
		next, err := s.Map.RecallJoin(l.ID)
		if err != nil || next == s.Map {
			return s, err
		}
		return s.WithMap(next), nil
	})
}

// Thaw ends a merge that was taken back: the right partition, which is led here, goes on.
func (j *Joiner) Unfreeze(ctx context.Context, r Joined, p *topology.Partition) error {
	if _, epoch := r.Span(); epoch == p.Epoch {
		if err := r.Unfreeze(ctx, epoch); err != nil {
			return fmt.Errorf("thaw partition %d: %w", p.ID, err)
		}
	} else if epoch < p.Epoch {
		return fmt.Errorf("thaw partition %d: it is at epoch %d, the map at %d", p.ID, epoch, p.Epoch)
	}
	done := false
	err := j.update(ctx, p, func(s *meta.State, l, r *topology.Partition) (*meta.State, error) {
		if done = r.Join.Stage == topology.Thawing && r.Epoch == p.Epoch; !done {
			return s, nil
		}
		at := j.Sched.Wall()
		next, err := s.Map.EndRecall(l.ID, at)
		if err != nil {
			return nil, err
		}
		e := j.event(l, r, at)
		e.Abandoned = true
		return s.WithMap(next).WithEvent(e), nil
	})
	j.tell(err == nil && done, p, true)
	return err
}

// Merge has the left partition, which is led here, take the span of the right one, and tells the map.
func (j *Joiner) Merge(ctx context.Context, l Joined, p, right *topology.Partition) error {
	if _, epoch := l.Span(); epoch == p.Epoch {
		m := &command.Merge{Right: uint64(right.ID), Frozen: p.Join.Frozen, RightEpoch: right.Epoch}
		if err := l.Merge(ctx, epoch, m); err != nil {
			return fmt.Errorf("merge partition %d with %d: %w", p.ID, right.ID, err)
		}
	} else if epoch < p.Epoch {
		return fmt.Errorf("merge partition %d: it is at epoch %d, the map at %d", p.ID, epoch, p.Epoch)
	}
	done, size := false, sizeOf(j.Size, right)
	err := j.update(ctx, p, func(s *meta.State, l, r *topology.Partition) (*meta.State, error) {
		if done = l.Join.Stage == topology.Merging && l.Epoch == p.Epoch; !done {
			return s, nil
		}
		at := j.Sched.Wall()
		next, err := s.Map.EndJoin(l.ID, at)
		if err != nil {
			return nil, err
		}
		e := j.event(l, r, at)
		e.Bytes = size
		return s.WithMap(next).WithEvent(e), nil
	})
	j.tell(err == nil && done, p, false)
	return err
}

// event is that of a merge which ends now.
func (j *Joiner) event(l, r *topology.Partition, at time.Time) meta.Event {
	e := meta.Event{Kind: meta.Merge, Table: l.Table, Partition: l.ID, Other: r.ID, Reason: reasonOf(r, at),
		Ended: at.UnixMilli()}
	if froze := r.Join.FrozenAt; froze != 0 {
		e.Pause = max(at.Sub(time.UnixMilli(froze)), 0)
	}
	return e
}

func (j *Joiner) tell(done bool, p *topology.Partition, recalled bool) {
	if done && j.Done != nil {
		j.Done(p.Join.Left, p.Join.Right, recalled)
	}
}

// join takes the next step of a merge at one of its partitions.
func (m *Members) join(ctx context.Context, r Replica, p *topology.Partition, s *raftgroup.Status) error {
	j := &Joiner{Keeper: m.Keeper, Done: m.Joined, Size: m.Size, Sched: m.Sched}
	leads := r.Leading() && areMembers(&p.Sets[0], s.Members)
	switch stage := p.Join.Stage; {
	case p.Join.Left == p.ID:
		right := m.Keeper.State().Map.Partition(p.Join.Right)
		if stage == topology.Merging && leads && right != nil && right.Join != nil {
			return j.Merge(ctx, r, p, right)
		}
		return nil
	case stage == topology.Thawing && leads:
		return j.Unfreeze(ctx, r, p)
	case stage != topology.Freezing:
		return nil
	}
	if leads {
		if err := m.freeze(ctx, j, r, p, s); err != nil {
			return err
		}
	}
	return j.Ready(ctx, r, m.Replica(p.Join.Left), p)
}

// freeze freezes the right partition of a merge when all its replicas are there, or takes the merge back when it has
// waited in vain.
func (m *Members) freeze(ctx context.Context, j *Joiner, r Replica, p *topology.Partition,
	s *raftgroup.Status) error {
	now := m.Sched.Wall()
	ordered := now.Sub(time.UnixMilli(reasonOf(p, now).Began))
	frozen, before := r.Frozen() != 0, time.Duration(0)
	if frozen {
		before = foundFor
	}
	switch {
	case inVain(frozen, m.waited(p.ID, p.Epoch, frozen, before), ordered):
		return j.Recall(ctx, p)
	case frozen || !allThere(s):
		return nil
	}
	// At the epoch of the map: the order may be an old one that was taken back, and nobody would thaw it again.
	if err := r.Freeze(ctx, p.Epoch); err != nil {
		return fmt.Errorf("freeze partition %d: %w", p.ID, err)
	}
	m.waited(p.ID, p.Epoch, true, 0)
	return nil
}

// inVain reports whether a leader that has waited for so long, since the merge was ordered so long ago, takes it back.
// The age of the order is told by the clocks of two nodes, so it only shortens the wait.
func inVain(frozen bool, waited, ordered time.Duration) bool {
	if frozen || ordered > orderedMax {
		return waited > freezeMax
	}
	return waited > quietMax
}

// allThere reports whether all members of a group answer and lack little, as its leader sees them.
func allThere(s *raftgroup.Status) bool {
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
func (m *Members) waited(id topology.PartitionID, epoch uint64, frozen bool, before time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Sched.Now()
	w, ok := m.waits[id]
	if !ok || w.epoch != epoch || w.frozen != frozen {
		if m.waits == nil {
			m.waits = map[topology.PartitionID]wait{}
		}
		for other, w := range m.waits { // those that are over
			if now.Sub(w.since) > orderedMax {
				delete(m.waits, other)
			}
		}
		w = wait{epoch, frozen, now.Add(-before)}
		m.waits[id] = w
	}
	return now.Sub(w.since)
}

// Alone carries out the merge of a partition on a node that stands alone, or takes it back, from where it stopped.
// right returns the replica of the other one: it is not asked for where that has been merged, and the map does not know
// it yet.
func (j *Joiner) Alone(ctx context.Context, l Joined, right func() (Joined, error), p *topology.Partition) error {
	now := j.Keeper.State().Map.Partition(p.Join.Right)
	switch p.Join.Stage {
	case topology.Thawing:
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
			m := s.Map
			for _, member := range membersOf(now) {
				var err error
				if m, err = m.JoinReady(now.ID, member, r.Frozen(), j.Sched.Wall()); err != nil {
					return nil, err
				}
			}
			return s.WithMap(m), nil
		})
		if err != nil {
			return err
		}
	}
	s := j.Keeper.State()
	if p, now = s.Map.Partition(p.ID), s.Map.Partition(now.ID); p == nil || p.Join == nil || now == nil {
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
