// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// The backlog is what clients have been answered and have not read. Each connection's share has a bound of its own, but
// an answer may be large and connections are many; so the sum is bounded too. Beyond it requests wait, and clients that
// have not read anything for a moment are cut off, the largest first, until the sum is well below the bound. If that
// does not help within backlogWait, requests are refused.

const (
	// backlogStep is by how much a connection's share may differ from what is counted, in bytes.
	backlogStep = 16 << 10
	// backlogPatience is how long a client may leave a write blocked while others wait because of it: over a second per
	// megabyte is too slow then.
	backlogPatience = 300 * time.Millisecond
	// backlogWait is how long a request waits for others to read, or to be cut off.
	backlogWait = time.Second
	// reliefEvery is the least time between two looks for clients to be cut off.
	reliefEvery = 50 * time.Millisecond
)

var errBacklog error = &dberr.Overloaded{Message: "Too many bytes of answers wait for clients to read them"}

// account counts the connection's share of the backlog. mu is held.
func (c *conn) account() {
	share := int64(len(c.out.Buf) + c.unsent)
	if d := share - c.counted; d >= backlogStep || d <= -backlogStep || share == 0 && d != 0 {
		c.srv.stats.Backlog.Add(d)
		c.counted = share
	}
}

// awaitRelief returns when the backlog is below its bound; false if that takes too long.
func (c *conn) awaitRelief() bool {
	s := c.srv
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for waited := time.Now(); s.stats.Backlog.Load() > s.opts.BacklogMax; {
		s.relieve()
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return false
		}
		if time.Since(waited) > backlogWait {
			return false
		}
	}
	return true
}

// relieve cuts off clients that do not read, if there are any.
func (s *Server) relieve() {
	now := time.Now()
	last := s.relieved.Load()
	if now.UnixNano()-last < int64(reliefEvery) || !s.relieved.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	type debtor struct {
		c     *conn
		share int64
	}
	var stalled []debtor
	s.mu.Lock()
	for c := range s.conns {
		if since := c.writingSince.Load(); since != 0 && now.UnixNano()-since > int64(backlogPatience) {
			c.mu.Lock()
			stalled = append(stalled, debtor{c, c.counted})
			c.mu.Unlock()
		}
	}
	s.mu.Unlock()
	slices.SortFunc(stalled, func(a, b debtor) int { return int(b.share - a.share) })
	excess := s.stats.Backlog.Load() - s.opts.BacklogMax*3/4
	for _, d := range stalled {
		if excess <= 0 {
			return
		}
		excess -= d.share
		d.c.fail(errSlowClient)
	}
}
