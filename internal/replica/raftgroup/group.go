// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"sync/atomic"

	"go.etcd.io/raft/v3"
)

// Group is one replica of a group. Exported methods are safe for concurrent use. Only the loop may use the fields below
// the comment "loop", except the atomic fields.
type Group struct {
	host        *Host
	id, replica uint64
	replicaState
	membership membership
	lease      lease
	gone       atomic.Bool

	// loop

	// raft is the library's state of this replica. log is its log.
	raft       rawNode
	log        raft.Storage
	election   election
	offer      transferOffer
	pending    pendingProposals
	reads      reads
	commits    commitNotifier
	fresh      freshness
	tail       logTail
	applying   applying
	snapshots  snapshots
	quiescence quiescence

	dirty      bool // in Host.dirty
	closed     bool
	idleThen   func(*Group) // set by Close
	invariants invariants

	// appliedBy is the last entry applied by the applier. Only the applier uses it.
	appliedBy uint64
}

// replicaState is the position of a replica in its group, with copies for other goroutines.
type replicaState struct {
	term   uint64
	commit uint64
	// lead is the leader, or 0. leading reports whether this replica is the leader.
	lead    uint64
	leading bool
	// applied is the index of the last entry that readers can see. Invariant: logTail.cut <= applied <= commit.
	applied, appliedTerm uint64

	// leadShown and appliedShown are copies of lead and applied for other goroutines. evaluating is the term in which
	// this replica leads and has applied all entries of previous terms, or 0.
	leadShown, appliedShown, evaluating atomic.Uint64
}

// setLeader records a leader and whether this replica is the leader.
func (s *replicaState) setLeader(lead uint64, leading bool) {
	s.lead, s.leading = lead, leading
	s.leadShown.Store(lead)
}

// setApplied makes all entries up to index visible to readers.
func (s *replicaState) setApplied(index, term uint64) {
	s.applied, s.appliedTerm = index, term
	s.appliedShown.Store(index)
	if s.leading && term == s.term {
		s.evaluating.Store(term)
	}
}

// newGroup returns a group with initialized parts.
func newGroup(h *Host, id, replica uint64) *Group {
	g := &Group{host: h, id: id, replica: replica}
	g.election.g, g.offer.g, g.pending.g, g.reads.g, g.commits.g, g.fresh.g = g, g, g, g, g, g
	g.tail.g, g.applying.g, g.snapshots.g, g.quiescence.g = g, g, g, g
	g.lease.epoch.Store(1)
	return g
}

// ID returns the ID of the group.
func (g *Group) ID() uint64 { return g.id }

// Replica returns the ID of the replica on this node.
func (g *Group) Replica() uint64 { return g.replica }

// Leader returns the leader according to this replica. ok is false if the leader is unknown.
func (g *Group) Leader() (m Member, ok bool) {
	if r := g.route(g.leadShown.Load()); r != nil {
		return *r, true
	}
	return Member{}, false
}

// Evaluating returns the term in which this replica leads and has applied all entries committed in older terms. The
// state and the replica's own proposals are then sufficient to evaluate a condition. The resulting proposal must
// contain the term.
func (g *Group) Evaluating() (term uint64, ok bool) {
	term = g.evaluating.Load()
	return term, term != 0
}

// Applied returns the index of the last entry that readers can see.
func (g *Group) Applied() uint64 { return g.appliedShown.Load() }

// tick advances the time of a group by one tick.
func (g *Group) tick() {
	h := g.host
	if g.applied == 0 { // a new replica never campaigns, but votes if its leader is silent
		g.raft.Tick()
		return
	}
	before := g.voteState()
	g.raft.Tick()
	g.checkVote(before, h.opts.Node)
	if g.leading {
		g.reads.tick()
	} else {
		g.reads.tickQueries()
	}
	g.pending.tick()
	h.batcher.tick(g)
	if g.leading && h.ticks%uint64(h.opts.HeartbeatTicks) == 0 {
		g.fresh.tick()
	}
	g.election.tick()
	g.offer.tick()
	if g.leading && !h.opts.AlwaysTick {
		g.quiescence.trySleep()
	}
	h.mark(g)
}

// checkIdle notifies the caller of Close when the group has no work in progress.
func (g *Group) checkIdle() {
	if g.closed && g.applying.items == 0 && !g.snapshots.installing && g.idleThen != nil {
		then := g.idleThen
		g.idleThen = nil
		then(g)
	}
}

// close fails all requests that wait for the group.
func (g *Group) close() {
	g.closed = true
	g.gone.Store(true)
	g.reads.failWaiting(ErrClosed)
	g.pending.abandon()
	g.fresh.at.Store(0)
	for i := range g.snapshots.appends {
		g.host.discard(g.snapshots.appends[i].data)
	}
	g.pending.queue, g.applying.held, g.snapshots.appends, g.applying.rest = nil, nil, nil, nil
}
