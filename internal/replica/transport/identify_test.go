// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/test/memnet"
)

// TestIdentify checks that a process without a cluster receives the identity of the node at an address, and that this
// does not create a peer. The test also checks which processes are rejected.
func TestIdentify(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		accepted := 0
		one := start(t, n, 1, handlers{}, Options{
			Levels: feature.Range{
				Oldest: 1,
				Newest: 7,
			}, Admission: admission{admit: func(Peer) error {
				return errors.New("nobody")
			}}, Observer: events{accepted: func() { accepted++ }},
		})
		cluster, p, err := Identify(t.Context(), n.Dialler("stranger"), nil, nil, host(1))
		if err != nil || cluster != home || p.Node != id(1) || p.Levels.Newest != 7 || p.Address != host(1) ||
			p.Incarnation != one.incarnation {
			t.Fatalf("%x, %+v, %v", cluster, p, err)
		}
		if accepted != 0 || one.Address(NodeID{}) != "" || one.Counters().HandshakesRefused != 0 {
			t.Errorf("accepted %d, %+v", accepted, one.Counters())
		}
		if _, _, err := Identify(t.Context(), n.Dialler("stranger"), nil, nil, host(9)); err == nil {
			t.Error("no response")
		}
		n.Cut(host(1), "stranger", true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := Identify(ctx, n.Dialler("stranger"), nil, nil, host(1)); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("silence: %v", err)
		}
	})
}

// TestIdentifyRejections checks the errors of Identify for nodes that do not respond, including a node with an older
// version without this request.
func TestIdentifyRejections(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer hello
		want   error
		byPeer bool
	}{
		{"an older version", hello{class: classIdentify, least: 1, most: 1, status: statusCluster, cluster: home,
			node: id(1),
			text: "another"}, ErrCluster, true},
		{"too new", hello{class: classIdentify, least: 7, most: 9, cluster: home, node: id(1)}, ErrVersion, false},
		{"of no cluster", hello{class: classIdentify, least: 1, most: 1, node: id(1)}, ErrCluster, false},
		{"without an id", hello{class: classIdentify, least: 1, most: 1, cluster: home}, ErrHandshake, false},
	} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			l, err := n.Listen(host(1))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				if _, err := readHello(conn); err == nil {
					_, _ = conn.Write(c.answer.append(nil))
				}
			}()
			_, _, err = Identify(t.Context(), n.Dialler("stranger"), nil, nil, host(1))
			var r *Refused
			if !errors.As(err, &r) || !errors.Is(err, c.want) || r.ByPeer != c.byPeer {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
}

// TestIdentifyTLS checks that, with TLS, unknown peers can neither identify nor be identified.
func TestIdentifyTLS(t *testing.T) {
	a := authority(t)
	for _, c := range []struct {
		name          string
		asker, member *tls.Config
		want          string
	}{
		{"as it should be", configOf(t, a, id(2), Validity{}), configOf(t, a, id(1), Validity{}), ""},
		{"an asker of another authority", configOf(t, authority(t), id(2), Validity{}),
			configOf(t, a, id(1), Validity{}), "tls: "},
		{"an asker without TLS", nil, configOf(t, a, id(1), Validity{}), "handshake"},
		{"a member with another's certificate", configOf(t, a, id(2), Validity{}), configOf(t, a, id(3), Validity{}),
			ErrIdentity.Error()},
	} {
		_, address := loopback(t, 1, handlers{}, Options{TLS: c.member})
		cluster, p, err := Identify(t.Context(), DialTCP, c.asker, nil, address)
		if c.want == "" && (err != nil || cluster != home || p.Node != id(1)) ||
			c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %x, %v", c.name, cluster, err)
		}
	}
}
