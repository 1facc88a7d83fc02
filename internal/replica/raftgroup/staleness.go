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
//   - Every frame of a loop contains the sender's clock and the last received value of the receiver's clock. The
//     contents of a frame were therefore sent after a known instant of the receiver's own clock, regardless of the
//     network delay.
//   - A leader was the only leader as of an instant if a quorum of voters answered heartbeats of its term in frames
//     sent after that instant. Everything acknowledged before it is at or below the leader's commit index.
//   - A heartbeat to a replica contains a claim: everything acknowledged up to a given number of microseconds ago is at
//     or below this index.
//
// A replica that has applied the index is fresh as of that instant. A replica that was removed, is disconnected, or
// lags receives no claims or does not reach their indexes, and becomes stale. A replica of a quiescent group also
// becomes stale. Heartbeats of nodes replace the heartbeats of groups, but do not contain the leaders of groups. Reads
// at a stale replica are sent to the leader, which wakes the group.

// Fresh reports whether this replica has applied all writes that had succeeded at the time max before now. It must be
// called before the read, because the time between the call and the read adds to the age. Leaders and learners may also
// be fresh.
func (g *Group) Fresh(now Instant, max time.Duration) bool {
	at := g.fresh.at.Load()
	return at != 0 && int64(now)-at <= int64(max)
}

// FreshAt returns the instant as of which this replica has applied all writes that had succeeded, or 0 if the instant
// is unknown. A caller that calls FreshAt before a read, and reads the clock afterward, can compute the maximum age of
// the result.
func (g *Group) FreshAt() Instant { return Instant(g.fresh.at.Load()) }

// freshness is the loop's knowledge of the age of the replica's state.
type freshness struct {
	g *Group
	// at is the published result of FreshAt. It is safe for concurrent use.
	at atomic.Int64
	// support is used by a leader. It holds the time at which each voter last supported the leader in this term.
	support []support
	// claim is used by a follower. It is the claim whose index has not been applied yet. next is the latest claim after
	// claim. Committed entries stay committed, so claims remain valid after a leader change.
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

// sole returns an instant as of which no other leader existed, or 0 if no such instant is known.
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

// claimIn adds a claim to a heartbeat. Index contains the index. RejectHint contains the age in microseconds plus one,
// and 0 means no claim. claimIn adds a claim only in a tick, because only then is now read from the boot clock. Between
// ticks, now may be too old, and the age would be too low.
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
	c := claimed{p.echoed - age - age/8, m.GetIndex()} // clocks run at different speeds
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
