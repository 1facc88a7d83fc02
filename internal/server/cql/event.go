// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"net/netip"
	"strings"
	"sync"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// eventMask is a set of event types.
type eventMask uint8

const (
	schemaEvents eventMask = 1 << iota
	statusEvents
	topologyEvents
)

var eventMasks = map[string]eventMask{
	cqlwire.SchemaChangeEvent: schemaEvents,
	cqlwire.StatusChange:      statusEvents,
	cqlwire.TopologyChange:    topologyEvents,
}

// subscribers holds the connections that are registered for events.
type subscribers struct {
	mu    sync.Mutex
	conns map[*conn]eventMask
}

func (s *subscribers) add(c *conn, mask eventMask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] |= mask
}

func (s *subscribers) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

func (s *subscribers) has(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[c] != 0
}

func (s *subscribers) with(mask eventMask) (l []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, m := range s.conns {
		if m&mask != 0 {
			l = append(l, c)
		}
	}
	return l
}

// SchemaChanged sends a schema change to all clients that are registered for such events. When it returns, the event
// is in the output of these clients. To satisfy (CQ3), a session must call SchemaChanged before it responds to the
// statement.
func (s *Server) SchemaChanged(change session.SchemaChange) {
	wire := cqlwire.SchemaChange(change)
	s.push(schemaEvents, func(c *conn, dst []byte) []byte {
		return cqlwire.AppendSchemaEvent(dst, c.out.version, &wire)
	})
}

// StatusChanged notifies clients that a node of the cluster is up or down. node is the address to which clients
// connect. A state that equals the last sent state is not sent again. For a node that joins, TopologyChanged is called
// first. For a node that leaves, clients may receive DOWN before the topology event, or may not receive DOWN.
func (s *Server) StatusChanged(node netip.AddrPort, up bool) {
	change := "DOWN"
	if up {
		change = "UP"
	}
	s.nodes.tell(s.nodes.up, node, up, func() { s.pushNode(statusEvents, cqlwire.StatusChange, change, node) })
}

// TopologyChanged notifies clients that a node has joined or left the cluster (see StatusChanged). Clients then read
// system.peers, so the node must be added to or removed from system.peers before the call.
func (s *Server) TopologyChanged(node netip.AddrPort, added bool) {
	change := "REMOVED_NODE"
	if added {
		change = "NEW_NODE"
	}
	s.nodes.tell(s.nodes.added, node, added, func() {
		if !added {
			delete(s.nodes.up, node) // if the node returns, clients are notified
		}
		s.pushNode(topologyEvents, cqlwire.TopologyChange, change, node)
	})
}

func (s *Server) pushNode(mask eventMask, kind, change string, node netip.AddrPort) {
	s.push(mask, func(c *conn, dst []byte) []byte {
		return cqlwire.AppendNodeEvent(dst, kind, change, c.reaches(node))
	})
}

// reaches returns the address at which the client reaches a node. A client that logs in with an account key uses its
// current port for all nodes.
func (c *conn) reaches(node netip.AddrPort) netip.AddrPort {
	if c.handshake.keys == nil {
		return node
	}
	return netip.AddrPortFrom(node.Addr(), c.local.Port())
}

// nodeStates holds the last state of each node that was sent to clients.
type nodeStates struct {
	mu        sync.Mutex // mu also serializes the events
	up, added map[netip.AddrPort]bool
}

// nodesMax is the maximum number of nodes for which the state is stored. The server may send the state of an evicted
// node again.
const nodesMax = 4096

// tell calls push unless the state equals the last sent state.
func (n *nodeStates) tell(states map[netip.AddrPort]bool, node netip.AddrPort, state bool, push func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if last, ok := states[node]; ok && last == state {
		return
	}
	if len(states) >= nodesMax {
		clear(states)
	}
	states[node] = state
	push()
}

func (s *Server) push(mask eventMask, body func(c *conn, dst []byte) []byte) {
	for _, c := range s.events.with(mask) {
		c.out.pushEvent(func(dst []byte) []byte { return body(c, dst) })
	}
}

// register responds to REGISTER. Afterward, the connection receives the requested events.
func (c *conn) register(h cqlwire.Header, body []byte) {
	names, err := cqlwire.DecodeRegister(body)
	var mask eventMask
	for _, name := range names {
		m, ok := eventMasks[strings.ToUpper(name)]
		if !ok && err == nil {
			err = dberr.Protocolf("Invalid value '%s' for Type", name)
		}
		mask |= m
	}
	if err != nil {
		c.out.respondError(h.Stream, err)
		return
	}
	c.srv.events.add(c, mask)
	c.out.respond(h.Stream, cqlwire.OpReady, func(dst []byte) []byte { return dst })
}
