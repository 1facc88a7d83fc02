// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"sync/atomic"
	"time"
)

// lease is a leader's right to serve reads without the confirmation of a quorum. Each voter of a quorum that responded
// to a heartbeat of the leader's term gives no vote for an election timeout (see voteLease). No other replica can lead
// for slightly less than that time.
//
// The loop grants, publishes, and revokes leases. Readers check them.
type lease struct {
	// until is the Instant at which the lease ends, or 0. epoch is the number of revocations plus one. used is set by
	// readers that have checked the lease.
	until atomic.Int64
	epoch atomic.Uint64
	used  atomic.Bool

	// The following fields are used only by the loop. granted is the end of a lease that has not been published because
	// index has not been applied, or 0.
	granted Instant
	index   uint64
}

// leaseFor is the duration of a lease after a read round that started at t0. A voter that responded keeps its promise
// for ElectionTicks by its clock. The first of these ticks may be nearly over. Therefore, one tick is subtracted.
// Another tick is subtracted for the same effect on the leader. A tenth of the rest is subtracted because clocks run at
// different speeds.
func (o *Options) leaseFor() time.Duration {
	return time.Duration(o.ElectionTicks-2) * o.Tick * 9 / 10
}

// Lease starts a read under a lease. It returns a token for Leased, or 0 if no lease is valid. It must be called before
// the read, because a lease granted between the read and the check of the clock does not cover the result.
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

// Leased reports whether the result of a read may be served. The read must have been made between Lease and the reading
// of the clock. Serving the result is safe because the clock is read last. If the process was paused after the read,
// its lease has expired. A lease that was extended in the meantime is valid, because no other leader existed within an
// epoch. A lease that was revoked and granted again is not valid.
func (g *Group) Leased(token uint64, now Instant) bool {
	return token != 0 && int64(now) < g.lease.until.Load() && g.lease.epoch.Load() == token
}

// grant stores a lease that ends at an instant. Before the lease is published, the leader must have applied index.
func (l *lease) grant(until Instant, index uint64) { l.granted, l.index = until, index }

// publish makes a granted lease visible to readers once its index is applied.
func (l *lease) publish(applied uint64) {
	if l.granted != 0 && l.index <= applied {
		l.until.Store(int64(l.granted))
		l.granted = 0
	}
}

// left returns the remaining time of the lease. It is not positive if no lease is valid.
func (l *lease) left(now Instant) time.Duration { return time.Duration(l.until.Load() - int64(now)) }

// revoke ends the lease. It must be called before any action that could allow another replica to lead.
func (l *lease) revoke() {
	// Reset until before the epoch changes, so that a reader of the new epoch does not see a lease of the old epoch
	l.until.Store(0)
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
