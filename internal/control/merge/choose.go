// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"cmp"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/control/throughput"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// These are the limits of automatic merges.
const (
	// automaticMax is the maximum number of automatic merges in progress, including colocations. The rest of
	// MaxConcurrent is reserved for operators.
	automaticMax = 2
	// splitCooldownFactor is the number of idle periods that must pass after a split before a partition is merged. If
	// the load returns during this time, it causes only one split.
	splitCooldownFactor = 12
)

// Rules defines when partitions are merged automatically.
type Rules struct {
	// Limits returns the maximum size of a table's partitions in bytes, or 0 if the table is never merged.
	Limits interface {
		MergeSizeLimit(table uint32) uint64
	}
	// LoadLimit is the load, in request units per second, above which a partition is split. If it is 0, splits by load
	// are disabled.
	LoadLimit float64
	// IdlePeriod is the time for which two neighbors must be idle before they are merged. After a split, the partitions
	// are not merged for splitCooldownFactor idle periods. If IdlePeriod is 0, merges are disabled.
	IdlePeriod time.Duration
	// Nodes reports whether a node is alive. It is nil on a standalone node.
	Nodes interface {
		Alive(node topology.NodeID) bool
	}
}

// CanMerge returns a function that reports whether a partition can ever be merged with its left neighbor. It can be
// merged if a split has created the boundary between both partitions. Initial partitions remain separate unless the
// current throughput of the table requires fewer initial partitions (MG4).
func CanMerge(s *meta.State) func(right *topology.Partition) bool { return canMerge(surplusOf(s)) }

func canMerge(tables map[uint32]*surplus) func(right *topology.Partition) bool {
	return func(right *topology.Partition) bool {
		if n := tables[right.Table]; n != nil {
			return n.of(right) > 0
		}
		return right.Parent != 0
	}
}

// Choose returns the merges to request now (MG4). reported contains the candidates that the leaders have reported.
func (r *Rules) Choose(s *meta.State, reported []Candidate, now time.Time) (requests []Request) {
	slots := min(automaticMax, MaxConcurrent) - InProgress(s.Topology) - countColocating(s, now)
	if r.IdlePeriod <= 0 || slots <= 0 {
		return nil
	}
	candidates := map[topology.PartitionID]*Candidate{}
	for i := range reported {
		q := &reported[i]
		if was := candidates[q.Partition]; was != nil { // two nodes have reported the partition as the leader
			q = combine(was, q)
		}
		candidates[q.Partition] = q
	}
	tables := surplusOf(s)
	pairs := r.pairs(s, candidates, now, canMerge(tables))
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(compareBool(a.needsMove, b.needsMove), compareBool(b.siblings, a.siblings), cmp.Compare(a.bytes,
			b.bytes),
			cmp.Compare(a.right.ID, b.right.ID))
	})
	taken := map[topology.PartitionID]bool{}
	for i := range pairs {
		p := &pairs[i]
		table := p.left.Table
		if len(requests) == slots {
			break
		}
		n := tables[table]
		if taken[p.left.ID] || taken[p.right.ID] || n != nil && n.of(p.right) <= 0 {
			continue
		}
		taken[p.left.ID], taken[p.right.ID] = true, true
		if n != nil {
			n.split--
			n.initial--
		}
		requests = append(requests, p.request)
	}
	return requests
}

// pair holds two neighbors that may be merged.
type pair struct {
	left, right *topology.Partition
	bytes       uint64
	// needsMove reports whether the replicas of both partitions are on different nodes. siblings reports whether one
	// split has created both partitions.
	needsMove, siblings bool
	request             Request
}

// fromSameSplit returns a function that reports whether one split has created both neighbors and neither neighbor has
// been split again. Clients with an outdated topology then know the merged partition.
func fromSameSplit(s *meta.State) func(left, right *topology.Partition) bool {
	tables := map[uint32]map[topology.PartitionID]topology.PartitionID{}
	return func(left, right *topology.Partition) bool {
		last := tables[right.Table] // most recent child of each partition
		if last == nil {
			last = map[topology.PartitionID]topology.PartitionID{}
			for _, p := range s.Topology.Partitions(right.Table) {
				last[p.Parent] = max(last[p.Parent], p.ID)
			}
			tables[right.Table] = last
		}
		return right.Parent == left.ID && last[left.ID] == right.ID && last[right.ID] == 0
	}
}

// pairs returns all neighbors that may be merged.
func (r *Rules) pairs(s *meta.State, candidates map[topology.PartitionID]*Candidate, now time.Time,
	canMerge func(right *topology.Partition) bool) (pairs []pair) {
	coolingDown, fromSameSplit := r.coolingDown(s, now), fromSameSplit(s)
	eligible := func(p *topology.Partition) *Candidate {
		q := candidates[p.ID]
		if q == nil || q.Epoch != p.Epoch || min(q.SmallFor, q.IdleFor) < r.IdlePeriod || p.Split != nil ||
			p.Merge != nil ||
			p.Pin.Active(now) || !p.AtRest() || coolingDown(p) || !r.healthy(p) {
			return nil
		}
		return q
	}
	for id := range candidates {
		right := s.Topology.Partition(id)
		if right == nil || id == topology.MetaPartition || !canMerge(right) {
			continue
		}
		i := s.Topology.Find(right.Table, right.Span.Begin)
		sizeLimit := r.Limits.MergeSizeLimit(right.Table)
		if i == 0 || sizeLimit == 0 {
			continue
		}
		left := s.Topology.Partitions(right.Table)[i-1]
		a, b := eligible(left), eligible(right)
		if a == nil || b == nil || !sameReplicaCounts(left, right) {
			continue
		}
		if small, idle := belowThresholds(a.Bytes+b.Bytes, sizeLimit, a.Load+b.Load, r.LoadLimit); !small || !idle {
			continue
		}
		o := Request{Table: left.Table, First: left.ID, Second: right.ID, Cause: topology.BySize, SkipCooldown: true,
			KeepPlacement: left.ID}
		if min(a.IdleFor, b.IdleFor) < min(a.SmallFor, b.SmallFor) {
			o.Cause = topology.ByLoad // the load became low after the size
		}
		if b.Bytes > a.Bytes {
			o.KeepPlacement = right.ID
		}
		pairs = append(pairs, pair{left, right, a.Bytes + b.Bytes, !placement.Colocated(left, right),
			fromSameSplit(left, right), o})
	}
	return pairs
}

// coolingDown returns a function that reports whether the last change of a partition is too recent for a merge.
func (r *Rules) coolingDown(s *meta.State, now time.Time) func(p *topology.Partition) bool {
	long := splitCooldownFactor * r.IdlePeriod
	split := map[topology.PartitionID]bool{}
	forgotten := len(s.History) == meta.EventsKept
	for _, e := range slices.Backward(s.History) {
		if ago := now.Sub(time.UnixMilli(e.Ended)); ago >= long {
			forgotten = false
			break
		}
		if e.Kind == meta.Split {
			split[e.Partition], split[e.Other] = true, true
		}
	}
	return func(p *topology.Partition) bool {
		if p.Since == 0 {
			return false
		}
		ago := now.Sub(time.UnixMilli(p.Since))
		return ago < r.IdlePeriod || ago < long && (split[p.ID] || forgotten)
	}
}

// healthy reports whether all nodes with a replica of a partition are alive.
func (r *Rules) healthy(p *topology.Partition) bool {
	for i := range p.Sets {
		for _, m := range p.Sets[i].Replicas {
			if r.Nodes != nil && !r.Nodes.Alive(m.Node) {
				return false
			}
		}
	}
	return true
}

// sameReplicaCounts reports whether two partitions have the same number of replicas of each kind, which colocation
// requires.
func sameReplicaCounts(l, r *topology.Partition) bool {
	if len(l.Sets) != len(r.Sets) {
		return false
	}
	for i := range l.Sets {
		set := r.Set(l.Sets[i].Region)
		if set == nil || set.Count(topology.Voter) != l.Sets[i].Count(topology.Voter) ||
			len(set.Replicas) != len(l.Sets[i].Replicas) {
			return false
		}
	}
	return true
}

// countColocating returns the number of pairs whose replicas are being colocated.
func countColocating(s *meta.State, now time.Time) (n int) {
	for p := range s.Topology.InMotion() {
		if p.Merge == nil && p.Pin.Active(now) && p.Pin.MergeWith != 0 && p.ID < p.Pin.MergeWith {
			n++
		}
	}
	return n
}

// surplus is the number of partitions that tables with a throughput can lose. split counts partitions that were created
// by splits, and initial counts initial partitions. Tables that share a throughput share a surplus.
type surplus struct{ split, initial int }

func (n *surplus) of(right *topology.Partition) int {
	if right.Parent == 0 {
		return n.initial
	}
	return n.split
}

func surplusOf(s *meta.State) map[uint32]*surplus {
	out := map[uint32]*surplus{}
	for _, need := range throughput.Requirements(s) {
		n := &surplus{-need.MinPartitions, -need.InitialPartitions}
		for _, t := range need.Tables {
			left := remaining(s.Topology, t)
			n.split, n.initial, out[t] = n.split+left, n.initial+left, n
		}
	}
	return out
}

// remaining returns the number of partitions that a table will have when all merges in progress have finished.
func remaining(m *topology.Snapshot, table uint32) int {
	n := len(m.Partitions(table))
	for p := range m.InMotion() {
		if p.Table == table && (p.Merge != nil && p.Merge.Left == p.ID || p.Merge == nil && p.Pin != nil &&
			p.ID < p.Pin.MergeWith) {
			n--
		}
	}
	return n
}

// combine merges the reports of two nodes about the same partition. It uses the less idle values.
func combine(a, b *Candidate) *Candidate {
	if a.Epoch != b.Epoch {
		return &Candidate{Partition: a.Partition}
	}
	return &Candidate{Partition: a.Partition, Epoch: a.Epoch, Bytes: max(a.Bytes, b.Bytes),
		Load: a.Load + b.Load, SmallFor: min(a.SmallFor, b.SmallFor), IdleFor: min(a.IdleFor, b.IdleFor)}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
