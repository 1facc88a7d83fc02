// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	pb "go.etcd.io/raft/v3/raftpb"
)

// A follower serves linearizable reads from its own state. It asks the leader for the commit index, waits until it has
// applied that index, and reads. All waiting reads of a group share one question, and the questions of all groups whose
// leaders are on one node share one frame. While one is under way, the next gathers.
//
// That is as good as a read at the leader, by these laws (RG10):
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
// An answer stays true whichever replica leads afterwards, so a read whose question was answered waits through
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

// questions are those to one node.
type questions struct {
	// first is the first number of those under way, 0 for none; tick is when they were sent. wanting are the groups
	// whose reads wait for the next ones.
	first, tick uint64
	wanting     []*Group
}

// want queues the group's reads for the next question to the leader's node.
func (r *reads) want() {
	g, h := r.g, r.g.host
	if len(r.queue) == 0 || r.round != 0 || r.wanting {
		return
	}
	leader := g.route(g.lead)
	if leader == nil || leader.Node == h.opts.Node {
		r.fail(ErrNotLeader)
		return
	}
	r.wanting = true
	p := h.peers.of(leader.Node)
	p.asks.wanting = append(p.asks.wanting, g)
}

// ask sends the questions that have gathered for a node, if none to it is under way.
func (h *Host) ask(p *peer) {
	if p.asks.first != 0 && h.ticks-p.asks.tick <= 1 { // a lost one holds up the next for two ticks at most
		return
	}
	p.asks.first = 0
	for i, g := range p.asks.wanting {
		p.asks.wanting[i] = nil
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
		h.asked++
		if p.asks.first == 0 {
			p.asks.first, p.asks.tick = h.asked, h.ticks
		}
		r.round, r.beganTick = h.asked, h.ticks
		r.asking, r.queue = r.queue, nil
		to, from, term, number := g.lead, g.replica, g.term, h.asked
		h.send(g, &pb.Message{Type: MsgAsk.Enum(), To: &to, From: &from, Term: &term, Index: &number})
	}
	p.asks.wanting = p.asks.wanting[:0]
}

// answer answers a follower's question now, or as soon as a quorum has confirmed that this replica leads.
func (r *reads) answer(m *pb.Message) {
	g, h := r.g, r.g.host
	a := asker{m.GetFrom(), m.GetIndex()}
	full := len(r.askers)+len(r.asked) >= routesMax
	if !g.leading || !g.has(a.replica) || m.GetTerm() > g.term || full {
		r.tell(a, 0)
		return
	}
	g.lease.used.Store(true)
	if !h.coarse && g.lease.left(h.now) > 0 && g.appliedTerm == g.term {
		r.tell(a, g.commit)
		return
	}
	r.askers = append(r.askers, a)
	h.mark(g)
}

// tell answers a question; index 0 says that it cannot be answered here.
func (r *reads) tell(a asker, index uint64) {
	g, h := r.g, r.g.host
	if index > 0 {
		g.news.awaited = max(g.news.awaited, index)
		g.news.applied()
	}
	to, from, term, reject := a.replica, g.replica, g.term, index == 0
	h.send(g, &pb.Message{
		Type: MsgTell.Enum(), To: &to, From: &from, Term: &term, Index: &a.number, Commit: &index, Reject: &reject,
	})
}

// refuseAskers ends the questions that no quorum has confirmed.
func (r *reads) refuseAskers() {
	for _, list := range [][]asker{r.asked, r.askers} {
		for _, a := range list {
			r.tell(a, 0)
		}
	}
	r.asked, r.askers = nil, nil
}

// told takes the answer: the reads that waited for it wait for its index to be applied.
func (r *reads) told(p *peer, m *pb.Message) {
	g, h := r.g, r.g.host
	if number := m.GetIndex(); p.asks.first != 0 && number >= p.asks.first && number <= h.asked {
		p.asks.first = 0 // the next one may go, also while some groups of this one wait for a quorum
	}
	h.mark(g)
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
		r.serve()
	}
}

// tickAsks gives reads of a follower up for which no answer came, or whose index is not applied for long: the leader
// may serve them.
func (r *reads) tickAsks() {
	h := r.g.host
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
func (r *reads) forgetLeader() {
	if r.round != 0 || len(r.queue) > 0 {
		r.fail(ErrNotLeader)
	}
}
