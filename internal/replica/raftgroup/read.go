// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"encoding/binary"
	"sync/atomic"

	"go.etcd.io/raft/v3"
)

// Read is a request for permission to read. Group.NewRead creates a Read, and a Step processes it.
type Read struct {
	g      *Group
	waiter Waiter
}

// NewRead admits a read. A follower queries the leader (RG10). When waiter receives a success, the local state contains
// all writes that had succeeded before NewRead (RG2).
func (g *Group) NewRead(waiter Waiter) (Read, error) {
	switch {
	case g.gone.Load():
		return Read{}, ErrClosed
	case g.leadShown.Load() == raft.None:
		return Read{}, ErrNotLeader
	}
	if limit := int64(g.host.opts.ReadsPerGroup); g.reads.admitted.Add(1) > limit {
		g.reads.admitted.Add(-1)
		return Read{}, &LimitError{"ReadsPerGroup", limit}
	}
	return Read{g, waiter}, nil
}

func (r *Read) end(o Outcome) {
	r.g.reads.admitted.Add(-1)
	r.waiter.Done(o)
}

// reads holds the waiting reads of a replica. Only one round or query to the leader is in progress at a time. Later
// reads wait for the next round or query.
type reads struct {
	g *Group
	// admitted is the number of admitted reads that are not completed.
	admitted atomic.Int64
	queue    []Read
	// round identifies the round or query in progress, or is 0. began and beganTick are the instant and the tick at
	// which this round or query started.
	round     uint64
	last      uint64
	beganAt   Instant
	beganTick uint64
	asking    []Read
	// waiting holds the reads that a quorum or the leader has confirmed and whose index has not been applied.
	waiting []waitingReads
	// newQueries holds followers' queries that wait for the next round. activeQueries holds followers' queries that
	// wait for the current round.
	newQueries, activeQueries []indexQuery
	// wanting reports whether the group is in the list for the next query to its leader's node.
	wanting bool
	// renew requests a round to renew the lease even if no read is waiting.
	renew bool
}

// idle reports whether no read or query is waiting.
func (r *reads) idle() bool {
	return len(r.queue)+len(r.asking)+len(r.waiting)+len(r.newQueries)+len(r.activeQueries) == 0 && r.round == 0 &&
		!r.renew
}

type waitingReads struct {
	index     uint64
	reads     []Read
	beganTick uint64 // tick in which a follower sent its query
}

func (r *reads) enter(read Read) {
	g, h := r.g, r.g.host
	if g.closed || g.lead == raft.None {
		read.end(Outcome{Err: ErrNotLeader})
		return
	}
	g.quiescence.active()
	r.queue = append(r.queue, read)
	h.mark(g)
}

// start starts a round, in which a quorum must confirm that it still follows this leader. The leader must have applied
// an entry from its own term, because otherwise it does not know which entries are committed.
func (r *reads) start() {
	g, h := r.g, r.g.host
	if r.round != 0 || len(r.queue)+len(r.newQueries) == 0 && !r.renew || g.appliedTerm != g.term {
		return
	}
	r.last++
	r.round, r.beganAt, r.beganTick = r.last, h.now, h.ticks
	r.asking, r.queue, r.renew = r.queue, nil, false
	r.activeQueries, r.newQueries = r.newQueries, nil
	g.raft.ReadIndex(binary.BigEndian.AppendUint64(nil, r.round))
}

// confirmed processes the result of a round. The reads of the round then wait for the round's index. The round also
// grants a lease, because the voters that have responded have promised not to vote.
func (r *reads) confirmed(s *raft.ReadState) {
	g, h := r.g, r.g.host
	if len(s.RequestCtx) != 8 || binary.BigEndian.Uint64(s.RequestCtx) != r.round || r.round == 0 {
		return // the round was abandoned
	}
	if len(r.asking) > 0 {
		r.waiting = append(r.waiting, waitingReads{index: s.Index, reads: r.asking})
	}
	for _, a := range r.activeQueries {
		r.replyQuery(a, s.Index)
	}
	r.asking, r.activeQueries, r.round = nil, nil, 0
	if !g.offer.made {
		g.invariants.leased = g.invariants.members
		g.lease.grant(r.beganAt+Instant(h.opts.leaseFor()), s.Index)
	}
}

// serve completes the reads whose index has been applied. It also publishes a granted lease if the lease's index has
// been applied.
func (r *reads) serve() {
	g := r.g
	for len(r.waiting) > 0 && r.waiting[0].index <= g.applied {
		for i := range r.waiting[0].reads {
			r.waiting[0].reads[i].end(Outcome{Index: r.waiting[0].index})
		}
		r.waiting = r.waiting[1:]
	}
	if g.leading && !g.offer.made {
		g.lease.publish(g.applied)
	}
}

// tick abandons a round after an election timeout, because the library may drop requests without a report. It also
// renews a lease that is in use before the lease ends.
func (r *reads) tick() {
	g, h := r.g, r.g.host
	if r.round != 0 && h.ticks-r.beganTick > uint64(h.opts.ElectionTicks) {
		endAll(r.asking, ErrReadTimeout)
		for _, a := range r.activeQueries {
			r.replyQuery(a, 0)
		}
		r.asking, r.activeQueries, r.round = nil, nil, 0
	}
	if g.leading && g.lease.takeUsed() {
		g.quiescence.lastActive = h.ticks
		if g.lease.left(h.now) < h.opts.leaseFor()/2 && !g.offer.made {
			r.renew = true
		}
	}
}

// fail fails the reads that neither a quorum nor a leader has confirmed.
func (r *reads) fail(err error) {
	endAll(r.asking, err)
	endAll(r.queue, err)
	r.asking, r.queue, r.round, r.renew = nil, nil, 0, false
}

// failWaiting fails the reads that wait for their index to be applied.
func (r *reads) failWaiting(err error) {
	for _, w := range r.waiting {
		endAll(w.reads, err)
	}
	r.waiting = nil
}
