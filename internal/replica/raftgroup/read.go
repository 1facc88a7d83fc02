// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"encoding/binary"

	"go.etcd.io/raft/v3"
)

// Read is a request for the right to read. Make it with Group.NewRead and hand it to a Step.
type Read struct {
	g      *Group
	waiter Waiter
}

// NewRead admits a read at the leader, or at a follower, which asks the leader (RG10). When waiter hears of success,
// the state here holds everything that had succeeded before NewRead (RG2).
func (g *Group) NewRead(waiter Waiter) (Read, error) {
	switch {
	case g.gone.Load():
		return Read{}, ErrClosed
	case g.leadShown.Load() == raft.None:
		return Read{}, ErrNotLeader
	}
	if limit := int64(g.host.opts.ReadsPerGroup); g.reading.Add(1) > limit {
		g.reading.Add(-1)
		return Read{}, &Refused{"ReadsPerGroup", limit}
	}
	return Read{g, waiter}, nil
}

func (r *Read) end(o Outcome) {
	r.g.reading.Add(-1)
	r.waiter.Done(o)
}

// reads are the reads that wait at a replica. One round, or one question to the leader, is under way at a time; reads
// that come meanwhile wait for the next.
type reads struct {
	g     *Group
	queue []Read
	// round identifies the round or question under way, 0 for none; it began at an instant and a tick.
	round     uint64
	last      uint64
	beganAt   Instant
	beganTick uint64
	asking    []Read
	// waiting are reads that a quorum or the leader confirmed, until their index is applied.
	waiting []waitingReads
	// askers are followers that wait for the next round, asked those that wait for the one under way.
	askers, asked []asker
	// wanting says that the group is in the list of its leader's node for the next question.
	wanting bool
	// renew asks for a round although nobody waits: the lease is about to end.
	renew bool
}

// idle reports whether nobody waits.
func (r *reads) idle() bool {
	return len(r.queue)+len(r.asking)+len(r.waiting)+len(r.askers)+len(r.asked) == 0 && r.round == 0 && !r.renew
}

type waitingReads struct {
	index     uint64
	reads     []Read
	beganTick uint64 // of a follower's question
}

func (r *reads) enter(read Read) {
	g, h := r.g, r.g.host
	if g.closed || g.lead == raft.None {
		read.end(Outcome{Err: ErrNotLeader})
		return
	}
	h.awake(g)
	r.queue = append(r.queue, read)
	h.mark(g)
}

// start begins a round: a quorum is to say that it still follows this leader. Before the leader has applied an
// entry of its own term it does not know what is committed, a single voter least of all.
func (r *reads) start() {
	g, h := r.g, r.g.host
	if r.round != 0 || len(r.queue)+len(r.askers) == 0 && !r.renew || g.appliedTerm != g.term {
		return
	}
	r.last++
	r.round, r.beganAt, r.beganTick = r.last, h.now, h.ticks
	r.asking, r.queue, r.renew = r.queue, nil, false
	r.asked, r.askers = r.askers, nil
	g.raft.ReadIndex(binary.BigEndian.AppendUint64(nil, r.round))
}

// confirmed takes the result of a round: its reads may go on at its index, and the voters that answered have given
// their promise.
func (r *reads) confirmed(s *raft.ReadState) {
	g, h := r.g, r.g.host
	if len(s.RequestCtx) != 8 || binary.BigEndian.Uint64(s.RequestCtx) != r.round || r.round == 0 {
		return // a round that was given up
	}
	if len(r.asking) > 0 {
		r.waiting = append(r.waiting, waitingReads{index: s.Index, reads: r.asking})
	}
	for _, a := range r.asked {
		r.tell(a, s.Index)
	}
	r.asking, r.asked, r.round = nil, nil, 0
	if !g.offer.made {
		g.laws.leased = g.laws.members
		g.lease.grant(r.beganAt+Instant(h.opts.leaseFor()), s.Index)
	}
}

// serve ends the reads whose index is applied, and publishes a lease on the same condition.
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

// tick gives a round up after an election timeout, because the library drops requests silently, and renews a lease
// that is in use before it ends.
func (r *reads) tick() {
	g, h := r.g, r.g.host
	if r.round != 0 && h.ticks-r.beganTick > uint64(h.opts.ElectionTicks) {
		endAll(r.asking, ErrReadTimeout)
		for _, a := range r.asked {
			r.tell(a, 0)
		}
		r.asking, r.asked, r.round = nil, nil, 0
	}
	if g.leading && g.lease.takeUsed() {
		g.lastActive = h.ticks
		if g.lease.left(h.now) < h.opts.leaseFor()/2 && !g.offer.made {
			r.renew = true
		}
	}
}

// fail ends the reads that no quorum, and no leader, has confirmed.
func (r *reads) fail(err error) {
	for _, list := range [][]Read{r.asking, r.queue} {
		for i := range list {
			list[i].end(Outcome{Err: err})
		}
	}
	r.asking, r.queue, r.round, r.renew = nil, nil, 0, false
}

// failWaiting ends those that wait for their index to be applied.
func (r *reads) failWaiting(err error) {
	for _, w := range r.waiting {
		for i := range w.reads {
			w.reads[i].end(Outcome{Err: err})
		}
	}
	r.waiting = nil
}
