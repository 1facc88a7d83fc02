// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"container/list"
	"errors"
	"net/netip"
	"time"
)

// crowd counts connections by address and by handshake state. The counts prevent a single machine from using all
// connections. They also limit clients that never log in. Server.mu guards it.
type crowd struct {
	byAddress map[netip.Addr]int
	// arriving holds the connections that are in their handshake. The oldest connection is first.
	arriving list.List
}

// slot is the state of a connection for the limits of this file.
type slot struct {
	// arriving is the connection's entry in crowd.arriving. It is nil after the handshake.
	arriving *list.Element
	// seen is the number of requests at the last scan of endIdle. idle is the number of consecutive scans without new
	// requests.
	seen int64
	idle int
}

var (
	errCrowdedOut = errors.New("too many connections are in the handshake, and this connection is the oldest of them")
	errIdle       = errors.New("the connection was idle for limits.idle_timeout")
)

// admit adds a connection unless the connection's address has reached its limit. If too many connections are in the
// handshake, admit returns the oldest of these connections. The caller must close it. A client with a valid password
// completes its handshake quickly.
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
	c.slot.arriving = w.arriving.PushBack(c)
	return out, true
}

// oldest removes and returns the connection whose handshake has taken longest. It returns nil if no connection is in
// the handshake.
func (w *crowd) oldest() *conn {
	if w.arriving.Len() == 0 {
		return nil
	}
	c := w.arriving.Front().Value.(*conn)
	w.arrived(c)
	return c
}

// arrived removes a connection whose handshake is complete.
func (w *crowd) arrived(c *conn) {
	if c.slot.arriving != nil {
		w.arriving.Remove(c.slot.arriving)
		c.slot.arriving = nil
	}
}

// leave removes a connection that has ended.
func (w *crowd) leave(c *conn) {
	w.arrived(c)
	a := c.remote.Addr()
	if w.byAddress[a]--; w.byAddress[a] == 0 {
		delete(w.byAddress, a)
	}
}

// idleScans is the number of consecutive idle scans after which a connection is closed. At that time, the connection
// has been idle for between three quarters of the timeout and the whole timeout.
const idleScans = 4

// endIdle closes connections without requests until the server is closed. Connections that are registered for events
// stay open.
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
			n, busy := c.requests.Load(), c.slot.arriving != nil || c.exec.pending.Load() > 0 || s.events.has(c)
			if n != c.slot.seen || busy {
				c.slot.seen, c.slot.idle = n, 0
			} else if c.slot.idle++; c.slot.idle == idleScans {
				s.stats.Idle.Add(1)
				go c.out.fail(errIdle) // fail may wait for the goroutine that writes to the client
			}
		}
		s.mu.Unlock()
	}
}
