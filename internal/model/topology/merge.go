// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
)

// PendingMerge is a recorded merge of two neighbors that has not ended. In the merge, Left takes over the span of
// Right. The records of both partitions contain the merge. The members and spans of the partitions do not change until
// the merge has ended.
type PendingMerge struct {
	Left, Right PartitionID
	Stage       MergeStage
	// Frozen is the index of the last entry that the log of Right accepts, or 0 while no replica has reported it. Ready
	// lists the replicas of Right that have stored the log up to that entry on disk. The replicas of Left on the same
	// nodes must have the epoch that the topology specifies.
	Frozen uint64
	Ready  []ReplicaID
	// FrozenAt is the time of the first report in milliseconds since 1970, or 0 if no replica has reported.
	FrozenAt int64
}

// MergeStage is the progress of a merge. Each transition is a compare-and-set of the topology, so a merge is either
// completed or canceled.
type MergeStage uint8

// These are the stages of a merge. A merge in stage Freezing can be canceled. A canceled merge is in stage Unfreezing.
// A merge is in stage Merging when all replicas of the right partition are ready. From then on, only DROP TABLE can
// prevent its completion.
const (
	Freezing MergeStage = iota
	Unfreezing
	Merging
)

// String returns the name of the stage in lower case.
func (s MergeStage) String() string {
	if int(s) < len(mergeStages) {
		return mergeStages[s]
	}
	return fmt.Sprintf("stage %d", uint8(s))
}

var mergeStages = [...]string{"freezing", "thawing", "merging"}

// pendingChange returns an error if the members and the span of a partition must not change.
func (p *Partition) pendingChange() error {
	switch {
	case p.Split != nil:
		return fmt.Errorf("partition %d is being split: its replicas cannot change", p.ID)
	case p.Merge != nil:
		return fmt.Errorf("partitions %d and %d are being merged: their replicas cannot change", p.Merge.Left,
			p.Merge.Right)
	}
	return nil
}

// BeginMerge records the merge of a partition with its right neighbor. The members of both partitions must be on the
// same nodes and must not be changing.
func (s *Snapshot) BeginMerge(left, right PartitionID, cause Cause, now time.Time) (*Snapshot, error) {
	l, r := s.Partition(left), s.Partition(right)
	switch {
	case l == nil:
		return nil, fmt.Errorf("partition %d does not exist", left)
	case r == nil:
		return nil, fmt.Errorf("partition %d does not exist", right)
	case !adjacent(l, r):
		return nil, fmt.Errorf("partition %d does not end where partition %d begins", left, right)
	}
	for _, p := range []*Partition{l, r} {
		if err := p.pendingChange(); err != nil {
			return nil, err
		}
		if !p.AtRest() {
			return nil, fmt.Errorf("the replicas of partition %d are changing", p.ID)
		}
	}
	if !Colocated(l, r) {
		return nil, fmt.Errorf("partitions %d and %d have replicas on different nodes", left, right)
	}
	out := withMerge(s, l, &PendingMerge{Left: left, Right: right})
	reason := NewReason(cause, now)
	out.Partition(left).Reason, out.Partition(right).Reason = reason, reason
	return out, nil
}

func adjacent(l, r *Partition) bool {
	return l.Table == r.Table && !l.Span.Limit.IsZero() && l.Span.Limit.Compare(r.Span.Begin) == 0
}

// Colocated reports whether two partitions have replicas of the same kinds on the same nodes.
func Colocated(l, r *Partition) bool {
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

// withMerge returns a topology in which the merge of a partition and its right neighbor is j.
func withMerge(s *Snapshot, l *Partition, j *PendingMerge) *Snapshot {
	out := s.next()
	i := find(s.Partitions(l.Table), l.Span.Begin)
	left, right := *l, *s.Partitions(l.Table)[i+1]
	left.Merge, right.Merge = j, j
	out.replace(l.Table, i, i+2, &left, &right)
	return out.Snapshot
}

// merging returns the two partitions of a merge, given one of them.
func merging(s *Snapshot, id PartitionID) (l, r *Partition, err error) {
	p := s.Partition(id)
	if p == nil || p.Merge == nil {
		return nil, nil, fmt.Errorf("partition %d has no pending merge", id)
	}
	return s.Partition(p.Merge.Left), s.Partition(p.Merge.Right), nil
}

// MergeReady records that a replica of the right partition is frozen at a log index. When the last replica is ready,
// the merge can no longer be canceled. If nothing changes, MergeReady returns s itself.
func (s *Snapshot) MergeReady(right PartitionID, replica ReplicaID, frozen uint64, now time.Time) (*Snapshot,
	error) {
	l, r, err := merging(s, right)
	if err != nil {
		return nil, err
	}
	j := *r.Merge
	switch {
	case j.Right != right || j.Frozen != 0 && j.Frozen != frozen:
		return nil, fmt.Errorf("partition %d is frozen at %d, but the topology has %+v", right, frozen, j)
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
	return withMerge(s, l, &j), nil
}

// allReady reports whether all members of the right partition are ready.
func (j *PendingMerge) allReady(r *Partition) bool {
	for i := range r.Sets {
		for _, m := range r.Sets[i].Replicas {
			if !slices.Contains(j.Ready, m.ID) {
				return false
			}
		}
	}
	return true
}

// CancelMerge cancels a merge if the merge can still be canceled. Otherwise, it returns s itself.
func (s *Snapshot) CancelMerge(id PartitionID) (*Snapshot, error) {
	l, _, err := merging(s, id)
	if err != nil {
		return nil, err
	}
	if l.Merge.Stage != Freezing {
		return s, nil
	}
	j := *l.Merge
	j.Stage = Unfreezing
	return withMerge(s, l, &j), nil
}

// EndMergeCancel ends a canceled merge once the right partition's log has the next epoch.
func (s *Snapshot) EndMergeCancel(id PartitionID, now time.Time) (*Snapshot, error) {
	l, r, err := merging(s, id)
	if err != nil {
		return nil, err
	}
	if l.Merge.Stage != Unfreezing {
		return nil, fmt.Errorf("the merge of partitions %d and %d is in stage %s", l.ID, r.ID, l.Merge.Stage)
	}
	out := s.next()
	left, right := *l, *r
	left.Merge, right.Merge, left.Reason, right.Reason = nil, nil, nil, nil
	left.Pin, right.Pin = l.Pin.withoutMerge(), r.Pin.withoutMerge()
	left.Since, right.Since = now.UnixMilli(), now.UnixMilli()
	right.Epoch++
	i := find(s.Partitions(l.Table), l.Span.Begin)
	out.replace(l.Table, i, i+2, &left, &right)
	return out.Snapshot, nil
}

// EndMerge completes a merge that is in the left partition's log. The left partition gets the spans of both
// partitions. Its new epoch is one higher than the higher of their epochs.
func (s *Snapshot) EndMerge(left PartitionID, now time.Time) (*Snapshot, error) {
	l, r, err := merging(s, left)
	if err != nil {
		return nil, err
	}
	if l.ID != left || l.Merge.Stage != Merging {
		return nil, fmt.Errorf("the merge of partitions %d and %d is in stage %s", l.ID, r.ID, l.Merge.Stage)
	}
	out := s.next()
	merged := *l
	merged.Merge, merged.Reason = nil, nil
	merged.Span.Limit = r.Span.Limit
	merged.Epoch = max(l.Epoch, r.Epoch) + 1
	merged.Since, merged.Pin = now.UnixMilli(), nil
	i := find(s.Partitions(l.Table), l.Span.Begin)
	out.replace(l.Table, i, i+2, &merged)
	return out.Snapshot, nil
}

func appendMerge(w *codec.Writer, j *PendingMerge) {
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

func (r *decoder) merge() *PendingMerge {
	j := &PendingMerge{Left: PartitionID(r.Uint()), Right: PartitionID(r.Uint()), Stage: MergeStage(r.Byte()),
		Frozen:   r.Uint(),
		FrozenAt: r.Int()}
	if j.Stage > Merging {
		r.newer("a merge of the topology", "stage", uint64(j.Stage), uint64(Merging))
	}
	for range r.Count(1) {
		j.Ready = append(j.Ready, ReplicaID(r.Uint()))
	}
	return j
}
