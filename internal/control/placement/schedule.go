// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// schedule makes a decision after begin.
func (d *scheduler) schedule() []Action {
	var needs []*setInfo
	for i := range d.sets {
		switch s := &d.sets[i]; {
		case s.fixed || !s.quorum:
			continue
		case s.needed:
			needs = append(needs, s)
			if s.moving {
				d.busy++
			}
		case s.away:
			d.balancer.homes = append(d.balancer.homes, s)
		}
	}
	slices.SortStableFunc(needs, func(a, b *setInfo) int {
		return cmp.Or(cmp.Compare(a.reason, b.reason), cmp.Compare(a.alive, b.alive), cmp.Compare(a.later, b.later))
	})
	var out []Action
	for _, s := range needs {
		free := s.reason == Repair || s.p.ID == topology.MetaPartition || s.reason == Pinned &&
			!s.p.Pin.Active(d.view.Now)
		if !free && d.busy >= d.most {
			continue
		}
		steps, why := s.step()
		if len(steps) == 0 {
			continue
		}
		if !free {
			d.busy++
		}
		out = append(out, Action{s.p.ID, s.set.Region, why, steps})
	}
	out = append(out, d.balancer.actions()...)
	return append(out, d.leaders()...)
}

// setInfo is a replica set with computed properties. needed reports whether a change may be due for a reason other than
// balance.
type setInfo struct {
	*scheduler
	p      *topology.Partition
	set    *topology.ReplicaSet
	index  int // index of the set in the partition
	region *region
	size   Size
	on     []*node // node of each replica, or nil if the node is not a member
	fixed  bool    // no change is allowed

	votes  int // number of voters, including leaving voters
	alive  int // number of live voters
	quorum bool
	busy   bool
	moving bool // a replica on a live node is joining

	reason Reason
	needed bool
	later  int // 0 for the meta partition, which has priority
	// settled reports whether balance may move the set. home holds the preferred nodes. away reports whether a replica
	// is on a node outside home. lead is the preferred leader, or nil.
	settled, away bool
	home          [Replicas]*node
	lead          *node
}

// setKey identifies a replica set by its partition and its index in the partition.
type setKey struct {
	partition topology.PartitionID
	index     int
}

func (s *setInfo) key() setKey { return setKey{s.p.ID, s.index} }

func (s *setInfo) count(view *View) {
	for _, m := range s.set.Replicas {
		switch m.State {
		case topology.Joining:
			s.busy = true
			s.moving = s.moving || !view.down(m.Node)
			continue
		case topology.Learner:
			continue
		case topology.Leaving:
			s.busy = true
		}
		s.votes++
		if !view.down(m.Node) {
			s.alive++
		}
	}
	s.quorum = s.alive >= topology.Quorum(s.votes)
}

func (s *setInfo) stays(m *topology.Replica) bool {
	n := s.at[m.Node]
	return n != nil && n.stays
}

// needs reports whether a change may be due for a reason other than balance, and returns the reason.
func (s *setInfo) needs() (Reason, bool) {
	if s.busy {
		return Repair, true
	}
	if bad := s.worst(); bad != nil {
		if s.view.dead(bad.Node) {
			return Replace, true
		}
		return Leave, true
	}
	if s.votes < s.region.target || s.p.ID == topology.MetaPartition || s.set.Count(topology.Learner) > 0 ||
		s.votes == 1 {
		return Grow, true
	}
	return Pinned, s.p.Pin != nil
}

// step returns the steps of the next change of the set. It returns no steps if only balance remains.
func (s *setInfo) step() ([]Step, Reason) {
	if s.busy {
		return s.repair(), Repair
	}
	if bad := s.worst(); bad != nil {
		if steps := s.replace(bad); len(steps) > 0 {
			if s.view.dead(bad.Node) {
				return steps, Replace
			}
			return steps, Leave
		}
	}
	if steps := s.grow(); len(steps) > 0 {
		return steps, Grow
	}
	if steps := s.learners(); len(steps) > 0 {
		return steps, Grow
	}
	if s.p.Pin != nil {
		return s.pinned(), Pinned
	}
	return nil, Balance
}

// pinned moves one replica to a pinned node of the set's region, or deletes an expired pin. The replicas on leaving and
// dead nodes must have been replaced before.
func (s *setInfo) pinned() []Step {
	w := s.p.Pin
	if !w.Active(s.view.Now) {
		return []Step{{Kind: Unpin}}
	}
	if s.alive < s.votes {
		return nil
	}
	nodes := make([]topology.NodeID, 0, len(w.Nodes))
	for _, id := range w.Nodes {
		if n := s.at[id]; n != nil && n.region == s.region {
			nodes = append(nodes, id)
		}
	}
	if len(nodes) == 0 {
		return nil // the pin determines only the replicas in another region
	}
	return s.toward(nodes)
}

// repair returns steps for a change that cannot complete. A change cannot complete if a joining replica has lost its
// node, if a leaving replica has no replacement, or if a single joining replica would become the second voter.
func (s *setInfo) repair() []Step {
	var joining []*topology.Replica
	for i := range s.set.Replicas {
		m := &s.set.Replicas[i]
		if m.State != topology.Joining {
			continue
		}
		if !s.stays(m) {
			return append(s.choose(1), Step{Remove, m.Node, m.ID})
		}
		joining = append(joining, m)
	}
	leaving := s.set.Count(topology.Leaving)
	switch {
	case len(joining) == 0 && s.votes-leaving != 1 && s.votes-leaving < 3:
		if c := s.choose(1); len(c) > 0 {
			return c
		}
		return s.retain()
	case len(joining) != 1 || s.votes != 1 || leaving > 0:
		return nil
	}
	if s.region.target > 1 {
		if c := s.choose(1); len(c) > 0 {
			return c
		}
	}
	return []Step{{Demote, joining[0].Node, joining[0].ID}}
}

// retain keeps a leaving replica whose node is not leaving.
func (s *setInfo) retain() []Step {
	for i := range s.set.Replicas {
		if m := &s.set.Replicas[i]; m.State == topology.Leaving && s.stays(m) {
			return []Step{{Promote, m.Node, m.ID}}
		}
	}
	return nil
}

// worst returns the voter to replace first. This is a voter on a dead node or, if no such voter exists, a voter on a
// leaving node.
func (s *setInfo) worst() (worst *topology.Replica) {
	for i := range s.set.Replicas {
		m := &s.set.Replicas[i]
		if m.State == topology.Voter && !s.stays(m) &&
			(worst == nil || s.view.dead(m.Node) && !s.view.dead(worst.Node)) {
			worst = m
		}
	}
	return worst
}

// replace replaces a voter. It may remove one of four voters without a replacement if the voter's node is leaving and
// the other three voters are alive (PL3). It does not remove a dead voter without a replacement, because this would not
// increase the number of tolerated failures.
func (s *setInfo) replace(bad *topology.Replica) []Step {
	leave := Step{Remove, bad.Node, bad.ID}
	if c := s.choose(1); len(c) > 0 {
		return append(c, leave)
	}
	others := s.alive
	if !s.view.down(bad.Node) {
		others--
	}
	n := s.state.Node(bad.Node)
	asked := n == nil || n.State == meta.Leaving || n.State == meta.Left
	if asked && s.votes == Replicas && others == s.votes-1 && s.region.target < Replicas {
		return []Step{leave}
	}
	return nil
}

// grow adds two voters to a set of one voter, or one voter to a larger set.
func (s *setInfo) grow() []Step {
	n := 1
	if s.votes == 1 {
		n = 2
	}
	if s.votes >= s.region.target {
		return nil
	}
	if c := s.choose(n); len(c) == n {
		return c
	}
	return nil
}

// learners adds and removes learners. The meta partition has learners on nodes of all regions. Other partitions have a
// learner on the second of two nodes.
func (s *setInfo) learners() []Step {
	var steps []Step
	every := s.p.ID == topology.MetaPartition
	for i := range s.set.Replicas {
		m := &s.set.Replicas[i]
		if m.State != topology.Learner {
			continue
		}
		n := s.state.Node(m.Node)
		switch {
		case every && n != nil && n.State != meta.Left:
		case !every && s.votes < 3 && n != nil && (n.State == meta.Up || n.State == meta.Draining):
		default:
			steps = append(steps, Step{Remove, m.Node, m.ID})
		}
	}
	if len(steps) > 0 {
		return steps
	}
	if every {
		for _, n := range s.nodes {
			if n.stays && s.set.On(n.ID) == nil && s.view.takes(n.Node) {
				steps = append(steps, Step{Kind: AddLearner, Node: n.ID})
			}
		}
		return steps
	}
	if s.votes == 1 && len(s.set.Replicas) == 1 {
		for _, c := range s.choose(1) {
			steps = append(steps, Step{Kind: AddLearner, Node: c.Node})
		}
	}
	return steps
}

// toward moves one replica to a node in home from a node outside home.
func (s *setInfo) toward(home []topology.NodeID) []Step { return s.exchange(home, home) }

// exchange moves one replica to a node in to from a node that is not in keep.
func (s *setInfo) exchange(to, keep []topology.NodeID) []Step {
	for _, node := range to {
		step := Step{Kind: Add, Node: node}
		if m := s.set.On(node); m != nil && m.State == topology.Learner {
			step.Kind, step.Replica = Promote, m.ID
		} else if m != nil {
			continue
		}
		if !s.view.takes(s.state.Node(node)) {
			continue
		}
		for _, m := range s.set.Replicas {
			if m.State == topology.Voter && !slices.Contains(keep, m.Node) {
				return []Step{step, {Remove, m.Node, m.ID}}
			}
		}
	}
	return nil
}

// choose selects up to n nodes for new voters. The criteria, in descending order of priority, are nodes that the ring
// prefers, zones without a replica, learners, less full nodes, and nodes with fewer replicas.
func (s *setInfo) choose(n int) []Step {
	home := s.region.ring.preferred(s.p.Table, s.p.Span, len(s.region.ring.nodes))
	zones := make([]bool, s.zones)
	for i, m := range s.set.Replicas {
		if m.State != topology.Learner && m.State != topology.Leaving && s.stays(&m) {
			zones[s.on[i].zone] = true
		}
	}
	var out []Step
	for range n {
		var best *node
		bestRank := [5]int{}
		for i, place := range home {
			to := s.region.on[place]
			m := s.set.On(to.ID)
			taken := m != nil && m.State != topology.Learner || slices.ContainsFunc(out, func(o Step) bool {
				return o.Node == to.ID
			})
			if taken || !s.view.takes(to.Node) {
				continue
			}
			rank := [5]int{1, 0, 1, to.filled(s.region), to.replicas}
			if i < s.region.target && s.region.fits(to, s.size) {
				rank[0] = 0
			}
			if zones[to.zone] {
				rank[1] = 1
			}
			if m != nil {
				rank[2] = 0
			}
			if best == nil || slices.Compare(rank[:], bestRank[:]) < 0 {
				best, bestRank = to, rank
			}
		}
		if best == nil {
			break
		}
		step := Step{Kind: Add, Node: best.ID}
		if m := s.set.On(step.Node); m != nil {
			step.Kind, step.Replica = Promote, m.ID
		}
		zones[best.zone] = true
		best.take(s.size)
		out = append(out, step)
	}
	return out
}
