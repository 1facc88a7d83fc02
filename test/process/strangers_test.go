// SPDX-License-Identifier: Apache-2.0

//go:build integration

package process_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/process"
)

var strangers = flag.Int("strangers", 1500, "number of connections to the internal address from outside the cluster")

// These constants limit the cost of unauthenticated connections.
const (
	strangersRSS   = 96 << 20
	strangersLines = 60
)

// TestStrangers checks connections to the internal address that do not come from nodes of the cluster. Thousands of
// connections send garbage, client requests, or the handshake of another cluster's node. Others send half of a
// handshake and then nothing. These connections must not stop the node, fill its memory or its log, or prevent a valid
// node from joining.
func TestStrangers(t *testing.T) {
	t.Parallel()
	base, internal := t.TempDir(), freeAddress(t)
	node := process.Start(t, base+"/node", "--internal", internal, "--bootstrap")
	before := node.RSS(t)
	dial := func() net.Conn {
		conn, err := net.DialTimeout("tcp", internal, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	cluster, self, err := transport.Identify(t.Context(), transport.DialTCP, nil, process.Secret(), internal)
	if err != nil {
		t.Fatal(err)
	}

	var open []net.Conn // silent connections and connections that send little
	for i := range 200 {
		conn := dial()
		defer conn.Close()
		_, _ = conn.Write([]byte("ilion")[:i%6]) // the connection may already be closed
		open = append(open, conn)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	garbage := make([]byte, 4096)
	for i := range *strangers {
		conn := dial()
		for j := range garbage {
			garbage[j] = byte(rng.Uint32())
		}
		switch i % 3 {
		case 0:
			copy(garbage, "ilionr\x01\x01\xff\x07")
		case 1:
			copy(garbage, "ilionp\x01")
		}
		_, _ = conn.Write(garbage[:rng.IntN(len(garbage))])
		_ = conn.Close()
	}
	t.Run("a client", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := rawclient.Dial(ctx, internal, rawclient.Options{}); err == nil {
			t.Error("it speaks CQL")
		}
	})
	t.Run("a node at the address of clients", func(t *testing.T) {
		if _, _, err := transport.Identify(t.Context(), transport.DialTCP, nil, process.Secret(),
			node.CQL); !errors.Is(err,
			transport.ErrHandshake) {
			t.Error(err)
		}
	})
	for _, conn := range open { // the node must close silent connections
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a silent connection was not closed")
		}
	}
	t.Run("another cluster", func(t *testing.T) {
		tr, err := transport.New(transport.Self{Cluster: transport.ClusterID{1}, Node: transport.NodeID{2}},
			transport.DialTCP, transport.Options{Secret: process.Secret()})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		for range 50 {
			if _, err := tr.Discover(t.Context(), internal); !errors.Is(err, transport.ErrCluster) {
				t.Fatal(err)
			}
		}
	})
	t.Run("the node's own id", func(t *testing.T) {
		tr, err := transport.New(transport.Self{Cluster: cluster, Node: self.Node}, transport.DialTCP,
			transport.Options{Secret: process.Secret()})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		if _, err := tr.Discover(t.Context(), internal); !errors.Is(err, transport.ErrSelf) {
			t.Error(err)
		}
	})
	process.Start(t, base+"/second", "--internal", freeAddress(t), "--join", internal)
	c := node.Dial(t)
	defer c.Close()
	process.Do(t, c, "SELECT * FROM system.peers")
	if rss := node.RSS(t); rss > before+strangersRSS {
		t.Errorf("%d MiB, were %d", rss>>20, before>>20)
	}
	if n := strings.Count(node.Stderr(), "\n"); n > strangersLines {
		t.Errorf("%d log lines: %s", n, node.Stderr())
	}
	t.Logf("%d MiB, before %d MiB; %d log lines", node.RSS(t)>>20, before>>20, strings.Count(node.Stderr(), "\n"))
}
