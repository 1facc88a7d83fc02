// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"sync/atomic"
	"time"
)

// lease is a leader's right to serve reads without asking anybody. A quorum that answered a heartbeat of its term gives
// no vote for an election timeout (see promise), so nobody else leads for a little less than that.
//
// The loop grants, publishes and revokes; readers look.
type lease struct {
	// until is the Instant at which it ends, 0 for none. epoch, never 0, counts revocations. used is set by readers
	// that looked.
	until atomic.Int64
	epoch atomic.Uint64
	used  atomic.Bool

	// loop: granted is the end of a lease that is not published yet, 0 for none: it needs index applied.
	granted Instant
	index   uint64
}

// leaseFor is how long a read round that began at t0 lets the leader serve reads. A voter that answered keeps its vote
// for ElectionTicks of its own clock, one of which may have been nearly over; another tick is left for the same at the
// leader, and a tenth of the rest for clocks that run differently.
func (o *Options) leaseFor() time.Duration {
	return time.Duration(o.ElectionTicks-2) * o.Tick * 9 / 10
}

// Lease begins a read under a lease: a token for Leased, 0 if there is no lease. It must be called before the read: a
// lease that is granted between the read and the look at the clock says nothing about what was read.
func (g *Group) Lease() (token uint64) {
	l := &g.lease
	if !l.used.Load() {
		l.used.Store(true)
	}
	token = l.epoch.Load()
	if l.until.Load() == 0 {
		return 0
	}
	return token
}

// Leased reports whether what was read between Lease and the reading of the clock may be served. That the clock comes
// last makes it safe: a process that was paused after the read finds its lease over. A lease that was prolonged
// meanwhile is as good, because within an epoch nobody else has led; one that was revoked and granted again is not.
func (g *Group) Leased(token uint64, now Instant) bool {
	return token != 0 && int64(now) < g.lease.until.Load() && g.lease.epoch.Load() == token
}

// grant notes a lease until an instant, for a leader that has applied index.
func (l *lease) grant(until Instant, index uint64) { l.granted, l.index = until, index }

// publish lets readers see what was granted, if its index is applied.
func (l *lease) publish(applied uint64) {
	if l.granted != 0 && l.index <= applied {
		l.until.Store(int64(l.granted))
		l.granted = 0
	}
}

// left is how long the lease lasts after now; not above 0 if there is none.
func (l *lease) left(now Instant) time.Duration { return time.Duration(l.until.Load() - int64(now)) }

// revoke ends the lease, before anything that could let another replica lead.
func (l *lease) revoke() {
	l.until.Store(0) // before the epoch: a reader that sees the new epoch sees no lease of the old one
	l.epoch.Add(1)
	l.granted = 0
}

// takeUsed reports whether readers have looked since the last call.
func (l *lease) takeUsed() bool {
	if !l.used.Load() {
		return false
	}
	l.used.Store(false)
	return true
}
