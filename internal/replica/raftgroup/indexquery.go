// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	pb "go.etcd.io/raft/v3/raftpb"
)

// A follower serves linearizable reads from its own state. It queries the leader for the commit index, waits until it
// has applied this index, and then reads. All waiting reads of a group share one query. All queries to one node share
// one frame. Reads that arrive while a query is in flight wait for the next query.
//
// Such a read is equivalent to a read on the leader because of the following rules (RG10):
//
//   - The index covers all writes that were acknowledged or visible to a reader before the read began. The leader must
//     use its commit index, because readers may see newer entries than the applied index known to the loop.
//   - The leader holds its lease when it reads the index. It checks the lease after the query has arrived, because
//     another leader could have acknowledged writes after an earlier check. Without a lease, the leader contacts a
//     quorum.
//   - The leader has applied an entry from its own term, because otherwise it does not know which entries are
//     committed.
//   - Only reads that began before the query was sent use the reply. Later reads wait for the next query.
//   - A follower never applies an entry that its leader has not applied; see limitCommit. Otherwise, a read at a
//     follower could return a write that a later read at the leader does not return yet.
//   - A replica that is not a member gets no reply. Closing a replica fails its reads. The state machine handles
//     snapshots that are installed during a read.
//
// A reply remains valid after a leader change, so a read with a reply waits during elections.

// MsgIndexQuery and MsgIndexReply are message types of this package. A follower queries its leader for the commit
// index. The field Index contains the number of the query. The reply contains the same number and, in the field Commit,
// the commit index. A leader that cannot return an index sends a rejection.
const (
	MsgIndexQuery = pb.MessageType(201)
	MsgIndexReply = pb.MessageType(202)
)

// queryLag is the maximum number of entries that a follower may lack to serve a read.
const queryLag = 256

// indexQuery is a follower's query that waits for a quorum.
type indexQuery struct{ replica, number uint64 }

// indexQueries holds the queries to one node.
type indexQueries struct {
	// first is the first number of the queries in flight, or 0. tick is the tick in which these queries were sent.
	// wanting holds the groups whose reads wait for the next queries.
	first, tick uint64
	wanting     []*Group
}

// queueQuery adds the group's reads to the next query to the leader's node.
func (r *reads) queueQuery() {
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
	p.queries.wanting = append(p.queries.wanting, g)
}

// sendQueries sends the queued queries to a node unless other queries to this node are in flight.
func (h *Host) sendQueries(p *peer) {
	if p.queries.first != 0 && h.ticks-p.queries.tick <= 1 { // a lost query delays the next query by at most two ticks
		return
	}
	p.queries.first = 0
	for i, g := range p.queries.wanting {
		p.queries.wanting[i] = nil
		r := &g.reads
		r.wanting = false
		leader := g.route(g.lead)
		if g.closed || g.leading || len(r.queue) == 0 || r.round != 0 {
			continue
		}
		if leader == nil || leader.Node != p.node {
			h.mark(g) // the group now follows another leader
			continue
		}
		h.peers.queriesSent++
		if p.queries.first == 0 {
			p.queries.first, p.queries.tick = h.peers.queriesSent, h.ticks
		}
		r.round, r.beganTick = h.peers.queriesSent, h.ticks
		r.asking, r.queue = r.queue, nil
		to, from, term, number := g.lead, g.replica, g.term, h.peers.queriesSent
		g.send(&pb.Message{Type: MsgIndexQuery.Enum(), To: &to, From: &from, Term: &term, Index: &number})
	}
	p.queries.wanting = p.queries.wanting[:0]
}

// handleQuery replies to a follower's query immediately or after a quorum has confirmed that this replica leads.
func (r *reads) handleQuery(m *pb.Message) {
	g, h := r.g, r.g.host
	a := indexQuery{m.GetFrom(), m.GetIndex()}
	full := len(r.newQueries)+len(r.activeQueries) >= routesMax
	if !g.leading || !g.membership.has(a.replica) || m.GetTerm() > g.term || full {
		r.replyQuery(a, 0)
		return
	}
	g.lease.used.Store(true)
	if !h.coarse && g.lease.left(h.now) > 0 && g.appliedTerm == g.term {
		r.replyQuery(a, g.commit)
		return
	}
	r.newQueries = append(r.newQueries, a)
	h.mark(g)
}

// replyQuery sends the reply to a query. The index 0 means that this replica cannot reply.
func (r *reads) replyQuery(a indexQuery, index uint64) {
	g := r.g
	if index > 0 {
		g.commits.awaited = max(g.commits.awaited, index)
		g.commits.applied()
	}
	to, from, term, reject := a.replica, g.replica, g.term, index == 0
	g.send(&pb.Message{
		Type: MsgIndexReply.Enum(), To: &to, From: &from, Term: &term, Index: &a.number, Commit: &index,
		Reject: &reject,
	})
}

// rejectQueries rejects the queries that no quorum has confirmed.
func (r *reads) rejectQueries() {
	for _, list := range [][]indexQuery{r.activeQueries, r.newQueries} {
		for _, a := range list {
			r.replyQuery(a, 0)
		}
	}
	r.activeQueries, r.newQueries = nil, nil
}

// handleReply processes a reply. The reads that waited for the reply then wait until its index is applied.
func (r *reads) handleReply(p *peer, m *pb.Message) {
	g, h := r.g, r.g.host
	if number := m.GetIndex(); p.queries.first != 0 && number >= p.queries.first && number <= h.peers.queriesSent {
		p.queries.first = 0 // the next queries may be sent while some groups in this frame wait for a quorum
	}
	h.mark(g)
	if g.leading || r.round == 0 || r.round != m.GetIndex() {
		return // the query was abandoned
	}
	index := m.GetCommit()
	reads := r.asking
	r.asking, r.round = nil, 0
	if m.GetReject() || index > g.applied+queryLag {
		endAll(reads, ErrNotLeader)
	} else {
		r.waiting = append(r.waiting, waitingReads{index: index, reads: reads, beganTick: r.beganTick})
		r.serve()
	}
}

// tickQueries fails the reads of a follower that have received no reply in time or whose index has not been applied in
// time.
func (r *reads) tickQueries() {
	h := r.g.host
	waitLimit := uint64(h.opts.ElectionTicks) / 4
	if r.round != 0 && h.ticks-r.beganTick > waitLimit {
		endAll(r.asking, ErrReadTimeout)
		r.asking, r.round = nil, 0
	}
	left := r.waiting[:0]
	for _, w := range r.waiting {
		if h.ticks-w.beganTick > waitLimit {
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

// forgetLeader fails the queries to the old leader after the follower's leader has changed.
func (r *reads) forgetLeader() {
	if r.round != 0 || len(r.queue) > 0 {
		r.fail(ErrNotLeader)
	}
}
