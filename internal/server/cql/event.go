// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"net/netip"
	"sync"

	"github.com/ilion-db/ilion/internal/query/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// eventMask is a set of types of events.
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

// subscribers are the connections that registered for events.
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

// SchemaChanged tells all clients that registered for it of a change of the schema. When it returns the event stands in their output: a session
// that calls it before it answers the statement keeps (C3).
func (s *Server) SchemaChanged(change session.SchemaChange) {
	wire := cqlwire.SchemaChange(change)
	s.push(schemaEvents, func(dst []byte, version uint8) []byte { return cqlwire.AppendSchemaEvent(dst, version, &wire) })
}

// NodeStatus tells clients that a node is up or down. node is the address that clients dial.
func (s *Server) NodeStatus(up bool, node netip.AddrPort) {
	change := "DOWN"
	if up {
		change = "UP"
	}
	s.push(statusEvents, func(dst []byte, _ uint8) []byte {
		return cqlwire.AppendNodeEvent(dst, cqlwire.StatusChange, change, node)
	})
}

// TopologyChanged tells clients that a node joined or left. node is the address that clients dial.
func (s *Server) TopologyChanged(joined bool, node netip.AddrPort) {
	change := "REMOVED_NODE"
	if joined {
		change = "NEW_NODE"
	}
	s.push(topologyEvents, func(dst []byte, _ uint8) []byte {
		return cqlwire.AppendNodeEvent(dst, cqlwire.TopologyChange, change, node)
	})
}

func (s *Server) push(mask eventMask, body func(dst []byte, version uint8) []byte) {
	for _, c := range s.events.with(mask) {
		c.mu.Lock()
		switch {
		case c.closed:
		case len(c.out.Buf) > s.opts.OutputBytesMax:
			c.failLocked(errSlowClient)
		default:
			c.begin(cqlwire.Header{Stream: cqlwire.EventStream, Opcode: cqlwire.OpEvent})
			c.out.Buf = body(c.out.Buf, c.version)
			c.out.End()
			c.scheduleFlush()
			s.stats.EventsSent.Add(1)
		}
		c.mu.Unlock()
	}
}
