// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/invariant"
)

// processReady proposes queued proposals and hands out all work that the library has ready.
func (h *Host) processReady(g *Group) {
	if g.closed {
		return
	}
	for {
		if g.leading {
			h.proposeQueued(g)
			g.reads.start()
		} else {
			g.reads.queueQuery()
		}
		rd, ok := g.raft.ready()
		if !ok {
			if invariant.Enabled {
				g.invariants.checkReady(g)
			}
			return
		}
		g.pending.number(rd.Entries)
		if rd.HardState != nil {
			g.term, g.commit = rd.HardState.GetTerm(), rd.HardState.GetCommit()
		}
		if rd.SoftState != nil {
			h.leaderChanged(g, rd.SoftState)
		}
		for i := range rd.ReadStates {
			g.reads.confirmed(&rd.ReadStates[i])
		}
		g.reads.serve()
		hushed := g.commits.suppressed
		for _, m := range rd.Messages {
			switch {
			case m.GetTo() == raft.LocalAppendThread:
				g.tail.append(m, rd.MustSync)
			case m.GetTo() == raft.LocalApplyThread:
				g.applying.apply(m)
			case m.GetType() == pb.MsgSnap:
				g.snapshots.ship(m)
			case !g.commits.suppress(m, hushed) && g.commits.limitCommit(m):
				h.send(g, m)
			}
		}
	}
}

// leaderChanged handles a new leader or role.
func (h *Host) leaderChanged(g *Group, s *raft.SoftState) {
	leading := s.RaftState == raft.StateLeader
	if g.leading && !leading {
		g.stepDown(h)
	}
	changed := g.lead != s.Lead
	if changed && s.Lead == raft.None {
		g.leaderless = h.ticks
	}
	g.lead, g.leading = s.Lead, leading
	g.leadShown.Store(s.Lead)
	if changed {
		g.commits.forget()
		g.reads.forgetLeader()
	}
	if leading {
		g.offer, g.pending.changing = transferOffer{}, false
	}
	g.fresh.support = nil
	if changed && h.opts.Events.LeaderChanged != nil {
		leader := Member{Replica: g.lead}
		if r := g.route(g.lead); r != nil {
			leader = *r
		}
		h.opts.Events.LeaderChanged(g.id, leader, g.term)
	}
}

// stepDown ends all operations that only a leader may complete. Entries in the log may still be committed (see
// pending.go).
func (g *Group) stepDown(h *Host) {
	g.leading, g.pending.changing = false, false
	g.evaluating.Store(0)
	g.lease.revoke()
	g.reads.fail(ErrNotLeader)
	g.reads.rejectQueries()
	for i := range g.queue {
		g.queue[i].end(Outcome{Err: ErrNotLeader})
	}
	g.queue = nil
	g.pending.orphan()
}
