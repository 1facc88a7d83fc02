// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// transferLag is how many entries a replica may lack to be asked to lead: it gets them first, and clients wait
// meanwhile.
const transferLag = 1000

// offer is a leadership that this replica offers to another one. While it is open the library takes no proposals, so it
// is withdrawn when it is declined, or not taken for offerTicks.
type offer struct {
	// made says that there was one in this term: there is no lease again before the next one.
	made bool
	// to is the voter to which the leadership is offered at present, 0 for none, and since the tick of the offer.
	to, since uint64
	// refused are the voters that have not taken it lately. Before rest none is made.
	refused []uint64
	rest    uint64
}

// offerTicks is how long an offer is open, and the pause before the next one. roundTimeouts is the pause in election
// timeouts once every voter that could lead was asked; after that, those that refused are asked again.
const (
	offerTicks    = 4
	roundTimeouts = 2
)

// Transfer asks another voter to lead, if it is caught up and was heard of lately and no change of members is under
// way; else it returns ErrNotReady. The lease ends before that: the vote that follows ignores leases. There is none
// again in this term, because the request to the other one may travel for long.
func (h *Host) Transfer(id, to uint64) error {
	g := h.groups[id]
	if g == nil || !g.leading {
		return ErrNotLeader
	}
	if to == g.replica {
		return nil
	}
	if _, ok := h.ready(g, to); !ok || !g.mayOffer() || g.offer.to == 0 && h.ticks < g.offer.rest {
		return ErrNotReady
	}
	if g.offer.to != to {
		h.transfer(g, to)
	}
	return nil
}

// mayOffer reports whether the leadership may be offered: not while members change. The library proposes to leave a
// joint configuration only as it hears that an entry is applied, and drops that proposal while an offer is open. If the
// offer came to nothing, the group would stay joint, and nobody could join, leave or move, until the next write. A
// leader that has applied nothing of its own term may find such a change in what it has still to apply. It must lead in
// the library, too, where it may have stepped down since the last pump: a follower would pass the offer on to its
// leader, which would take it for its own.
func (g *Group) mayOffer() bool {
	return g.appliedTerm == g.term && !g.flights.changing && len(g.conf.GetVotersOutgoing()) == 0 && g.raft.leads()
}

// ready returns how far a replica is that could lead at once.
func (h *Host) ready(g *Group, replica uint64) (match uint64, ok bool) {
	r := g.route(replica)
	if r == nil || r.Node != h.opts.Node && h.peers.of(r.Node).down || !slices.Contains(g.conf.GetVoters(), replica) {
		return 0, false
	}
	last, err := g.log.LastIndex()
	if err != nil {
		return 0, false
	}
	g.raft.progress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		if id == replica && kind == raft.ProgressTypePeer {
			match, ok = p.Match, h.active(g, r, &p) && p.State != tracker.StateSnapshot && p.Match+transferLag >= last
		}
	})
	return match, ok
}

// active reports whether a member was heard in the last election timeout. The library begins to count anew every
// election timeout; and a quiet group is not heard of: its members have everything, and their nodes are.
func (h *Host) active(g *Group, m *Member, p *tracker.Progress) bool {
	return p.RecentActive || g.quiet && !h.peers.of(m.Node).down ||
		g.fresh.supportedAfter(m.Replica, h.now-Instant(h.opts.ElectionTicks)*Instant(h.opts.Tick))
}

// Handover asks, for every group that is led here, the most caught-up other voter to lead, and returns how many groups
// with other voters are still led here. It is meant to be called again every few ticks until none are left, or the
// patience ends: some may have no replica that is ready, and a request may get lost. From the first call on the node
// takes no leadership that another one offers. Loop only.
func (h *Host) Handover() (left int) {
	h.handing = true
	return h.offerAll()
}

// offerAll offers every leadership to the most caught-up other voter.
func (h *Host) offerAll() (left int) {
	for _, g := range h.order {
		if !g.leading || len(g.conf.GetVoters()) < 2 {
			continue
		}
		left++
		if h.handing || h.shuns(g, NodeID{}) {
			h.offerNext(g)
		}
	}
	return left
}

// offerNext offers the leadership of a group to the most caught-up voter that has not refused it, unless an offer is
// open or was just withdrawn. Voters on nodes that abstain come last, and only if this node stops.
func (h *Host) offerNext(g *Group) {
	if g.offer.to != 0 || h.ticks < g.offer.rest || !g.mayOffer() {
		return
	}
	to, best, willing := uint64(0), uint64(0), false
	voters := g.conf.GetVoters()
	for i := range voters {
		id := voters[(i+int(g.id%uint64(len(voters))))%len(voters)] // not all to one node
		match, ok := h.ready(g, id)
		if !ok || id == g.replica || slices.Contains(g.offer.refused, id) {
			continue
		}
		will := !h.abstaining[g.route(id).Node]
		if !will && (willing || !h.handing) {
			continue
		}
		if to == 0 || will && !willing || match > best {
			to, best, willing = id, match, will
		}
	}
	switch {
	case to != 0:
		h.transfer(g, to)
	case len(g.offer.refused) > 0: // tickOffer ends the pause
		g.offer.rest = g.offer.since + uint64(roundTimeouts*h.opts.ElectionTicks)
	}
}

func (h *Host) transfer(g *Group, to uint64) {
	h.awake(g)
	g.lease.revoke()
	g.offer.made, g.offer.to, g.offer.since = true, to, h.ticks
	g.raft.TransferLeader(to)
	h.mark(g)
}

// tickOffer withdraws an offer that is not taken, and forgets old refusals.
func (h *Host) tickOffer(g *Group) {
	age := h.ticks - g.offer.since
	switch {
	case g.offer.to != 0 && age > offerTicks:
		h.withdraw(g)
	case g.offer.to == 0 && len(g.offer.refused) > 0 && age > uint64(roundTimeouts*h.opts.ElectionTicks):
		g.offer.refused = nil
	}
}

// declined takes the answer of a voter that does not take the leadership.
func (h *Host) declined(g *Group, m *pb.Message) {
	if g.leading && m.GetTerm() == g.term && g.offer.to == m.GetFrom() {
		h.withdraw(g)
	}
}

// withdraw ends an offer, so that the library takes proposals again. The voter may still take the leadership, if the
// request was only late.
func (h *Host) withdraw(g *Group) {
	if g.raft.leads() { // else the library has forgotten the offer
		g.raft.TransferLeader(g.replica) // an offer to the leader itself only ends the one before
	}
	if !slices.Contains(g.offer.refused, g.offer.to) {
		g.offer.refused = append(g.offer.refused, g.offer.to)
	}
	g.offer.to, g.offer.rest = 0, h.ticks+offerTicks
	h.mark(g)
}

// decline answers an offer of leadership that is not taken.
func (h *Host) decline(g *Group, m *pb.Message) {
	to, from, term := m.GetFrom(), g.replica, m.GetTerm()
	h.send(g, &pb.Message{Type: pb.MsgTimeoutNow.Enum(), To: &to, From: &from, Term: &term, Reject: new(true)})
}
