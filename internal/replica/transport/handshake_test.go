// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/test/memnet"
)

// TestHandshakeMatrix checks which peers are accepted on both sides. Each case defines the hello of a peer, which dials
// node 1 and is dialed by node 1.
func TestHandshakeMatrix(t *testing.T) {
	good := hello{
		class:       Raft,
		least:       1,
		most:        1,
		cluster:     home,
		node:        id(2),
		to:          id(1),
		levels:      feature.Range{Oldest: 2, Newest: 7},
		incarnation: 9,
	}
	with := func(f func(*hello)) hello { h := good; f(&h); return h }
	cases := []struct {
		name     string
		peer     hello
		accepted error // error of node 1 as the acceptor
		dialled  error // error of node 1 as the dialer
	}{
		{"as it should be", good, nil, nil},
		{"newer, but speaks ours too", with(func(h *hello) { h.most = 9 }), nil, nil},
		{"too new", with(func(h *hello) { h.least, h.most = 2, 9 }), ErrVersion, ErrVersion},
		{"too old", with(func(h *hello) { h.least, h.most = 0, 0 }), ErrVersion, ErrVersion},
		{"versions the wrong way round", with(func(h *hello) { h.least, h.most = 1, 0 }), ErrVersion, ErrVersion},
		{"another cluster", with(func(h *hello) { h.cluster[3] = 1 }), ErrCluster, ErrCluster},
		{"the cluster that this one was", with(func(h *hello) { h.cluster[3] = 7 }), ErrCopiedDirectory,
			ErrCopiedDirectory},
		{"what this cluster has become", with(func(h *hello) {
			h.cluster[3], h.status, h.text = 1, statusCopy, "recovered on Friday"
		}), ErrCluster, ErrCopiedDirectory},
		{"no cluster", with(func(h *hello) { h.cluster = ClusterID{} }), ErrCluster, ErrCluster},
		{"itself", with(func(h *hello) { h.node = id(1) }), ErrSelf, ErrSelf},
		{"meant for another node", with(func(h *hello) { h.to = id(3) }), ErrOtherNode, ErrOtherNode},
		{"another node than was dialled", with(func(h *hello) { h.node = id(3) }), nil, ErrOtherNode},
		{"without an id", with(func(h *hello) { h.node = NodeID{} }), ErrHandshake, ErrHandshake},
		{"not admitted", with(func(h *hello) { h.levels.Newest = 666 }), ErrNotAdmitted, ErrNotAdmitted},
		{"of an unknown class", with(func(h *hello) { h.class = 'x' }), ErrHandshake, nil},
	}
	admit := func(p Peer) error {
		if p.Levels.Newest == 666 {
			return errors.New("removed on Friday")
		}
		return nil
	}
	former := func(cluster ClusterID, _ NodeID) string {
		if cluster[3] == 7 {
			return "recovered on Friday"
		}
		return ""
	}
	for _, c := range cases {
		t.Run(c.name+"/accepted", func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				var seen error
				start(t, n, 1, handlers{},
					Options{Admission: admission{admit, former}, Observer: events{handshakeRefused: func(err error) {
						seen = err
					}}})
				conn, err := n.Dialler("stranger")(t.Context(), host(1))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := conn.Write(c.peer.append(nil)); err != nil {
					t.Fatal(err)
				}
				answer, err := readHello(conn)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if c.accepted == nil {
					if answer.status != statusOK || seen != nil {
						t.Fatalf("status %d, %v", answer.status, seen)
					}
					return
				}
				if !errors.Is(answer.status.reason(), c.accepted) || answer.text == "" || !errors.Is(seen, c.accepted) {
					t.Fatalf("told %v (%s), event %v, want %v", answer.status.reason(), answer.text, seen, c.accepted)
				}
			})
		})
		t.Run(c.name+"/dialled", func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				l, err := n.Listen(host(2))
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				answerHello(l, c.peer)
				tr := start(t, n, 1, handlers{}, Options{Admission: admission{admit, former}})
				s, err := tr.connect(t.Context(), host(2), Raft, id(2))
				if !errors.Is(err, c.dialled) {
					t.Fatalf("%v, want %v", err, c.dialled)
				}
				if err == nil {
					if s.peer.Incarnation != 9 || s.peer.Levels != (feature.Range{Oldest: 2, Newest: 7}) ||
						s.peer.Version != 1 {
						t.Fatalf("%+v", s.peer)
					}
					tr.release(s.raw)
				}
			})
		})
	}
}

// answerHello accepts one connection and responds to the first message with h.
func answerHello(l net.Listener, h hello) {
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := readHello(conn); err != nil {
			return
		}
		_, _ = conn.Write(h.append(nil))
	}()
}

// TestRefusalIsHeard checks that the dialer receives the text of the other side's rejection.
func TestRefusalIsHeard(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, 1, handlers{}, Options{Admission: admission{admit: func(Peer) error {
			return errors.New("removed on Friday")
		}}})
		two := start(t, n, 2, handlers{}, Options{})
		two.SetAddress(id(1), host(1))
		_, err := two.Call(t.Context(), id(1), nil)
		if r := (*Refused)(nil); !errors.As(err, &r) || !r.ByPeer || !errors.Is(err, ErrNotAdmitted) ||
			!errors.Is(err, ErrUnreachable) ||
			!strings.Contains(r.Text, "Friday") {
			t.Fatal(err)
		}
	})
}

// TestNodeThatDialsItself checks that a wrong address that leads to the node itself is detected.
func TestNodeThatDialsItself(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		one := start(t, n, 1, handlers{}, Options{})
		one.SetAddress(id(2), host(1))
		if _, err := one.Call(t.Context(), id(2), nil); !errors.Is(err, ErrSelf) {
			t.Fatal(err)
		}
	})
}

// TestFutureHello checks that a hello of an unknown version, with another layout after its head, is rejected with a
// valid hello.
func TestFutureHello(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, 1, handlers{}, Options{})
		conn, err := n.Dialler("stranger")(t.Context(), host(1))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		b := append([]byte(magic), 'r', 40, 50, 3, 0, 1, 2, 3)
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
		_, _ = conn.Write(b)
		if h, err := readHello(conn); err != nil || h.status != statusVersion {
			t.Fatalf("%+v, %v", h, err)
		}
	})
}

// TestSilentStrangers checks that connections that send nothing are closed in time, and that their number is limited.
func TestSilentStrangers(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		one := start(t, n, 1, handlers{}, Options{Handshakes: 2})
		begin := time.Now()
		var conns []net.Conn
		for range 3 {
			conn, err := n.Dialler("stranger")(t.Context(), host(1))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conns = append(conns, conn)
			synctest.Wait()
		}
		if got := one.Counters().HandshakesRefused; got != 1 {
			t.Fatalf("%d rejected immediately, want the third", got)
		}
		for _, c := range conns {
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Fatal("the node responded to a silent client")
			}
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Fatalf("closed after %v", took)
		}
	})
}

// TestDiscover checks that an address is sufficient to identify the node at that address.
func TestDiscover(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, 1, handlers{}, Options{Levels: feature.Range{Oldest: 1, Newest: 4}})
		two := start(t, n, 2, handlers{}, Options{})
		p, err := two.Discover(context.Background(), host(1))
		if err != nil || p.Node != id(1) || p.Levels.Newest != 4 || two.Address(id(1)) != host(1) {
			t.Fatalf("%+v, %v", p, err)
		}
	})
}

// TestDuplicateNodes checks that a node can have only one connected process. A second process with its ID must be
// rejected while the first process is connected, and accepted afterward.
func TestDuplicateNodes(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, 1, handlers{}, Options{})
		first := start(t, n, 2, handlers{}, Options{})
		first.SetAddress(id(1), host(1))
		first.Send(id(1), []byte("hello"))
		synctest.Wait()
		var refused error
		second := startAt(
			t,
			n,
			2,
			"elsewhere",
			handlers{},
			Options{Observer: events{dialFailed: func(err error) { refused = err }}},
		)
		for _, c := range []Class{Raft, Command, Snapshot} {
			if _, err := second.connect(t.Context(), host(1), c, id(1)); !errors.Is(err, ErrDuplicateNode) {
				t.Fatalf("%s: %v, want %v", c, err, ErrDuplicateNode)
			}
		}
		second.SetAddress(id(1), host(1))
		second.Send(id(1), []byte("me too"))
		synctest.Wait()
		if r := (*Refused)(nil); !errors.As(refused, &r) || !r.ByPeer || !errors.Is(refused, ErrDuplicateNode) {
			t.Fatalf("second proposer: got %v", refused)
		}
		first.Close()
		time.Sleep(10 * time.Second)
		s, err := second.connect(t.Context(), host(1), Command, id(1))
		if err != nil {
			t.Fatalf("the first one has ended: %v", err)
		}
		second.release(s.raw)
	})
}

// TestOneHostCannotKeepOthersOut checks that connections that send nothing use no more than their host's share of the
// handshakes.
func TestOneHostCannotKeepOthersOut(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		one := start(t, n, 1, handlers{}, Options{Handshakes: 32})
		for range 40 {
			conn, err := n.Dialler("stranger")(t.Context(), host(1))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			synctest.Wait()
		}
		if got := one.Counters().HandshakesRefused; got != 32 {
			t.Fatalf("%d of 40 rejected immediately, want 32", got)
		}
		if _, err := start(t, n, 2, handlers{}, Options{}).Discover(t.Context(), host(1)); err != nil {
			t.Fatalf("a node from another host: %v", err)
		}
	})
}
