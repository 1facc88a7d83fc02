// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func authority(t testing.TB) *Authority {
	t.Helper()
	a, err := NewAuthority("test", Validity{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func configOf(t testing.TB, a *Authority, node NodeID, v Validity) *tls.Config {
	t.Helper()
	root, _, err := a.PEM()
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := a.Issue(node, []string{"127.0.0.1", "a.example"}, v)
	if err != nil {
		t.Fatal(err)
	}
	c, err := TLSConfig(root, certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// loopback starts node i on a TCP port of this machine.
func loopback(t testing.TB, i int, h handlers, o Options) (*Transport, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tr, err := New(Self{Cluster: home, Node: id(i), Address: l.Addr().String()}, DialTCP, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Start(l, h, h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr, l.Addr().String()
}

func echo(_ context.Context, _ NodeID, b []byte, r Responder) { r.End(b) }

// TestMutualTLS checks over TCP that only nodes of the authority with a certificate for their own ID can communicate,
// in both directions.
func TestMutualTLS(t *testing.T) {
	a, stranger := authority(t), authority(t)
	good := Options{TLS: configOf(t, a, id(1), Validity{})}
	cases := []struct {
		name string
		peer *tls.Config // configuration of node 2
		want error       // error of node 2; nil and an empty text mean no error
		text string
	}{
		{"as it should be", configOf(t, a, id(2), Validity{}), nil, ""},
		{"another node's certificate", configOf(t, a, id(3), Validity{}), ErrIdentity, ""},
		{"of another authority", configOf(t, stranger, id(2), Validity{}), nil, "tls: "},
		{"expired", configOf(t, a, id(2), Validity{From: time.Now().Add(-2 * time.Hour), For: time.Hour}), nil,
			"tls: "},
		{"without TLS", nil, nil, "handshake"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, address := loopback(t, 1, handlers{command: echo}, good)
			two, _ := loopback(t, 2, handlers{}, Options{TLS: c.peer})
			two.SetAddress(id(1), address)
			b, err := two.Call(t.Context(), id(1), []byte("x"))
			if c.want == nil && c.text == "" {
				if err != nil || string(b) != "x" {
					t.Fatal(b, err)
				}
				return
			}
			if err == nil || !errors.Is(err, c.want) && c.want != nil || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("%v, want %v", err, c.want)
			}
		})
		t.Run(c.name+"/dialled", func(t *testing.T) {
			_, address := loopback(t, 2, handlers{command: echo}, Options{TLS: c.peer})
			one, _ := loopback(t, 1, handlers{}, good)
			one.SetAddress(id(2), address)
			_, err := one.Call(t.Context(), id(2), []byte("x"))
			if bad := c.want != nil || c.text != ""; bad != (err != nil) || (c.want != nil && !errors.Is(err, c.want)) {
				t.Fatalf("%v, want %v", err, c.want)
			}
		})
	}
}

// TestCloseDoesNotWaitForPeers checks that Close returns with TLS under load while the peer does not read. The peer
// starts reading only at the end of the test.
func TestCloseDoesNotWaitForPeers(t *testing.T) {
	a := authority(t)
	stuck := make(chan struct{})
	connected := make(chan struct{}, 1)
	_, address := loopback(t, 1, handlers{frame: func(NodeID, []byte) error {
		<-stuck
		return nil
	}}, Options{
		TLS:      configOf(t, a, id(1), Validity{}),
		Observer: events{accepted: func() { connected <- struct{}{} }},
	})
	defer close(stuck)
	two, _ := loopback(t, 2, handlers{}, Options{TLS: configOf(t, a, id(2), Validity{})})
	two.SetAddress(id(1), address)
	two.Send(id(1), make([]byte, 15<<20))
	<-connected
	two.Close()
}

// TestAuthorityPEM checks that an authority survives its encoding, and that a node's certificate is not accepted as an
// authority.
func TestAuthorityPEM(t *testing.T) {
	a := authority(t)
	certificate, key, err := a.PEM()
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadAuthority(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	c, k, err := again.Issue(id(1), nil, Validity{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TLSConfig(certificate, c, k); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadAuthority(c, k); err == nil {
		t.Fatal("a node became an authority")
	}
}

// TestUselessTLS checks that a configuration that would trust every peer, or no peer, is rejected at the start.
func TestUselessTLS(t *testing.T) {
	for name, c := range map[string]*tls.Config{"empty": {},
		"no certificate": {RootCAs: configOf(t, authority(t), id(1), Validity{}).RootCAs}} {
		if _, err := New(Self{Node: id(1)}, DialTCP, Options{TLS: c}); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestSetTLS checks that connections after SetTLS use the new certificates, and that earlier connections continue. An
// invalid configuration must have no effect.
func TestSetTLS(t *testing.T) {
	before, after := authority(t), authority(t)
	one, address := loopback(t, 1, handlers{command: echo}, Options{TLS: configOf(t, before, id(1), Validity{})})
	call := func(i int, o Options) error {
		two, _ := loopback(t, i, handlers{}, o)
		defer two.Close()
		two.SetAddress(id(1), address)
		_, err := two.Call(t.Context(), id(1), []byte("x"))
		return err
	}
	// Each node has a separate ID, because the acceptor considers a closed connection open for a short time.
	by := func(a *Authority, i int) Options { return Options{TLS: configOf(t, a, id(i), Validity{})} }
	open, _ := loopback(t, 3, handlers{}, by(before, 3))
	open.SetAddress(id(1), address)
	if _, err := open.Call(t.Context(), id(1), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := one.SetTLS(&tls.Config{}); err == nil {
		t.Error("a configuration without certificates was accepted")
	}
	if err := call(2, by(before, 2)); err != nil {
		t.Error(err)
	}
	if err := one.SetTLS(configOf(t, after, id(1), Validity{})); err != nil {
		t.Fatal(err)
	}
	if err := call(4, by(before, 4)); err == nil {
		t.Error("a certificate of the authority before lets in")
	}
	if err := call(5, by(after, 5)); err != nil {
		t.Error(err)
	}
	if _, err := open.Call(t.Context(), id(1), []byte("x")); err != nil {
		t.Errorf("a connection from before: %v", err)
	}
}
