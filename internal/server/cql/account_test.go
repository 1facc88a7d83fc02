// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"net"
	"net/netip"
	"testing"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// TestAccountClients checks that each client at the account address must present a key, even if clients at other
// addresses need not log in. The session of such a client must know the account. Events at that address must contain
// the port of the address. Other clients must receive the port of the node.
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
		t.Errorf("the session belongs to %+v", client)
	}
	register(c)
	other := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	if client := b.latest().client; client.Account || client.User != "" {
		t.Errorf("the session of another client belongs to %+v", client)
	}
	register(other)

	b.srv.StatusChanged(netip.MustParseAddrPort("127.0.0.9:9042"), true)
	for client, want := range map[*client]uint16{c: at.Port(), other: 9042} {
		e, err := cqlwire.DecodeEvent(client.must(cqlwire.OpEvent).body)
		if err != nil || e.Node != netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), want) {
			t.Errorf("received an event for %v, want port %d; %v", e.Node, want, err)
		}
	}
}
