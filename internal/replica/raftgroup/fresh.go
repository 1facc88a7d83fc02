// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// A replica is fresh as of an instant if it has applied everything that any client had been told of before that
// instant. What it takes:
//
//   - Every frame of a loop carries the sender's clock and the last it has heard of the receiver's. So what comes in a
//     frame was sent after an instant of the receiver's own clock, however long it travelled.
//   - A leader was the only one as of an instant if a quorum of voters answered heartbeats of its term in frames sent
//     after that instant. Everything acknowledged before it is at or below the leader's commit index.
//   - A heartbeat to a replica claims: all acknowledged until so many microseconds ago is at or below this index.
//
// A replica that has applied that index is fresh as of that instant. A removed, cut-off or lagging one hears no claims,
// or does not fulfil them, and ages. So does one of a quiet group: heartbeats of nodes stand in for those of groups,
// but they do not say which node still leads which group; the read that goes to the leader instead wakes the group.

// Fresh reports whether everything that had succeeded max before now is applied here. It is to be called before the
// read; what time passes between adds to the age. Leaders and learners may be fresh, too.
func (g *Group) Fresh(now Instant, max time.Duration) bool {
	at := g.freshAt.Load()
	return at != 0 && int64(now)-at <= int64(max)
}

// FreshAt is the instant as of which this replica has applied everything that had succeeded; 0 if it is not known. A
// caller that asks before a read, and looks at the clock after it, knows the age of what was read.
func (g *Group) FreshAt() Instant { return Instant(g.freshAt.Load()) }

// freshness is what the loop knows of how old the replica's state is.
type freshness struct {
	g *Group
	// A leader's: when each voter last spoke for it in this term.
	support []support
	// A follower's: the claim that waits for its index, and the latest one after it. What is committed stays so, and
	// claims therefore outlive leaders.
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

// supported notes that a voter answered a heartbeat of this term.
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

// supportedAfter reports whether a replica answered a heartbeat of this term after an instant.
func (f *freshness) supportedAfter(replica uint64, at Instant) bool {
	return slices.ContainsFunc(f.support, func(s support) bool { return s.replica == replica && s.at > at })
}

// sole returns an instant as of which nobody else led, 0 if none is known.
func (f *freshness) sole() Instant {
	g := f.g
	if !g.leading || g.appliedTerm != g.term {
		return 0
	}
	at := f.quorum(g.conf.GetVoters())
	if old := g.conf.GetVotersOutgoing(); len(old) > 0 {
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

// claimIn writes into a heartbeat what its receiver may know: the index in Index, the age in RejectHint, in
// microseconds plus one; 0 is no claim. Only in a tick, whose now is the boot clock's: between ticks it may be behind,
// and an age too small.
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

// hear takes what a heartbeat of the leader says.
func (f *freshness) hear(p *peer, m *pb.Message) {
	age := Instant(m.GetRejectHint()) * 1000
	if age <= 0 || p.echoed == 0 || age > p.echoed {
		return
	}
	c := claimed{p.echoed - age - age/8, m.GetIndex()} // clocks differ
	if f.claim.at == 0 {
		f.claim = c
	} else {
		f.next = c
	}
	f.refresh()
}

// refresh shows how fresh the replica is.
func (f *freshness) refresh() {
	g := f.g
	for f.claim.at != 0 && f.claim.index <= g.applied {
		if at := int64(f.claim.at); at > g.freshAt.Load() {
			g.freshAt.Store(at)
		}
		f.claim, f.next = f.next, claimed{}
	}
}

// tick shows how fresh the leader itself is.
func (f *freshness) tick() {
	g := f.g
	if at := f.sole(); at != 0 && int64(at) > g.freshAt.Load() {
		g.freshAt.Store(int64(at))
	}
}
