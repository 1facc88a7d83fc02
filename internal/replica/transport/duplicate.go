// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"fmt"
	"net"
)

// peerProcess is a process of a node that is connected to this node.
type peerProcess struct {
	incarnation uint64
	conns       int
}

// enter admits a process unless another process with the same node ID is connected. Two processes of one node, such as
// processes on a data directory and its copy, would break each other's promises. The connections of an ended process
// end with it, or within IdleTimeout. A restarted node is then admitted. Snapshot connections do not count, because
// they may wait for a disk after their sender has ended.
func (t *Transport) enter(p Peer, c Class) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	here := t.present[p.Node]
	if here != nil && here.incarnation != p.Incarnation {
		return &Refused{Reason: ErrDuplicateNode,
			Text: fmt.Sprintf("node %x is connected to node %x from another process",
				p.Node, t.self.Node)}
	}
	if c == Snapshot {
		return nil
	}
	if here == nil {
		here = &peerProcess{incarnation: p.Incarnation}
		t.present[p.Node] = here
	}
	here.conns++
	return nil
}

// leave reverts enter.
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

// hostShare is the divisor of Options.Handshakes that determines the limit for one host. A host that opens connections
// and sends nothing therefore does not block other hosts.
const (
	hostShare = 4
	hostLeast = 4
)

// admitHandshake reserves a slot for a connection that starts its handshake. It returns false if no slot is free.
// freeHandshake or the end of the connection releases the slot.
func (t *Transport) admitHandshake(c net.Conn) (host string, ok bool) {
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

// hostOf returns the remote address of a connection without the port.
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
