// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// A replica is fresh as of an instant if it has applied all writes that were acknowledged to any client before that
// instant. Freshness is determined as follows:
//
//   - Every frame contains the sender's clock and the last received value of the receiver's clock. The receiver
//     therefore knows an instant of its own clock after which the frame was sent.
//   - A leader was the only leader at an instant if a quorum of voters responded to heartbeats of the leader's term in
//     frames sent after this instant. All writes that were acknowledged before this instant are at or below the
//     leader's commit index.
//   - A heartbeat to a replica contains a claim with an age and an index. The claim states that all writes that were
//     acknowledged before this age are at or below the index.
//
// A replica that has applied the index is fresh as of the instant of the claim. A removed, disconnected, or lagging
// replica becomes stale, because it receives no claims or does not reach their indexes. A replica of a quiescent group
// also becomes stale, because the heartbeats of nodes contain no claims. Reads at a stale replica are sent to the
// leader, which wakes the group.

// Fresh reports whether this replica has applied all writes that had succeeded at the time max before now. The time
// between the call of Fresh and the read adds to the age of the result.
func (g *Group) Fresh(now Instant, max time.Duration) bool {
	at := g.fresh.at.Load()
	return at != 0 && int64(now)-at <= int64(max)
}

// FreshAt returns an instant such that this replica has applied all writes that had succeeded before this instant. It
// returns 0 if no such instant is known. A caller that calls FreshAt before a read and reads the clock afterward can
// compute the maximum age of the result.
func (g *Group) FreshAt() Instant { return Instant(g.fresh.at.Load()) }

// freshness tracks the age of the replica's state.
type freshness struct {
	g *Group
	// at is the result of FreshAt.
	at atomic.Int64
	// support holds the time at which each voter last supported the leader in this term. Only a leader uses it.
	support []support
	// claim is the claim whose index has not been applied yet. next is the latest claim after claim. Only a follower
	// uses both. Claims remain valid after a leader change, because committed entries remain committed.
	claim, next claimed
}

type support struct {
	replica uint64
	at      Instant
}

type claimed struct {
	at    Instant
	index uint64
}

// supported records that a voter responded to a heartbeat of this term.
func (f *freshness) supported(p *peer, m *pb.Message) {
	g := f.g
	if !g.leading || m.GetTerm() != g.term || p.echoed == 0 {
		return
	}
	for i := range f.support {
		if s := &f.support[i]; s.replica == m.GetFrom() {
			s.at = max(s.at, p.echoed)
			return
		}
	}
	f.support = append(f.support, support{m.GetFrom(), p.echoed})
}

// supportedAfter reports whether a replica responded to a heartbeat of this term after an instant.
func (f *freshness) supportedAfter(replica uint64, at Instant) bool {
	return slices.ContainsFunc(f.support, func(s support) bool { return s.replica == replica && s.at > at })
}

// sole returns an instant at which no other leader existed, or 0 if no such instant is known.
func (f *freshness) sole() Instant {
	g := f.g
	if !g.leading || g.appliedTerm != g.term {
		return 0
	}
	at := f.quorum(g.membership.conf.GetVoters())
	if old := g.membership.conf.GetVotersOutgoing(); len(old) > 0 {
		at = min(at, f.quorum(old))
	}
	return at
}

// quorum returns an instant after which a majority of the voters confirmed this leader.
func (f *freshness) quorum(voters []uint64) Instant {
	g, h := f.g, f.g.host
	var room [8]Instant
	at := room[:0]
	for _, id := range voters {
		switch i := slices.IndexFunc(f.support, func(s support) bool { return s.replica == id }); {
		case id == g.replica:
			at = append(at, h.now)
		case i >= 0:
			at = append(at, f.support[i].at)
		default:
			at = append(at, 0)
		}
	}
	if len(at) == 0 {
		return 0
	}
	slices.Sort(at)
	return at[(len(at)-1)/2]
}

// claimIn adds a claim to a heartbeat. Index contains the index of the claim. RejectHint contains the age in
// microseconds plus one, or 0 if the heartbeat contains no claim. claimIn adds a claim only in a tick, because only a
// tick reads now from the boot clock. Between ticks, now may be too early, and the age would be too low.
func (f *freshness) claimIn(m *pb.Message) {
	g, h := f.g, f.g.host
	if !h.ticking {
		return
	}
	at := f.sole()
	if at == 0 || at > h.now {
		return
	}
	index, age := g.commit, uint64(h.now-at)/1000+2
	m.Index, m.RejectHint = &index, &age
}

// handleClaim processes the claim in a heartbeat of the leader.
func (f *freshness) handleClaim(p *peer, m *pb.Message) {
	age := Instant(m.GetRejectHint()) * 1000
	if age <= 0 || p.echoed == 0 || age > p.echoed {
		return
	}
	c := claimed{p.echoed - age - age/8, m.GetIndex()} // the margin is necessary because clocks run at different speeds
	if f.claim.at == 0 {
		f.claim = c
	} else {
		f.next = c
	}
	f.refresh()
}

// refresh updates the published freshness of the replica.
func (f *freshness) refresh() {
	g := f.g
	for f.claim.at != 0 && f.claim.index <= g.applied {
		if at := int64(f.claim.at); at > f.at.Load() {
			f.at.Store(at)
		}
		f.claim, f.next = f.next, claimed{}
	}
}

// tick updates the published freshness of a leader.
func (f *freshness) tick() {
	if at := f.sole(); at != 0 && int64(at) > f.at.Load() {
		f.at.Store(int64(at))
	}
}
