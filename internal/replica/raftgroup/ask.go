// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// A follower serves linearizable reads from its own state. It asks the leader for the commit index, waits until it has
// applied that, and reads. All reads of a group that wait are one question, and the questions of all groups that follow
// leaders on one node are one frame; while it is under way the next one gathers.
//
// That is as good as a read at the leader, by these laws (G10):
//
//   - The index is at or above everything that was acknowledged, or shown to any reader, before the read began. The
//     leader takes its commit index, not what it has applied: readers of its state may be ahead of what its loop has
//     heard of the applier.
//   - The leader holds its lease when it takes the index. The clock is read after the question has come: a lease that
//     was looked at before that says nothing about writes which another leader acknowledged in between. Without a lease
//     a quorum is asked.
//   - It has applied an entry of its own term. Before that it does not know what is committed.
//   - Only reads that had begun when the question was sent use its answer. Later ones wait for the next question.
//   - No follower applies an entry that its leader has not applied: see tellCommit. Otherwise a read at a follower
//     would show a write that a later read at the leader, under its lease, does not show yet.
//   - A replica that is no member is not answered. One that is closed fails its reads; what a snapshot replaces while
//     it is read is the business of the state machine.
//
// What is known of the index stays true whoever leads afterwards, so a read whose question was answered waits through
// elections.

// MsgAsk and MsgTell are the host's own. A follower asks its leader for the commit index; Index numbers the question.
// The answer repeats the number, and Commit is the index; a leader that cannot answer rejects.
const (
	MsgAsk  = pb.MessageType(201)
	MsgTell = pb.MessageType(202)
)

// askLag is how many entries a follower may lack that serves a read; one that lacks more leaves it to the leader.
const askLag = 256

// asker is a follower whose question waits for a quorum.
type asker struct{ replica, number uint64 }

// want queues a group's reads for the next question to the leader's node.
func (h *Host) want(g *Group) {
	r := &g.reads
	if len(r.queue) == 0 || r.round != 0 || r.wanting {
		return
	}
	leader := g.route(g.lead)
	if leader == nil || leader.Node == h.opts.Node {
		g.failReads(ErrNotLeader)
		return
	}
	r.wanting = true
	p := h.peerOf(leader.Node)
	p.wanting = append(p.wanting, g)
}

// ask sends the questions that have gathered for a node, if none to it is under way.
func (h *Host) ask(p *peer) {
	if p.question != 0 && h.ticks-p.askedTick <= 1 { // a lost one holds up the next for two ticks at most
		return
	}
	p.question = 0
	for i, g := range p.wanting {
		p.wanting[i] = nil
		r := &g.reads
		r.wanting = false
		leader := g.route(g.lead)
		if g.closed || g.leading || len(r.queue) == 0 || r.round != 0 {
			continue
		}
		if leader == nil || leader.Node != p.node {
			h.mark(g) // it follows another one meanwhile
			continue
		}
		h.questions++
		if p.question == 0 {
			p.question, p.askedTick = h.questions, h.ticks
		}
		r.round, r.beganTick = h.questions, h.ticks
		r.asking, r.queue = r.queue, nil
		to, from, term, number := g.lead, g.replica, g.term, h.questions
		h.send(g, &pb.Message{Type: MsgAsk.Enum(), To: &to, From: &from, Term: &term, Index: &number})
	}
	p.wanting = p.wanting[:0]
}

// asked answers a follower's question now, or as soon as a quorum has confirmed that this replica leads.
func (h *Host) asked(g *Group, m *pb.Message) {
	a := asker{m.GetFrom(), m.GetIndex()}
	full := len(g.reads.askers)+len(g.reads.asked) >= routesMax
	if !g.leading || !g.has(a.replica) || m.GetTerm() > g.term || full {
		h.tell(g, a, 0)
		return
	}
	g.leaseUsed.Store(true)
	if lease := g.lease.Load(); !h.coarse && int64(h.now) < lease && g.appliedTerm == g.term {
		h.tell(g, a, g.commit)
		return
	}
	g.reads.askers = append(g.reads.askers, a)
	h.mark(g)
}

// has reports whether a replica is a member.
func (g *Group) has(replica uint64) bool {
	return slices.Contains(g.conf.GetVoters(), replica) || slices.Contains(g.conf.GetVotersOutgoing(), replica) ||
		slices.Contains(g.conf.GetLearners(), replica)
}

// tell answers a question; index 0 says that it cannot be answered here.
func (h *Host) tell(g *Group, a asker, index uint64) {
	if index > 0 {
		g.awaited = max(g.awaited, index)
		h.tellApplied(g)
	}
	to, from, term, reject := a.replica, g.replica, g.term, index == 0
	h.send(g, &pb.Message{
		Type: MsgTell.Enum(), To: &to, From: &from, Term: &term, Index: &a.number, Commit: &index, Reject: &reject,
	})
}

// refuseAskers ends the questions that no quorum has confirmed.
func (h *Host) refuseAskers(g *Group) {
	for _, list := range [][]asker{g.reads.asked, g.reads.askers} {
		for _, a := range list {
			h.tell(g, a, 0)
		}
	}
	g.reads.asked, g.reads.askers = nil, nil
}

// told takes the answer: the reads that waited for it wait for its index to be applied.
func (h *Host) told(g *Group, p *peer, m *pb.Message) {
	if number := m.GetIndex(); p.question != 0 && number >= p.question && number <= h.questions {
		p.question = 0 // the next one may go, also while some groups of this one wait for a quorum
	}
	h.mark(g)
	r := &g.reads
	if g.leading || r.round == 0 || r.round != m.GetIndex() {
		return // it was given up
	}
	index := m.GetCommit()
	reads := r.asking
	r.asking, r.round = nil, 0
	if m.GetReject() || index > g.applied+askLag {
		endAll(reads, ErrNotLeader)
	} else {
		r.waiting = append(r.waiting, waitingReads{index: index, reads: reads, beganTick: r.beganTick})
		h.serveReads(g)
	}
}

// tickAsks gives reads of a follower up for which no answer came, or whose index is not applied for long: the leader
// may serve them.
func (h *Host) tickAsks(g *Group) {
	r := &g.reads
	patience := uint64(h.opts.ElectionTicks) / 4
	if r.round != 0 && h.ticks-r.beganTick > patience {
		endAll(r.asking, ErrReadTimeout)
		r.asking, r.round = nil, 0
	}
	left := r.waiting[:0]
	for _, w := range r.waiting {
		if h.ticks-w.beganTick > patience {
			endAll(w.reads, ErrReadTimeout)
		} else {
			left = append(left, w)
		}
	}
	clear(r.waiting[len(left):])
	r.waiting = left
}

func endAll(reads []Read, err error) {
	for i := range reads {
		reads[i].end(Outcome{Err: err})
	}
}

// forgetLeader ends what a follower has asked, for it follows another leader, or none, or leads.
func (g *Group) forgetLeader() {
	g.untold = nil
	if g.reads.round != 0 || len(g.reads.queue) > 0 {
		g.failReads(ErrNotLeader)
	}
}
