// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/process"
)

// sized adds a node with the given zone and storage capacity in GB.
func (f *fleet) sized(zone string, gb int) *member {
	m := f.add()
	m.config = fmt.Sprintf("zone: %s\ncluster: {balance_threshold: 1MiB, capacity: %dGiB}\n", zone, gb)
	m.start()
	return m
}

// fill writes incompressible data of the given size in MB to a table with a blob column. The table does not split.
func (m *member) fill(table string, mb int) {
	m.f.t.Helper()
	const value = 64 << 10
	var writers sync.WaitGroup
	rows := make(chan int)
	for w := range 4 {
		rng := rand.NewChaCha8([32]byte{byte(w)})
		writers.Go(func() {
			b := make([]byte, value)
			for i := range rows {
				_, _ = rng.Read(b)
				m.do(fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%d, 0x%x)", table, i, b))
			}
		})
	}
	for i := range mb << 20 / value {
		rows <- i
	}
	close(rows)
	writers.Wait()
}

// holding returns the storage use and the number of replicas of a table on each node, and the size of the largest
// partition. Each replica counts with the size of the largest replica of its partition.
func (f *fleet) holding(table string) (size map[string]float64, count map[string]int, largest float64) {
	size, count = map[string]float64{}, map[string]int{}
	most := map[uint64]float64{}
	var ps []admin.PartitionStatus
	for _, m := range f.alive() {
		ps = m.partitionsOf(table)
		for _, p := range ps {
			most[p.ID] = max(most[p.ID], float64(p.DiskBytes))
			largest = max(largest, most[p.ID])
		}
	}
	for _, p := range ps {
		for _, r := range p.Replicas {
			size[r.Node] += most[p.ID]
			count[r.Node]++
		}
	}
	return size, count, largest
}

// unbalanced names a node that stores much more or less of a table than its share by capacity, or returns "".
func (f *fleet) unbalanced(table string, room map[*member]int) string {
	size, count, largest := f.holding(table)
	all, rooms := 0.0, 0
	for m, gb := range room {
		all, rooms = all+size[m.id()], rooms+gb
	}
	for m, gb := range room {
		share := all * float64(gb) / float64(rooms)
		// The tolerance covers placement, size estimates, and one replica.
		if has := size[m.id()]; has > 1.15*share+largest || has < 0.7*share-largest {
			return fmt.Sprintf("%s has %.0f of %.0f MB, %d replicas", m.name(), has/1e6, share/1e6, count[m.id()])
		}
	}
	return ""
}

// missingZone names a partition of a table that does not have a replica in each zone, or returns "".
func (f *fleet) missingZone(table string, zone map[string]string, zones int) string {
	for _, p := range f.alive()[0].partitionsOf(table) {
		in := map[string]bool{}
		for _, r := range p.Replicas {
			in[zone[r.Node]] = true
		}
		if len(p.Replicas) != 4 || len(in) != zones {
			return fmt.Sprintf("partition %d is on %v", p.ID, p.Replicas)
		}
	}
	return ""
}

// stillHas matches the progress report of a node that is being decommissioned.
var stillHas = regexp.MustCompile(`is leaving and has [1-9][0-9]* replicas`)

// TestFilledByRoom checks with processes that the cluster fills nodes in proportion to their capacity, and that each
// partition has a replica in each zone.
func TestFilledByRoom(t *testing.T) {
	onlyLong(t)
	f := newFleet(t, "initial_partitions: 24\nsplits:\n  request_units_per_second: 1000000\n")
	room, zone := map[*member]int{}, map[string]string{}
	add := func(in string, gb int) *member {
		m := f.sized(in, gb)
		room[m], zone[m.id()] = gb, in
		return m
	}
	for i := range 6 {
		add(fmt.Sprint("zone", i%3), 10-5*(i/5)) // the last node has half the capacity
	}
	f.settle()
	const table = "s.t"
	f.nodes[0].do("CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		"CREATE TABLE s.t (k int PRIMARY KEY, v blob)")
	f.nodes[0].fill(table, 200)
	even := func(when string) {
		t.Helper()
		took := f.until("replicas are placed by room "+when, 3*time.Minute, func() string {
			if text := f.unbalanced(table, room); text != "" {
				return text
			}
			return f.missingZone(table, zone, 3)
		})
		size, count, _ := f.holding(table)
		var have []string
		for m, gb := range room {
			have = append(have, fmt.Sprintf("%s %d GB: %.0f MB, %d replicas", m.name(), gb, size[m.id()]/1e6,
				count[m.id()]))
		}
		slices.Sort(have)
		t.Logf("%s after %s: %s", when, took.Round(time.Second), strings.Join(have, "; "))
	}
	even("at first")
	add("zone1", 10)
	even("with one more node")
	gone := f.nodes[1] // the node is in a zone with three nodes
	id := gone.id()
	delete(room, gone)
	cmd := process.Command(t, "node", "decommission", id, "--data", f.nodes[0].dir, "--yes")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, output.String())
	}
	t.Logf("output of the decommission:\n%s", output.String())
	if !stillHas.MatchString(output.String()) {
		t.Error("the number of remaining replicas was not reported")
	}
	f.until("the node has no replicas", settleTime, func() string { return f.remainingReplicas(id) })
	even("after one has left")
}

// used returns the CPU time of all nodes.
func (f *fleet) used() (all time.Duration) {
	f.t.Helper()
	for _, m := range f.nodes {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.cmd.Process.Pid))
		if err != nil {
			f.t.Fatal(err)
		}
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		for _, ticks := range fields[11:13] { // user and system time in hundredths of a second
			n, err := strconv.Atoi(ticks)
			if err != nil {
				f.t.Fatal(err)
			}
			all += time.Duration(n) * time.Second / 100
		}
	}
	return all
}

var heapAlloc = regexp.MustCompile(`# HeapAlloc = (\d+)`)

// heap returns the bytes of the heap in use after two garbage collections. The first collection alone does not free
// the contents of pools.
func (m *member) heap() float64 {
	m.f.t.Helper()
	m.collected()
	return m.collected()
}

// collected returns the bytes of the heap in use after a garbage collection.
func (m *member) collected() float64 {
	m.f.t.Helper()
	resp, err := process.Owner(m.dir).Get("http://localhost/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		m.f.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		m.f.t.Fatal(err)
	}
	found := heapAlloc.FindSubmatch(b)
	if found == nil {
		m.f.t.Fatalf("no heap in %.200s", b)
	}
	bytes, _ := strconv.ParseFloat(string(found[1]), 64)
	return bytes
}

var idle = flag.Int("idle", 0, "number of partitions whose cost TestIdlePartitions measures")

// TestIdlePartitions measures the cost of idle partitions, on one node and on each of four nodes. It requires the flag
// -idle.
func TestIdlePartitions(t *testing.T) {
	if *idle == 0 {
		t.Skip("measurement: needs -idle")
	}
	for _, nodes := range []int{1, 4} {
		f := startFleet(t, nodes, fmt.Sprintf("initial_partitions: %d\n", *idle))
		measure := func(what string) (heap float64) {
			time.Sleep(15 * time.Second) // wait for background work before the measurement
			began, used := time.Now(), f.used()
			time.Sleep(20 * time.Second)
			used, took := f.used()-used, time.Since(began)
			for _, m := range f.nodes {
				heap += m.heap() / float64(nodes)
			}
			t.Logf("%d nodes, %s: %.3f cores and %.1f MB of heap each", nodes, what,
				used.Seconds()/took.Seconds()/float64(nodes), heap/1e6)
			return heap
		}
		empty := measure("no partitions")
		f.nodes[0].do("CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
			"CREATE TABLE s.t (k int PRIMARY KEY, v int)")
		f.settle()
		full := measure(fmt.Sprintf("%d partitions", *idle))
		t.Logf("%d nodes: %.1f KB a partition", nodes, (full-empty)/1e3/float64(*idle))
	}
}

// TestLeadersFollowLoad checks with processes that a node transfers leaderships if it leads most of the load. Leaders
// must not change for any other reason.
func TestLeadersFollowLoad(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 4, "splits:\n  request_units_per_second: -1\n")
	a := f.nodes[0]
	a.do("CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	tables := map[string][]string{} // the tables of each leader
	var hot string
	for i := 0; len(tables[hot]) < 4; i++ {
		name := fmt.Sprint("s.t", i)
		a.do("CREATE TABLE " + name + " (k int PRIMARY KEY, v blob)")
		f.until("it has a leader", settleTime, func() string {
			if hot = a.partitionsOf(name)[0].Leader; hot == "" {
				return "none"
			}
			return ""
		})
		tables[hot] = append(tables[hot], name)
	}
	f.settle()
	leads := func() (n int) {
		for _, name := range tables[hot] {
			if a.partitionsOf(name)[0].Leader == hot {
				n++
			}
		}
		return n
	}
	before := leads()
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w, name := range tables[hot] {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					f.nodes[w%4].do(fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%d, 0x%x)", name, i%100,
						make([]byte, 32<<10)))
				}
			}
		})
	}
	took := f.until("it leads less", 3*time.Minute, func() string {
		if n := leads(); n >= before {
			return fmt.Sprintf("it leads %d of %d", n, before)
		}
		return ""
	})
	close(stop)
	writers.Wait()
	t.Logf("%s led %d of %d tables, and %d after %s", hot[:8], before, len(tables[hot]), leads(),
		took.Round(time.Second))
	for node, names := range tables {
		for _, name := range names {
			if leader := a.partitionsOf(name)[0].Leader; node != hot && leader != node {
				t.Errorf("idle table %s is led by %s, want %s", name, leader[:8], node[:8])
			}
		}
	}
}
