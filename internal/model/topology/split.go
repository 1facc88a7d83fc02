// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
)

// PendingSplit is a recorded split that has not ended. The part of the partition that starts at At becomes the
// partition Child. Each node with a replica of the partition gets a replica of Child. The members of the partition do
// not change until the split has ended.
type PendingSplit struct {
	At    Position
	Child PartitionID
	// First is the ID of the child's first replica. The other replicas follow, in the order of the parent's replicas.
	First ReplicaID
	// Canceled reports whether the split has been canceled. The first of two entries in the partition's log determines
	// the outcome. One entry executes the split. The other entry raises the epoch, so the split is rejected.
	Canceled bool
}

// NextPartition is greater than the ID of every partition that the topology has ever contained. A partition with this
// ID or a higher ID belongs to a newer topology.
func (s *Snapshot) NextPartition() PartitionID { return s.nextPartition }

// BeginSplit records a split of a partition at a position inside its span. No member of the partition may be joining or
// leaving.
func (s *Snapshot) BeginSplit(id PartitionID, at Position, cause Cause, now time.Time) (*Snapshot, error) {
	p := s.byID.get(uint64(id))
	switch {
	case p == nil:
		return nil, fmt.Errorf("partition %d does not exist", id)
	case p.Split != nil:
		return nil, fmt.Errorf("partition %d is already being split", id)
	case p.Merge != nil:
		return nil, p.pendingChange()
	case at.Compare(p.Span.Begin) <= 0 || !p.Span.Limit.IsZero() && at.Compare(p.Span.Limit) >= 0:
		return nil, fmt.Errorf("partition %d holds %s and cannot be split at %s", id, p.Span, at)
	case len(s.Partitions(p.Table))+pendingSplits(s, p.Table) >= PartitionsMax:
		return nil, fmt.Errorf("table %d has %d partitions and cannot have more", p.Table, PartitionsMax)
	case !p.AtRest():
		return nil, fmt.Errorf("the replicas of partition %d are changing", id)
	}
	at.Key = bytes.Clone(at.Key)
	out := s.next()
	changed := *p
	changed.Split = &PendingSplit{At: at, Child: out.nextPartition, First: out.nextReplica}
	changed.Reason = NewReason(cause, now)
	out.nextPartition++
	for i := range p.Sets {
		out.nextReplica += ReplicaID(len(p.Sets[i].Replicas))
	}
	out.put(&changed)
	return out.Snapshot, nil
}

// pendingSplits returns the number of pending splits of a table.
func pendingSplits(s *Snapshot, table uint32) (n int) {
	for p := range s.InMotion() {
		if p.Split != nil && p.Table == table {
			n++
		}
	}
	return n
}

// AtRest reports whether no member of the partition is joining or leaving.
func (p *Partition) AtRest() bool {
	for i := range p.Sets {
		if p.Sets[i].Count(Joining)+p.Sets[i].Count(Leaving) > 0 {
			return false
		}
	}
	return true
}

// ChildSets returns the replica sets of the child of a pending split.
func (p *Partition) ChildSets() []ReplicaSet {
	id := p.Split.First
	out := make([]ReplicaSet, len(p.Sets))
	for i := range p.Sets {
		set := &p.Sets[i]
		out[i] = ReplicaSet{Region: set.Region, Replicas: slices.Clone(set.Replicas), rest: set.rest}
		for j := range out[i].Replicas {
			r := &out[i].Replicas[j]
			if r.ID == set.Leader {
				out[i].Leader = id
			}
			r.ID = id
			id++
		}
	}
	return out
}

// EndSplit applies a pending split to the topology once the partition's log contains it. The partition keeps the
// positions before the split point, and its child gets the remaining positions. Both partitions get the next epoch.
func (s *Snapshot) EndSplit(id PartitionID, now time.Time) (*Snapshot, error) {
	p := s.byID.get(uint64(id))
	if p == nil || p.Split == nil {
		return nil, fmt.Errorf("partition %d has no pending split", id)
	}
	out := s.next()
	left, right := *p, *p
	left.Split, right.Split, left.Reason, right.Reason = nil, nil, nil, nil
	left.Pin, right.Pin = p.Pin.withoutMerge(), p.Pin.withoutMerge()
	left.Span.Limit, right.Span.Begin = p.Split.At, p.Split.At
	left.Epoch++
	right.Epoch++
	left.Since, right.Since = now.UnixMilli(), now.UnixMilli()
	right.ID, right.Parent, right.Moves, right.Sets = p.Split.Child, p.ID, 0, p.ChildSets()
	i := find(s.Partitions(p.Table), p.Span.Begin)
	out.replace(p.Table, i, i+1, &left, &right)
	return out.Snapshot, nil
}

// CancelSplit requests the cancellation of a pending split. The split is canceled unless the partition's log already
// contains it. If the cancellation has already been requested, CancelSplit returns s itself.
func (s *Snapshot) CancelSplit(id PartitionID) (*Snapshot, error) {
	p := s.byID.get(uint64(id))
	switch {
	case p == nil || p.Split == nil:
		return nil, fmt.Errorf("partition %d has no pending split", id)
	case p.Split.Canceled:
		return s, nil
	}
	changed, cut := *p, *p.Split
	cut.Canceled = true
	changed.Split = &cut
	return with(s, &changed), nil
}

// EndSplitCancel ends a canceled split once the partition's log has reached the next epoch without a split. The IDs of
// the child are not reused.
func (s *Snapshot) EndSplitCancel(id PartitionID, now time.Time) (*Snapshot, error) {
	p := s.byID.get(uint64(id))
	if p == nil || p.Split == nil || !p.Split.Canceled {
		return nil, fmt.Errorf("partition %d has no canceled split", id)
	}
	whole := *p
	whole.Split, whole.Reason, whole.Pin = nil, nil, p.Pin.withoutMerge()
	whole.Epoch++
	whole.Since = now.UnixMilli()
	return with(s, &whole), nil
}

// These are the fields of a partition. The first two require feature level 2.
const (
	fieldSplit  = 1 // builds must understand this field, because members must not change during the split
	fieldParent = 2 // builds must understand this field, because the replicas are not created from the topology
	fieldSince  = 3
	fieldReason = 4
	fieldPin    = 5 // a build that does not know the field balances the partition
	fieldMerge  = 6 // builds must understand this field; requires feature level 2
	fieldLead   = 7 // a build that does not know the field chooses the leader by ring order
	// partitionFields is the highest field number that this build knows.
	partitionFields = fieldLead
)

func (p *Partition) appendFields(w *codec.Writer) {
	var v codec.Writer
	if c := p.Split; c != nil {
		appendPosition(&v, p.Table, c.At)
		v.Uint(uint64(c.Child))
		v.Uint(uint64(c.First))
		v.Flag(c.Canceled)
		w.Field(fieldSplit, true, v)
	}
	if p.Parent != 0 {
		v = v[:0]
		v.Uint(uint64(p.Parent))
		w.Field(fieldParent, true, v)
	}
	if p.Since != 0 {
		v = v[:0]
		v.Int(p.Since)
		w.Field(fieldSince, false, v)
	}
	if p.Reason != nil {
		v = v[:0]
		p.Reason.append(&v)
		w.Field(fieldReason, false, v)
	}
	if p.Pin != nil {
		v = v[:0]
		p.Pin.append(&v)
		w.Field(fieldPin, false, v)
	}
	if p.Merge != nil {
		v = v[:0]
		appendMerge(&v, p.Merge)
		w.Field(fieldMerge, true, v)
	}
	if p.Lead != (NodeID{}) {
		v = append(v[:0], p.Lead[:]...)
		w.Field(fieldLead, false, v)
	}
	w.Raw(p.rest)
	w.EndFields()
}

// partitionFields reads the output of appendFields. Fields from a later build are preserved.
func (r *decoder) partitionFields(p *Partition) {
	var rest codec.Writer
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		v := newDecoder(f.Value)
		switch f.Number {
		case fieldSplit:
			p.Split = &PendingSplit{At: v.position(p.Table), Child: PartitionID(v.Uint()), First: ReplicaID(v.Uint()),
				Canceled: v.Flag()}
		case fieldParent:
			p.Parent = PartitionID(v.Uint())
		case fieldSince:
			p.Since = v.Int()
		case fieldReason:
			p.Reason = v.reason()
		case fieldPin:
			p.Pin = v.pin()
		case fieldMerge:
			p.Merge = v.merge()
		case fieldLead:
			copy(p.Lead[:], v.Take(uint64(len(p.Lead))))
		default:
			if f.Must {
				r.newer("a partition of the topology", "field", f.Number, partitionFields)
			}
			rest.Field(f.Number, false, f.Value)
			continue
		}
		if v.end() != nil {
			r.refused = cmp.Or(r.refused, v.refused)
			r.Fail()
		}
	}
	p.rest = rest
}
