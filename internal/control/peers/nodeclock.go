// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"github.com/ilion-db/ilion/internal/model/sched"
)

// NodeClock is the clock of a node. In a cluster, it is limited by the clocks of a quorum.
type NodeClock struct {
	sched.Clock // determines the expiration of new writes and what has expired for reads
	peers       *Peers
}

// NewNodeClock returns the clock of a node. p is nil on a standalone node. c replaces the wall clock in tests, and is
// nil otherwise.
func NewNodeClock(p *Peers, c sched.Clock) *NodeClock {
	switch {
	case c != nil:
	case p != nil:
		c = p
	default:
		c = sched.SystemClock
	}
	return &NodeClock{c, p}
}

// EarliestSeconds returns a time, in seconds since the Unix epoch, that has passed according to a quorum of clocks. On
// a standalone node, it uses the node's own clock.
func (c *NodeClock) EarliestSeconds() int64 {
	if c.peers != nil {
		return c.peers.EarliestNow().Unix()
	}
	return sched.SystemClock.Wall().Unix()
}
