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
	// appends say when each follower was last sent entries.
	appends []appended
}

// appended is the tick in which a follower was sent entries.
type appended struct{ replica, tick uint64 }

// hush reports whether a message can be left out: one that tells a follower nothing but a commit index, while later
// entries are under way, whose own commit will bring a higher index. Under load that is nearly half of all messages and
// their answers. It leaves out one for each index above before: the library sends the same message after each heartbeat
// to find out how far a follower is that has missed something, and that one must get through. It need not if entries
// went to the follower since the last heartbeat: if it misses something it refuses those. Heartbeats carry the index,
// too.
func (n *news) hush(m *pb.Message, before uint64) bool {
	g := n.g
	commit := m.GetCommit()
	switch {
	case !g.leading || m.GetType() != pb.MsgApp:
		return false
	case len(m.GetEntries()) > 0:
		n.appended(m.GetTo())
		return false
	case len(g.flights.inflight) == 0:
		return false
	case commit <= before:
		return n.appendedLately(m.GetTo())
	}
	if last := &g.flights.inflight[len(g.flights.inflight)-1]; last.term != g.term || last.index <= commit {
		return false
	}
	n.hushed = commit
	return true
}

// appended notes that a follower is sent entries.
func (n *news) appended(replica uint64) {
	now := n.g.host.ticks
	for i := range n.appends {
		if a := &n.appends[i]; a.replica == replica {
			a.tick = now
			return
		}
	}
	n.appends = append(n.appends, appended{replica, now})
}

// appendedLately reports whether a follower was sent entries since the last heartbeat.
func (n *news) appendedLately(replica uint64) bool {
	h := n.g.host
	return slices.ContainsFunc(n.appends, func(a appended) bool {
		return a.replica == replica && h.ticks-a.tick < uint64(h.opts.HeartbeatTicks)
	})
}

// forget is called when another replica leads.
func (n *news) forget() { n.untold, n.appends = nil, n.appends[:0] }

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
	i := slices.IndexFunc(n.untold, func(w *pb.Message) bool { return w.GetTo() == m.GetTo() })
	alone := m.GetType() == pb.MsgApp && len(m.GetEntries()) == 0
	switch {
	case alone && m.GetCommit() > g.applied && i >= 0:
		n.untold[i] = m
		return false
	case alone && m.GetCommit() > g.applied:
		n.untold = append(n.untold, m)
		return false
	case i >= 0 && told >= n.untold[i].GetCommit():
		n.untold = slices.Delete(n.untold, i, i+1)
	}
	if told < m.GetCommit() {
		m.Commit = new(told)
	}
	return true
}

// applied is called when the leader has applied more. A message that waited for that is sent at once if nothing else is
// under way on the node. Otherwise the group's next entries or the next heartbeat are near, which carry the index at no
// cost: the message waits for them, or for the end of what is under way. It does not wait if a follower's read does.
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
	if len(h.telling) == 0 || h.gathering.unapplied > 0 {
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
