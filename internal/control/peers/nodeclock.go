// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
)

// ownClock is the clock of the operating system.
var ownClock *sched.Scheduler

// NodeClock is the clock of a node. In a cluster it is limited by the clocks of a quorum.
type NodeClock struct {
	now   func() time.Time
	peers *Peers
}

// NewNodeClock returns the clock of a node. p is nil on a standalone node. A test can replace the time with now, which
// is nil otherwise.
func NewNodeClock(p *Peers, now func() time.Time) *NodeClock {
	switch {
	case now != nil:
	case p != nil:
		now = p.Now
	default:
		now = ownClock.Wall
	}
	return &NodeClock{now, p}
}

// Now returns the time that determines the expiration of new writes and what has expired for reads.
func (c *NodeClock) Now() time.Time { return c.now() }

// Seconds returns Now in seconds since the Unix epoch.
func (c *NodeClock) Seconds() int64 { return c.now().Unix() }

// EarliestSeconds returns a time in seconds since the Unix epoch that has passed according to a quorum of clocks, or
// according to the node's own clock on a standalone node.
func (c *NodeClock) EarliestSeconds() int64 {
	if c.peers != nil {
		return c.peers.EarliestNow().Unix()
	}
	return ownClock.Wall().Unix()
}
