// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// transferLag is the maximum number of entries that a replica may lack when it gets an offer of the leadership. Clients
// wait while the replica receives these entries.
const transferLag = 1000

// transferOffer is an offer of the leadership to another replica. While an offer is open, the library accepts no
// proposals. The leader withdraws an offer that is declined or is not accepted within offerTicks.
type transferOffer struct {
	g *Group
	// made reports whether the leader has made an offer in this term. After an offer, the leader gets no lease in this
	// term.
	made bool
	// to is the voter with the open offer, or 0. since is the tick of this offer.
	to, since uint64
	// refused holds the voters that have recently declined or ignored an offer. The leader makes no offer before the
	// tick rest.
	refused []uint64
	rest    uint64
}

// offerTicks is the number of ticks for which an offer is open, and the delay before the next offer. roundTimeouts is
// the number of election timeouts after which a voter that has declined an offer gets another offer.
const (
	offerTicks    = 4
	roundTimeouts = 2
)

// Transfer offers the leadership to another voter. It returns ErrNotReady unless the voter is up to date and active and
// no membership change is in progress. The lease ends before the offer is sent, because the resulting vote ignores
// leases. No lease is granted later in this term, because the offer may be delayed for a long time.
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

// allowed reports whether the leader may make an offer. It must not make an offer during a membership change, because
// the library drops the proposal to leave a joint configuration while an offer is open. If the offer failed, the group
// would remain in the joint configuration until the next write. The leader must have applied an entry from its own
// term, because otherwise an unapplied entry may contain a membership change. The replica must also be the leader
// according to the library. Otherwise, the library would forward the offer to the new leader.
func (o *transferOffer) allowed() bool {
	g := o.g
	return g.appliedTerm == g.term && !g.pending.changing && !g.membership.joint() && g.raft.leads()
}

// readyToLead reports whether a replica could lead immediately, and returns the replica's match index.
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

// active reports whether a member has sent a message during the last election timeout. Members of a quiescent group
// send no messages, so they are active if their nodes are up.
func (g *Group) active(m *Member, p *tracker.Progress) bool {
	h := g.host
	return p.RecentActive || g.quiescence.quiet && !h.peers.of(m.Node).down ||
		g.fresh.supportedAfter(m.Replica, h.now-Instant(h.opts.ElectionTicks)*Instant(h.opts.Tick))
}

// TransferAll offers the leadership of each group that this node leads to the most up-to-date other voter. It returns
// the number of groups with other voters that this node still leads. The caller should call it again every few ticks
// until it returns 0, because an offer may be lost and a group may have no ready voter. After the first call, the node
// accepts no leadership. TransferAll must be called on the loop.
func (h *Host) TransferAll() (left int) {
	h.policy.transferring = true
	return h.offerAll()
}

// offerAll offers the leadership of every led group to the group's most up-to-date other voter.
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

// offerNext offers the leadership of a group to the most up-to-date voter that has not declined an offer. It makes no
// offer while an offer is open or shortly after a withdrawal. Voters on abstaining nodes come last and get an offer
// only if this node stops.
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
	case len(o.refused) > 0: // tick will end the delay
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

// tick withdraws an offer that has not been accepted in time. It also forgets old refusals.
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

// withdraw withdraws an offer, so that the library accepts proposals again. If the offer is only delayed, the voter may
// still accept it.
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
