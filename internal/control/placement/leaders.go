// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// The bounds of leading. A node may lead LeadTolerance and LeadSlack more than its fair share before it gives
// leaderships away; it is given none that would bring it above half of that. At most leadsMax go in one decision.
const (
	LeadTolerance = 0.25
	LeadSlack     = LoadSlack
	leadsMax      = 8
)

// leaders has nodes that lead much more of the load than their share give some of it away: the map names another voter
// of a partition as the first that is to lead it (topology.Partition.Lead). It goes by who is to lead, not by who
// leads: that follows within seconds. A partition is led by the first of the ring again when that node has room for it.
// Between the two is half of the tolerance, and leaders come to rest as bytes do (PL5).
//
// Nothing is done while a node is about to go or to come back: what it leads now is no measure.
func (d *scheduler) leaders() []Action {
	b := leading{scheduler: d}
	for _, n := range d.nodes {
		n.led, n.leads = 0, d.view.MayLead(n.Node)
		if n.stays && (d.view.down(n.ID) || d.view.Stopping[n.ID] || d.view.RecentlyRestarted[n.ID]) {
			return nil
		}
	}
	for _, r := range d.regions {
		r.led, r.leads = 0, 0
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
	given [leadsMax]*setInfo // as many as out
}

// leadLimit is how much of the load a node may lead, with a part of the tolerance.
func (r *region) leadLimit(part float64) float64 {
	return r.led/max(r.leads, 1)*(1+part*LeadTolerance) + part*LeadSlack
}

// leader is the node that is to lead a set while nothing else changes, nil if there is none: see PreferredLeader.
func (s *setInfo) leader() *node {
	if s.lead != nil && s.lead.leads && s.voter(s.lead) {
		return s.lead
	}
	return s.first()
}

// first is the node that is to lead a set by the ring.
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

// rests reports whether the replicas of a set stay where they are: who leads one that moves is decided when it has.
func (b *leading) rests(s *setInfo) bool { return s.settled && !b.balancer.moved[s.p.ID] }

// give has a set be led by a node, by the ring if it is the first there.
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

// homeward has partitions led by the ring again where there is room, and where who was named cannot lead any more.
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

// relieve has the nodes that lead too much give some away: the largest first that are not more than that.
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

// newLeader is the node that is to lead a set in the place of another: that which leads least of those that have room,
// nil if none has.
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
