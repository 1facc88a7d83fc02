// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"

	"go.etcd.io/raft/v3"
)

// election is the part of a group that elects a new leader after a leader is lost.
type election struct {
	g         *Group
	voteLease voteLease
	// leaderless is the tick since which no leader is known. It is valid while lead is 0.
	leaderless uint64
	// urgent is the remaining number of ticks for which the replica campaigns; see tick.
	urgent int
}

// leaderDown reports whether the leader of the group is on another node that is down.
func (e *election) leaderDown() bool {
	g, h := e.g, e.g.host
	leader := g.route(g.lead)
	return !g.leading && leader != nil && leader.Node != h.opts.Node && h.peers.of(leader.Node).down
}

// electSuccessor makes a group without a leader elect a new leader soon. The first available voter after the old leader
// campaigns. Without electSuccessor, all voters would campaign after random delays, and two simultaneous campaigns
// could both fail. The successor campaigns for several ticks, because other voters may have received a later message
// from the leader.
func (e *election) electSuccessor(ticks int) {
	g := e.g
	_ = g.raft.ForgetLeader()
	if e.successor() == g.replica {
		e.urgent = ticks
		e.campaign()
	}
	g.host.mark(g)
}

// campaign requests votes. The replica votes for itself under the same condition as for other candidates (RG6).
func (e *election) campaign() {
	g, h := e.g, e.g.host
	if !e.voteLease.binds(h.ticks, h.opts.Node) && !e.avoidsLeading(NodeID{}) {
		before := g.voteState()
		_ = g.raft.Campaign()
		g.checkVote(before, h.opts.Node)
	}
}

// successor returns the first voter after the leader, in ID order, whose node is up. A voter whose node abstains is
// chosen only if no other voter is available.
func (e *election) successor() (next uint64) {
	g, h := e.g, e.g.host
	voters := g.membership.conf.GetVoters()
	at := slices.Index(voters, g.lead)
	if at < 0 {
		return 0
	}
	for n := 1; n < len(voters); n++ {
		id := voters[(at+n)%len(voters)]
		switch r := g.route(id); {
		case r == nil || r.Node != h.opts.Node && h.peers.of(r.Node).down:
		case h.policy.canLead(r.Node):
			return id
		case next == 0:
			next = id
		}
	}
	return next
}

// NodeRefused handles a refused connection, which indicates that a node's process may have ended. A firewall can also
// refuse connections while the leader is alive and serves reads under its lease. Therefore, only groups that have
// received no message from their leader for an election timeout elect a new leader, such as quiescent groups. All other
// groups keep the promise on which the lease depends.
func (h *Host) NodeRefused(node NodeID) {
	for _, g := range h.order {
		if !g.election.voteLease.binds(h.ticks, h.opts.Node) && g.election.followsLeaderOn(node) {
			g.quiescence.active()
			g.election.electSuccessor(urgentTicks)
		}
	}
}

// NodeDeparted handles the announcement that a node's process has served its last read under a lease. The groups that
// the node led then elect new leaders immediately. Without the announcement, an immediate election would violate
// leases.
func (h *Host) NodeDeparted(node NodeID) {
	for _, g := range h.order {
		if g.election.followsLeaderOn(node) {
			g.quiescence.active()
			g.election.voteLease.release()
			g.election.electSuccessor(urgentTicks)
		}
	}
}

// followsLeaderOn reports whether the group follows a leader on the given other node.
func (e *election) followsLeaderOn(node NodeID) bool {
	g := e.g
	leader := g.route(g.lead)
	return !g.leading && leader != nil && leader.Node == node
}

// urgentTicks is the number of ticks for which a group without a leader campaigns in every tick, and the number of
// ticks for which a candidate waits for votes.
const urgentTicks = 8

// tick campaigns for a group without a leader.
func (e *election) tick() {
	g := e.g
	if e.urgent == 0 {
		return
	}
	if e.urgent--; g.lead != raft.None {
		e.urgent = 0
		return
	}
	// A new campaign would discard delayed votes.
	if !g.raft.campaigns() || e.urgent%urgentTicks == 0 {
		e.campaign()
	}
}

// Campaign makes a group without a leader, such as a new group, elect a leader immediately. It has no effect if a
// leader is known.
func (h *Host) Campaign(id uint64) {
	g := h.groups[id]
	if g == nil || g.lead != raft.None || g.election.voteLease.binds(h.ticks, h.opts.Node) || g.applied == 0 {
		return
	}
	g.quiescence.active()
	g.election.urgent = urgentTicks
	g.election.campaign()
	h.mark(g)
}
