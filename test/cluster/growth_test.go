// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/plot"
	"github.com/ilion-db/ilion/test/process"
)

var (
	growTo   = flag.Int("cluster.grow", 16, "how many partitions the table of TestGrowth grows to")
	growPlot = flag.String("cluster.plot", "", "file for a plot of the latencies of TestGrowth, as SVG")
)

// TestGrowth proves that a table which is filled grows by itself from one partition to many, while the checked load
// runs on tables that are split, merged and moved by hand all the time, and a driver fills and reads the table: without
// an error, without a row that is lost or altered, and with the ring covered once at the end.
func TestGrowth(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 5, "splits:\n  storage_cap: 4000000\n")
	l := startLoad(f, *clients, 0)
	f.nodes[0].do("CREATE TABLE load.grown (k bigint PRIMARY KEY, v blob)")
	f.settle()
	g := &grower{session: session(f, nil), l: l, rate: time.NewTicker(2 * time.Millisecond)}
	l.mark("growth")
	for range 4 {
		g.wg.Go(g.run)
	}
	stop := func() { g.stop.Store(true); g.wg.Wait() }
	defer stop()
	const table = "load.grown"
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	refused := 0
	for began := time.Now(); ; {
		n := len(f.nodes[0].partitionsOf(table))
		if n >= *growTo {
			t.Logf("%d partitions after %s, %d rows; %d orders were refused", n,
				time.Since(began).Round(time.Second), g.rows.Load(), refused)
			break
		}
		if time.Since(began) > time.Duration(6+3**growTo/8)*time.Minute {
			t.Fatalf("only %d partitions after %s", n, time.Since(began).Round(time.Second))
		}
		if err := f.nodes[1].stir("load."+loadTables[rng.IntN(len(loadTables))], rng); err != nil {
			refused++ // there are too many at once, or nothing to split between
		}
		l.more(2000)
	}
	stop()
	l.mark("all has grown")
	l.more(*requests / 8)
	l.end()
	f.settle()
	g.check(t)
	checkRing(t, f.nodes[0].partitionsOf(table))
	changes := f.nodes[0].history()
	ended := map[string]int{}
	for _, c := range changes {
		ended[c.Kind+" "+c.Outcome]++
	}
	t.Logf("the newest %d changes of partitions: %v", len(changes), ended)
	if *growPlot != "" {
		l.plot(*growPlot, changes, "Latency while partitions split, merge and move")
	}
	l.finish()
}

// stir splits a partition of a table, merges two, or moves a replica.
func (m *member) stir(table string, rng *rand.Rand) error {
	ps := m.partitionsOf(table)
	i := rng.IntN(len(ps))
	p := &ps[i]
	switch n := rng.IntN(10); {
	case n < 4 && len(ps) < 8:
		return m.trySplit(table, p.ID)
	case n < 8 && i+1 < len(ps):
		return process.TryOrder(m.dir, fmt.Sprintf("/partition/merge?table=%s&partition=%d&with=%d&now=true",
			url.QueryEscape(table), p.ID, ps[i+1].ID))
	default:
		s, err := m.status()
		if err != nil {
			return err
		}
		from, to := p.Replicas[rng.IntN(len(p.Replicas))].Node, s.Nodes[rng.IntN(len(s.Nodes))].ID
		return process.TryOrder(m.dir, fmt.Sprintf("/partition/move?table=%s&partition=%d&from=%s&to=%s",
			url.QueryEscape(table), p.ID, from, to))
	}
}

// grower fills a table, as fast as it is allowed to, and reads what it has written.
type grower struct {
	session *gocql.Session
	l       *load
	rate    *time.Ticker
	rows    atomic.Int64
	stop    atomic.Bool
	wg      sync.WaitGroup
}

// rowBytes is the size of a row of the grower.
const rowBytes = 1000

// payload is the value of a row: whoever knows the key knows it, and nothing compresses it.
func payload(k int64) []byte {
	rng := rand.New(rand.NewPCG(uint64(k), 77))
	out := make([]byte, rowBytes)
	for i := range out {
		out[i] = byte(rng.Uint32())
	}
	return out
}

func (g *grower) run() {
	for !g.stop.Load() {
		<-g.rate.C
		k := g.rows.Add(1)
		if err := g.session.Query("INSERT INTO load.grown (k, v) VALUES (?, ?)", k, payload(k)).Exec(); err != nil {
			g.l.fail("row %d is not written: %v", k, err)
			return
		}
		g.read(1 + rand.Int64N(k))
	}
}

// read compares a row. One that another goroutine is about to write is not there yet.
func (g *grower) read(k int64) {
	if k > g.rows.Load()-100 {
		return
	}
	var got []byte
	if err := g.session.Query("SELECT v FROM load.grown WHERE k = ?", k).Scan(&got); err != nil ||
		!slices.Equal(got, payload(k)) {
		g.l.fail("row %d: %d bytes, %v", k, len(got), err)
	}
}

// check reads the whole table.
func (g *grower) check(t *testing.T) {
	t.Helper()
	found := map[int64]bool{}
	rows := g.session.Query("SELECT k, v FROM load.grown").PageSize(500).Iter()
	var k int64
	var v []byte
	for rows.Scan(&k, &v) {
		if found[k] || !slices.Equal(v, payload(k)) {
			t.Errorf("row %d: seen before: %t, %d bytes", k, found[k], len(v))
		}
		found[k] = true
	}
	if err := rows.Close(); err != nil || len(found) != int(g.rows.Load()) {
		t.Errorf("%d rows, want %d: %v", len(found), g.rows.Load(), err)
	}
}

// checkRing proves that partitions cover the ring once.
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
		t.Error("the ring has no end")
	}
}

// history is what was done to partitions.
func (m *member) history() (out []admin.ChangeStatus) {
	m.f.t.Helper()
	resp, err := browser.Get("http://" + m.web() + "/history")
	if err != nil {
		m.f.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		m.f.t.Fatal(err)
	}
	return out
}

// plotStep is the time that one point of a plot stands for.
const plotStep = 500 * time.Millisecond

// plot draws the latencies of all requests so far, with what was done to partitions meanwhile.
func (l *load) plot(file string, changes []admin.ChangeStatus, title string) {
	l.t.Helper()
	steps := map[time.Duration][]time.Duration{}
	for _, c := range l.clients {
		for _, s := range c.samples {
			at := s.at.Truncate(plotStep)
			steps[at] = append(steps[at], s.took)
		}
	}
	chart := plot.Chart{Title: title, Unit: "ms", Lines: []plot.Line{{Name: "p50"}, {Name: "p99"}, {Name: "slowest"}}}
	for at := time.Duration(0); at <= time.Since(l.began); at += plotStep {
		took := steps[at]
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		for i, q := range []float64{0.5, 0.99, 1} {
			chart.Lines[i].Points = append(chart.Lines[i].Points, plot.Point{At: at,
				Value: float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000})
		}
	}
	for _, c := range changes {
		if ended, err := time.Parse(time.RFC3339Nano, c.Ended); err == nil && ended.After(l.began) {
			chart.Marks = append(chart.Marks, plot.Mark{At: ended.Sub(l.began), Kind: c.Kind})
		}
	}
	if err := os.WriteFile(file, chart.SVG(), 0o644); err != nil {
		l.t.Fatal(err)
	}
	fmt.Fprintln(os.Stderr, "the plot is in", file)
}
