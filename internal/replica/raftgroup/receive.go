// SPDX-License-Identifier: Apache-2.0

package raftgroup

import pb "go.etcd.io/raft/v3/raftpb"

// receive steps the messages of one frame.
func (h *Host) receive(f *Received) {
	p := h.peers.of(f.From)
	p.silent = 0
	h.peers.clocks.update(p, f, h.now)
	if p.down {
		h.setDown(p, false)
	}
	if f.g != nil { // this message completes Expect
		f.g.snapshots.expecting = false
		if !h.step(p, f.Messages[0]) {
			h.discard(f.Messages[0].Data)
		}
		return
	}
	dropped := 0
	for _, m := range f.Messages {
		if m.Raft.GetType() == pb.MsgApp && len(m.Raft.GetEntries()) > 0 && h.logQueued > h.opts.LogQueueBytes {
			dropped++
			continue
		}
		h.step(p, m)
	}
	if dropped > 0 {
		h.opts.Observer.Dropped("LogQueueBytes", dropped)
	}
}

// step passes a message to its group. It reports whether the library has processed it.
func (h *Host) step(p *peer, message Message) bool {
	m := message.Raft
	g := h.groups[message.Group]
	if g == nil {
		h.opts.Observer.UnknownGroup(message.Group, m.GetTo(), p.node)
		h.early.keep(p.node, message, h.ticks)
		return false
	}
	// The message is for an earlier or later replica, because IDs are never reused.
	if m.GetTo() != g.replica {
		if m.GetTo() > g.replica {
			h.opts.Observer.UnknownGroup(message.Group, m.GetTo(), p.node)
		}
		return false
	}
	return g.step(p, message)
}

// step passes a message to the library unless this package handles or rejects the message. It reports whether the
// library has received the message.
func (g *Group) step(p *peer, message Message) bool {
	m := message.Raft
	g.learn(m.GetFrom(), p.node)
	if !g.admits(p, m) {
		return false
	}
	switch m.GetType() {
	case MsgIndexQuery:
		g.reads.handleQuery(m)
		return false
	case MsgIndexReply:
		g.reads.handleReply(p, m)
		return false
	case pb.MsgSnap:
		if !g.snapshots.accept(message) {
			return false
		}
		g.snapshots.arrived(message)
		return true
	}
	before := g.voteState()
	_ = g.raft.Step(m) // an error means that the sender is not a member or the message had no effect
	switch m.GetType() {
	case pb.MsgVote, pb.MsgPreVote:
		if string(m.GetContext()) != transferContext {
			g.checkVote(before, p.node)
		}
	case pb.MsgHeartbeat:
		g.fresh.handleClaim(p, m)
	case pb.MsgHeartbeatResp:
		g.fresh.supported(p, m)
	}
	g.host.mark(g)
	return true
}

// admits prepares the library's processing of a message. It reports whether step must pass the message to the library.
func (g *Group) admits(p *peer, m *pb.Message) bool {
	h := g.host
	switch t := m.GetType(); t {
	case msgQuiesce:
		g.quiescence.sleepWith(p, m)
		return false
	case pb.MsgTimeoutNow:
		if m.GetReject() {
			g.offer.handleDecline(m)
			return false
		}
		if h.policy.transferring || g.election.avoidsLeading(p.node) {
			// The leader does not know yet that this node abstains.
			g.decline(m)
			return false
		}
		g.quiescence.active()
	case pb.MsgVote, pb.MsgPreVote:
		if g.election.voteLease.binds(h.ticks, p.node) && string(m.GetContext()) != transferContext {
			return false // required by RG6
		}
		g.quiescence.active()
	case pb.MsgApp, pb.MsgHeartbeat, pb.MsgSnap:
		if m.GetTerm() >= g.term {
			g.election.voteLease.renew(h.ticks, h.opts.ElectionTicks)
		}
		if t != pb.MsgHeartbeat {
			g.quiescence.active()
		} else if g.quiescence.quiet {
			g.quiescence.wake()
		}
	case pb.MsgHeartbeatResp:
		if g.quiescence.quiet {
			g.quiescence.wake()
		}
	default:
		g.quiescence.active()
	}
	return true
}

// transferContext is the context of vote requests that result from a leadership transfer.
const transferContext = "CampaignTransfer"
