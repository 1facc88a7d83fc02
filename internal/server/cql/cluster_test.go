// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// TestNodeEvents checks the node events that clients of each protocol version receive. Clients must receive every
// change once and in order. They must receive only the event types for which they registered.
func TestNodeEvents(t *testing.T) {
	b := start(t, Options{})
	var all []*client
	for _, version := range []uint8{cqlwire.V3, cqlwire.V4, cqlwire.V5} {
		c := dial(t, b.addr, version).hello(cqlwire.NoCompression)
		c.put(1, cqlwire.OpRegister,
			cqlwire.AppendRegister(nil, []string{cqlwire.StatusChange, cqlwire.TopologyChange}))
		c.flush()
		c.must(cqlwire.OpReady)
		all = append(all, c)
	}
	schemaOnly := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	schemaOnly.put(1, cqlwire.OpRegister, cqlwire.AppendRegister(nil, []string{cqlwire.SchemaChangeEvent}))
	schemaOnly.flush()
	schemaOnly.must(cqlwire.OpReady)

	four, six := netip.MustParseAddrPort("127.0.0.9:9042"), netip.MustParseAddrPort("[2001:db8::1]:9043")
	for range 2 {
		b.srv.TopologyChanged(four, true)
		b.srv.StatusChanged(four, true)
		b.srv.StatusChanged(four, true)
	}
	b.srv.StatusChanged(six, true)
	b.srv.StatusChanged(four, false)
	b.srv.StatusChanged(four, false)
	b.srv.StatusChanged(four, true)
	b.srv.TopologyChanged(four, false)
	b.srv.TopologyChanged(four, false)
	b.srv.TopologyChanged(four, true)
	b.srv.StatusChanged(four, true)
	b.srv.StatusChanged(six, false)
	want := []string{
		"NEW_NODE 127.0.0.9:9042", "UP 127.0.0.9:9042", "UP [2001:db8::1]:9043", "DOWN 127.0.0.9:9042",
		"UP 127.0.0.9:9042",
		"REMOVED_NODE 127.0.0.9:9042", "NEW_NODE 127.0.0.9:9042", "UP 127.0.0.9:9042", "DOWN [2001:db8::1]:9043",
	}
	for _, c := range all {
		var got []string
		for range want {
			a := c.must(cqlwire.OpEvent)
			e, err := cqlwire.DecodeEvent(a.body)
			if err != nil || a.Stream != cqlwire.EventStream {
				t.Fatal(a.Header, err)
			}
			if topology := e.Change == "NEW_NODE" ||
				e.Change == "REMOVED_NODE"; topology != (e.Kind == cqlwire.TopologyChange) {
				t.Errorf("%s is a %s", e.Change, e.Kind)
			}
			got = append(got, e.Change+" "+e.Node.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", c.version, diff)
		}
	}
	for _, c := range append(all, schemaOnly) {
		c.query(1, "x")
		c.flush()
		c.rows() // no event arrives before this response
	}
}

// TestNodeEventsAreBounded checks that the server stores a bounded number of nodes, even if a cluster continuously
// reports new addresses.
func TestNodeEventsAreBounded(t *testing.T) {
	b := start(t, Options{})
	for i := range nodesMax + 10 {
		node := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 9042)
		b.srv.StatusChanged(node, true)
		b.srv.TopologyChanged(node, true)
	}
	if u, a := len(b.srv.nodes.up), len(b.srv.nodes.added); u > nodesMax || a > nodesMax || u == 0 || a == 0 {
		t.Errorf("%d and %d nodes are remembered", u, a)
	}
}

// TestTabletsAreOffered checks that the server offers tablets-routing-v1 only if it is enabled. The session must know
// whether its client has requested the extension and can receive a payload.
func TestTabletsAreOffered(t *testing.T) {
	for _, test := range []struct {
		name    string
		on, ask bool
		version uint8
		want    bool
	}{
		{"off", false, false, cqlwire.V4, false},
		{"off, asked", false, true, cqlwire.V4, false},
		{"on", true, false, cqlwire.V4, false},
		{"on, asked", true, true, cqlwire.V4, true},
		{"on, asked, version 5", true, true, cqlwire.V5, true},
		{"on, asked, no payloads", true, true, cqlwire.V3, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := start(t, Options{Tablets: test.on})
			c := dial(t, b.addr, test.version)
			c.put(0, cqlwire.OpOptions, nil)
			c.flush()
			supported, err := cqlwire.DecodeSupported(c.must(cqlwire.OpSupported).body)
			if err != nil {
				t.Fatal(err)
			}
			if values, offered := supported["TABLETS_ROUTING_V1"]; offered != test.on || offered &&
				!slices.Equal(values, []string{""}) {
				t.Errorf("SUPPORTED has %q", supported)
			}
			if test.ask {
				c.hello(cqlwire.NoCompression, "TABLETS_ROUTING_V1", "")
			} else {
				c.hello(cqlwire.NoCompression)
			}
			if got := b.latest().client.Tablets; got != test.want {
				t.Errorf("Tablets of the session is %v", got)
			}
		})
	}
}
