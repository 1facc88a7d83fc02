// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// These are the limits of leadership balance. A node transfers leaderships to other nodes if its led load exceeds its
// fair share by LeadTolerance and LeadSlack. It accepts leaderships up to half of this tolerance. One decision moves up
// to leadsMax leaderships.
const (
	LeadTolerance = 0.25
	LeadSlack     = LoadSlack
	leadsMax      = 8
)

// leaders moves leaderships from nodes that lead much more than their fair share of the load. It sets another voter as
// the preferred leader in the topology (topology.Partition.Lead). It counts preferred leaders instead of actual
// leaders, because the actual leaders follow within seconds. The preference is removed when the first node on the ring
// has room again. The gap of half of the tolerance makes the algorithm terminate (PL5).
//
// While a node of a region is stopping or restarting, no leadership moves in the region, because the current
// distribution is temporary. The preferred leader of a partition is in the home region of the partition.
func (d *scheduler) leaders() []Action {
	b := leading{scheduler: d}
	for _, r := range d.regions {
		r.led, r.leads, r.unsteady = 0, 0, false
	}
	for _, n := range d.nodes {
		n.led, n.leads = 0, d.view.MayLead(n.Node)
		if n.stays && (d.view.down(n.ID) || d.view.Stopping[n.ID] || d.view.RecentlyRestarted[n.ID]) {
			n.region.unsteady = true
		}
	}
	for i := range d.sets {
		s := &d.sets[i]
		if n := s.leader(); n != nil {
			n.led += s.size.Load
			s.region.led += s.size.Load
		}
	}
	for _, n := range d.nodes {
		if n.leads {
			n.region.leads++
		}
	}
	b.homeward()
	b.relieve()
	return b.out
}

// leading is one decision about leaders.
type leading struct {
	*scheduler
	out   []Action
	given [leadsMax]*setInfo // has as many entries as out
}

// leadLimit returns the maximum load that a node may lead, including the given part of the tolerance.
func (r *region) leadLimit(part float64) float64 {
	return r.led/max(r.leads, 1)*(1+part*LeadTolerance) + part*LeadSlack
}

// leader returns the node that will lead a set without further changes, or nil (see PreferredLeader).
func (s *setInfo) leader() *node {
	if s.lead != nil && s.lead.leads && s.voter(s.lead) {
		return s.lead
	}
	return s.first()
}

// first returns the preferred leader of a set according to the ring.
func (s *setInfo) first() *node {
	for _, n := range s.home {
		if n != nil && n.leads && s.voter(n) {
			return n
		}
	}
	for i, n := range s.on {
		if n != nil && n.leads && s.set.Replicas[i].State == topology.Voter {
			return n
		}
	}
	return nil
}

func (s *setInfo) voter(n *node) bool {
	m := s.set.On(n.ID)
	return m != nil && m.State == topology.Voter
}

// rests reports whether the leader of a set may move. The set must be the home set, its replicas must not be moving,
// and the nodes of its region must be steady.
func (b *leading) rests(s *setInfo) bool {
	return s.settled && !s.region.unsteady && !b.balancer.moved[s.key()] && topology.HomeSet(b.known, s.p) == s.set
}

// give sets another node as the preferred leader of a set. If this node is the first node on the ring, give removes the
// preference instead.
func (b *leading) give(s *setInfo, from, to *node) {
	step := Step{Kind: SetLeader, Node: to.ID}
	if to == s.first() {
		step.Node = topology.NodeID{}
	}
	b.given[len(b.out)] = s
	from.led -= s.size.Load
	to.led += s.size.Load
	b.out = append(b.out, Action{s.p.ID, s.set.Region, Balance, []Step{step}})
}

// homeward removes preferences if the first node on the ring has room, or if the preferred node can no longer lead.
func (b *leading) homeward() {
	for i := range b.sets {
		s := &b.sets[i]
		if len(b.out) >= leadsMax {
			return
		}
		if s.p.Lead == (topology.NodeID{}) || !b.rests(s) {
			continue
		}
		first, now := s.first(), s.leader()
		if first == nil {
			continue
		}
		if now == first || first.led+s.size.Load <= s.region.leadLimit(0.5) {
			b.give(s, now, first)
		}
	}
}

// relieve moves leaderships away from nodes that lead too much load. It starts with the largest leaderships that do not
// exceed the surplus.
func (b *leading) relieve() {
	hot := slices.DeleteFunc(slices.Clone(b.nodes), func(n *node) bool { return n.led <= n.region.leadLimit(1) })
	if len(hot) == 0 {
		return
	}
	slices.SortStableFunc(hot, func(x, y *node) int { return cmp.Compare(y.led, x.led) })
	for _, n := range b.nodes {
		n.gives, n.giving = n.gives[:0], false
	}
	for _, n := range hot {
		n.giving = true
	}
	for i := range b.sets {
		if s := &b.sets[i]; b.rests(s) && s.size.Load > 0 {
			if n := s.leader(); n != nil && n.giving {
				n.gives = append(n.gives, s)
			}
		}
	}
	for _, n := range hot {
		order(loadOf, n.gives, n.led-n.region.leadLimit(0))
		for _, s := range n.gives {
			if len(b.out) >= leadsMax || n.led <= n.region.leadLimit(1) {
				break
			}
			if slices.Contains(b.given[:], s) {
				continue
			}
			if to := s.newLeader(n); to != nil {
				b.give(s, n, to)
			}
		}
	}
}

// newLeader returns the node with the lowest led load among the voters' nodes that have room for another leadership, or
// nil.
func (s *setInfo) newLeader(from *node) (best *node) {
	after := from.led - s.size.Load
	for i, n := range s.on {
		if n == nil || n == from || !n.leads || s.set.Replicas[i].State != topology.Voter {
			continue
		}
		led := n.led + s.size.Load
		if (led <= s.region.leadLimit(0.5) || led < after) && (best == nil || n.led < best.led) {
			best = n
		}
	}
	return best
}
