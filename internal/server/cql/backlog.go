// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// The backlog is the memory of responses that clients have not read. Each connection's share is limited, but a
// response can be large and there are many connections, so Options.BacklogMax limits the sum as well. Above the limit,
// the server does not read from a client that has unread responses, and sessions end their pages early
// (Server.Pressed). It disconnects clients that have not read anything for a while, largest backlog first, until the
// sum is well below the limit. A client that reads is not affected. Only above twice the limit do all requests wait;
// they are rejected after backlogWait.

const (
	// backlogStep is the amount by which a connection's share may differ from the counted value, in bytes.
	backlogStep = 16 << 10
	// backlogPatience is the time for which a client may block a write while other clients wait for it. More than one
	// second per megabyte is then too slow.
	backlogPatience = 300 * time.Millisecond
	// backlogWait is the time for which a request waits until other clients have read their responses or have been
	// disconnected.
	backlogWait = time.Second
	// reliefEvery is the time between two searches for clients to disconnect.
	reliefEvery = 100 * time.Millisecond
)

var errBacklog error = &dberr.Overloaded{Message: "Too many bytes of responses are waiting for clients to read them"}

// Pressed reports whether the backlog exceeds its limit, and only the necessary data should be read for clients.
func (s *Server) Pressed() bool { return s.stats.Backlog.Load() > s.opts.BacklogMax }

// account counts the connection's share of the backlog in whole buffers, because a client may leave little data in
// each of many buffers. mu must be held.
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

// yield is called before a request is executed while the backlog exceeds its limit. It returns an error if the request
// must be rejected.
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

// awaitRelief waits until the backlog is below twice its limit. It returns false if that takes too long.
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

// relieve disconnects clients that do not read, as long as the backlog exceeds its limit.
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
		d.c.fail(fmt.Errorf("%w: it has not read %d bytes of responses, and too many bytes are waiting for all clients", ErrSlowClient,
			d.share))
	}
}
