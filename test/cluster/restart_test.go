// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"flag"
	"syscall"
	"testing"
	"time"
)

var (
	requests = flag.Int64("requests", 3000, "number of requests of a test under load")
	clients  = flag.Int("clients", 24, "number of clients of a test under load")
)

// TestRestartEach checks that clients of the other nodes see no errors while nodes are restarted in turn. With
// -cluster.long, the test restarts each of four nodes.
func TestRestartEach(t *testing.T) {
	f := startFleet(t, 4, "")
	l := startLoad(f, *clients, 0)
	nodes := f.nodes[:2]
	if *long {
		nodes = f.nodes
	}
	for _, m := range nodes {
		l.only(f.without(m)...)
		l.mark("before the stop of " + m.name())
		l.more(*requests / 16)
		l.mark("stop of " + m.name())
		took := m.stop()
		l.mark(m.name() + " is away")
		l.more(*requests / 16)
		l.mark("start of " + m.name())
		m.start()
		l.more(*requests / 16)
		back := f.settle()
		t.Logf("%s: stopped in %s; all replica sets were complete %s after its start", m.name(),
			took.Round(time.Millisecond), back.Round(time.Millisecond))
		l.only(f.alive()...)
		l.more(*requests / 16)
	}
	l.finish()
}

// TestKillLeader checks that clients of the other nodes see no errors when a leader is killed. All requests must
// complete within the time limit for a refused connection.
func TestKillLeader(t *testing.T) {
	f := startFleet(t, 4, "")
	l := startLoad(f, *clients, 0)
	for _, table := range []string{"load.plain", "load.registers"} {
		m := f.leader(table)
		l.only(f.without(m)...)
		l.more(*requests / 8)
		l.mark("kill of " + m.name() + ", which leads " + table)
		m.kill()
		l.lasts(time.Second)
		l.mark("start of " + m.name())
		m.start()
		f.settle()
		l.only(f.alive()...)
		l.more(*requests / 8)
	}
	l.finish()
}

// TestJoin checks that no client sees an error while a fifth node joins and replicas move to it.
func TestJoin(t *testing.T) {
	f := startFleet(t, 4, "")
	l := startLoad(f, *clients, 0)
	l.more(*requests / 4)
	l.mark("join of a fifth node")
	m := f.add()
	m.start()
	began := time.Now()
	f.until("the node has its share of the replicas", settleTime, func() string {
		s, err := m.status()
		if err != nil {
			return err.Error()
		}
		for _, n := range s.Nodes {
			if n.ID == s.Node && n.Replicas > len(loadTables)/2 {
				return ""
			}
		}
		return "not yet"
	})
	f.settle()
	t.Logf("the node had its share of the replicas %s after it was ready", time.Since(began).Round(time.Millisecond))
	l.mark("with five nodes")
	l.only(f.alive()...)
	l.more(*requests / 4)
	l.finish()
}

// TestPause checks that a silent leader is replaced within the time limit.
func TestPause(t *testing.T) {
	f := startFleet(t, 4, "")
	l := startLoad(f, *clients, 0)
	m := f.leader("load.plain")
	l.only(f.without(m)...)
	l.more(*requests / 8)
	l.mark("SIGSTOP of " + m.name())
	m.signal(syscall.SIGSTOP)
	l.lasts(5 * time.Second)
	l.mark("SIGCONT of " + m.name())
	m.signal(syscall.SIGCONT)
	l.more(*requests / 8)
	f.settle()
	l.mark("all is well")
	l.only(f.alive()...)
	l.more(*requests / 8)
	l.finish()
}

// TestStart checks that a cluster of four is complete soon after its nodes have been started.
func TestStart(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 4, "")
	t.Logf("nodes: %d", len(f.alive()))
}
