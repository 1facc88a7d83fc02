// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/test/memnet"
)

var (
	ourSecret   = []byte(strings.Repeat("ours ", 8))
	otherSecret = []byte(strings.Repeat("other ", 8))
)

// TestSecret checks that without TLS, only nodes with the same secret connect. The test covers both dialers, each
// class of connection, and Identify.
func TestSecret(t *testing.T) {
	for _, c := range []struct {
		name   string
		secret []byte // secret of node 2; node 1 has our secret
		want   error
	}{{"the same", ourSecret, nil}, {"another", otherSecret, ErrSecret}, {"none", nil, ErrSecret}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				var turnedAway error
				start(t, n, 1, handlers{}, Options{Secret: ourSecret,
					Observer: events{handshakeRefused: func(err error) { turnedAway = err }}})
				two := start(t, n, 2, handlers{}, Options{Secret: c.secret})
				for _, class := range []Class{Raft, Command, Snapshot} {
					turnedAway = nil
					s, err := two.connect(t.Context(), host(1), class, id(1))
					if !errors.Is(err, c.want) || err == nil != (c.want == nil) {
						t.Fatalf("%s: %v, want %v", class, err, c.want)
					}
					if err == nil {
						two.release(s.raw)
					}
					synctest.Wait()
					if !errors.Is(turnedAway, c.want) {
						t.Fatalf("%s: node 1: got %v, want %v", class, turnedAway, c.want)
					}
				}
				_, p, err := Identify(t.Context(), n.Dialler("asker"), nil, c.secret, host(1))
				if !errors.Is(err, c.want) || c.want == nil && p.Node != id(1) || c.want != nil &&
					p.Node != (NodeID{}) {
					t.Fatalf("asking: %v, %v, want %v", p, err, c.want)
				}
			})
		})
	}
}

// TestSecretIsProvenByTheAcceptor checks that a dialing node reveals only its ID to a node that does not have the
// secret.
func TestSecretIsProvenByTheAcceptor(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		l, err := n.Listen(host(1))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var heard []byte
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			mine := newIntroduction(id(1))
			_, _ = conn.Write(append(mine.append(nil), make([]byte, 32)...))
			heard, _ = io.ReadAll(conn)
		}()
		two := start(t, n, 2, handlers{}, Options{Secret: ourSecret})
		if _, err := two.connect(t.Context(), host(1), Raft, id(1)); !errors.Is(err, ErrSecret) {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(heard) != introLen+32 || !bytes.Equal(heard[introLen:], make([]byte, 32)) {
			t.Fatalf("the node sent %x", heard)
		}
	})
}

// recorder records the bytes written to a connection.
type recorder struct {
	net.Conn
	mu  sync.Mutex
	log []byte
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	r.log = append(r.log, b...)
	r.mu.Unlock()
	return r.Conn.Write(b)
}

// TestSecretIsNotReplayed checks that a peer that has recorded all messages of a node cannot impersonate the node by
// replaying them. A node's own proofs must not be usable against the node.
func TestSecretIsNotReplayed(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, 1, handlers{}, Options{Secret: ourSecret})
		var tape *recorder
		dial := func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := n.Dialler(host(2))(ctx, address)
			tape = &recorder{Conn: conn}
			return tape, err
		}
		two, err := New(Self{Cluster: home, Node: id(2)}, dial, Options{Secret: ourSecret})
		if err != nil {
			t.Fatal(err)
		}
		defer two.Close()
		s, err := two.connect(t.Context(), host(1), Command, id(1))
		if err != nil {
			t.Fatal(err)
		}
		two.release(s.raw)
		time.Sleep(time.Minute) // in virtual time
		if bytes.Contains(tape.log, ourSecret) {
			t.Fatal("the secret was sent")
		}
		for name, again := range map[string]func(theirs []byte) []byte{
			"replayed":  func([]byte) []byte { return tape.log },
			"reflected": func(theirs []byte) []byte { return append(tape.log[:introLen:introLen], theirs...) },
		} {
			conn, err := n.Dialler("thief")(t.Context(), host(1))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write(tape.log[:introLen]); err != nil {
				t.Fatal(err)
			}
			theirs := make([]byte, introLen+32)
			if _, err := io.ReadFull(conn, theirs); err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write(again(theirs[introLen:])[introLen:])
			h, err := readHello(conn)
			if err != nil || h.class != prove || h.status != statusSecret || h.node != (NodeID{}) {
				t.Fatalf("%s: %+v, %v", name, h, err)
			}
			_ = conn.Close()
		}
	})
}

// TestSecretOfAnotherNode checks that a hello must come from the node that has proven the secret.
func TestSecretOfAnotherNode(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, 1, handlers{}, Options{Secret: ourSecret})
		conn, err := n.Dialler("thief")(t.Context(), host(1))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := proveDialled(conn, ourSecret, id(2)); err != nil {
			t.Fatal(err)
		}
		as := hello{class: Raft, least: 1, most: 1, cluster: home, node: id(3), to: id(1)}
		if _, err := conn.Write(as.append(nil)); err != nil {
			t.Fatal(err)
		}
		if h, err := readHello(conn); err != nil || h.status != statusIdentity {
			t.Fatalf("%+v, %v", h, err)
		}
	})
}

// TestShortSecret checks that a secret that is too short is rejected at the start.
func TestShortSecret(t *testing.T) {
	if _, err := New(Self{Node: id(1)}, DialTCP, Options{Secret: []byte("hunter2")}); err == nil {
		t.Fatal("accepted")
	}
}

// FuzzIntro checks that no input makes readIntroduction panic or read too many bytes, and that append reproduces
// accepted input.
func FuzzIntro(f *testing.F) {
	i := newIntroduction(id(2))
	f.Add(i.append(nil))
	f.Add([]byte("ilionp\x01"))
	f.Add([]byte("ilionr\x01\x01\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		i, err := readIntroduction(r)
		if used := len(in) - r.Len(); used > introLen || err == nil && !bytes.Equal(i.append(nil), in[:used]) {
			t.Fatalf("%d bytes read of %x: %v", used, in, err)
		}
	})
}
