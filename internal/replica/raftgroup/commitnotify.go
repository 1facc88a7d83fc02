// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// commitNotifier determines when a leader notifies its followers of commits.
type commitNotifier struct {
	g *Group
	// suppressed is the last suppressed commit index (see suppress).
	suppressed uint64
	// held contains the messages that wait for the applier (see limitCommit). listed reports whether the group is in
	// Host.notifying.
	held   []*pb.Message
	listed bool
	// awaited is the highest commit index for which a follower may be waiting.
	awaited uint64
	// appends records the tick in which entries were last sent to each follower.
	appends []appended
}

// appended is the tick in which entries were sent to a follower.
type appended struct{ replica, tick uint64 }

// suppress reports whether a message need not be sent. A message need not be sent if it contains only a commit index
// while later entries are in flight, because their commit will send a higher index. Under load, suppression saves
// nearly half of all messages. suppress suppresses only one message for each index above before. After a heartbeat, the
// library sends the same kind of message to determine the position of a follower that has missed entries. suppress
// therefore suppresses a message only if entries have been sent to the follower since the last heartbeat. A follower
// that has missed entries rejects such entries.
func (n *commitNotifier) suppress(m *pb.Message, before uint64) bool {
	g := n.g
	commit := m.GetCommit()
	switch {
	case !g.leading || m.GetType() != pb.MsgApp:
		return false
	case len(m.GetEntries()) > 0:
		n.appended(m.GetTo())
		return false
	case len(g.pending.inflight) == 0:
		return false
	case commit <= before:
		return n.appendedLately(m.GetTo())
	}
	if last := &g.pending.inflight[len(g.pending.inflight)-1]; last.term != g.term || last.index <= commit {
		return false
	}
	n.suppressed = commit
	return true
}

// appended records that entries were sent to a follower.
func (n *commitNotifier) appended(replica uint64) {
	now := n.g.host.ticks
	for i := range n.appends {
		if a := &n.appends[i]; a.replica == replica {
			a.tick = now
			return
		}
	}
	n.appends = append(n.appends, appended{replica, now})
}

// appendedLately reports whether entries have been sent to a follower since the last heartbeat.
func (n *commitNotifier) appendedLately(replica uint64) bool {
	h := n.g.host
	return slices.ContainsFunc(n.appends, func(a appended) bool {
		return a.replica == replica && h.ticks-a.tick < uint64(h.opts.HeartbeatTicks)
	})
}

// forget discards the state. It must be called when another replica becomes the leader.
func (n *commitNotifier) forget() { n.held, n.appends = nil, n.appends[:0] }

// limitCommit prevents a leader's message from notifying a follower of a commit that this node has not applied (RG10).
// It lowers the commit index of a message with entries. A message that contains only a commit index waits for the
// applier. limitCommit reports whether the message must be sent now.
//
// The follower receives the withheld commit index with the next entries, with the held message, or with the next
// heartbeat.
func (n *commitNotifier) limitCommit(m *pb.Message) bool {
	g := n.g
	if !g.leading || m.GetType() != pb.MsgApp && m.GetType() != pb.MsgHeartbeat {
		return true
	}
	told := min(m.GetCommit(), g.applied)
	i := slices.IndexFunc(n.held, func(w *pb.Message) bool { return w.GetTo() == m.GetTo() })
	alone := m.GetType() == pb.MsgApp && len(m.GetEntries()) == 0
	switch {
	case alone && m.GetCommit() > g.applied && i >= 0:
		n.held[i] = m
		return false
	case alone && m.GetCommit() > g.applied:
		n.held = append(n.held, m)
		return false
	case i >= 0 && told >= n.held[i].GetCommit():
		n.held = slices.Delete(n.held, i, i+1)
	}
	if told < m.GetCommit() {
		m.Commit = new(told)
	}
	return true
}

// applied is called when the leader has applied entries. Held messages are sent immediately if the node is idle or if a
// follower's read is waiting. Otherwise, they wait until the work in progress has ended, because the next entries or
// the next heartbeat may contain the index.
func (n *commitNotifier) applied() {
	g, h := n.g, n.g.host
	if n.awaited != 0 && g.applied >= n.awaited {
		n.awaited = 0
		n.notifyNow()
	}
	if len(n.held) == 0 || n.listed {
		return
	}
	n.listed = true
	h.notifying = append(h.notifying, g)
}

// notifyAll sends the held messages at the end of a step.
func (h *Host) notifyAll() {
	if len(h.notifying) == 0 || h.batcher.unapplied > 0 {
		return
	}
	for i, g := range h.notifying {
		h.notifying[i] = nil
		g.commits.listed = false
		g.commits.notifyNow()
	}
	h.notifying = h.notifying[:0]
}

// notifyNow sends the held messages of a group whose indexes have been applied.
func (n *commitNotifier) notifyNow() {
	g := n.g
	untold := n.held
	n.held = nil
	for _, m := range untold {
		if g.leading && m.GetTerm() == g.term && n.limitCommit(m) {
			g.send(m)
		}
	}
}
