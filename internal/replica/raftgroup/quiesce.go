// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// A group becomes quiescent when its leader has been idle for two election timeouts and all members have all entries.
// It is then not ticked and causes no load. Heartbeats of nodes replace the heartbeats of groups. When a node becomes
// silent, the groups that it led wake. A quiescent leader has no lease after its last lease has ended. The first read
// wakes the group.

// awake records activity in a group.
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

// idle reports whether the group has no work in progress.
func (g *Group) idle(last uint64) bool {
	return g.applied == last && g.applying.items == 0 && len(g.queue)+len(g.pending.inflight)+len(g.pending.orphans)+
		len(g.snapshots.shipping)+len(g.snapshots.appends)+len(g.applying.held) == 0 &&
		g.reads.idle() && !g.tail.cutting && !g.pending.changing && g.urgent == 0 &&
		len(g.conf.GetVotersOutgoing()) == 0
}

// tryQuiesce makes a group quiescent if possible. The leader notifies its followers.
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

// quiesceWith makes this replica quiescent with its leader if the leader's information about this replica is correct.
// Otherwise the replica continues to tick, and its pre-vote will wake the leader.
func (h *Host) quiesceWith(g *Group, p *peer, m *pb.Message) {
	last, err := g.log.LastIndex()
	if err != nil || g.quiet || p.down || g.leading || g.lead != m.GetFrom() || g.term != m.GetTerm() ||
		last != m.GetIndex() || !g.idle(last) {
		return
	}
	h.sleep(g)
}

// wakeSome wakes quiescent groups whose leader's node is down. It wakes a few groups per tick, because a node may lead
// thousands.
func (h *Host) wakeSome() {
	left := h.opts.WakesPerTick
	for _, g := range h.order {
		if !g.quiet {
			continue
		}
		if !h.leaderDown(g) {
			continue
		}
		if left == 0 {
			return
		}
		left--
		h.wake(g)
		if g.applied > 0 {
			h.electSuccessor(g, h.opts.ElectionTicks)
		}
	}
	h.waking = false
}
