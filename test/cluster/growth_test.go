// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/eventually"
)

var (
	growTo   = flag.Int("cluster.grow", 16, "number of partitions to which the table of TestGrowth grows")
	growAsks = flag.Int64("cluster.total", 0, "minimum number of requests of TestGrowth")
	growKill = flag.Bool("cluster.kill", false, "kill nodes in TestGrowth while partitions split, merge, and move")
)

// grownTable is the table that grows and shrinks.
const grownTable = "load.grown"

// growthConfig makes small tables behave like large tables. A partition splits at 1.6 MB, or when its leader receives
// 100 request units per second. The followers of a partition serve three times as many reads as the leader. Neighbors
// that have been far below these limits for four seconds merge.
const growthConfig = "splits:\n  storage_cap: 2000000\n  request_units_per_second: 100\n" +
	"merges:\n  idle_period: 4s\n"

// shrinkTime is the time within which a table must return to two partitions. Partition sizes are sizes on disk, so
// compactions must reclaim deleted data first. At most two pairs merge concurrently.
const shrinkTime = 40 * time.Minute

// TestGrowth checks that a table grows automatically from one partition to many, because of its size and its load. The
// cluster grows from four nodes to six, and the table must return to two partitions when it is emptied. During the
// test, four programs make requests of all kinds and check the results. Clients must see no errors and no stale, lost,
// or altered rows. At the end, the partitions must cover the ring exactly once. With -cluster.kill, a node is
// repeatedly killed in every phase. Requests may then fail, but acknowledged writes must exist.
func TestGrowth(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 4, growthConfig)
	l := startLoad(f, *clients, 0)
	s := startSoak(l)
	l.uncertain.Store(*growKill)
	began := time.Now()
	s.phase("growth by load", 0, 10*time.Minute, []string{"split"}, func() string {
		s.count()
		return atLeast(s.outcome[grownTable+": split by load done"], 1, "splits by load")
	})
	s.grower.does(filling)
	for _, n := range []int{min(16, *growTo), *growTo} {
		limit := time.Duration(8+n/4) * time.Minute
		s.phase(fmt.Sprintf("growth to %d partitions", n), 0, limit, []string{"split", "move"}, func() string {
			return atLeast(len(f.nodes[0].partitionsOf(grownTable)), n, "partitions")
		})
		if len(f.nodes) < 6 {
			l.mark(fmt.Sprintf("node %d joins", len(f.nodes)+1))
			f.add().start()
			l.only(f.alive()...)
		}
	}
	t.Logf("%d partitions on %d nodes after %s", len(f.nodes[0].partitionsOf(grownTable)), len(f.nodes),
		time.Since(began).Round(time.Second))
	s.grower.does(resting)
	s.phase("at its largest", *growAsks/2, 2*time.Hour, []string{"move", "split", "merge"}, func() string { return "" })
	l.mark("deletes")
	s.grower.shrink()
	s.phase("shrinking", 0, shrinkTime, []string{"merge", "move"}, func() string {
		if n := len(f.nodes[0].partitionsOf(grownTable)); n > 2 {
			return fmt.Sprintf("%d partitions", n)
		}
		return ""
	})
	t.Logf("%d partitions again after %s", len(f.nodes[0].partitionsOf(grownTable)),
		time.Since(began).Round(time.Second))
	s.phase("small again", *growAsks, 2*time.Hour, []string{"move", "split", "merge"}, func() string { return "" })
	s.end()
	if *growKill {
		l.tolerate(false)
	}
	f.settle()
	s.check()
	checkRing(t, f.nodes[0].partitionsOf(grownTable))
	changes := f.nodes[0].history()
	s.report(changes)
	l.finish()
}

// reportEvery is the interval of progress reports in a phase.
const reportEvery = 30 * time.Second

// atLeast returns a message if n is less than want, or an empty string.
func atLeast(n, want int, of string) string {
	if n < want {
		return fmt.Sprintf("%d %s", n, of)
	}
	return ""
}

// soak runs the programs that make requests and the activities that run in parallel.
type soak struct {
	l       *load
	t       testing.TB
	grower  *grower
	app     *app
	python  *pythonApp
	bench   *benchRuns
	scribe  *scribe
	killer  killer
	outcome map[string]int                // changes by kind, cause, and outcome
	seen    uint64                        // the newest change that was counted
	moved   map[uint64]admin.ChangeStatus // the latest balancing move of each partition
	ended   bool
}

// startSoak starts all programs in addition to the load.
func startSoak(l *load) *soak {
	l.t.Helper()
	f := l.f
	f.nodes[0].do("CREATE TABLE load.grown (k bigint PRIMARY KEY, v blob) WITH gc_grace_seconds = 1")
	f.nodes[0].do(appSchema...)
	f.nodes[0].do("CREATE KEYSPACE ilion_bench WITH replication = " +
		"{'class': 'NetworkTopologyStrategy', 'datacenter1': 4}")
	f.settle()
	if n := len(f.nodes[0].partitionsOf(grownTable)); n != 1 {
		l.t.Fatalf("the table starts with %d partitions", n)
	}
	s := &soak{l: l, t: l.t, outcome: map[string]int{}, moved: map[uint64]admin.ChangeStatus{}}
	s.killer = killer{l: l, rng: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 3)), met: map[string]int{}}
	db := session(f, nil)
	s.grower = startGrower(l, db)
	s.app = startApp(l, db)
	s.python = startPython(l)
	s.bench = startBench(l)
	s.scribe = startScribe(f)
	l.t.Cleanup(s.end)
	return s
}

// asked returns the number of completed requests by program.
func (s *soak) asked() map[string]int64 {
	return map[string]int64{"the test's own clients": s.l.done.Load(),
		"gocql":             s.grower.asked.Load() + s.app.asked.Load(),
		"the Python driver": s.python.asked.Load(), "ilion bench": s.bench.asked.Load()}
}

// total returns the number of completed requests without the requests of the test's own clients.
func (s *soak) total() (n int64) {
	for name, asked := range s.asked() {
		if !strings.Contains(name, "own") {
			n += asked
		}
	}
	return n
}

// phase runs everything until the programs have completed a number of requests and missing returns "". Nodes are
// killed during changes of the given kinds.
func (s *soak) phase(name string, requests int64, limit time.Duration, kinds []string, missing func() string) {
	s.t.Helper()
	s.l.mark(name)
	lastReport := time.Now()
	for began := time.Now(); ; {
		if *growKill {
			s.killer.kill(name, kinds)
		} else {
			s.l.more(200)
		}
		s.count()
		text := missing()
		if text == "" {
			text = atLeast(int(s.total()), int(requests), "requests")
		}
		if text == "" {
			return
		}
		if s.l.failures() > 0 {
			s.end()
			s.l.finish()
			s.t.Fatalf("%s ended because of errors: %s", name, text)
		}
		if time.Since(began) > limit {
			s.t.Fatalf("%s: not after %s: %s", name, limit, text)
		}
		if time.Since(lastReport) > reportEvery {
			lastReport = time.Now()
			s.t.Logf("%s: %s; %d partitions, %d requests of programs and %d of clients, %d tolerated errors", name,
				text, len(s.l.f.nodes[0].partitionsOf(grownTable)), s.total(), s.l.done.Load(), s.l.tolerated.Load())
		}
	}
}

// count counts the changes of partitions since the last count. The cluster keeps the newest thousand changes.
func (s *soak) count() {
	changes := s.l.f.nodes[0].history()
	slices.SortFunc(changes, func(a, b admin.ChangeStatus) int { return cmp.Compare(a.Number, b.Number) })
	for _, c := range changes {
		if c.Number <= s.seen {
			continue
		}
		s.seen = c.Number
		s.outcome[c.Kind+" by "+c.Cause+" "+c.Outcome]++
		if c.Table == grownTable {
			s.outcome[grownTable+": "+c.Kind+" by "+c.Cause+" "+c.Outcome]++
		}
		if c.Kind != "move" || c.Cause != topology.ToBalance.String() {
			continue
		}
		s.outcome[balanced]++
		if was := s.moved[c.Partition]; was.From == c.To && was.To == c.From {
			s.outcome[balancedBack]++
		}
		s.moved[c.Partition] = c
	}
}

// soak counts two categories of balancing moves: all moves, and moves that undo the previous move of the same
// partition.
const (
	balanced     = "moved for balance"
	balancedBack = "moved back for balance"
)

// end stops all programs. The load contains their errors.
func (s *soak) end() {
	if s.ended {
		return
	}
	s.ended = true
	for _, p := range []struct {
		name string
		end  func()
	}{{"gocql, the table", s.grower.end}, {"gocql, the application", s.app.end}, {"the Python driver", s.python.end},
		{"ilion bench", s.bench.end}, {"the scribe", s.scribe.end}, {"the test's own clients", s.l.end}} {
		began := time.Now()
		p.end()
		s.t.Logf("%s: ended in %s", p.name, time.Since(began).Round(time.Millisecond))
	}
}

// check checks that all acknowledged writes exist.
func (s *soak) check() {
	s.t.Helper()
	s.grower.check(s.t)
	s.app.check(s.t)
}

// report logs the requests and the changes of partitions. report requires merges, splits by size, and splits by load.
func (s *soak) report(changes []admin.ChangeStatus) {
	s.t.Helper()
	s.count()
	asked := s.asked()
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		s.t.Logf("%d requests by %s", asked[name], name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.outcome)) {
		s.t.Logf("%d times: %s", s.outcome[name], name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.killer.met)) {
		s.t.Logf("%d times: %s", s.killer.met[name], name)
	}
	of := func(what string) int { return s.outcome[grownTable+": "+what+" done"] }
	if of("split by size") == 0 || of("split by load") == 0 || of("merge by size")+of("merge by load") == 0 {
		s.t.Error("the table has not split by size, split by load, and merged")
	}
	if back, all := s.outcome[balancedBack], s.outcome[balanced]; back > 5+all/10 {
		s.t.Errorf("balancing does not come to rest: %d of %d moves undo the previous move", back, all)
	}
	if *growPlot != "" {
		s.l.plot(*growPlot, changes, "Latency while partitions split, merge and move")
	}
}

// checkRing checks that partitions cover the ring exactly once.
func checkRing(t *testing.T, ps []admin.PartitionStatus) {
	t.Helper()
	for i := range ps {
		begin, _, _ := strings.Cut(strings.Trim(ps[i].Span, "[)"), ", ")
		last := "-9223372036854775808"
		if i > 0 {
			_, last, _ = strings.Cut(strings.Trim(ps[i-1].Span, "[)"), ", ")
		}
		if begin != last {
			t.Errorf("partition %d begins at %s after %s", ps[i].ID, begin, last)
		}
	}
	if n := len(ps); n == 0 || !strings.HasSuffix(ps[n-1].Span, ", end)") {
		t.Error("the last partition does not end at the end of the ring")
	}
}

// history returns the completed changes of partitions.
func (m *member) history() (out []admin.ChangeStatus) {
	m.f.t.Helper()
	_, err := eventually.Try(eventually.Limit, func() string {
		resp, err := browser.Get("http://" + m.web() + "/history")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		out = nil
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
			return err.Error()
		}
		return ""
	})
	if err != "" {
		m.f.t.Fatal(err)
	}
	return out
}
