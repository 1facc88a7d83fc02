// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"sync/atomic"
	"time"
)

// lease is a leader's right to serve reads without confirmation by a quorum. A voter that has responded to a heartbeat
// of the leader's term does not vote for an election timeout (see voteLease). After a quorum has responded, no other
// replica can lead for slightly less than this time.
//
// The loop grants, publishes, and revokes leases. Readers check them.
type lease struct {
	// until is the Instant at which the lease ends, or 0. epoch is the number of revocations plus one. Readers that
	// check the lease set used.
	until atomic.Int64
	epoch atomic.Uint64
	used  atomic.Bool

	// Only the loop uses the following fields. granted is the end of a granted lease that is not yet published, or 0.
	// The lease is published when index has been applied.
	granted Instant
	index   uint64
}

// leaseFor is the duration of a lease after a read round that started at t0. A voter that has responded keeps its
// promise for ElectionTicks. leaseFor subtracts one tick because the voter's first tick may be nearly over, and another
// tick because the same applies to the leader. It subtracts a tenth of the rest because clocks run at different speeds.
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

// Leased reports whether the caller may serve the result of a read. The caller must call Lease before the read and read
// the clock after the read. If the process was paused during the read, the lease has expired. The result is valid if
// the lease was extended during the read, but not if the lease was revoked and granted again.
func (g *Group) Leased(token uint64, now Instant) bool {
	return token != 0 && int64(now) < g.lease.until.Load() && g.lease.epoch.Load() == token
}

// grant stores a lease that ends at the given instant. The lease is published when the leader has applied index.
func (l *lease) grant(until Instant, index uint64) { l.granted, l.index = until, index }

// publish makes a granted lease visible to readers if the lease's index has been applied.
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
	// Reset until before changing the epoch, so that a reader of the new epoch does not see the old lease.
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
