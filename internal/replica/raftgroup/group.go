// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"sync/atomic"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Group is one replica of a group. Exported methods are safe for concurrent use; fields behind "loop" are the loop's.
type Group struct {
	host        *Host
	id, replica uint64

	// lease is the Instant until which this replica may serve reads, 0 for none; leaseEpoch, never 0, counts
	// revocations; leaseUsed is set by readers who looked.
	lease      atomic.Int64
	leaseEpoch atomic.Uint64
	leaseUsed  atomic.Bool
	// evaluating is the term in which this replica leads and has applied everything older, 0 for none.
	evaluating atomic.Uint64
	leadShown  atomic.Uint64
	// appliedShown is applied, for readers; freshAt is FreshAt's.
	appliedShown atomic.Uint64
	freshAt      atomic.Int64
	proposals    atomic.Int64 // admitted and not ended
	reading      atomic.Int64
	gone         atomic.Bool
	// routes are the replicas whose node is known; the slice is replaced, never changed.
	routes atomic.Pointer[[]Member]

	// loop
	raft    *raft.RawNode
	log     raft.Storage
	initial *pb.HardState
	conf    *pb.ConfState
	dirty   bool
	closed  bool
	// gathered says that the group is in Host.gathered.
	gathered bool
	term     uint64
	commit   uint64
	lead     uint64
	leading  bool
	// writing counts appends with the log writer; savedTerm and savedVote are what is in the log when they are done.
	writing              int
	savedTerm, savedVote uint64
	// promised is the tick before which no vote is given (G6).
	promised uint64
	urgent   int

	// applied is the last entry that readers see. Invariant: cut <= applied <= commit.
	applied, appliedTerm uint64
	cut                  uint64
	cutting              bool  // a truncation is under way
	tailBytes            int64 // of entries appended since the last truncation, about

	sequence    uint64 // of the last entry this replica proposed
	queue       []Proposal
	inflight    []flight      // in log order
	hushed      uint64        // see hush
	untold      []*pb.Message // see tellCommit
	telling     bool          // in Host.telling
	awaited     uint64        // the highest commit index that a follower was told and may wait for
	orphans     []flight      // of terms that are over: their fate is not known yet
	reads       readState
	transferred bool // leadership was offered to another in this term
	// offered is to whom Transfer or Handover offered it last, and when that began.
	offered, offeredTick uint64
	fresh                freshness

	held      []*pb.Message // MsgStorageApply behind a change of members
	barrier   []*pb.Entry   // what is left of the message in which the change is
	applying  int           // items with the applier
	appends   []waiting     // MsgStorageAppend behind an installation; [0] is the one with the snapshot
	install   bool          // the installation has begun
	arriving  SnapshotData  // of the snapshot that is being stepped
	expecting bool          // the data of one are on their way
	shipping  []uint64      // receivers of snapshots under way
	changing  bool          // a change of members is proposed
	shipAfter uint64        // the tick before which no snapshot is sent, after a failure
	idleThen  func(*Group)  // of Close

	quiet      bool
	lastActive uint64

	// appliedBy is the applier's own: the last entry that it applied.
	appliedBy uint64
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

// route returns where a replica is, nil if it is not known.
func (g *Group) route(replica uint64) *Member {
	routes := *g.routes.Load()
	for i := range routes {
		if routes[i].Replica == replica {
			return &routes[i]
		}
	}
	return nil
}

// routesMax bounds what is learnt from senders; members are always known.
const routesMax = 64

// learn notes the node that a message came from: a replica that was just added knows nobody yet.
func (g *Group) learn(replica uint64, node NodeID) {
	if r := g.route(replica); r != nil || len(*g.routes.Load()) >= routesMax {
		return
	}
	g.addRoutes([]Member{{Replica: replica, Node: node}})
}

func (g *Group) addRoutes(more []Member) {
	routes := append([]Member(nil), *g.routes.Load()...)
	for _, m := range more {
		known := false
		for i := range routes {
			known = known || routes[i].Replica == m.Replica
		}
		if !known {
			routes = append(routes, m)
			if m.Node != g.host.opts.Node {
				g.host.peerOf(m.Node)
			}
		}
	}
	g.routes.Store(&routes)
}

// pruneRoutes forgets replicas that are no members, when there are many: each move leaves one behind.
func (g *Group) pruneRoutes() {
	if len(*g.routes.Load()) <= routesMax/4 {
		return
	}
	routes := g.members()
	g.routes.Store(&routes)
}

// members returns the members of the current configuration with their nodes.
func (g *Group) members() []Member {
	var out []Member
	for _, list := range [][]uint64{g.conf.GetVoters(), g.conf.GetVotersOutgoing(), g.conf.GetLearners(), g.conf.GetLearnersNext()} {
		for _, id := range list {
			r := g.route(id)
			if r == nil {
				continue
			}
			known := false
			for _, m := range out {
				known = known || m.Replica == id
			}
			if !known {
				out = append(out, *r)
			}
		}
	}
	return out
}

// successor is the first voter behind the leader, in the order of ids, whose node is not down.
func (g *Group) successor() uint64 {
	voters := g.conf.GetVoters()
	for n := range voters {
		for i, id := range voters {
			if id == g.lead {
				next := voters[(i+n+1)%len(voters)]
				if r := g.route(next); next != g.lead && r != nil && (r.Node == g.host.opts.Node || !g.host.peerOf(r.Node).down) {
					return next
				}
			}
		}
	}
	return 0
}

// pump proposes what waits and hands out everything the library has ready.
func (h *Host) pump(g *Group) {
	if g.closed {
		return
	}
	for {
		if g.leading {
			h.proposeQueued(g)
			h.startRead(g)
		} else {
			h.want(g)
		}
		if !g.raft.HasReady() {
			return
		}
		rd := g.raft.Ready()
		g.number(rd.Entries)
		if rd.HardState != nil {
			g.term, g.commit = rd.HardState.GetTerm(), rd.HardState.GetCommit()
		}
		if rd.SoftState != nil {
			h.followed(g, rd.SoftState)
		}
		for i := range rd.ReadStates {
			h.confirmed(g, &rd.ReadStates[i])
		}
		h.serveReads(g)
		hushed := g.hushed
		for _, m := range rd.Messages {
			switch {
			case m.GetTo() == raft.LocalAppendThread:
				h.append(g, m, rd.MustSync)
			case m.GetTo() == raft.LocalApplyThread:
				h.apply(g, m)
			case m.GetType() == pb.MsgSnap:
				h.ship(g, m)
			case !g.hush(m, hushed) && h.tellCommit(g, m):
				h.send(g, m)
			}
		}
	}
}

// hush reports whether a message can be left out: one that tells a follower nothing but a commit index, while entries
// behind that are under way, whose own commit will bring a later one. Under load that is nearly half of all messages,
// and their answers. It does so once for an index above before: the same message is also how the library finds out what
// a follower has that missed something, and that one must get through. Heartbeats carry the index, too.
func (g *Group) hush(m *pb.Message, before uint64) bool {
	commit := m.GetCommit()
	if !g.leading || len(g.inflight) == 0 || m.GetType() != pb.MsgApp || len(m.GetEntries()) > 0 || commit <= before {
		return false
	}
	if last := &g.inflight[len(g.inflight)-1]; last.term != g.term || last.index <= commit {
		return false
	}
	g.hushed = commit
	return true
}

// followed notes a new leader or role.
func (h *Host) followed(g *Group, s *raft.SoftState) {
	leading := s.RaftState == raft.StateLeader
	if g.leading && !leading {
		g.stepDown(h)
	}
	changed := g.lead != s.Lead
	g.lead, g.leading = s.Lead, leading
	g.leadShown.Store(s.Lead)
	if changed {
		g.forgetLeader()
	}
	if leading {
		g.transferred, g.changing, g.offered = false, false, 0
	}
	g.fresh.support = nil
	if changed && h.opts.Events.LeaderChanged != nil {
		leader := Member{Replica: g.lead}
		if r := g.route(g.lead); r != nil {
			leader = *r
		}
		h.opts.Events.LeaderChanged(g.id, leader, g.term)
	}
}

// stepDown ends everything that only a leader may finish. What is in the log already may still be committed: see
// fate.go.
func (g *Group) stepDown(h *Host) {
	g.leading, g.changing = false, false
	g.evaluating.Store(0)
	g.revokeLease()
	g.failReads(ErrNotLeader)
	h.refuseAskers(g)
	for i := range g.queue {
		g.queue[i].end(Outcome{Err: ErrNotLeader})
	}
	g.queue = nil
	g.orphan(h)
}

// checkIdle tells who closed the group when nothing of it is under way any more.
func (g *Group) checkIdle() {
	if g.closed && g.applying == 0 && !g.install && g.idleThen != nil {
		then := g.idleThen
		g.idleThen = nil
		then(g)
	}
}

// close ends a group for good.
func (g *Group) close() {
	g.closed = true
	g.gone.Store(true)
	g.failWaiting(ErrClosed)
	g.abandon()
	g.freshAt.Store(0)
	for i := range g.appends {
		g.host.discard(g.appends[i].data)
	}
	g.queue, g.held, g.appends, g.barrier = nil, nil, nil, nil
}
