// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// connLimiter limits the connections of a server. A connection without a validly signed request is unauthenticated.
// When the limit is reached, the oldest unauthenticated connection is closed. Therefore, clients without a key cannot
// lock out other clients with idle or slow connections.
type connLimiter struct {
	max, perAddress int
	stats           *Stats

	mu sync.Mutex
	// open counts the connections with a slot. rejected counts the connections that have no slot and will receive an
	// error.
	open, rejected  int
	number          uint32
	byAddress       map[netip.Addr]int
	unauthenticated list.List // list of *clientConn, oldest first
}

// clientConn is one connection.
type clientConn struct {
	net.Conn
	of *connLimiter
	// number identifies the connection.
	number uint32
	remote netip.AddrPort
	// element is the element of the connection in of.unauthenticated. It is nil if the connection is authenticated.
	// of.mu guards element.
	element *list.Element
	// left reports whether the connection has released its slot.
	left bool
	// refusal is the error for the first request of a connection without a slot. For other connections, refusal is
	// empty.
	refusal string
}

// known marks the connection as authenticated.
func (g *clientConn) known() {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.setUnauthenticated(false)
}

// setUnauthenticated adds the connection to the list of unauthenticated connections, or removes it. The caller must
// hold mu.
func (g *clientConn) setUnauthenticated(yes bool) {
	switch l := &g.of.unauthenticated; {
	case yes:
		g.element = l.PushBack(g)
	case g.element != nil:
		l.Remove(g.element)
		g.element = nil
	}
}

// Close closes the connection and releases its slot.
func (g *clientConn) Close() error {
	g.of.mu.Lock()
	g.setUnauthenticated(false)
	g.of.leave(g)
	g.of.mu.Unlock()
	return g.Conn.Close()
}

// leave releases the slot of a connection. Further calls have no effect. The caller must hold mu.
func (w *connLimiter) leave(g *clientConn) {
	if g.left {
		return
	}
	if g.left = true; g.refusal != "" {
		w.rejected--
		return
	}
	w.open--
	w.stats.Connections.Add(-1)
	if w.byAddress[g.remote.Addr()]--; w.byAddress[g.remote.Addr()] == 0 {
		delete(w.byAddress, g.remote.Addr())
	}
}

// oldest returns the oldest unauthenticated connection that satisfies fits, or nil. The caller must hold mu.
func (w *connLimiter) oldest(fits func(*clientConn) bool) *clientConn {
	for e := w.unauthenticated.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*clientConn); fits(s) {
			return s
		}
	}
	return nil
}

// rejectedMax is the maximum number of connections that receive an error because no slot is free. Additional
// connections are closed.
const rejectedMax = 32

// admit registers a connection, or returns nil. out is an unauthenticated connection that the caller must close to
// free its slot.
func (w *connLimiter) admit(c net.Conn) (g, out *clientConn) {
	g = &clientConn{Conn: c, of: w}
	if a, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		g.remote = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	address := g.remote.Addr()
	w.mu.Lock()
	defer w.mu.Unlock()
	why := ""
	switch {
	case w.perAddress < w.max && w.byAddress[address] >= w.perAddress:
		out = w.oldest(func(s *clientConn) bool { return s.remote.Addr() == address })
		why = "Too many connections from this address. Close some, or raise limits.connections_per_address."
	case w.open >= w.max:
		out = w.oldest(func(*clientConn) bool { return true })
		why = "The HTTP connection limit of this node is reached. Close connections, or use another node."
	}
	if why != "" && out == nil {
		if w.rejected == rejectedMax {
			return nil, nil
		}
		w.rejected++
		g.refusal = why
		return g, nil
	}
	if out != nil {
		out.setUnauthenticated(false)
		w.leave(out)
	}
	if w.byAddress == nil {
		w.byAddress = map[netip.Addr]int{}
	}
	w.byAddress[address]++
	w.open++
	w.stats.Connections.Add(1)
	w.number++
	g.number = w.number
	g.setUnauthenticated(true)
	return g, out
}
