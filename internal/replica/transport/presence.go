// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"fmt"
	"net"
)

// presence is the process of a node that is connected to this one.
type presence struct {
	incarnation uint64
	conns       int
}

// enter lets a process in unless another one with the same node id is connected: two that answer for one node, such as
// a data directory and a copy of it, would each break what the other has promised. Of a process that ended the
// connections end with it, or within IdleTimeout; a node that was started anew comes in then. Connections of snapshots
// do not count: they may wait for a disk when their sender is gone.
func (t *Transport) enter(p Peer, c Class) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	here := t.present[p.Node]
	if here != nil && here.incarnation != p.Incarnation {
		return &Refused{Reason: ErrTwin, Text: fmt.Sprintf("node %x is connected to node %x from another process",
			p.Node, t.self.Node)}
	}
	if c == Snapshot {
		return nil
	}
	if here == nil {
		here = &presence{incarnation: p.Incarnation}
		t.present[p.Node] = here
	}
	here.conns++
	return nil
}

// leave ends what enter began.
func (t *Transport) leave(p Peer, c Class) {
	if c == Snapshot {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if here := t.present[p.Node]; here != nil {
		if here.conns--; here.conns == 0 {
			delete(t.present, p.Node)
		}
	}
}

// hostShare is which part of Options.Handshakes one host may take, so that one that opens connections and says nothing
// does not keep the others out.
const (
	hostShare = 4
	hostLeast = 4
)

// room takes places for a connection that is to shake hands; false if there are none. freeHandshake and the end of the
// connection give them back.
func (t *Transport) room(c net.Conn) (host string, ok bool) {
	host = hostOf(c)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.accepted >= t.opts.InboundConnections || t.shaking >= t.opts.Handshakes ||
		t.shakingOf[host] >= max(hostLeast, t.opts.Handshakes/hostShare) {
		return host, false
	}
	t.accepted++
	t.shaking++
	t.shakingOf[host]++
	return host, true
}

func (t *Transport) freeHandshake(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shaking--
	if t.shakingOf[host]--; t.shakingOf[host] == 0 {
		delete(t.shakingOf, host)
	}
}

// hostOf is where a connection comes from, without the port.
func hostOf(c net.Conn) string {
	a := c.RemoteAddr()
	if a == nil {
		return ""
	}
	if host, _, err := net.SplitHostPort(a.String()); err == nil {
		return host
	}
	return a.String()
}
