// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"net"
	"net/netip"
	"testing"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// TestAccountClients proves that at the address of the account every client has to show a key, also where nobody else
// has to log in, that its session knows it, and that it is told of nodes at the port of that address, while others are
// told where nodes are.
func TestAccountClients(t *testing.T) {
	b := start(t, Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = b.srv.ServeAccount(l, users{"primary": "key"}) }()
	at := netip.MustParseAddrPort(l.Addr().String())
	register := func(c *client) {
		c.put(5, cqlwire.OpRegister, cqlwire.AppendRegister(nil, []string{cqlwire.StatusChange}))
		c.flush()
		c.must(cqlwire.OpReady)
	}

	c := dial(t, at.String(), cqlwire.V4)
	c.startup(cqlwire.NoCompression)
	c.must(cqlwire.OpAuthenticate)
	c.query(1, "x")
	c.put(2, cqlwire.OpAuthResponse, cqlwire.AppendAuthResponse(nil, cqlwire.AppendPlain(nil, "primary", "other")))
	c.put(3, cqlwire.OpAuthResponse, cqlwire.AppendAuthResponse(nil, cqlwire.AppendPlain(nil, "primary", "key")))
	c.flush()
	c.mustFail(cqlwire.CodeProtocol, "Unexpected message QUERY, expecting SASL_RESPONSE")
	c.mustFail(cqlwire.CodeBadCredentials, "")
	c.must(cqlwire.OpAuthSuccess)
	if client := b.latest().client; !client.Account || client.User != "primary" {
		t.Errorf("the session is that of %+v", client)
	}
	register(c)
	other := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	if client := b.latest().client; client.Account || client.User != "" {
		t.Errorf("the session of somebody else is that of %+v", client)
	}
	register(other)

	b.srv.StatusChanged(netip.MustParseAddrPort("127.0.0.9:9042"), true)
	for client, want := range map[*client]uint16{c: at.Port(), other: 9042} {
		e, err := cqlwire.DecodeEvent(client.must(cqlwire.OpEvent).body)
		if err != nil || e.Node != netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), want) {
			t.Errorf("told of %v, want port %d; %v", e.Node, want, err)
		}
	}
}
