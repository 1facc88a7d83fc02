// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"sync/atomic"
	"time"
)

// lease is a leader's right to serve reads without asking a quorum. A quorum that answered a heartbeat of its term
// gives no vote for an election timeout (see voteLease). No other replica can lead for slightly less than that.
//
// The loop grants, publishes, and revokes leases; readers check them.
type lease struct {
	// until is the Instant at which the lease ends, or 0. epoch counts revocations and is never 0. used is set by
	// readers that have checked the lease.
	until atomic.Int64
	epoch atomic.Uint64
	used  atomic.Bool

	// Loop only: granted is the end of a lease that is not yet published because index is not applied; 0 if none
	// exists.
	granted Instant
	index   uint64
}

// leaseFor is the lease duration after a read round that started at t0. A voter that answered keeps its promise for
// ElectionTicks by its clock, of which the first may be nearly over. Another tick is subtracted for the same effect
// at the leader, and a tenth of the rest for clocks that run at different speeds.
func (o *Options) leaseFor() time.Duration {
	return time.Duration(o.ElectionTicks-2) * o.Tick * 9 / 10
}

// Lease starts a read under a lease. It returns a token for Leased, or 0 without a lease. It must be called before the
// read: a lease granted between the read and the check of the clock says nothing about the result.
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

// Leased reports whether the result of a read between Lease and the reading of the clock may be served. It is safe
// because the clock is read last: if the process was paused after the read, its lease has expired. A lease that was
// extended in the meantime is valid, because within an epoch there was no other leader. A lease that was revoked and
// granted again is not valid.
func (g *Group) Leased(token uint64, now Instant) bool {
	return token != 0 && int64(now) < g.lease.until.Load() && g.lease.epoch.Load() == token
}

// grant stores a lease until an instant, for a leader that must have applied index.
func (l *lease) grant(until Instant, index uint64) { l.granted, l.index = until, index }

// publish makes a granted lease visible to readers once its index is applied.
func (l *lease) publish(applied uint64) {
	if l.granted != 0 && l.index <= applied {
		l.until.Store(int64(l.granted))
		l.granted = 0
	}
}

// left returns the remaining lease time, which is not positive without a lease.
func (l *lease) left(now Instant) time.Duration { return time.Duration(l.until.Load() - int64(now)) }

// revoke ends the lease. It must be called before anything that could let another replica lead.
func (l *lease) revoke() {
	l.until.Store(0) // before the epoch: a reader that sees the new epoch does not see a lease of the old one
	l.epoch.Add(1)
	l.granted = 0
}

// takeUsed reports whether readers have checked the lease since the last call.
func (l *lease) takeUsed() bool {
	if !l.used.Load() {
		return false
	}
	l.used.Store(false)
	return true
}
