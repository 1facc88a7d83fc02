// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net"
	"syscall"
	"time"
)

// The goroutine of a connection carries out its requests, so it does not read meanwhile, and does not hear that the
// client has gone. Server.watch looks for such clients and cancels the contexts of their connections. A client that has
// closed its half of the connection counts as gone, as for net/http.

// watchEvery is how often clients are looked for that have gone. A request that is answered earlier is never looked at.
const watchEvery = 100 * time.Millisecond

// watch cancels requests whose clients have gone, until the server ends.
func (s *Server) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if s.stats.InFlight.Load() > 0 {
			s.each((*conn).look)
		}
	}
}

// look cancels the request under way if it has been under way since the last look, and its client has gone. Only
// Server.watch calls it.
func (c *conn) look() {
	began := c.doing.began.Load()
	if began != 0 && began == c.looked && hasLeft(c.guest.Conn) {
		c.cancel()
	}
	c.looked = began
}

// hasLeft reports whether the peer of a socket has closed the connection, or at least its sending half.
func hasLeft(nc net.Conn) (left bool) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) { left = peerClosed(int(fd)) })
	return left && err == nil
}
