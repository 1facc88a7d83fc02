// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/process"
)

var streamMB = flag.Int("stream-mb", 0, "amount of data in MB that TestMoveStream writes and moves")

// move requests the move of a replica.
func (m *member) move(table string, id uint64, from, to, more string) {
	m.f.t.Helper()
	process.Order(m.f.t, m.dir, fmt.Sprintf("/partition/move?table=%s&partition=%d&from=%s&to=%s%s",
		url.QueryEscape(table), id, from, to, more))
}

// unmoved describes the position of a replica that is not on node to or is still on node from.
func (m *member) unmoved(table string, id uint64, from, to string) string {
	for _, p := range m.partitionsOf(table) {
		if p.ID != id {
			continue
		}
		on := map[string]string{}
		for _, r := range p.Replicas {
			on[r.Node] = r.State
		}
		if on[to] != "voter" || on[from] != "" || len(on) != 4 {
			return fmt.Sprint(on)
		}
		return ""
	}
	return "no such partition"
}

// exchange returns the node of a follower, and a node without a replica.
func exchange(f *fleet, p admin.PartitionStatus) (from, to *member) {
	on := map[string]bool{}
	for _, r := range p.Replicas {
		on[r.Node] = true
	}
	for _, m := range f.nodes {
		if !on[m.id()] {
			to = m
		} else if m.id() != p.Leader {
			from = m
		}
	}
	return from, to
}

// TestMoveByHand checks that clients see no errors and that no data is lost or duplicated while replicas are moved.
// One of the replicas is the leader, and the target node of one move is killed.
func TestMoveByHand(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 5, "")
	l := startLoad(f, *clients, 0)
	l.more(*requests / 8)
	const table = "load.plain"
	for i, p := range f.nodes[0].partitionsOf(table) {
		from, to := exchange(f, p)
		if i%2 == 1 { // the leader moves
			for _, m := range f.nodes {
				if m.id() == p.Leader {
					from = m
				}
			}
		}
		orderer := f.without(to)[0]
		l.mark(fmt.Sprintf("move of partition %d from %s to %s", p.ID, from.name(), to.name()))
		if i > 0 {
			orderer.move(table, p.ID, from.id(), to.id(), "&wait=true")
			l.more(*requests / 16)
			continue
		}
		source, target := from.id(), to.id()
		l.only(f.without(to)...)
		orderer.move(table, p.ID, source, target, "")
		to.kill()
		l.more(*requests / 16)
		l.mark("start of " + to.name())
		to.start()
		f.until("the replica has moved", settleTime, func() string {
			return orderer.unmoved(table, p.ID, source, target)
		})
		f.settle()
		l.only(f.alive()...)
	}
	l.mark("all have moved")
	l.more(*requests / 8)
	l.finish()
}

// TestMoveStream measures the rate at which a replica of some hundred MB is transferred to another node without a rate
// limit. It also measures the memory and disk usage.
func TestMoveStream(t *testing.T) {
	if *streamMB == 0 {
		t.Skip("measurement: needs -stream-mb")
	}
	f := startFleet(t, 5, "initial_partitions: 2\ncluster: {snapshot_rate: 10GB}\n")
	a := f.nodes[0]
	a.do("CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		"CREATE TABLE s.t (k int PRIMARY KEY, v blob)")
	const value = 32 << 10
	rng := rand.New(rand.NewPCG(1, 2))
	var writers sync.WaitGroup
	rows := make(chan string, 8)
	for range 8 {
		writers.Go(func() {
			for row := range rows {
				a.do(row)
			}
		})
	}
	bytes := make([]byte, value)
	for i := range *streamMB << 20 / value {
		for j := 0; j < value; j += 8 {
			binary.LittleEndian.PutUint64(bytes[j:], rng.Uint64())
		}
		rows <- fmt.Sprintf("INSERT INTO s.t (k, v) VALUES (%d, 0x%x)", i, bytes)
	}
	close(rows)
	writers.Wait()
	for _, p := range a.partitionsOf("s.t") {
		from, to := exchange(f, p)
		before, disk := to.status()
		if disk != nil {
			t.Fatal(disk)
		}
		began := time.Now()
		a.move("s.t", p.ID, from.id(), to.id(), "&wait=true")
		took := time.Since(began)
		after, err := to.status()
		if err != nil {
			t.Fatal(err)
		}
		mb := float64(p.DiskBytes) / 1e6
		t.Logf("partition %d: %.0f MB in %v, %.0f MB/s; the data of the receiver grew from %d to %d MB", p.ID, mb, took,
			mb/took.Seconds(), before.DiskBytes/1e6, after.DiskBytes/1e6)
		for _, m := range []*member{from, to} {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(status)) {
				if strings.HasPrefix(line, "VmHWM") {
					t.Logf("%s: %s", m.name(), strings.TrimSpace(line))
				}
			}
		}
	}
}
