// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// news decides when a leader's followers hear of commits.
type news struct {
	g *Group
	// hushed is the commit index that was left out last, see hush.
	hushed uint64
	// untold are messages that wait for the applier, see tellCommit; listed says that the group is in Host.telling.
	untold []*pb.Message
	listed bool
	// awaited is the highest commit index that a follower was told and may wait for.
	awaited uint64
}

// hush reports whether a message can be left out: one that tells a follower nothing but a commit index, while later
// entries are under way, whose own commit will bring a higher index. Under load that is nearly half of all messages and
// their answers. It leaves out one for each index above before: the library sends the same message to find out how far
// a follower is that has missed something, and that one must get through. Heartbeats carry the index, too.
func (n *news) hush(m *pb.Message, before uint64) bool {
	g := n.g
	commit := m.GetCommit()
	if !g.leading || len(g.flights.inflight) == 0 || m.GetType() != pb.MsgApp || len(m.GetEntries()) > 0 ||
		commit <= before {
		return false
	}
	if last := &g.flights.inflight[len(g.flights.inflight)-1]; last.term != g.term || last.index <= commit {
		return false
	}
	n.hushed = commit
	return true
}

// tellCommit keeps a message of a leader from telling a follower of a commit that is not applied here (RG10). Entries
// leave at once and tell of less; a message that tells of nothing else waits for the applier, and longer while the node
// is busy. It reports whether the message is to be sent now.
//
// The library believes that the follower was told. It hears of what was held back with the next entries, from the
// message that waits here, or from the next heartbeat.
func (n *news) tellCommit(m *pb.Message) bool {
	g := n.g
	if !g.leading || m.GetType() != pb.MsgApp && m.GetType() != pb.MsgHeartbeat {
		return true
	}
	told := min(m.GetCommit(), g.applied)
	if m.GetType() == pb.MsgApp {
		i := slices.IndexFunc(n.untold, func(w *pb.Message) bool { return w.GetTo() == m.GetTo() })
		switch {
		case len(m.GetEntries()) == 0 && m.GetCommit() > g.applied && i >= 0:
			n.untold[i] = m
			return false
		case len(m.GetEntries()) == 0 && m.GetCommit() > g.applied:
			n.untold = append(n.untold, m)
			return false
		case i >= 0 && told >= n.untold[i].GetCommit():
			n.untold = slices.Delete(n.untold, i, i+1)
		}
	}
	if told < m.GetCommit() {
		m.Commit = new(told)
	}
	return true
}

// applied is called when the leader has applied more. A message that waited for that is sent at once if nothing else is
// under way on the node. Otherwise the group's next entries, which carry the index at no cost, are probably near: the
// message waits for them, for the end of what is under way, or for the next tick. It does not wait if a follower's read
// does.
func (n *news) applied() {
	g, h := n.g, n.g.host
	if n.awaited != 0 && g.applied >= n.awaited {
		n.awaited = 0
		n.tellNow()
	}
	if len(n.untold) == 0 || n.listed {
		return
	}
	n.listed = true
	h.telling = append(h.telling, g)
}

// tellAll sends what waits, at the end of a step.
func (h *Host) tellAll() {
	if len(h.telling) == 0 || h.gathering.unapplied > 0 && !h.ticking {
		return
	}
	for i, g := range h.telling {
		h.telling[i] = nil
		g.news.listed = false
		g.news.tellNow()
	}
	h.telling = h.telling[:0]
}

// tellNow sends what waits in a group and is applied.
func (n *news) tellNow() {
	g, h := n.g, n.g.host
	untold := n.untold
	n.untold = nil
	for _, m := range untold {
		if g.leading && m.GetTerm() == g.term && n.tellCommit(m) {
			h.send(g, m)
		}
	}
}
