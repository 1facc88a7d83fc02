// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"container/list"
	"errors"
	"net/netip"
	"time"
)

// crowd counts connections by where they come from and how far they are, so that neither one machine nor strangers who
// never log in can take all places. Server.mu guards it.
type crowd struct {
	byAddress map[netip.Addr]int
	// arriving are the connections that are in their handshake, the oldest first.
	arriving list.List
}

var (
	errCrowdedOut = errors.New("too many connections are in their handshake, and this one took longest")
	errIdle       = errors.New("the client has asked nothing for limits.idle_timeout")
)

// admit takes a connection in, unless its address has as many as it may. Where too many are in their handshake the
// oldest of them is returned, which has to go: a client that knows its password is through in a moment.
func (w *crowd) admit(c *conn, perAddress, arrivingMax int) (out *conn, ok bool) {
	a := c.remote.Addr()
	if w.byAddress[a] >= perAddress {
		return nil, false
	}
	if w.byAddress == nil {
		w.byAddress = map[netip.Addr]int{}
	}
	w.byAddress[a]++
	if w.arriving.Len() >= arrivingMax {
		out = w.oldest()
	}
	c.arriving = w.arriving.PushBack(c)
	return out, true
}

// oldest takes the connection out of those in their handshake that takes longest; nil if there is none.
func (w *crowd) oldest() *conn {
	if w.arriving.Len() == 0 {
		return nil
	}
	c := w.arriving.Front().Value.(*conn)
	w.arrived(c)
	return c
}

// arrived takes a connection out of those in their handshake.
func (w *crowd) arrived(c *conn) {
	if c.arriving != nil {
		w.arriving.Remove(c.arriving)
		c.arriving = nil
	}
}

// leave takes a connection out that has ended.
func (w *crowd) leave(c *conn) {
	w.arrived(c)
	a := c.remote.Addr()
	if w.byAddress[a]--; w.byAddress[a] == 0 {
		delete(w.byAddress, a)
	}
}

// idleScans is in how many scans a connection has to be idle to be ended: it is idle for between three quarters and the
// whole of the timeout then.
const idleScans = 4

// endIdle ends connections whose clients ask nothing, until the server is closed. Clients that registered for events
// wait for them.
func (s *Server) endIdle() {
	tick := time.NewTicker(s.opts.IdleTimeout / idleScans)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		for c := range s.conns {
			if n := c.requests.Load(); n != c.seen || c.arriving != nil || c.pending.Load() > 0 || s.events.has(c) {
				c.seen, c.idle = n, 0
			} else if c.idle++; c.idle == idleScans {
				s.stats.Idle.Add(1)
				go c.fail(errIdle) // it may wait for the goroutine that writes to the client
			}
		}
		s.mu.Unlock()
	}
}
