// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"sync/atomic"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Group is one replica of a group. Exported methods are safe for concurrent use. What belongs to the loop alone stands
// below that word; each of its parts has a file of its own.
type Group struct {
	host        *Host
	id, replica uint64

	lease  lease
	routes routes
	// evaluating is the term in which this replica leads and has applied everything older, 0 for none.
	evaluating atomic.Uint64
	leadShown  atomic.Uint64
	// appliedShown is applied, for readers; freshAt is FreshAt's.
	appliedShown atomic.Uint64
	freshAt      atomic.Int64
	proposals    atomic.Int64 // admitted and not ended
	reading      atomic.Int64
	gone         atomic.Bool

	// loop

	// raft is the library's state of this replica, log what it reads; initial and conf are what it begins with.
	raft    library
	log     raft.Storage
	initial *pb.HardState
	conf    *pb.ConfState
	term    uint64
	commit  uint64
	lead    uint64
	leading bool
	// leaderless is the tick since which no leader is known, if lead is 0.
	leaderless uint64
	// applied is the last entry that readers see. Invariant: tail.cut <= applied <= commit.
	applied, appliedTerm uint64

	promise   promise
	urgent    int // see tickUrgent
	offer     offer
	queue     []Proposal // not proposed yet
	flights   flights
	reads     reads
	news      news
	fresh     freshness
	tail      tail
	applying  applying
	snapshots snapshots

	dirty    bool // in Host.dirty
	gathered bool // in gathering.waiting
	closed   bool
	idleThen func(*Group) // of Close
	quiet    bool
	// lastActive is the tick in which something last happened.
	lastActive uint64

	laws laws

	// appliedBy is the applier's own: the last entry that it applied.
	appliedBy uint64
}

// newGroup returns a group whose parts know it.
func newGroup(h *Host, id, replica uint64) *Group {
	g := &Group{host: h, id: id, replica: replica}
	g.flights.g, g.reads.g, g.news.g, g.fresh.g, g.tail.g, g.applying.g, g.snapshots.g = g, g, g, g, g, g, g
	g.lease.epoch.Store(1)
	return g
}

// ID is the group's id, Replica that of this replica.
func (g *Group) ID() uint64 { return g.id }

// Replica is the id of the replica on this node.
func (g *Group) Replica() uint64 { return g.replica }

// Leader returns the leader as far as this replica knows; ok is false if there is none.
func (g *Group) Leader() (m Member, ok bool) {
	if r := g.route(g.leadShown.Load()); r != nil {
		return *r, true
	}
	return Member{}, false
}

// Evaluating returns the term in which this replica leads and has applied everything that older terms committed: then
// its state, plus what it has proposed itself, is all that a condition needs to know. A proposal evaluated so carries
// the term.
func (g *Group) Evaluating() (term uint64, ok bool) {
	term = g.evaluating.Load()
	return term, term != 0
}

// Applied is the index of the last entry that readers see.
func (g *Group) Applied() uint64 { return g.appliedShown.Load() }

// checkIdle tells the caller of Close as soon as nothing of the group is under way any more.
func (g *Group) checkIdle() {
	if g.closed && g.applying.items == 0 && !g.snapshots.installing && g.idleThen != nil {
		then := g.idleThen
		g.idleThen = nil
		then(g)
	}
}

// close ends everything that waits for the group.
func (g *Group) close() {
	g.closed = true
	g.gone.Store(true)
	g.reads.failWaiting(ErrClosed)
	g.flights.abandon()
	g.freshAt.Store(0)
	for i := range g.snapshots.appends {
		g.host.discard(g.snapshots.appends[i].data)
	}
	g.queue, g.applying.held, g.snapshots.appends, g.applying.rest = nil, nil, nil, nil
}
