// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// A group is quiet when its leader had nothing to do for two election timeouts and all members have everything: then
// nobody ticks it, and it costs nothing. Heartbeats of nodes stand in for those of groups: when a node falls silent,
// the groups that it led wake. A quiet leader has no lease after the last one ended; the first read wakes the group.

// awake notes that something happened in a group.
func (h *Host) awake(g *Group) {
	g.lastActive = h.ticks
	if g.quiet {
		h.wake(g)
	}
}

func (h *Host) wake(g *Group) {
	g.quiet = false
	g.lastActive = h.ticks
	if h.opts.Events.Quiesced != nil {
		h.opts.Events.Quiesced(g.id, false)
	}
}

func (h *Host) sleep(g *Group) {
	g.quiet = true
	if h.opts.Events.Quiesced != nil {
		h.opts.Events.Quiesced(g.id, true)
	}
}

// idle reports whether nothing is under way in the group.
func (g *Group) idle(last uint64) bool {
	return g.applied == last && g.applying.items == 0 && len(g.queue)+len(g.flights.inflight)+len(g.flights.orphans)+
		len(g.snapshots.shipping)+len(g.snapshots.appends)+len(g.applying.held) == 0 &&
		g.reads.idle() && !g.tail.cutting && !g.flights.changing && g.urgent == 0 &&
		len(g.conf.GetVotersOutgoing()) == 0
}

// tryQuiesce lets a group fall quiet; the leader says so to its followers.
func (h *Host) tryQuiesce(g *Group) {
	if g.quiet || h.ticks-g.lastActive <= 2*uint64(h.opts.ElectionTicks) {
		return
	}
	last, err := g.log.LastIndex()
	if err != nil || !g.idle(last) {
		return
	}
	matched := true
	g.raft.progress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		r := g.route(id)
		if p.Match != last || r == nil || r.Node != h.opts.Node && h.peers.of(r.Node).down {
			matched = false
		}
	})
	if !matched {
		return
	}
	h.sleep(g)
	for _, m := range g.members() {
		if m.Replica == g.replica {
			continue
		}
		kind, to, from, term, index := msgQuiesce, m.Replica, g.replica, g.term, last
		h.send(g, &pb.Message{Type: &kind, To: &to, From: &from, Term: &term, Index: &index})
	}
}

// quiesceWith follows the leader into quiet if this replica is where the leader believes it to be. Else it goes on
// ticking; its pre-vote will wake the leader.
func (h *Host) quiesceWith(g *Group, p *peer, m *pb.Message) {
	last, err := g.log.LastIndex()
	if err != nil || g.quiet || p.down || g.leading || g.lead != m.GetFrom() || g.term != m.GetTerm() ||
		last != m.GetIndex() || !g.idle(last) {
		return
	}
	h.sleep(g)
}

// wakeSome wakes quiet groups whose leader's node is down, a few per tick: a node may lead thousands.
func (h *Host) wakeSome() {
	left := h.opts.WakesPerTick
	for _, g := range h.order {
		if !g.quiet {
			continue
		}
		if !h.deserted(g) {
			continue
		}
		if left == 0 {
			return
		}
		left--
		h.wake(g)
		if g.applied > 0 {
			h.succeed(g, h.opts.ElectionTicks)
		}
	}
	h.waking = false
}
