// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"

	"go.etcd.io/raft/v3"
)

// deserted reports whether the group follows a leader on a node that is down.
func (h *Host) deserted(g *Group) bool {
	leader := g.route(g.lead)
	return !g.leading && leader != nil && leader.Node != h.opts.Node && h.peers.of(leader.Node).down
}

// succeed has a group without a leader elect one soon: the first living voter after the old one asks for votes, again
// and again for a while. Left to the library, all would after times drawn by lot, two of them at once now and then, and
// neither could win. The others may have heard from the leader a little later: so it goes on for some ticks.
func (h *Host) succeed(g *Group, ticks int) {
	_ = g.raft.ForgetLeader()
	if g.successor() == g.replica {
		g.urgent = ticks
		h.campaign(g)
	}
	h.mark(g)
}

// campaign asks for votes, this replica's own first: it is given on the same condition as others' (RG6).
func (h *Host) campaign(g *Group) {
	if !g.promise.binds(h.ticks, h.opts.Node) && !h.shuns(g, NodeID{}) {
		before := g.ballot()
		_ = g.raft.Campaign()
		g.voted(before, h.opts.Node)
	}
}

// successor is the first voter after the leader, in the order of ids, whose node is not down; one on a node that
// abstains only if there is no other.
func (g *Group) successor() (next uint64) {
	h := g.host
	voters := g.conf.GetVoters()
	at := slices.Index(voters, g.lead)
	if at < 0 {
		return 0
	}
	for n := 1; n < len(voters); n++ {
		id := voters[(at+n)%len(voters)]
		switch r := g.route(id); {
		case r == nil || r.Node != h.opts.Node && h.peers.of(r.Node).down:
		case h.canLead(r.Node):
			return id
		case next == 0:
			next = id
		}
	}
	return next
}

// Refused is for the hint that a node's process may have ended: its address refused a connection. So does a firewall
// that rejects, or a proxy that lost its backend, in front of a leader that lives and serves reads under its lease.
// Groups that have not heard from their leader for an election timeout, such as quiet ones, look for a new one now; all
// others keep the promise on which the lease rests, and silence tells them.
func (h *Host) Refused(node NodeID) {
	for _, g := range h.order {
		if !g.promise.binds(h.ticks, h.opts.Node) && h.led(g, node) {
			h.awake(g)
			h.succeed(g, urgentTicks)
		}
	}
}

// Departed is for the word of a node's process that it has served its last read under a lease. Its groups elect a new
// leader at once instead of after an election timeout; the first living voter after it asks for votes. Without that
// word leases break.
func (h *Host) Departed(node NodeID) {
	for _, g := range h.order {
		if h.led(g, node) {
			h.awake(g)
			g.promise.void()
			h.succeed(g, urgentTicks)
		}
	}
}

// led reports whether the group follows a leader on another node.
func (h *Host) led(g *Group, node NodeID) bool {
	leader := g.route(g.lead)
	return !g.leading && leader != nil && leader.Node == node
}

// urgentTicks is how long a group without a leader asks again for votes every tick, and how long it waits for votes
// once it may count on them.
const urgentTicks = 8

func (h *Host) tickUrgent(g *Group) {
	if g.urgent == 0 {
		return
	}
	if g.urgent--; g.lead != raft.None {
		g.urgent = 0
		return
	}
	// To campaign again while votes come in, which wait for disks, would throw them away.
	if !g.raft.campaigns() || g.urgent%urgentTicks == 0 {
		h.campaign(g)
	}
}

// Campaign makes a group without a leader, such as a newly born one, elect one now. It does nothing where a leader was
// heard of.
func (h *Host) Campaign(id uint64) {
	g := h.groups[id]
	if g == nil || g.lead != raft.None || g.promise.binds(h.ticks, h.opts.Node) || g.applied == 0 {
		return
	}
	h.awake(g)
	g.urgent = urgentTicks
	h.campaign(g)
	h.mark(g)
}
