// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net"
	"syscall"
	"time"
)

// The goroutine of a connection executes the connection's requests. During a request, this goroutine does not read
// from the connection, so it cannot detect that the client has disconnected. Server.watch detects such clients and
// cancels the contexts of their connections. As in net/http, a client that has closed its sending half is treated as
// disconnected.

// watchEvery is the interval between two checks for disconnected clients. Requests that take less time are never
// checked.
const watchEvery = 100 * time.Millisecond

// watch cancels requests of disconnected clients until the server ends.
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

// look cancels the current request if the client has disconnected and the request is the same as at the previous call.
// Only Server.watch calls it.
func (c *conn) look() {
	began := c.doing.began.Load()
	if began != 0 && began == c.looked && hasLeft(c.clientConn.Conn) {
		c.cancel()
	}
	c.looked = began
}

// hasLeft reports whether the peer of a socket has closed the connection or the sending half of the connection.
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
