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

// The bounds of merges that happen by themselves.
const (
	// aloneAtOnce bounds those that are under way, replicas that are being brought together included: operators have
	// the rest of AtOnce.
	aloneAtOnce = 2
	// afterSplit is for how many times Rules.For what has split is left alone. A load that comes and goes in less than
	// that has its partitions split once.
	afterSplit = 12
)

// Rules are what merges by themselves go by.
type Rules struct {
	// Cap is how many bytes a partition of a table may have on disk; 0 for a table that is left alone.
	Cap func(table uint32) uint64
	// Limit is the load above which a partition is split, in request units a second; 0 if none is split by load.
	Limit float64
	// For is how long two neighbours must have been quiet to be merged, and a twelfth of how long they are left alone
	// after a split; 0 if none is merged.
	For time.Duration
	// Well reports whether a node answers; nil if all do.
	Well func(node topology.NodeID) bool
}

// Able says, for a state, whether a partition could ever be merged by rules with its left neighbour: the boundary
// between them came of a split. What a table was made with stays, as many partitions, and as they lie on the ring of
// nodes, unless it has a throughput for which it would be made with fewer now (MG4).
func Able(s *meta.State) func(right *topology.Partition) bool { return able(spareOf(s)) }

func able(tables map[uint32]*spare) func(right *topology.Partition) bool {
	return func(right *topology.Partition) bool {
		if n := tables[right.Table]; n != nil {
			return n.of(right) > 0
		}
		return right.Parent != 0
	}
}

// Choose returns the merges that are to be ordered now, by what the leaders have measured of quiet partitions (MG4).
func (r *Rules) Choose(s *meta.State, quiet []Quiet, now time.Time) (orders []Order) {
	room := min(aloneAtOnce, AtOnce) - UnderWay(s.Map) - gathering(s, now)
	if r.For <= 0 || room <= 0 {
		return nil
	}
	known := map[topology.PartitionID]*Quiet{}
	for i := range quiet {
		q := &quiet[i]
		if was := known[q.Partition]; was != nil { // two nodes that both take themselves for the leader
			q = worse(was, q)
		}
		known[q.Partition] = q
	}
	tables := spareOf(s)
	pairs := r.pairs(s, known, now, able(tables))
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(compareBool(a.apart, b.apart), compareBool(b.siblings, a.siblings), cmp.Compare(a.bytes, b.bytes),
			cmp.Compare(a.right.ID, b.right.ID))
	})
	taken := map[topology.PartitionID]bool{}
	for i := range pairs {
		p := &pairs[i]
		table := p.left.Table
		if len(orders) == room {
			break
		}
		n := tables[table]
		if taken[p.left.ID] || taken[p.right.ID] || n != nil && n.of(p.right) <= 0 {
			continue
		}
		taken[p.left.ID], taken[p.right.ID] = true, true
		if n != nil {
			n.split--
			n.made--
		}
		orders = append(orders, p.order)
	}
	return orders
}

// pair are two neighbours that may be merged.
type pair struct {
	left, right *topology.Partition
	bytes       uint64
	// apart says that they are on different nodes, siblings that what they become was one partition before.
	apart, siblings bool
	order           Order
}

// siblings says of neighbours whether one split has made both, and neither has split since: then clients that know how
// the ring was cut before are right about what they become.
func siblings(s *meta.State) func(left, right *topology.Partition) bool {
	tables := map[uint32]map[topology.PartitionID]topology.PartitionID{}
	return func(left, right *topology.Partition) bool {
		last := tables[right.Table] // the youngest child of each partition
		if last == nil {
			last = map[topology.PartitionID]topology.PartitionID{}
			for _, p := range s.Map.Partitions(right.Table) {
				last[p.Parent] = max(last[p.Parent], p.ID)
			}
			tables[right.Table] = last
		}
		return right.Parent == left.ID && last[left.ID] == right.ID && last[right.ID] == 0
	}
}

// pairs are all neighbours that may be merged.
func (r *Rules) pairs(s *meta.State, known map[topology.PartitionID]*Quiet, now time.Time,
	able func(right *topology.Partition) bool) (pairs []pair) {
	rests, made := r.rests(s, now), siblings(s)
	free := func(p *topology.Partition) *Quiet {
		q := known[p.ID]
		if q == nil || q.Epoch != p.Epoch || min(q.Small, q.Idle) < r.For || p.Cut != nil || p.Join != nil ||
			p.Wish.Open(now) || !p.AtRest() || rests(p) || !r.well(p) {
			return nil
		}
		return q
	}
	for id := range known {
		right := s.Map.Partition(id)
		if right == nil || id == topology.MetaPartition || !able(right) {
			continue
		}
		i := s.Map.Find(right.Table, right.Span.Begin)
		most := r.Cap(right.Table)
		if i == 0 || most == 0 {
			continue
		}
		left := s.Map.Partitions(right.Table)[i-1]
		a, b := free(left), free(right)
		if a == nil || b == nil || !alike(left, right) {
			continue
		}
		if small, idle := low(a.Bytes+b.Bytes, most, a.Load+b.Load, r.Limit); !small || !idle {
			continue
		}
		o := Order{Table: left.Table, First: left.ID, Second: right.ID, Cause: topology.BySize, Hasty: true,
			Stay: left.ID}
		if min(a.Idle, b.Idle) < min(a.Small, b.Small) {
			o.Cause = topology.ByLoad // that is what it has waited for
		}
		if b.Bytes > a.Bytes {
			o.Stay = right.ID
		}
		pairs = append(pairs, pair{left, right, a.Bytes + b.Bytes, !placement.Together(left, right),
			made(left, right), o})
	}
	return pairs
}

// rests says which partitions are left alone because of what happened to them lately.
func (r *Rules) rests(s *meta.State, now time.Time) func(p *topology.Partition) bool {
	long := afterSplit * r.For
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
		return ago < r.For || ago < long && (split[p.ID] || forgotten)
	}
}

// well reports whether all nodes with a replica of a partition answer.
func (r *Rules) well(p *topology.Partition) bool {
	for i := range p.Sets {
		for _, m := range p.Sets[i].Replicas {
			if r.Well != nil && !r.Well(m.Node) {
				return false
			}
		}
	}
	return true
}

// alike reports whether two partitions have as many replicas of each kind as each other: then they can be brought
// together.
func alike(l, r *topology.Partition) bool {
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

// gathering counts the neighbours that are being brought together.
func gathering(s *meta.State, now time.Time) (n int) {
	for p := range s.Map.InMotion() {
		if p.Join == nil && p.Wish.Open(now) && p.Wish.With != 0 && p.ID < p.Wish.With {
			n++
		}
	}
	return n
}

// spare is how many partitions fewer a table with a throughput may have, or those that share one have together: of
// those that came of splits, and of those that they were made with.
type spare struct{ split, made int }

func (n *spare) of(right *topology.Partition) int {
	if right.Parent == 0 {
		return n.made
	}
	return n.split
}

func spareOf(s *meta.State) map[uint32]*spare {
	out := map[uint32]*spare{}
	for _, need := range throughput.Needs(s) {
		n := &spare{-need.Least, -need.First}
		for _, t := range need.Tables {
			left := remaining(s.Map, t)
			n.split, n.made, out[t] = n.split+left, n.made+left, n
		}
	}
	return out
}

// remaining counts the partitions that a table has when all merges are over.
func remaining(m *topology.Snapshot, table uint32) int {
	n := len(m.Partitions(table))
	for p := range m.InMotion() {
		if p.Table == table && (p.Join != nil && p.Join.Left == p.ID || p.Join == nil && p.Wish != nil &&
			p.ID < p.Wish.With) {
			n--
		}
	}
	return n
}

// worse joins what two nodes say of the same partition.
func worse(a, b *Quiet) *Quiet {
	if a.Epoch != b.Epoch {
		return &Quiet{Partition: a.Partition}
	}
	return &Quiet{Partition: a.Partition, Epoch: a.Epoch, Bytes: max(a.Bytes, b.Bytes),
		Load: a.Load + b.Load, Small: min(a.Small, b.Small), Idle: min(a.Idle, b.Idle)}
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
