// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"log/slog"
	"time"
)

// clockBack is how far the clock may be before the newest stamp at the start: stamps are reserved a second ahead.
const clockBack = 5 * time.Second

// skewed is told that the clock of this node is wrong by what a quorum of the nodes say, or right again. What the node
// stamps and sweeps is held to the others' clocks anyhow; it is better led by nodes that need not be held.
func (c *cluster) skewed(ahead time.Duration) {
	if h := c.host.Load(); h != nil {
		h.Abstain(ahead != 0)
	}
	if ahead == 0 {
		c.n.log.LogAttrs(c.ctx, slog.LevelWarn, "the clock of this node is right again: it may lead")
		return
	}
	c.n.log.LogAttrs(c.ctx, slog.LevelError, "the clock of this node is wrong by what most nodes say: it leads nothing while others can",
		slog.Duration("ahead", ahead.Round(time.Millisecond)))
}

// past is an instant, in seconds, that has passed: by the clocks of a quorum, or by its own for a node that stands
// alone.
func (n *Node) past() int64 {
	if n.cluster != nil {
		return n.cluster.peers.Past().Unix()
	}
	return time.Now().Unix()
}

// checkClock warns of a clock that is behind what was stamped before the node stopped. A node that stands alone has
// nothing else to compare with: writes go on above the newest stamp, and those of clients with timestamps of their own
// may stay invisible until the clock has passed it.
func (n *Node) checkClock() {
	newest := time.UnixMicro(n.host.NewestStamp())
	if behind := time.Until(newest); behind > clockBack {
		n.log.LogAttrs(
			context.Background(),
			slog.LevelWarn,
			"the clock is behind the newest write: it was set back, or was wrong when that was stamped; "+
				"writes with timestamps of clients are hidden by what was stamped later than they are",
			slog.Time("newest", newest.UTC()),
			slog.Duration("behind", behind.Round(time.Millisecond)),
		)
	}
}
