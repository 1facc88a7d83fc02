// SPDX-License-Identifier: Apache-2.0

// Package merge says which physical partitions may be merged now, as a pure function of the records.
//
// Guarantees: (MG1) the partitions of a table tile its ring at every moment; (MG2) what has changed its span is left
// alone for split.Pause, unless an operator is in a hurry, and for Rules.For and longer where merges happen by
// themselves; (MG3) at most AtOnce merges are under way in a cluster; (MG4) what merges by itself is far below what
// would split it again, and no table has fewer partitions for it than it was made with,
// or would be for the throughput that it has now. The package carries nothing out
// (that is control/reconcile). Start at Order.Apply, and at Rules.Choose for merges that nobody ordered.
package merge

import (
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// The bounds.
const (
	// AtOnce bounds the merges of a cluster that are under way: each of them has a partition that answers nothing for a
	// moment.
	AtOnce = 4
	// Level is the feature level from which on partitions merge.
	Level feature.Level = 2
	// GatherFor is how long replicas may take to come to the same nodes, so that their partitions can be merged.
	GatherFor = time.Hour
)

// Order has two neighbours merge. It does not matter which of them is named first.
type Order struct {
	Table         uint32
	First, Second topology.PartitionID
	Cause         topology.Cause
	// Level is that of the node where it stands alone, and has no map with one.
	Level feature.Level
	// Hasty does not wait for split.Pause to end.
	Hasty bool
	// Stay is the partition whose replicas stay where they are if the two have to be brought together; 0 is the left
	// one.
	Stay topology.PartitionID
}

// Neighbours returns the two partitions in the order of the ring, or says why they cannot be merged.
func (o *Order) Neighbours(s *meta.State) (left, right *topology.Partition, err error) {
	for _, id := range []topology.PartitionID{o.First, o.Second} {
		if p := s.Map.Partition(id); p == nil || p.Table != o.Table || p.ID == topology.MetaPartition {
			return nil, nil, fmt.Errorf("the table has no partition %d: see ilion partition list", id)
		}
	}
	left, right = s.Map.Partition(o.First), s.Map.Partition(o.Second)
	if right.Span.Begin.Compare(left.Span.Begin) < 0 {
		left, right = right, left
	}
	if left == right || left.Span.Limit.IsZero() || left.Span.Limit.Compare(right.Span.Begin) != 0 {
		return nil, nil, fmt.Errorf("partitions %d and %d are no neighbours: one has to begin where the other ends",
			o.First, o.Second)
	}
	return left, right, nil
}

// Apply returns the state in which the merge is ordered, or says why it cannot be. Partitions on different nodes are
// brought together first: gathering says that this is what was ordered. Gathered has the order that follows.
func (o *Order) Apply(s *meta.State, now time.Time) (next *meta.State, gathering bool, err error) {
	l, r, err := o.Neighbours(s)
	if err != nil {
		return nil, false, err
	}
	switch level := max(o.Level, s.Map.Level()); {
	case level < Level:
		return nil, false, fmt.Errorf("the feature level is %d and partitions merge from %d on: "+
			"order ilion upgrade when all nodes run this build", level, Level)
	case l.Join != nil && l.Join == r.Join || l.Join != nil && r.Join != nil && *pairOf(l) == *pairOf(r):
		return s, false, nil // it was ordered before
	case UnderWay(s.Map) >= AtOnce:
		return nil, false, fmt.Errorf("%d merges are under way, and no more are at a time: try again when one is done",
			AtOnce)
	}
	for _, p := range []*topology.Partition{l, r} {
		if wait := split.Rests(p, now); wait > 0 && !o.Hasty {
			return nil, false, fmt.Errorf("partition %d has changed just now and is left alone for %v: wait, or say --now",
				p.ID, wait.Round(time.Second))
		}
	}
	if l.Cut == nil && r.Cut == nil && l.Join == nil && r.Join == nil && l.AtRest() && !placement.Together(l, r) {
		if gathers(l, r, now) {
			return s, true, nil // it was ordered before
		}
		stay, other := l.ID, r.ID
		if o.Stay == r.ID {
			stay, other = other, stay
		}
		m, err := placement.Gather(s.Map, stay, other, o.Cause, now.Add(GatherFor))
		if err != nil {
			return nil, false, err
		}
		return s.WithMap(m), true, nil
	}
	m, err := s.Map.BeginJoin(l.ID, r.ID, o.Cause, now)
	if err != nil {
		return nil, false, err
	}
	return s.WithMap(m), false, nil
}

// gathers reports whether two neighbours are being brought together already.
func gathers(l, r *topology.Partition, now time.Time) bool {
	return l.Wish.Open(now) && r.Wish.Open(now) && l.Wish.With == r.ID && r.Wish.With == l.ID
}

// Gathered are the orders that follow those of neighbours on different nodes, which are on the same ones by now.
func Gathered(s *meta.State, now time.Time) (orders []Order) {
	for l := range s.Map.InMotion() {
		if l.Wish == nil || l.Wish.With == 0 || l.Join != nil || l.Cut != nil {
			continue
		}
		o := Order{Table: l.Table, First: l.ID, Second: l.Wish.With, Cause: l.Wish.Cause, Hasty: true}
		left, right, err := o.Neighbours(s)
		if err == nil && left == l && gathers(l, right, now) && placement.Together(l, right) {
			orders = append(orders, o)
		}
	}
	return orders
}

// pairOf names the partitions of a merge.
func pairOf(p *topology.Partition) *[2]topology.PartitionID {
	return &[2]topology.PartitionID{p.Join.Left, p.Join.Right}
}

// UnderWay counts the merges of the map.
func UnderWay(m *topology.Snapshot) (n int) {
	for p := range m.InMotion() {
		if p.Join != nil && p.Join.Left == p.ID {
			n++
		}
	}
	return n
}
