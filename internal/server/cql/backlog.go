// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// The backlog is the memory of what clients have been answered and have not read. Each connection's share has a bound
// of its own, but an answer may be large and connections are many; so the sum is bounded too, by Options.BacklogMax.
// Beyond it a client that has not read its answers is not read from, sessions end their pages early (Server.Pressed),
// and clients that have not read anything for a moment are cut off, the largest first, until the sum is well below the
// bound. A client that reads goes on as before: only beyond twice the bound everybody waits, and is refused after
// backlogWait.

const (
	// backlogStep is by how much a connection's share may differ from what is counted, in bytes.
	backlogStep = 16 << 10
	// backlogPatience is how long a client may leave a write blocked while others wait because of it: over a second per
	// megabyte is too slow then.
	backlogPatience = 300 * time.Millisecond
	// backlogWait is how long a request waits for others to read, or to be cut off.
	backlogWait = time.Second
	// reliefEvery is the time between two looks for clients to be cut off.
	reliefEvery = 100 * time.Millisecond
)

var errBacklog error = &dberr.Overloaded{Message: "Too many bytes of answers wait for clients to read them"}

// Pressed reports whether so much waits for clients to read it that no more should be read for them than needed.
func (s *Server) Pressed() bool { return s.stats.Backlog.Load() > s.opts.BacklogMax }

// account counts the connection's share of the backlog: whole buffers, as a client may leave little in each of many.
// mu is held.
func (c *conn) account() {
	share := int64(c.unsent)
	if c.unsent > 0 || len(c.out.Buf) > backlogStep {
		share += int64(cap(c.out.Buf))
	}
	if d := share - c.counted; d >= backlogStep || d <= -backlogStep || share == 0 && d != 0 {
		c.counted = share
		if c.srv.stats.Backlog.Add(d) > c.srv.opts.BacklogMax && c.srv.relieving.CompareAndSwap(false, true) {
			time.AfterFunc(reliefEvery, c.srv.relieve)
		}
	}
}

// yield is called before a request is executed while the backlog is beyond its bound. It returns an error if the
// request must not be.
func (c *conn) yield() error {
	c.mu.Lock()
	c.flush()
	c.wait(func() bool { return c.writing || len(c.out.Buf) > 0 })
	c.mu.Unlock()
	if !c.awaitRelief() {
		return errBacklog
	}
	return nil
}

// awaitRelief returns when the backlog is below twice its bound; false if that takes too long.
func (c *conn) awaitRelief() bool {
	s := c.srv
	if s.stats.Backlog.Load() <= 2*s.opts.BacklogMax {
		return true
	}
	c.held.Store(true)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for waited := time.Now(); s.stats.Backlog.Load() > 2*s.opts.BacklogMax; {
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

// relieve cuts off clients that do not read, if there are any, as long as the backlog is beyond its bound.
func (s *Server) relieve() {
	if !s.Pressed() || s.ctx.Err() != nil {
		s.relieving.Store(false)
		return
	}
	defer time.AfterFunc(reliefEvery, s.relieve)
	now := time.Now()
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
		d.c.fail(fmt.Errorf("%w: it has not read answers of %d bytes, and too many wait for all clients", ErrSlowClient,
			d.share))
	}
}
