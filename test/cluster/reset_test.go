// SPDX-License-Identifier: Apache-2.0

//go:build integration

package cluster

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/test/process"
)

// gate is a proxy and a firewall for the internal address of a node.
type gate struct {
	t      testing.TB
	at, to string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
}

// gated puts a gate in front of a node that has not been started. The other nodes use the gate's address.
func gated(m *member) *gate {
	m.f.t.Helper()
	g := &gate{t: m.f.t, at: fmt.Sprintf("%s:%d", m.ip, innerPort+1), to: m.inner(), conns: map[net.Conn]bool{}}
	config := m.dir + ".yaml"
	if err := os.WriteFile(config, []byte("memory: {budget: 192MiB}\ncluster: {advertise: \""+g.at+"\"}\n"),
		0o644); err != nil {
		m.f.t.Fatal(err)
	}
	m.args = append(m.args, "--config", config) // the last address applies
	g.open()
	m.f.t.Cleanup(g.shut)
	return g
}

// open lets connections through.
func (g *gate) open() {
	g.t.Helper()
	l, err := net.Listen("tcp", g.at)
	if err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	g.listener = l
	g.mu.Unlock()
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", g.to)
			if err != nil {
				_ = in.Close()
				continue
			}
			g.mu.Lock()
			if g.listener != l {
				_, _ = in.Close(), out.Close()
			} else {
				g.conns[in], g.conns[out] = true, true
				go g.pass(in, out)
				go g.pass(out, in)
			}
			g.mu.Unlock()
		}
	}()
}

func (g *gate) pass(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_, _ = to.Close(), from.Close()
	g.mu.Lock()
	delete(g.conns, to)
	delete(g.conns, from)
	g.mu.Unlock()
}

// shut ends all connections and refuses new connections.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener != nil {
		_ = g.listener.Close()
		g.listener = nil
	}
	for c := range g.conns {
		_ = c.Close()
	}
	clear(g.conns)
}

// TestRefusedIsNotDeath checks a live leader whose address refuses connections. For example, a proxy may have
// restarted, or a firewall may reject the connections. The leader must not serve a QUORUM read that misses an
// acknowledged write.
func TestRefusedIsNotDeath(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "")
	gates := make([]*gate, 4)
	for i := range gates {
		gates[i] = gated(f.add())
		f.nodes[i].start()
	}
	f.settle()
	f.nodes[0].do("CREATE KEYSPACE load WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
		"CREATE TABLE load.plain (k int PRIMARY KEY, v bigint)")
	var next atomic.Int64
	rounds := 2
	if *long {
		rounds = 6
	}
	for round := range rounds {
		m := f.leader("load.plain")
		rightReads, refused := watchOver(f, m, f.without(m)[0], &next, func() {
			gates[m.index].shut()
			time.Sleep(3 * time.Second)
		})
		gates[m.index].open()
		t.Logf("round %d: reads on %s, whose address refused connections: %d correct, %d rejected", round, m.name(),
			rightReads, refused)
		f.settle()
	}
}

// watchOver writes growing values on one node and reads them on another node while happens runs. Reads may be rejected
// but must not be stale.
func watchOver(f *fleet, reads, writes *member, next *atomic.Int64, happens func()) (right, refused int) {
	f.t.Helper()
	writer, reader := writes.dial(), reads.dial()
	var stop atomic.Bool
	var acked atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			v := next.Add(1)
			if _, err := process.Query(writer, dberr.Quorum, fmt.Sprintf("INSERT INTO load.plain (k, v) VALUES (1, %d)",
				v)); err == nil {
				acked.Store(v)
			}
		}
	})
	wg.Go(func() {
		for !stop.Load() {
			least := acked.Load()
			r, err := process.Query(reader, dberr.Quorum, "SELECT v FROM load.plain WHERE k = 1")
			switch {
			case err != nil:
				refused++
			case least > 0 && number(r, "v", 0) < least:
				f.t.Errorf("read %d at QUORUM after %d was acknowledged", number(r, "v", 0), least)
				return
			default:
				right++
			}
		}
	})
	happens()
	stop.Store(true)
	wg.Wait()
	return right, refused
}
