// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
)

// Join is a requested merge of two neighbors that has not been applied to the topology: Left will take over the span of
// Right. Both partitions store it, and their members and spans cannot change until it ends.
type Join struct {
	Left, Right PartitionID
	Stage       JoinStage
	// Frozen is the index in the log of Right after which Right accepts no commands, or 0 as long as no replica has
	// reported it. Ready lists the replicas of Right that have everything up to Frozen on disk. Their nodes must have
	// the replica of Left that the topology requires.
	Frozen uint64
	Ready  []ReplicaID
	// FrozenAt is the time at which the first replica reported Frozen, in milliseconds since 1970, or 0.
	FrozenAt int64
}

// JoinStage is the progress of a merge. Each stage change is a compare-and-set of the topology, so a merge is either
// completed or canceled, never both.
type JoinStage uint8

// These are the stages. A merge can be canceled while the right partition is Freezing; canceling makes it Thawing. Once
// all replicas are ready the merge is Merging, and only DROP TABLE can prevent its completion.
const (
	Freezing JoinStage = iota
	Thawing
	Merging
)

// String returns the stage's name in lower case.
func (s JoinStage) String() string {
	if int(s) < len(joinStages) {
		return joinStages[s]
	}
	return fmt.Sprintf("stage %d", uint8(s))
}

var joinStages = [...]string{"freezing", "thawing", "merging"}

// changing returns an error if the members and the span of a partition must not change.
func (p *Partition) changing() error {
	switch {
	case p.Cut != nil:
		return fmt.Errorf("partition %d is being split: its replicas stay until then", p.ID)
	case p.Join != nil:
		return fmt.Errorf("partitions %d and %d are being merged: their replicas stay until then", p.Join.Left,
			p.Join.Right)
	}
	return nil
}

// BeginJoin requests that a partition take over the span of its right neighbor. All members of both partitions must be
// at rest and on the same nodes.
func (s *Snapshot) BeginJoin(left, right PartitionID, cause Cause, now time.Time) (*Snapshot, error) {
	l, r := s.Partition(left), s.Partition(right)
	switch {
	case l == nil:
		return nil, fmt.Errorf("partition %d does not exist", left)
	case r == nil:
		return nil, fmt.Errorf("partition %d does not exist", right)
	case !adjoin(l, r):
		return nil, fmt.Errorf("partition %d does not end where partition %d begins", left, right)
	}
	for _, p := range []*Partition{l, r} {
		if err := p.changing(); err != nil {
			return nil, err
		}
		if !p.AtRest() {
			return nil, fmt.Errorf("the replicas of partition %d are being changed", p.ID)
		}
	}
	if !Beside(l, r) {
		return nil, fmt.Errorf("partitions %d and %d have replicas on different nodes", left, right)
	}
	out := s.withJoin(l, &Join{Left: left, Right: right})
	reason := NewReason(cause, now)
	out.Partition(left).Reason, out.Partition(right).Reason = reason, reason
	return out, nil
}

func adjoin(l, r *Partition) bool {
	return l.Table == r.Table && !l.Span.Limit.IsZero() && l.Span.Limit.Compare(r.Span.Begin) == 0
}

// Beside reports whether the replicas of two partitions are on the same nodes, with the same states.
func Beside(l, r *Partition) bool {
	if len(l.Sets) != len(r.Sets) {
		return false
	}
	for i := range l.Sets {
		set := r.Set(l.Sets[i].Region)
		if set == nil || len(set.Replicas) != len(l.Sets[i].Replicas) {
			return false
		}
		for _, m := range l.Sets[i].Replicas {
			if o := set.On(m.Node); o == nil || o.State != m.State {
				return false
			}
		}
	}
	return true
}

// withJoin sets or removes the merge of a partition and its right neighbor.
func (s *Snapshot) withJoin(l *Partition, j *Join) *Snapshot {
	out := s.next()
	i := find(s.Partitions(l.Table), l.Span.Begin)
	left, right := *l, *s.Partitions(l.Table)[i+1]
	left.Join, right.Join = j, j
	out.replace(l.Table, i, i+2, &left, &right)
	return out
}

// joined returns the two partitions of the merge of a partition.
func (s *Snapshot) joined(id PartitionID) (l, r *Partition, err error) {
	p := s.Partition(id)
	if p == nil || p.Join == nil {
		return nil, nil, fmt.Errorf("partition %d has no merge", id)
	}
	return s.Partition(p.Join.Left), s.Partition(p.Join.Right), nil
}

// JoinReady records that a replica of the right partition is ready, frozen at an index. Once the last replica is ready,
// the merge can no longer be canceled. JoinReady returns s itself if nothing changes.
func (s *Snapshot) JoinReady(right PartitionID, replica ReplicaID, frozen uint64, now time.Time) (*Snapshot,
	error) {
	l, r, err := s.joined(right)
	if err != nil {
		return nil, err
	}
	j := *r.Join
	switch {
	case j.Right != right || j.Frozen != 0 && j.Frozen != frozen:
		return nil, fmt.Errorf("partition %d is frozen at %d, the map has %+v", right, frozen, j)
	case j.Stage != Freezing || slices.Contains(j.Ready, replica):
		return s, nil
	}
	if j.Frozen == 0 {
		j.FrozenAt = now.UnixMilli()
	}
	j.Frozen, j.Ready = frozen, append(slices.Clone(j.Ready), replica)
	slices.Sort(j.Ready)
	if j.allReady(r) {
		j.Stage = Merging
	}
	return s.withJoin(l, &j), nil
}

// allReady reports whether all members of the right partition are ready.
func (j *Join) allReady(r *Partition) bool {
	for i := range r.Sets {
		for _, m := range r.Sets[i].Replicas {
			if !slices.Contains(j.Ready, m.ID) {
				return false
			}
		}
	}
	return true
}

// RecallJoin cancels a merge if that is still possible. Otherwise it returns s itself.
func (s *Snapshot) RecallJoin(id PartitionID) (*Snapshot, error) {
	l, _, err := s.joined(id)
	if err != nil {
		return nil, err
	}
	if l.Join.Stage != Freezing {
		return s, nil
	}
	j := *l.Join
	j.Stage = Thawing
	return s.withJoin(l, &j), nil
}

// EndRecall ends a canceled merge once the right partition's log has reached its next epoch.
func (s *Snapshot) EndRecall(id PartitionID, now time.Time) (*Snapshot, error) {
	l, r, err := s.joined(id)
	if err != nil {
		return nil, err
	}
	if l.Join.Stage != Thawing {
		return nil, fmt.Errorf("the merge of partitions %d and %d is %s", l.ID, r.ID, l.Join.Stage)
	}
	out := s.next()
	left, right := *l, *r
	left.Join, right.Join, left.Reason, right.Reason = nil, nil, nil, nil
	left.Wish, right.Wish = l.Wish.lasting(), r.Wish.lasting()
	left.Since, right.Since = now.UnixMilli(), now.UnixMilli()
	right.Epoch++
	i := find(s.Partitions(l.Table), l.Span.Begin)
	out.replace(l.Table, i, i+2, &left, &right)
	return out, nil
}

// EndJoin applies a merge to the topology once the left partition's log contains it. The left partition then has the
// span of both partitions, and an epoch above the epochs of both.
func (s *Snapshot) EndJoin(left PartitionID, now time.Time) (*Snapshot, error) {
	l, r, err := s.joined(left)
	if err != nil {
		return nil, err
	}
	if l.ID != left || l.Join.Stage != Merging {
		return nil, fmt.Errorf("the merge of partitions %d and %d is %s", l.ID, r.ID, l.Join.Stage)
	}
	out := s.next()
	merged := *l
	merged.Join, merged.Reason = nil, nil
	merged.Span.Limit = r.Span.Limit
	merged.Epoch = max(l.Epoch, r.Epoch) + 1
	merged.Since, merged.Wish = now.UnixMilli(), nil
	i := find(s.Partitions(l.Table), l.Span.Begin)
	out.replace(l.Table, i, i+2, &merged)
	return out, nil
}

func appendJoin(w *codec.Writer, j *Join) {
	w.Uint(uint64(j.Left))
	w.Uint(uint64(j.Right))
	w.Byte(byte(j.Stage))
	w.Uint(j.Frozen)
	w.Int(j.FrozenAt)
	w.Uint(uint64(len(j.Ready)))
	for _, id := range j.Ready {
		w.Uint(uint64(id))
	}
}

func (r *decoder) join() *Join {
	j := &Join{Left: PartitionID(r.Uint()), Right: PartitionID(r.Uint()), Stage: JoinStage(r.Byte()), Frozen: r.Uint(),
		FrozenAt: r.Int()}
	if j.Stage > Merging {
		r.newer("a merge of the map", "stage", uint64(j.Stage), uint64(Merging))
	}
	for range r.Count(1) {
		j.Ready = append(j.Ready, ReplicaID(r.Uint()))
	}
	return j
}

// validateJoin validates the merge of partition i of a table: the neighbor must have the same merge.
func (s *Snapshot) validateJoin(ps []*Partition, i int) error {
	p := ps[i]
	j := p.Join
	if j == nil {
		return nil
	}
	other := i + 1
	if j.Right == p.ID {
		other = i - 1
	}
	switch {
	case j.Left != p.ID && j.Right != p.ID, other < 0, other >= len(ps), ps[other].Join == nil,
		ps[other].Join.Left != j.Left, ps[other].Join.Right != j.Right, ps[other].Join.Stage != j.Stage,
		ps[other].Join.Frozen != j.Frozen, !slices.Equal(ps[other].Join.Ready, j.Ready):
		return fmt.Errorf("partition %d is being merged, %+v, but its neighbor is not", p.ID, *j)
	case p.Cut != nil || !p.AtRest():
		return fmt.Errorf("partition %d is being merged, and split or its replicas changed", p.ID)
	}
	l, r := p, ps[other]
	if other < i {
		l, r = r, l
	}
	if cmp.Or(cmp.Compare(l.ID, j.Left), cmp.Compare(r.ID, j.Right)) != 0 || !Beside(l, r) ||
		(j.Stage == Merging) != (j.Stage != Thawing && j.allReady(r) && j.Frozen != 0) {
		return fmt.Errorf("partitions %d and %d cannot be merged in this way: %+v", l.ID, r.ID, *j)
	}
	return nil
}
