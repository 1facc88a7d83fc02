// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/invariant"
)

// processReady proposes queued proposals and passes on all pending work of the library.
func (g *Group) processReady() {
	if g.closed {
		return
	}
	for {
		if g.leading {
			g.pending.proposeQueued()
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
			g.leaderChanged(rd.SoftState)
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
				g.send(m)
			}
		}
	}
}

// leaderChanged handles a new leader or role.
func (g *Group) leaderChanged(s *raft.SoftState) {
	h := g.host
	leading := s.RaftState == raft.StateLeader
	if g.leading && !leading {
		g.stepDown()
	}
	changed := g.lead != s.Lead
	if changed && s.Lead == raft.None {
		g.election.leaderless = h.ticks
	}
	g.setLeader(s.Lead, leading)
	if changed {
		g.commits.forget()
		g.reads.forgetLeader()
	}
	if leading {
		g.offer, g.pending.changing = transferOffer{g: g}, false
	}
	g.fresh.support = nil
	if changed {
		leader := Member{Replica: g.lead}
		if r := g.route(g.lead); r != nil {
			leader = *r
		}
		h.opts.Observer.LeaderChanged(g.id, leader, g.term)
	}
}

// stepDown ends all operations that only a leader may complete. Entries in the log may still be committed (see
// pending.go).
func (g *Group) stepDown() {
	g.leading, g.pending.changing = false, false
	g.evaluating.Store(0)
	g.lease.revoke()
	g.reads.fail(ErrNotLeader)
	g.reads.rejectQueries()
	g.pending.failQueue(ErrNotLeader)
	g.pending.orphan()
}
