// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// balancer moves replicas to balance the nodes, in three ways.
//
//   - Home: a replica moves to a node that the ring prefers if this node remains within half of the tolerance.
//   - Relief: a node above the tolerance gives replicas to other nodes, first to reduce its bytes and then to reduce
//     its load.
//   - Fill: a node far below its fair share takes replicas from nodes above their fair shares.
//
// The algorithm terminates (PL5). Let V be the relative bytes of the nodes above half of the tolerance, in descending
// order. Relief by bytes decreases V, because the target remains within half of the tolerance or less full than the
// source. No other move increases V, because the target of the move remains within half of the tolerance. Relief by
// bytes therefore ends. After that, nodes below LowMark lose no replicas, because no other move brings a node below
// SpareMark. Fills end, because each fill brings a node closer to its share. The same argument applies to relief by
// load. Only home moves remain, and each home move increases the number of replicas on preferred nodes. The gap of half
// of the tolerance between relief and home moves absorbs measurement errors.
type balancer struct {
	*scheduler
	homes []*setInfo // sets with a replica on a node that the ring does not prefer
	count map[uint32][]int32
	moved map[setKey]bool
	out   []Action
	// unfair reports whether a node is above the tolerance or must be filled.
	unfair bool
}

// actions returns balancing moves, up to the limit of concurrent changes.
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
		if !b.moved[s.key()] {
			b.homeward(s)
		}
	}
	return b.out
}

// move moves a replica of a set from one node to another.
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
		b.moved = map[setKey]bool{}
	}
	b.moved[s.key()] = true
}

// homeward moves one replica of a set to a node that the ring prefers if the node has room.
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

// spares reports whether a node retains at least SpareMark of its fair share without a replica.
func (b *balancer) spares(r *region, n *node, s Size) bool {
	return n.has.Bytes-s.Bytes >= bytesOf.limit(r, n, 0)*SpareMark-r.slack
}

// room reports whether a move to a node would stay within InFlightMax.
func (b *balancer) room(n *node, s Size) bool {
	return n.coming.Bytes == 0 || n.coming.Bytes+s.Bytes <= InFlightMax
}

// dimension is a quantity to balance.
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

// limit returns the maximum of a node, including the given part of the tolerance.
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

// relieve moves replicas away from nodes above the tolerance, starting with the fullest nodes.
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
		// To minimize the number of moves and the moved bytes, the largest replicas that do not exceed the surplus come
		// first. The other replicas follow in ascending order.
		limit := dim.limit(n.region, n, 1)
		order(dim, n.gives, dim.of(n.has)-dim.limit(n.region, n, 0))
		tries := 0
		for _, s := range n.gives {
			if dim.of(n.has) <= limit || b.busy >= b.most || tries >= triesMax {
				break
			}
			if b.moved[s.key()] || dim == loadOf && !b.spares(s.region, n, s.size) {
				continue
			}
			tries++
			if to := b.target(dim, s, n, colder); to != nil {
				b.move(s, n, to)
			}
		}
	}
}

// list collects the non-empty sets that have a voter on each of the given nodes.
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

// order sorts sets. Sets of up to the given size come first, in descending order. The other sets follow in ascending
// order.
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

// fill moves replicas to nodes below LowMark of their fair share. The sources are the fullest nodes that remain above
// their fair shares.
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
				if b.moved[s.key()] || s.set.On(to.ID) != nil || from.has.Bytes-s.size.Bytes < share(from) ||
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

// cold reports whether the load of a node permits filling it with a set. If the load exceeds the node's fair share, the
// set's load per byte must not exceed half of the source's average.
func cold(s *setInfo, from, to *node) bool {
	return s.region.fitsLoad(to, s.size) || 2*s.size.Load*from.has.Bytes <= s.size.Bytes*from.has.Load
}

const (
	// triesMax is the maximum number of replicas of a node that one call considers. targetsMax is the maximum number of
	// targets that one call considers.
	triesMax   = 16
	targetsMax = 64
)

// colder returns the nodes that can take replicas, starting with the least full node.
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

// target returns the node to which a replica of a set moves, or nil. The move must not reduce the number of zones of
// the set. Among about equally full nodes, target prefers the node with the smallest number of replicas of the table.
func (b *balancer) target(dim dimension, s *setInfo, from *node, colder []*node) *node {
	after := dim.relative(from, dim.of(from.has)-dim.of(s.size))
	var best *node
	var bestRank [2]int
	found := 0
	for _, n := range colder {
		if has := dim.of(n.has); dim.relative(n, has) > after && has > dim.limit(s.region, n, 0.5) {
			break // all following nodes are fuller
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

// keepsZones reports whether a move preserves the number of zones that have a replica of the set.
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

// tables returns the number of replicas of a table on each node.
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
