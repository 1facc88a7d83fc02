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
// LowMark, and each fill brings one of them nearer: fills end. The same holds for V of the load and relief by load,
// and the way home alone is left, of which each step brings one more replica to where the ring has it. Between what
// leads away from a node and what leads back is half of the tolerance, by which the figures may err.
type balancer struct {
	*scheduler
	homes []subject // have a replica that is not at home
	all   []subject // may give a replica to relieve its node, if any node is to be relieved or filled
	count map[uint32][]int32
	// unfair is set if a node is beyond the tolerance, or to be filled.
	unfair bool
}

// look takes a set to which nothing else is to happen.
func (b *balancer) look(s *subject) {
	if s.votes != s.region.target || s.alive < s.votes || s.votes < 3 {
		return
	}
	home := s.region.ring.Home(s.p, s.votes)
	for _, node := range home {
		if s.set.On(node) == nil {
			b.homes = append(b.homes, *s)
			break
		}
	}
	if b.unfair && len(s.region.nodes) > s.votes {
		b.all = append(b.all, *s)
	}
}

// actions are the moves for balance, until the bound is reached.
func (b *balancer) actions() (out []Action) {
	moved := map[topology.PartitionID]bool{}
	note := func(s *subject, steps []Step) {
		size := b.size(s.p)
		b.at[steps[0].Node].take(size)
		b.at[steps[1].Node].give(size)
		b.busy++
		moved[s.p.ID] = true
		out = append(out, Action{s.p.ID, s.set.Region, Balance, steps})
	}
	if b.unfair {
		b.relieve(bytesOf, moved, note)
		b.fill(moved, note)
		b.relieve(loadOf, moved, note)
	}
	for i := range b.homes {
		if b.busy >= b.most {
			break
		}
		if s := &b.homes[i]; !moved[s.p.ID] {
			if steps := b.homeward(s); steps != nil {
				note(s, steps)
			}
		}
	}
	return out
}

// homeward moves one replica of a set to where the ring has it, if there is room for it.
func (b *balancer) homeward(s *subject) []Step {
	size := b.size(s.p)
	home := s.region.ring.Home(s.p, s.votes)
	to, keep := make([]topology.NodeID, 0, len(home)), home
	for _, id := range home {
		if n := b.at[id]; s.set.On(id) == nil && s.region.fits(n, size) && b.room(n, size) {
			to = append(to, id)
		}
	}
	for _, m := range s.set.Replicas {
		if !slices.Contains(keep, m.Node) && !b.spares(s.region, b.at[m.Node], size) {
			keep = append(keep, m.Node)
		}
	}
	return s.exchange(to, keep)
}

// spares reports whether a node has no less than LowMark of its share without something.
func (b *balancer) spares(r *region, n *node, s Size) bool {
	return n.has.Bytes-s.Bytes >= bytesOf.limit(r, n, 0)*LowMark-BytesSlack
}

// room reports whether no more than FlightMax would be on its way to a node.
func (b *balancer) room(n *node, s Size) bool {
	return n.coming.Bytes == 0 || n.coming.Bytes+s.Bytes <= FlightMax
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
		return bound(r.has.Bytes, n.weight, r.weight, BytesSlack, part)
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
func (b *balancer) relieve(dim dimension, moved map[topology.PartitionID]bool, note func(*subject, []Step)) {
	var hot []*node
	for _, n := range b.state.Nodes {
		if at := b.at[n.ID]; at.stays && dim.of(at.has) > dim.limit(b.region(n.Region), at, 1) {
			hot = append(hot, at)
		}
	}
	if len(hot) == 0 || b.busy >= b.most {
		return
	}
	slices.SortStableFunc(hot, func(a, c *node) int {
		return cmp.Compare(dim.relative(c, dim.of(c.has)), dim.relative(a, dim.of(a.has)))
	})
	on, colder := b.on(dim, hot), b.colder(dim)
	for _, n := range hot {
		// The largest first that are no more than what it has too much, then the smallest: the fewest moves, and no
		// more bytes than need be.
		limit := dim.limit(b.region(n.Region), n, 1)
		excess := dim.of(n.has) - dim.limit(b.region(n.Region), n, 0)
		b.order(dim, on[n], excess)
		tries := 0
		for _, s := range on[n] {
			if dim.of(n.has) <= limit || b.busy >= b.most || tries >= triesMax {
				break
			}
			if moved[s.p.ID] || dim == loadOf && !b.spares(s.region, n, b.size(s.p)) {
				continue
			}
			tries++
			if to := b.target(dim, s, n, colder); to != nil {
				note(s, []Step{{Add, to.ID, 0}, {Go, n.ID, s.set.On(n.ID).ID}})
			}
		}
	}
}

// on lists the sets that have a voter on some nodes, and are not empty.
func (b *balancer) on(dim dimension, nodes []*node) map[*node][]*subject {
	on := map[*node][]*subject{}
	for _, n := range nodes {
		on[n] = nil
	}
	for i := range b.all {
		s := &b.all[i]
		for _, m := range s.set.Replicas {
			if list, ok := on[b.at[m.Node]]; ok && m.State == topology.Voter && dim.of(b.size(s.p)) > 0 {
				on[b.at[m.Node]] = append(list, s)
			}
		}
	}
	return on
}

// order sorts sets: the largest first that are no more than something, then the smallest of the others.
func (b *balancer) order(dim dimension, sets []*subject, most float64) {
	slices.SortStableFunc(sets, func(x, y *subject) int {
		p, q := dim.of(b.size(x.p)), dim.of(b.size(y.p))
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
func (b *balancer) fill(moved map[topology.PartitionID]bool, note func(*subject, []Step)) {
	share := func(n *node) float64 { return bytesOf.limit(b.region(n.Region), n, 0) }
	var low, full []*node
	for _, n := range b.colder(bytesOf) {
		if n.low(b.region(n.Region)) {
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
	on := b.on(bytesOf, full)
	for _, from := range full {
		b.order(bytesOf, on[from], from.has.Bytes-share(from))
		next := 0
		for _, to := range low {
			for tries := 0; next < len(on[from]) && tries < triesMax && b.busy < b.most; tries++ {
				s := on[from][next]
				next++
				size := b.size(s.p)
				if moved[s.p.ID] || s.set.On(to.ID) != nil || from.has.Bytes-size.Bytes < share(from) ||
					to.has.Bytes+size.Bytes > share(to) || from.Region != to.Region || !b.room(to, size) ||
					!b.keepsZones(s, from, to) {
					continue
				}
				note(s, []Step{{Add, to.ID, 0}, {Go, from.ID, s.set.On(from.ID).ID}})
				break
			}
		}
	}
}

const (
	// triesMax bounds the replicas of a node for which a place is looked for in one call, targetsMax the places.
	triesMax   = 16
	targetsMax = 64
)

// colder are the nodes that could be given something, the least full first.
func (b *balancer) colder(dim dimension) (nodes []*node) {
	for _, n := range b.state.Nodes {
		if b.view.takes(n) {
			nodes = append(nodes, b.at[n.ID])
		}
	}
	slices.SortStableFunc(nodes, func(x, y *node) int {
		return cmp.Compare(dim.relative(x, dim.of(x.has)), dim.relative(y, dim.of(y.has)))
	})
	return nodes
}

// target is the node that is to have the replica of a set that another gives away; nil if there is none. The set keeps
// its zones. Of nodes that are about as full the one with the fewest replicas of the table is taken.
func (b *balancer) target(dim dimension, s *subject, from *node, colder []*node) *node {
	size := b.size(s.p)
	after := dim.relative(from, dim.of(from.has)-dim.of(size))
	var best *node
	var bestRank [2]int
	found := 0
	for _, n := range colder {
		if has := dim.of(n.has); dim.relative(n, has) > after && has > dim.limit(s.region, n, 0.5) {
			break // nor those after it, which are fuller
		}
		if n.Region != from.Region || s.set.On(n.ID) != nil || !b.room(n, size) || !b.keepsZones(s, from, n) {
			continue
		}
		has := dim.of(n.has) + dim.of(size)
		fits := has <= dim.limit(s.region, n, 0.5) || dim.relative(n, has) <= after
		if !fits || dim == loadOf && !s.region.fitsBytes(n, size) {
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
func (b *balancer) keepsZones(s *subject, from, to *node) bool {
	if from.Zone == to.Zone {
		return true
	}
	leaves, comes := true, true
	for _, m := range s.set.Replicas {
		if n := b.at[m.Node]; n != nil && n != from {
			leaves = leaves && n.Zone != from.Zone
			comes = comes && n.Zone != to.Zone
		}
	}
	return comes || !leaves
}

// tables counts the replicas of a table on each node.
func (b *balancer) tables(table uint32) []int32 {
	if n := b.count[table]; n != nil {
		return n
	}
	n := make([]int32, len(b.state.Nodes))
	for _, p := range b.state.Map.Partitions(table) {
		for i := range p.Sets {
			for _, m := range p.Sets[i].Replicas {
				if at := b.at[m.Node]; at != nil {
					n[at.index]++
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
