// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// tellCommit keeps a message of a leader from telling a follower of a commit that is not applied here (G10). Entries
// leave at once and tell of less; a message that tells of nothing else waits for the applier, and longer while the node
// is busy. It reports whether the message is to be sent now.
//
// The library believes that it has told all. What was held back is told with the next entries, by the message that
// waits here, or by the next heartbeat.
func (h *Host) tellCommit(g *Group, m *pb.Message) bool {
	if !g.leading || m.GetType() != pb.MsgApp && m.GetType() != pb.MsgHeartbeat {
		return true
	}
	told := min(m.GetCommit(), g.applied)
	if m.GetType() == pb.MsgApp {
		i := slices.IndexFunc(g.untold, func(w *pb.Message) bool { return w.GetTo() == m.GetTo() })
		switch {
		case len(m.GetEntries()) == 0 && m.GetCommit() > g.applied && i >= 0:
			g.untold[i] = m
			return false
		case len(m.GetEntries()) == 0 && m.GetCommit() > g.applied:
			g.untold = append(g.untold, m)
			return false
		case i >= 0 && told >= g.untold[i].GetCommit():
			g.untold = slices.Delete(g.untold, i, i+1)
		}
	}
	if told < m.GetCommit() {
		m.Commit = &told
	}
	return true
}

// tellApplied is called when the leader has applied more. What waited for that is sent now if nothing else is under way
// on the node. If there is, the group's next entries, which tell of it for nothing, are probably near: it waits for
// them, for the end of what is under way, or for the next tick. It does not wait where a follower that reads does.
func (h *Host) tellApplied(g *Group) {
	if g.awaited != 0 && g.applied >= g.awaited {
		g.awaited = 0
		h.tellNow(g)
	}
	if len(g.untold) == 0 || g.telling {
		return
	}
	g.telling = true
	h.telling = append(h.telling, g)
}

// tellAll sends what waits, at the end of a step.
func (h *Host) tellAll() {
	if len(h.telling) == 0 || h.unapplied > 0 && !h.ticking {
		return
	}
	for i, g := range h.telling {
		h.telling[i] = nil
		g.telling = false
		h.tellNow(g)
	}
	h.telling = h.telling[:0]
}

// tellNow sends what waits in a group and is applied.
func (h *Host) tellNow(g *Group) {
	untold := g.untold
	g.untold = nil
	for _, m := range untold {
		if g.leading && m.GetTerm() == g.term && h.tellCommit(g, m) {
			h.send(g, m)
		}
	}
}
