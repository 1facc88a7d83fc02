// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// transferLag is how many entries a replica may lack to be asked to lead: it gets them first, and clients wait
// meanwhile.
const transferLag = 1000

// offer is a leadership that this replica offers to another one.
type offer struct {
	// made says that it was, in this term: there is no lease again before the next one.
	made bool
	// to is to whom Transfer or Handover offered it last, 0 for nobody, and since when it has been they.
	to, since uint64
}

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
	if _, ok := h.ready(g, to); !ok || !g.mayOffer() {
		return ErrNotReady
	}
	h.transfer(g, to)
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

// Abstain has the node lead nothing for as long as others can: it asks nobody for votes, takes no leadership that is
// offered, and offers its own ones again and again. It votes, applies and serves as before. Loop only.
func (h *Host) Abstain(on bool) { h.abstains = on }

// offerAll offers every leadership to the most caught-up other voter.
func (h *Host) offerAll() (left int) {
	for _, g := range h.order {
		voters := g.conf.GetVoters()
		if !g.leading || len(voters) < 2 {
			continue
		}
		left++
		if !g.mayOffer() {
			continue
		}
		to, best := uint64(0), uint64(0)
		for i := range voters {
			id := voters[(i+int(g.id%uint64(len(voters))))%len(voters)] // not all to one node
			if match, ok := h.ready(g, id); ok && id != g.replica && (to == 0 || match > best) {
				to, best = id, match
			}
		}
		if to != 0 && (g.offer.to == 0 || h.ticks-g.offer.since > uint64(h.opts.ElectionTicks) || to == g.offer.to) {
			h.transfer(g, to)
		}
	}
	return left
}

func (h *Host) transfer(g *Group, to uint64) {
	if g.offer.to != to || !g.offer.made {
		g.offer.to, g.offer.since = to, h.ticks
	}
	h.awake(g)
	g.lease.revoke()
	g.offer.made = true
	g.raft.TransferLeader(to)
	h.mark(g)
}
