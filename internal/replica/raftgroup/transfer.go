// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// transferLag is the maximum number of entries that a replica may lack when the leadership is offered to it. The
// replica receives these entries before it leads, and clients wait in the meantime.
const transferLag = 1000

// transferOffer is an offer of the leadership to another replica. While it is open, the library accepts no proposals.
// It is withdrawn if it is declined, or if it is not accepted within offerTicks.
type transferOffer struct {
	g *Group
	// made reports whether an offer has been made in this term. If so, the leader gets no further lease in this term.
	made bool
	// to is the voter with the open offer, or 0. since is the tick of the offer.
	to, since uint64
	// refused holds the voters that have recently declined or ignored an offer. No offer is made before the tick rest.
	refused []uint64
	rest    uint64
}

// offerTicks is the number of ticks for which an offer is open. It is also the delay before the next offer.
// roundTimeouts is the delay, in election timeouts, after offers to all eligible voters. After that, offers are made
// again to voters that declined.
const (
	offerTicks    = 4
	roundTimeouts = 2
)

// Transfer asks another voter to lead. It returns ErrNotReady unless the voter is up to date and active, and no
// membership change is in progress. The lease ends before the request is sent, because the resulting vote ignores
// leases. No further lease is granted in this term, because the request may be delayed for a long time.
func (h *Host) Transfer(id, to uint64) error {
	g := h.groups[id]
	if g == nil || !g.leading {
		return ErrNotLeader
	}
	if to == g.replica {
		return nil
	}
	if _, ok := g.offer.readyToLead(to); !ok || !g.offer.allowed() || g.offer.to == 0 && h.ticks < g.offer.rest {
		return ErrNotReady
	}
	if g.offer.to != to {
		g.offer.offer(to)
	}
	return nil
}

// allowed reports whether the leadership may be offered. It must not be offered during a membership change. The
// library proposes to leave a joint configuration only when an entry is applied. It drops this proposal while an offer
// is open. If the offer failed, the group would remain in the joint configuration, and no member could be changed until
// the next write. A leader that has not applied an entry from its own term may still find such a change in entries to
// apply. According to the library, the replica must also be the leader. It may have stepped down since the last
// processReady. A follower would forward the offer to its leader, and the leader would treat it as its own offer.
func (o *transferOffer) allowed() bool {
	g := o.g
	return g.appliedTerm == g.term && !g.pending.changing && !g.membership.joint() && g.raft.leads()
}

// readyToLead reports whether a replica could lead immediately, and returns its matched index.
func (o *transferOffer) readyToLead(replica uint64) (match uint64, ok bool) {
	g, h := o.g, o.g.host
	r := g.route(replica)
	if r == nil || r.Node != h.opts.Node && h.peers.of(r.Node).down ||
		!slices.Contains(g.membership.conf.GetVoters(), replica) {
		return 0, false
	}
	last, err := g.log.LastIndex()
	if err != nil {
		return 0, false
	}
	g.raft.progress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		if id == replica && kind == raft.ProgressTypePeer {
			match, ok = p.Match, g.active(r, &p) && p.State != tracker.StateSnapshot && p.Match+transferLag >= last
		}
	})
	return match, ok
}

// active reports whether a message was received from a member during the last election timeout. The library resets its
// flag every election timeout. Members of a quiescent group send no messages. They are active if their nodes are up.
func (g *Group) active(m *Member, p *tracker.Progress) bool {
	h := g.host
	return p.RecentActive || g.quiescence.quiet && !h.peers.of(m.Node).down ||
		g.fresh.supportedAfter(m.Replica, h.now-Instant(h.opts.ElectionTicks)*Instant(h.opts.Tick))
}

// TransferAll asks the most up-to-date other voter of each group that this node leads to take over the leadership. It
// returns the number of groups with other voters that this node still leads. It should be called again every few ticks
// until it returns 0 or the caller's time limit is reached. Some groups may have no replica that is ready, and a
// request may be lost. After the first call, the node accepts no leadership. It must be called on the loop.
func (h *Host) TransferAll() (left int) {
	h.policy.transferring = true
	return h.offerAll()
}

// offerAll offers every leadership to the most up-to-date other voter of its group.
func (h *Host) offerAll() (left int) {
	for _, g := range h.order {
		if !g.leading || len(g.membership.conf.GetVoters()) < 2 {
			continue
		}
		left++
		if h.policy.transferring || g.election.avoidsLeading(NodeID{}) {
			g.offer.offerNext()
		}
	}
	return left
}

// offerNext offers the leadership of a group to the most up-to-date voter that has not declined it, unless an offer is
// open or has just been withdrawn. Voters on nodes that abstain come last. They get an offer only if this node stops.
func (o *transferOffer) offerNext() {
	g, h := o.g, o.g.host
	if o.to != 0 || h.ticks < o.rest || !o.allowed() {
		return
	}
	to, best, willing := uint64(0), uint64(0), false
	voters := g.membership.conf.GetVoters()
	for i := range voters {
		id := voters[(i+int(g.id%uint64(len(voters))))%len(voters)] // distribute the offers among the nodes
		match, ok := o.readyToLead(id)
		if !ok || id == g.replica || slices.Contains(o.refused, id) {
			continue
		}
		will := !h.policy.abstaining[g.route(id).Node]
		if !will && (willing || !h.policy.transferring) {
			continue
		}
		if to == 0 || will && !willing || match > best {
			to, best, willing = id, match, will
		}
	}
	switch {
	case to != 0:
		o.offer(to)
	case len(o.refused) > 0: // tick ends the delay
		o.rest = o.since + uint64(roundTimeouts*h.opts.ElectionTicks)
	}
}

// offer offers the leadership to a voter.
func (o *transferOffer) offer(to uint64) {
	g, h := o.g, o.g.host
	g.quiescence.active()
	g.lease.revoke()
	o.made, o.to, o.since = true, to, h.ticks
	g.raft.TransferLeader(to)
	h.mark(g)
}

// tick withdraws an offer that has not been accepted in time, and forgets old refusals.
func (o *transferOffer) tick() {
	h := o.g.host
	age := h.ticks - o.since
	switch {
	case o.to != 0 && age > offerTicks:
		o.withdraw()
	case o.to == 0 && len(o.refused) > 0 && age > uint64(roundTimeouts*h.opts.ElectionTicks):
		o.refused = nil
	}
}

// handleDecline processes the response of a voter that declines the leadership.
func (o *transferOffer) handleDecline(m *pb.Message) {
	if g := o.g; g.leading && m.GetTerm() == g.term && o.to == m.GetFrom() {
		o.withdraw()
	}
}

// withdraw ends an offer, so that the library accepts proposals again. If the request was only delayed, the voter
// may still take the leadership.
func (o *transferOffer) withdraw() {
	g, h := o.g, o.g.host
	if g.raft.leads() { // otherwise the library has already dropped the offer
		g.raft.TransferLeader(g.replica) // an offer to the leader only cancels the previous offer
	}
	if !slices.Contains(o.refused, o.to) {
		o.refused = append(o.refused, o.to)
	}
	o.to, o.rest = 0, h.ticks+offerTicks
	h.mark(g)
}

// decline declines an offer of leadership.
func (g *Group) decline(m *pb.Message) {
	to, from, term := m.GetFrom(), g.replica, m.GetTerm()
	g.send(&pb.Message{Type: pb.MsgTimeoutNow.Enum(), To: &to, From: &from, Term: &term, Reject: new(true)})
}
