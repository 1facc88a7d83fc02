// SPDX-License-Identifier: Apache-2.0

// Package merge decides which physical partitions may be merged now, as a pure function of the cluster metadata.
//
// Guarantees:
//
//   - (MG1) The partitions of a table always cover the ring without gaps or overlaps.
//   - (MG2) After a change of its span, a partition is not merged during split.Cooldown, unless the request has
//     SkipCooldown. Automatic merges also wait for Rules.IdlePeriod.
//   - (MG3) The number of merges in progress in a cluster does not exceed MaxConcurrent.
//   - (MG4) Partitions are merged automatically only if the result is far below the limits at which it would be split.
//     A table keeps at least its initial number of partitions or the initial number for its current throughput.
//
// Package reconcile executes the merges. Start reading at Request.Apply, or at Rules.Choose for automatic merges.
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

// These are the limits of merges.
const (
	// MaxConcurrent is the maximum number of merges in progress in a cluster. During a merge, one partition is briefly
	// unavailable.
	MaxConcurrent = 4
	// MinFeatureLevel is the feature level that merges require.
	MinFeatureLevel feature.Level = 2
	// ColocateTimeout is the maximum time for moving replicas to the same nodes before a merge.
	ColocateTimeout = time.Hour
)

// Request is a request to merge two neighbors, in any order.
type Request struct {
	Table         uint32
	First, Second topology.PartitionID
	Cause         topology.Cause
	// Level is the feature level of a standalone node, whose topology has no feature level.
	Level feature.Level
	// SkipCooldown makes the merge ignore split.Cooldown.
	SkipCooldown bool
	// KeepPlacement is the partition whose replicas remain on their nodes if the two partitions must be colocated. The
	// default is the left partition.
	KeepPlacement topology.PartitionID
}

// Neighbors returns the two partitions in ring order, or an error if the partitions cannot be merged.
func (o *Request) Neighbors(s *meta.State) (left, right *topology.Partition, err error) {
	for _, id := range []topology.PartitionID{o.First, o.Second} {
		if p := s.Topology.Partition(id); p == nil || p.Table != o.Table || p.ID == topology.MetaPartition {
			return nil, nil, fmt.Errorf("the table has no partition %d. Run \"ilion partition list\" to list its partitions", id)
		}
	}
	left, right = s.Topology.Partition(o.First), s.Topology.Partition(o.Second)
	if right.Span.Begin.Compare(left.Span.Begin) < 0 {
		left, right = right, left
	}
	if left == right || left.Span.Limit.IsZero() || left.Span.Limit.Compare(right.Span.Begin) != 0 {
		return nil, nil, fmt.Errorf("partitions %d and %d are not adjacent: one must begin where the other ends",
			o.First, o.Second)
	}
	return left, right, nil
}

// Apply returns the state with the merge recorded, or an error if the partitions cannot be merged. If the replicas are
// on different nodes, Apply records a colocation instead, and colocating is true. ColocatedRequests then returns the
// merge request.
func (o *Request) Apply(s *meta.State, now time.Time) (next *meta.State, colocating bool, err error) {
	l, r, err := o.Neighbors(s)
	if err != nil {
		return nil, false, err
	}
	switch level := max(o.Level, s.Topology.Level()); {
	case level < MinFeatureLevel:
		return nil, false, fmt.Errorf("cannot merge partitions: the feature level is %d, and merges require %d. "+
			"Run \"ilion upgrade\" when all nodes run this version", level, MinFeatureLevel)
	case l.Merge != nil && l.Merge == r.Merge || l.Merge != nil && r.Merge != nil && *pairOf(l) == *pairOf(r):
		return s, false, nil // the merge has already been requested
	case InProgress(s.Topology) >= MaxConcurrent:
		return nil, false, fmt.Errorf("cannot merge partitions: the limit of %d concurrent merges is reached. "+
			"Retry when a merge has finished",
			MaxConcurrent)
	}
	for _, p := range []*topology.Partition{l, r} {
		if wait := split.CooldownRemaining(p, now); wait > 0 && !o.SkipCooldown {
			return nil, false, fmt.Errorf("cannot merge partition %d: it changed less than a minute ago. Retry in %v or use --now",
				p.ID, wait.Round(time.Second))
		}
	}
	if l.Split == nil && r.Split == nil && l.Merge == nil && r.Merge == nil && l.AtRest() && !placement.Colocated(l,
		r) {
		if isColocating(l, r, now) {
			return s, true, nil // the colocation has already been requested
		}
		stay, other := l.ID, r.ID
		if o.KeepPlacement == r.ID {
			stay, other = other, stay
		}
		m, err := placement.Colocate(s.Topology, stay, other, o.Cause, now.Add(ColocateTimeout))
		if err != nil {
			return nil, false, err
		}
		return s.WithTopology(m), true, nil
	}
	m, err := s.Topology.BeginMerge(l.ID, r.ID, o.Cause, now)
	if err != nil {
		return nil, false, err
	}
	return s.WithTopology(m), false, nil
}

// isColocating reports whether the replicas of two neighbors are already being colocated.
func isColocating(l, r *topology.Partition, now time.Time) bool {
	return l.Pin.Active(now) && r.Pin.Active(now) && l.Pin.MergeWith == r.ID && r.Pin.MergeWith == l.ID
}

// ColocatedRequests returns the merge requests of neighbors whose replicas have been colocated.
func ColocatedRequests(s *meta.State, now time.Time) (requests []Request) {
	for l := range s.Topology.InMotion() {
		if l.Pin == nil || l.Pin.MergeWith == 0 || l.Merge != nil || l.Split != nil {
			continue
		}
		o := Request{Table: l.Table, First: l.ID, Second: l.Pin.MergeWith, Cause: l.Pin.Cause, SkipCooldown: true}
		left, right, err := o.Neighbors(s)
		if err == nil && left == l && isColocating(l, right, now) && placement.Colocated(l, right) {
			requests = append(requests, o)
		}
	}
	return requests
}

// pairOf returns the IDs of the two partitions of a merge.
func pairOf(p *topology.Partition) *[2]topology.PartitionID {
	return &[2]topology.PartitionID{p.Merge.Left, p.Merge.Right}
}

// InProgress returns the number of merges in progress.
func InProgress(m *topology.Snapshot) (n int) {
	for p := range m.InMotion() {
		if p.Merge != nil && p.Merge.Left == p.ID {
			n++
		}
	}
	return n
}
