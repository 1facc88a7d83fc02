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

// NewRead admits a read at the leader, or at a follower, which asks the leader (G10). When waiter hears of success, the
// state here holds everything that had succeeded before NewRead (G2).
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

// Lease begins a read under a lease: a token for Leased, 0 if there is no lease. It must be called before the read: a
// lease that is granted between the read and the look at the clock says nothing about what was read.
func (g *Group) Lease() (token uint64) {
	if !g.leaseUsed.Load() {
		g.leaseUsed.Store(true)
	}
	token = g.leaseEpoch.Load()
	if g.lease.Load() == 0 {
		return 0
	}
	return token
}

// Leased reports whether what was read between Lease and the reading of the clock may be served. That the clock comes
// last makes it safe: a process that was paused after the read finds its lease over. A lease that was prolonged
// meanwhile is as good, because within an epoch nobody else has led; one that was revoked and granted again is not.
func (g *Group) Leased(token uint64, now Instant) bool {
	return token != 0 && int64(now) < g.lease.Load() && g.leaseEpoch.Load() == token
}

// readState is what a replica knows of reads. One round, or one question to the leader, is under way at a time; reads
// that come meanwhile wait for the next.
type readState struct {
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
	// granted is a lease that is not yet published: it needs grantedIndex applied.
	granted      Instant
	grantedIndex uint64
	renew        bool
}

// idle reports whether nobody waits.
func (r *readState) idle() bool {
	return len(r.queue)+len(r.asking)+len(r.waiting)+len(r.askers)+len(r.asked) == 0 && r.round == 0 && !r.renew
}

type waitingReads struct {
	index     uint64
	reads     []Read
	beganTick uint64 // of a follower's question
}

func (h *Host) read(r Read) {
	g := r.g
	if g.closed || g.lead == raft.None {
		r.end(Outcome{Err: ErrNotLeader})
		return
	}
	h.awake(g)
	g.reads.queue = append(g.reads.queue, r)
	h.mark(g)
}

// startRead begins a round: a quorum is to say that it still follows this leader. Before the leader has applied an
// entry of its own term it does not know what is committed, a single voter least of all.
func (h *Host) startRead(g *Group) {
	r := &g.reads
	if r.round != 0 || len(r.queue)+len(r.askers) == 0 && !r.renew || g.appliedTerm != g.term {
		return
	}
	r.last++
	r.round, r.beganAt, r.beganTick = r.last, h.now, h.ticks
	r.asking, r.queue, r.renew = r.queue, nil, false
	r.asked, r.askers = r.askers, nil
	g.raft.ReadIndex(binary.BigEndian.AppendUint64(nil, r.round))
}

// confirmed takes the answer of a round: reads may go on at its index, and the voters that answered have given their
// word.
func (h *Host) confirmed(g *Group, s *raft.ReadState) {
	r := &g.reads
	if len(s.RequestCtx) != 8 || binary.BigEndian.Uint64(s.RequestCtx) != r.round || r.round == 0 {
		return // a round that was given up
	}
	if len(r.asking) > 0 {
		r.waiting = append(r.waiting, waitingReads{index: s.Index, reads: r.asking})
	}
	for _, a := range r.asked {
		h.tell(g, a, s.Index)
	}
	r.asking, r.asked, r.round = nil, nil, 0
	if !g.transferred {
		r.granted, r.grantedIndex = r.beganAt+Instant(h.opts.lease()), s.Index
	}
}

// serveReads ends the reads whose index is applied, and publishes a lease on the same condition.
func (h *Host) serveReads(g *Group) {
	r := &g.reads
	for len(r.waiting) > 0 && r.waiting[0].index <= g.applied {
		for i := range r.waiting[0].reads {
			r.waiting[0].reads[i].end(Outcome{Index: r.waiting[0].index})
		}
		r.waiting = r.waiting[1:]
	}
	if r.granted != 0 && r.grantedIndex <= g.applied && g.leading && !g.transferred {
		g.lease.Store(int64(r.granted))
		r.granted = 0
	}
}

// tickReads gives a round up after an election timeout, because the library drops requests silently, and renews a lease
// that is in use before it ends.
func (h *Host) tickReads(g *Group) {
	r := &g.reads
	if r.round != 0 && h.ticks-r.beganTick > uint64(h.opts.ElectionTicks) {
		endAll(r.asking, ErrReadTimeout)
		for _, a := range r.asked {
			h.tell(g, a, 0)
		}
		r.asking, r.asked, r.round = nil, nil, 0
	}
	if g.leading && g.leaseUsed.Load() {
		g.leaseUsed.Store(false)
		g.lastActive = h.ticks
		if left := g.lease.Load() - int64(h.now); left < int64(h.opts.lease()/2) && !g.transferred {
			r.renew = true
		}
	}
}

// revokeLease ends the lease before anything that could let another replica lead.
func (g *Group) revokeLease() {
	g.lease.Store(0) // before the epoch: who sees the new epoch sees no lease of the old one
	g.leaseEpoch.Add(1)
	g.reads.granted = 0
}

// failReads ends the reads that no quorum has confirmed.
func (g *Group) failReads(err error) {
	r := &g.reads
	for _, list := range [][]Read{r.asking, r.queue} {
		for i := range list {
			list[i].end(Outcome{Err: err})
		}
	}
	r.asking, r.queue, r.round, r.renew = nil, nil, 0, false
}

// failWaiting ends those that wait to be applied.
func (g *Group) failWaiting(err error) {
	for _, w := range g.reads.waiting {
		for i := range w.reads {
			w.reads[i].end(Outcome{Err: err})
		}
	}
	g.reads.waiting = nil
}
