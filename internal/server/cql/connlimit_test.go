// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestStrangersDoNotCrowdOut checks connections that never complete their handshake. They must not prevent other
// clients from connecting. Each new connection must replace the oldest of these connections. Connections that have
// completed the handshake must not be closed.
func TestStrangersDoNotCrowdOut(t *testing.T) {
	b := start(t, Options{ConnectionsMax: 200, AddressConnectionsMax: 200, ArrivingMax: 10})
	first := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	var strangers []*client
	for range 100 {
		strangers = append(strangers, dial(t, b.addr, cqlwire.V4))
	}
	late := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	for _, c := range []*client{first, late} {
		c.query(1, "x")
		c.flush()
		c.rows()
	}
	for _, c := range strangers[:90] {
		c.mustEnd()
	}
	if n := b.srv.Stats().CrowdedOut.Load(); n < 90 || n > 91 {
		t.Errorf("%d connections were replaced", n)
	}
	if n := b.srv.Stats().Refused.Load(); n != 0 {
		t.Errorf("%d connections were rejected", n)
	}
}

// TestOneAddress checks that a single machine cannot use all connections. After a connection has been closed, a new
// connection must be possible.
func TestOneAddress(t *testing.T) {
	b := start(t, Options{ConnectionsMax: 40, AddressConnectionsMax: 2})
	kept := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	second := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	third := dial(t, b.addr, cqlwire.V4)
	third.mustFail(cqlwire.CodeOverloaded, "Too many connections from 127.0.0.1")
	third.mustEnd()
	second.nc.Close()
	eventually.True(t, "a place is free", func() bool { return b.srv.Stats().Connections.Load() == 1 })
	dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	kept.query(1, "x")
	kept.flush()
	kept.rows()
}

// TestIdleConnectionsEnd checks that a connection without requests is closed. A connection that sends requests, waits
// for a response, or is registered for events must remain open.
func TestIdleConnectionsEnd(t *testing.T) {
	b := start(t, Options{IdleTimeout: time.Second})
	waiting := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	waiting.query(1, "late")
	waiting.flush()
	control := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	control.put(1, cqlwire.OpRegister, cqlwire.AppendRegister(nil, []string{cqlwire.StatusChange}))
	control.flush()
	control.must(cqlwire.OpReady)
	idle := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	idle.mustEnd()
	if n := b.srv.Stats().Idle.Load(); n != 1 {
		t.Errorf("%d idle connections were closed", n)
	}
	b.session(0).release()
	waiting.must(cqlwire.OpResult)
	control.query(2, "x")
	control.flush()
	control.rows()
}
