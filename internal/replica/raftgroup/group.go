// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"sync/atomic"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Group is one replica of a group. Exported methods are safe for concurrent use. The fields below the comment "loop"
// belong to the loop. Each part of the group has its own file.
type Group struct {
	host        *Host
	id, replica uint64

	lease  lease
	routes routes
	// evaluating is the term in which this replica leads and has applied all older entries, or 0.
	evaluating atomic.Uint64
	leadShown  atomic.Uint64
	// appliedShown is the applied index for readers. freshAt is the result of FreshAt.
	appliedShown atomic.Uint64
	freshAt      atomic.Int64
	proposals    atomic.Int64 // number of admitted and uncompleted proposals
	reading      atomic.Int64
	gone         atomic.Bool

	// loop

	// raft is the library's state of this replica. log is its log. initial and conf are its initial state.
	raft    rawNode
	log     raft.Storage
	initial *pb.HardState
	conf    *pb.ConfState
	term    uint64
	commit  uint64
	lead    uint64
	leading bool
	// leaderless is the tick since which no leader has been known, if lead is 0.
	leaderless uint64
	// applied is the index of the last entry that is visible to readers. Invariant: tail.cut <= applied <= commit.
	applied, appliedTerm uint64

	voteLease voteLease
	urgent    int // used by tickUrgent
	offer     transferOffer
	queue     []Proposal // proposals that have not been proposed yet
	pending   pendingProposals
	reads     reads
	commits   commitNotifier
	fresh     freshness
	tail      logTail
	applying  applying
	snapshots snapshots

	dirty    bool // the group is in Host.dirty
	batched  bool // the group is in batcher.waiting
	closed   bool
	idleThen func(*Group) // set by Close
	quiet    bool
	// lastActive is the tick of the last activity.
	lastActive uint64

	invariants invariants

	// appliedBy is the index of the last entry applied by the applier. Only the applier uses it.
	appliedBy uint64
}

// newGroup returns a group with initialized parts.
func newGroup(h *Host, id, replica uint64) *Group {
	g := &Group{host: h, id: id, replica: replica}
	g.pending.g, g.reads.g, g.commits.g, g.fresh.g, g.tail.g, g.applying.g, g.snapshots.g = g, g, g, g, g, g, g
	g.lease.epoch.Store(1)
	return g
}

// ID returns the ID of the group.
func (g *Group) ID() uint64 { return g.id }

// Replica returns the ID of the replica on this node.
func (g *Group) Replica() uint64 { return g.replica }

// Leader returns the leader, according to this replica's information. ok is false if the leader is unknown.
func (g *Group) Leader() (m Member, ok bool) {
	if r := g.route(g.leadShown.Load()); r != nil {
		return *r, true
	}
	return Member{}, false
}

// Evaluating returns the term in which this replica leads and has applied all entries committed in older terms. Its
// state and its own proposals are then sufficient to evaluate a condition. A proposal evaluated in this way contains
// the term.
func (g *Group) Evaluating() (term uint64, ok bool) {
	term = g.evaluating.Load()
	return term, term != 0
}

// Applied returns the index of the last entry that is visible to readers.
func (g *Group) Applied() uint64 { return g.appliedShown.Load() }

// checkIdle notifies the caller of Close once the group has no work in progress.
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
	g.freshAt.Store(0)
	for i := range g.snapshots.appends {
		g.host.discard(g.snapshots.appends[i].data)
	}
	g.queue, g.applying.held, g.snapshots.appends, g.applying.rest = nil, nil, nil, nil
}
