// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// balancer moves replicas for balance, in three ways. A replica that is not where the ring has its partition goes
// there, if the node it goes to stays within half of the tolerance (home). A node beyond the tolerance gives replicas
// to others (relief): of bytes first, then of load. A node that has much less than its share takes replicas of those
// that have more than theirs (fill).
//
// It comes to rest (PL5). Let V be the relative bytes of the nodes above half of the tolerance, in descending order.
// Relief by bytes makes V smaller, for a node that it gives to stays within half of the tolerance, or less full than
// the giver is then. All else leaves V as it is, or smaller, because it gives to nobody above half of the tolerance.
// So relief by bytes ends. Nodes that are to be filled then lose nothing, for no other way brings a node below
// SpareMark, and each fill brings one of them nearer: fills end. The same holds for V of the load and relief by load,
// and the way home alone is left, of which each step brings one more replica to where the ring has it. Between what
// leads away from a node and what leads back is half of the tolerance, by which the figures may err.
type balancer struct {
	*scheduler
	homes []*setInfo // have a replica that is not at home
	count map[uint32][]int32
	moved map[topology.PartitionID]bool
	out   []Action
	// unfair is set if a node is beyond the tolerance, or to be filled.
	unfair bool
}

// actions are the moves for balance, until the bound is reached.
func (b *balancer) actions() []Action {
	if b.unfair {
		b.relieve(bytesOf)
		b.fill()
		b.relieve(loadOf)
	}
	for _, s := range b.homes {
		if b.busy >= b.most {
			break
		}
		if !b.moved[s.p.ID] {
			b.homeward(s)
		}
	}
	return b.out
}

// move has a replica of a set go from one node to another.
func (b *balancer) move(s *setInfo, from, to *node) {
	step := Step{Kind: Add, Node: to.ID}
	if m := s.set.On(to.ID); m != nil {
		step.Kind, step.Replica = Promote, m.ID
	}
	b.out = append(b.out, Action{s.p.ID, s.set.Region, Balance, []Step{step, {Remove, from.ID, s.set.On(from.ID).ID}}})
	to.take(s.size)
	from.give(s.size)
	b.busy++
	if b.moved == nil {
		b.moved = map[topology.PartitionID]bool{}
	}
	b.moved[s.p.ID] = true
}

// homeward moves one replica of a set to where the ring has it, if there is room for it.
func (b *balancer) homeward(s *setInfo) {
	for _, to := range s.home {
		if to == nil || !s.region.fits(to, s.size) || !b.room(to, s.size) || !b.view.takes(to.Node) {
			continue
		}
		if m := s.set.On(to.ID); m != nil && m.State != topology.Learner {
			continue
		}
		for i, from := range s.on {
			if s.set.Replicas[i].State == topology.Voter && !slices.Contains(s.home[:], from) &&
				b.spares(s.region, from, s.size) {
				b.move(s, from, to)
				return
			}
		}
	}
}

// spares reports whether a node has no less than SpareMark of its share without something.
func (b *balancer) spares(r *region, n *node, s Size) bool {
	return n.has.Bytes-s.Bytes >= bytesOf.limit(r, n, 0)*SpareMark-r.slack
}

// room reports whether no more than FlightMax would be on its way to a node.
func (b *balancer) room(n *node, s Size) bool {
	return n.coming.Bytes == 0 || n.coming.Bytes+s.Bytes <= InFlightMax
}

// dimension is what is balanced.
type dimension int

const (
	bytesOf dimension = iota
	loadOf
)

func (d dimension) of(s Size) float64 {
	if d == bytesOf {
		return s.Bytes
	}
	return s.Load
}

// limit is how much a node may have with a part of the tolerance, weight its part in what is shared.
func (d dimension) limit(r *region, n *node, part float64) float64 {
	if d == bytesOf {
		return bound(r.has.Bytes, n.weight, r.weight, r.slack, part)
	}
	return bound(r.has.Load, 1, float64(len(r.nodes)), LoadSlack, part)
}

func (d dimension) relative(n *node, has float64) float64 {
	if d == bytesOf {
		return has / n.weight
	}
	return has
}

// relieve has nodes beyond the tolerance give replicas away, the fullest first.
func (b *balancer) relieve(dim dimension) {
	var hot []*node
	for _, n := range b.nodes {
		if n.stays && dim.of(n.has) > dim.limit(n.region, n, 1) {
			hot = append(hot, n)
		}
	}
	if len(hot) == 0 || b.busy >= b.most {
		return
	}
	slices.SortStableFunc(hot, func(a, c *node) int {
		return cmp.Compare(dim.relative(c, dim.of(c.has)), dim.relative(a, dim.of(a.has)))
	})
	b.list(dim, hot)
	colder := b.colder(dim)
	for _, n := range hot {
		// The largest first that are no more than what it has too much, then the smallest: the fewest moves, and no
		// more bytes than need be.
		limit := dim.limit(n.region, n, 1)
		order(dim, n.gives, dim.of(n.has)-dim.limit(n.region, n, 0))
		tries := 0
		for _, s := range n.gives {
			if dim.of(n.has) <= limit || b.busy >= b.most || tries >= triesMax {
				break
			}
			if b.moved[s.p.ID] || dim == loadOf && !b.spares(s.region, n, s.size) {
				continue
			}
			tries++
			if to := b.target(dim, s, n, colder); to != nil {
				b.move(s, n, to)
			}
		}
	}
}

// list notes at some nodes the sets that have a voter there, and are not empty.
func (b *balancer) list(dim dimension, nodes []*node) {
	for _, n := range b.nodes {
		n.gives, n.giving = n.gives[:0], false
	}
	for _, n := range nodes {
		n.giving = true
	}
	for i := range b.sets {
		s := &b.sets[i]
		if !s.settled || dim.of(s.size) <= 0 || len(s.region.nodes) <= s.votes {
			continue
		}
		for j, n := range s.on {
			if n.giving && s.set.Replicas[j].State == topology.Voter {
				n.gives = append(n.gives, s)
			}
		}
	}
}

// order sorts sets: the largest first that are no more than something, then the smallest of the others.
func order(dim dimension, sets []*setInfo, most float64) {
	slices.SortStableFunc(sets, func(x, y *setInfo) int {
		p, q := dim.of(x.size), dim.of(y.size)
		switch {
		case p <= most && q <= most:
			return cmp.Compare(q, p)
		case p > most && q > most:
			return cmp.Compare(p, q)
		case p <= most:
			return -1
		}
		return 1
	})
}

// fill gives replicas to nodes that have less than LowMark of their share, of the fullest nodes that have more than
// theirs, and keep it.
func (b *balancer) fill() {
	share := func(n *node) float64 { return bytesOf.limit(n.region, n, 0) }
	var low, full []*node
	for _, n := range b.colder(bytesOf) {
		if n.low(n.region) {
			low = append(low, n)
		} else if n.has.Bytes > share(n) {
			full = append(full, n)
		}
	}
	if len(low) == 0 || b.busy >= b.most {
		return
	}
	slices.Reverse(full)
	full = full[:min(len(full), targetsMax)]
	b.list(bytesOf, full)
	for _, from := range full {
		order(bytesOf, from.gives, from.has.Bytes-share(from))
		next := 0
		for _, to := range low {
			for tries := 0; next < len(from.gives) && tries < triesMax && b.busy < b.most; tries++ {
				s := from.gives[next]
				next++
				if b.moved[s.p.ID] || s.set.On(to.ID) != nil || from.has.Bytes-s.size.Bytes < share(from) ||
					to.has.Bytes+s.size.Bytes > share(to) || from.region != to.region || !b.room(to, s.size) ||
					!b.keepsZones(s, from, to) || !cold(s, from, to) {
					continue
				}
				b.move(s, from, to)
				break
			}
		}
	}
}

// cold reports whether a node that is to be filled may be given a set for the sake of its load: if that is beyond its
// share, what has as little to do for its bytes as half of the giver's average is given.
func cold(s *setInfo, from, to *node) bool {
	return s.region.fitsLoad(to, s.size) || 2*s.size.Load*from.has.Bytes <= s.size.Bytes*from.has.Load
}

const (
	// triesMax bounds the replicas of a node for which a place is looked for in one call, targetsMax the places.
	triesMax   = 16
	targetsMax = 64
)

// colder are the nodes that could be given something, the least full first.
func (b *balancer) colder(dim dimension) (nodes []*node) {
	for _, n := range b.nodes {
		if b.view.takes(n.Node) {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(x, y *node) int {
		return cmp.Compare(dim.relative(x, dim.of(x.has)), dim.relative(y, dim.of(y.has)))
	})
	return nodes
}

// target is the node that is to have the replica of a set that another gives away; nil if there is none. The set keeps
// its zones. Of nodes that are about as full the one with the fewest replicas of the table is taken.
func (b *balancer) target(dim dimension, s *setInfo, from *node, colder []*node) *node {
	after := dim.relative(from, dim.of(from.has)-dim.of(s.size))
	var best *node
	var bestRank [2]int
	found := 0
	for _, n := range colder {
		if has := dim.of(n.has); dim.relative(n, has) > after && has > dim.limit(s.region, n, 0.5) {
			break // nor those after it, which are fuller
		}
		if n.region != from.region || s.set.On(n.ID) != nil || !b.room(n, s.size) || !b.keepsZones(s, from, n) {
			continue
		}
		has := dim.of(n.has) + dim.of(s.size)
		fits := has <= dim.limit(s.region, n, 0.5) || dim.relative(n, has) <= after
		if !fits || dim == loadOf && !s.region.fitsBytes(n, s.size) {
			continue
		}
		rank := [2]int{n.filled(s.region), int(b.tables(s.p.Table)[n.index])}
		if best == nil || slices.Compare(rank[:], bestRank[:]) < 0 {
			best, bestRank = n, rank
		}
		if found++; found == targetsMax {
			break
		}
	}
	return best
}

// keepsZones reports whether a set has as many zones with a replica on one node as with that on another.
func (b *balancer) keepsZones(s *setInfo, from, to *node) bool {
	if from.zone == to.zone {
		return true
	}
	leaves, comes := true, true
	for _, n := range s.on {
		if n != nil && n != from {
			leaves = leaves && n.zone != from.zone
			comes = comes && n.zone != to.zone
		}
	}
	return comes || !leaves
}

// tables counts the replicas of a table on each node.
func (b *balancer) tables(table uint32) []int32 {
	if n := b.count[table]; n != nil {
		return n
	}
	n := make([]int32, len(b.nodes))
	for _, p := range b.state.Topology.Partitions(table) {
		for i, at := 0, b.find(p.ID); i < len(p.Sets); i++ {
			for _, on := range b.sets[at+i].on {
				if on != nil {
					n[on.index]++
				}
			}
		}
	}
	if b.count == nil {
		b.count = map[uint32][]int32{}
	}
	b.count[table] = n
	return n
}
