// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net"
	"sync"
)

// hostShare is the divisor of Options.Handshakes that yields the limit for one host. The limit prevents a host with
// idle connections from blocking other hosts.
const (
	hostShare = 4
	hostLeast = 4
)

// inboundLimits limits the accepted connections and the handshakes in progress.
type inboundLimits struct {
	connections, handshakes int // the limits

	mu        sync.Mutex
	accepted  int
	shaking   int
	shakingOf map[string]int // handshakes in progress by remote host
}

// admit reserves a slot for a connection before the handshake. It returns false if no slot is free. The caller must
// call shook at the end of the handshake and closed at the end of the connection.
func (l *inboundLimits) admit(c net.Conn) (host string, ok bool) {
	host = hostOf(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accepted >= l.connections || l.shaking >= l.handshakes ||
		l.shakingOf[host] >= max(hostLeast, l.handshakes/hostShare) {
		return host, false
	}
	l.accepted++
	l.shaking++
	l.shakingOf[host]++
	return host, true
}

func (l *inboundLimits) shook(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shaking--
	if l.shakingOf[host]--; l.shakingOf[host] == 0 {
		delete(l.shakingOf, host)
	}
}

func (l *inboundLimits) closed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted--
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

// inboundRaft holds the accepted Raft connection of each node.
type inboundRaft struct {
	mu    sync.Mutex
	conns map[NodeID]*raftConn
}

type raftConn struct {
	conn net.Conn
	done chan struct{}
}

// replace registers the connection of a node. It closes the previous connection and waits until the last frame of the
// previous connection has been processed. The caller must call end at the end of the connection.
func (r *inboundRaft) replace(node NodeID, conn net.Conn) (end func()) {
	mine := &raftConn{conn: conn, done: make(chan struct{})}
	r.mu.Lock()
	before := r.conns[node]
	r.conns[node] = mine
	r.mu.Unlock()
	if before != nil {
		_ = before.conn.Close()
		<-before.done
	}
	return func() {
		r.mu.Lock()
		if r.conns[node] == mine {
			delete(r.conns, node)
		}
		r.mu.Unlock()
		close(mine.done)
	}
}
