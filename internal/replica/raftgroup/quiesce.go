// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// A group becomes quiescent when its leader has been idle for two election timeouts and all members have all entries. A
// quiescent group has no ticks and no heartbeats. Heartbeats of nodes replace the heartbeats of groups. When a node
// becomes silent, the groups that it led wake. A read also wakes a group, because a quiescent leader has no lease.

// quiescence records the activity of a replica and whether it is quiescent.
type quiescence struct {
	g     *Group
	quiet bool
	// lastActive is the tick of the last activity.
	lastActive uint64
}

// active records activity in a group.
func (q *quiescence) active() {
	q.lastActive = q.g.host.ticks
	if q.quiet {
		q.wake()
	}
}

func (q *quiescence) wake() {
	q.lastActive = q.g.host.ticks
	q.set(false)
}

func (q *quiescence) set(quiet bool) {
	q.quiet = quiet
	q.g.host.opts.Observer.Quiesced(q.g.id, quiet)
}

// idle reports whether the group has no work in progress.
func (g *Group) idle(last uint64) bool {
	f, x := &g.pending, &g.snapshots
	return g.applied == last && g.applying.items == 0 && len(g.applying.held) == 0 &&
		len(f.queue)+len(f.inflight)+len(f.orphans) == 0 && len(x.shipping)+len(x.appends) == 0 &&
		g.reads.idle() && !g.tail.cutting && !f.changing && g.election.urgent == 0 && !g.membership.joint()
}

// trySleep makes a group quiescent if possible, and notifies the followers.
func (q *quiescence) trySleep() {
	g, h := q.g, q.g.host
	if q.quiet || h.ticks-q.lastActive <= 2*uint64(h.opts.ElectionTicks) {
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
	q.set(true)
	for _, m := range g.membership.members() {
		if m.Replica == g.replica {
			continue
		}
		kind, to, from, term, index := msgQuiesce, m.Replica, g.replica, g.term, last
		g.send(&pb.Message{Type: &kind, To: &to, From: &from, Term: &term, Index: &index})
	}
}

// sleepWith makes this replica quiescent if the leader's information about the replica is correct. Otherwise, the
// replica continues to tick, and its pre-vote will wake the leader.
func (q *quiescence) sleepWith(p *peer, m *pb.Message) {
	g := q.g
	last, err := g.log.LastIndex()
	if err != nil || q.quiet || p.down || g.leading || g.lead != m.GetFrom() || g.term != m.GetTerm() ||
		last != m.GetIndex() || !g.idle(last) {
		return
	}
	q.set(true)
}

// wakeSome wakes quiescent groups whose leader's node is down. It wakes only a few groups in each tick, because a node
// may lead thousands of groups.
func (h *Host) wakeSome() {
	left := h.opts.WakesPerTick
	for _, g := range h.order {
		if !g.quiescence.quiet || !g.election.leaderDown() {
			continue
		}
		if left == 0 {
			return
		}
		left--
		g.quiescence.wake()
		if g.applied > 0 {
			g.election.electSuccessor(h.opts.ElectionTicks)
		}
	}
	h.waking = false
}
