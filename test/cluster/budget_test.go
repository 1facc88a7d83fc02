// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
)

// budgetFor enables the tests that measure throughput.
var budgetFor = flag.Duration("budget", 0, "duration of the measurements of TestServedThroughput, TestLentThroughput, and TestNeighbour")

// chargedRead records the cost of a completed request.
type chargedRead struct {
	at    time.Duration
	took  time.Duration
	place uint64
	units float64
}

// throughputLoad runs clients that request as much as possible and honor the retry-after times of rejections.
type throughputLoad struct {
	t     *testing.T
	table string
	began time.Time
	stop  atomic.Bool
	wg    sync.WaitGroup

	mu      sync.Mutex
	done    []chargedRead
	refused int
	failed  map[string]int
}

func newThroughputLoad(t *testing.T, table string) *throughputLoad {
	return &throughputLoad{t: t, table: table, began: time.Now(), failed: map[string]int{}}
}

var retryAfter = regexp.MustCompile(`RetryAfterMs=(\d+),`)

// ask reads the keys one by one until the end. ask sends each read as soon as the server allows. If pause is not 0, it
// sends the reads at fixed intervals and ignores retry-after times.
func (l *throughputLoad) ask(m *member, level dberr.Consistency, keys []int32, pause time.Duration) {
	l.wg.Go(func() {
		c := m.dial()
		defer func() { c.Close() }()
		for i := 0; !l.stop.Load(); i++ {
			if pause > 0 {
				time.Sleep(time.Until(l.began.Add(time.Duration(i) * pause)))
			}
			k := keys[i%len(keys)]
			q := cqlwire.Query{Text: fmt.Appendf(nil, "SELECT v FROM %s WHERE k = %d", l.table, k)}
			q.Consistency = level
			began := time.Now()
			_, _, err := c.Call(cqlwire.OpQuery, q.Append(nil, cqlwire.V4))
			e := (*cqlwire.Error)(nil)
			switch {
			case err == nil:
				l.note(c, k, began)
				continue
			case errors.As(err, &e) && e.Code == cqlwire.CodeOverloaded:
				found := retryAfter.FindStringSubmatch(e.Message)
				if found == nil {
					l.t.Errorf("rejected with %q", e.Message)
					return
				}
				ms, _ := strconv.Atoi(found[1])
				l.mu.Lock()
				l.refused++
				l.mu.Unlock()
				if pause == 0 {
					time.Sleep(time.Duration(ms) * time.Millisecond)
				}
				continue
			}
			l.mu.Lock()
			l.failed[err.Error()]++
			l.mu.Unlock()
			if e == nil {
				l.t.Errorf("%s: %v", m.name(), err)
				return
			}
		}
	})
}

func (l *throughputLoad) note(c *rawclient.Conn, k int32, began time.Time) {
	s := chargedRead{at: time.Since(l.began), took: time.Since(began),
		place: token.Hash(binary.BigEndian.AppendUint32(nil, uint32(k))).Position()}
	for _, e := range c.Payload {
		if string(e.Key) == "RequestCharge" {
			s.units = math.Float64frombits(binary.BigEndian.Uint64(e.Value))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, s)
}

// rate returns the units served per second during a window for the tokens that in selects.
func (l *throughputLoad) rate(from, to time.Duration, in func(place uint64) bool) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := 0.
	for _, s := range l.done {
		if s.at >= from && s.at < to && (in == nil || in(s.place)) {
			sum += s.units
		}
	}
	return sum / (to - from).Seconds()
}

func (l *throughputLoad) end() {
	l.stop.Store(true)
	l.wg.Wait()
	for text, n := range l.failed {
		l.t.Logf("%d times: %s", n, text)
	}
}

// fill creates a table with provisioned throughput and writes n rows of the given size.
func (f *fleet) fill(table string, throughput, n, bytes int) (keys []int32) {
	f.nodes[0].do("CREATE KEYSPACE IF NOT EXISTS rus WITH replication = " +
		"{'class': 'SimpleStrategy', 'replication_factor': 3}")
	f.nodes[0].do(fmt.Sprintf("CREATE TABLE %s (k int PRIMARY KEY, v text) WITH throughput = %d", table, throughput))
	f.settle()
	c := f.nodes[0].dial()
	defer c.Close()
	v := strings.Repeat("v", bytes)
	for k := range int32(n) {
		f.until("row", eventually.Limit, func() string {
			if _, err := c.Query(fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%d, '%s')", table, k, v)); err != nil {
				return err.Error()
			}
			return ""
		})
		keys = append(keys, k)
	}
	return keys
}

// within checks that a figure is in a range.
func (l *throughputLoad) within(what string, got, want, slack float64) {
	l.t.Helper()
	text := fmt.Sprintf("%-44s %8.0f RU/s, want %.0f: %+.2f %%", what, got, want, 100*(got/want-1))
	if math.Abs(got/want-1) > slack {
		l.t.Error(text)
		return
	}
	l.t.Log(text)
}

// TestServedThroughput measures the throughput of clients that request more than the limit of a table, at ONE and
// QUORUM, through leaders and followers. The test covers a single key at 10,000 RU/s and three partitions at 18,000
// RU/s. It also covers a killed leader, reads at ONE through followers only, and a table that changes its leader and
// splits. Rows are large, so that few requests use a lot of throughput.
func TestServedThroughput(t *testing.T) {
	if *budgetFor == 0 {
		t.Skip("measurement: needs -budget, such as -budget 30s")
	}
	const warm = 2 * time.Second
	f := startFleet(t, 4, "")
	levels := []dberr.Consistency{dberr.One, dberr.Quorum}
	t.Run("one key", func(t *testing.T) {
		keys := f.fill("rus.key", 6_000, 1, 64<<10)
		f.nodes[0].do("ALTER TABLE rus.key WITH throughput = 10000")
		l := newThroughputLoad(t, "rus.key")
		for i := range 24 {
			l.ask(f.nodes[i%4], levels[i/4%2], keys, 0)
		}
		time.Sleep(time.Until(l.began.Add(warm + *budgetFor)))
		l.end()
		l.within("one key", l.rate(warm, warm+*budgetFor, nil), 10_000, 0.01)
		t.Logf("%d completed, %d rejected", len(l.done), l.refused)
	})
	t.Run("three partitions", func(t *testing.T) {
		keys := f.fill("rus.three", 18_000, 60, 64<<10)
		l := newThroughputLoad(t, "rus.three")
		third := func(k int32) int {
			return int(token.Hash(binary.BigEndian.AppendUint32(nil, uint32(k))).Position() / (math.MaxUint64/3 + 1))
		}
		for i := range 36 {
			l.ask(f.nodes[i%4], levels[i/4%2], slices.DeleteFunc(slices.Clone(keys), func(k int32) bool {
				return third(k) != i/12
			}), 0)
		}
		time.Sleep(time.Until(l.began.Add(warm + *budgetFor)))
		l.end()
		for part := range uint64(3) {
			l.within(fmt.Sprintf("part %d of three", part+1), l.rate(warm, warm+*budgetFor, func(place uint64) bool {
				return place/(math.MaxUint64/3+1) == part
			}), 6_000, 0.01)
		}
		t.Logf("%d completed, %d rejected", len(l.done), l.refused)
	})
	t.Run("a leader is killed, ONE at followers", func(t *testing.T) {
		keys := f.fill("rus.killed", 6_000, 40, 64<<10)
		gone := f.leader("rus.killed")
		stay := f.without(gone)
		l := newThroughputLoad(t, "rus.killed")
		for i := range 24 {
			l.ask(stay[i%3], dberr.One, keys, 0)
		}
		time.Sleep(time.Until(l.began.Add(warm + *budgetFor/2)))
		gone.kill()
		time.Sleep(time.Until(l.began.Add(warm + *budgetFor)))
		l.end()
		l.within("a leader is killed", l.rate(warm, warm+*budgetFor, nil), 6_000, 0.03)
		t.Logf("%d completed, %d rejected", len(l.done), l.refused)
		gone.start()
		f.settle()
	})
	t.Run("leader change and split", func(t *testing.T) {
		keys := f.fill("rus.moved", 6_000, 40, 64<<10)
		gone := f.leader("rus.moved")
		l := newThroughputLoad(t, "rus.moved")
		stay := f.without(gone)
		for i := range 24 {
			l.ask(stay[i%3], levels[i/3%2], keys, 0)
		}
		time.Sleep(time.Until(l.began.Add(warm + *budgetFor/3)))
		gone.stop()
		time.Sleep(time.Until(l.began.Add(warm + *budgetFor*2/3)))
		stay[0].split("rus.moved", stay[0].partitionsOf("rus.moved")[0].ID, "&wait=true")
		time.Sleep(time.Until(l.began.Add(warm + *budgetFor)))
		l.end()
		l.within("a leader change and a split", l.rate(warm, warm+*budgetFor, nil), 6_000, 0.03)
		for i := range 6 {
			from, to := warm+*budgetFor*time.Duration(i)/6, warm+*budgetFor*time.Duration(i+1)/6
			t.Logf("%v to %v: %.0f RU/s", from, to, l.rate(from, to, nil))
		}
		t.Logf("%d completed, %d rejected", len(l.done), l.refused)
		gone.start()
		f.settle()
	})
}

// TestLentThroughput measures the throughput of a partition that borrows from its idle siblings. It also measures the
// throughput of each partition when all partitions are overloaded.
func TestLentThroughput(t *testing.T) {
	if *budgetFor == 0 {
		t.Skip("measurement: needs -budget, such as -budget 30s")
	}
	const warm = 2 * time.Second
	f := startFleet(t, 4, "limits:\n  throughput_lending: true\n")
	keys := f.fill("rus.lent", 18_000, 60, 64<<10)
	third := func(k int32) int {
		return int(token.Hash(binary.BigEndian.AppendUint32(nil, uint32(k))).Position() / (math.MaxUint64/3 + 1))
	}
	levels := []dberr.Consistency{dberr.One, dberr.Quorum}
	ask := func(parts int) *throughputLoad {
		l := newThroughputLoad(t, "rus.lent")
		for i := range 12 * parts {
			l.ask(f.nodes[i%4], levels[i/4%2], slices.DeleteFunc(slices.Clone(keys), func(k int32) bool {
				return third(k) != i/12
			}), 0)
		}
		time.Sleep(time.Until(l.began.Add(warm + *budgetFor)))
		l.end()
		t.Logf("%d completed, %d rejected", len(l.done), l.refused)
		return l
	}
	l := ask(1)
	l.within("one of three partitions, the others idle", l.rate(warm, warm+*budgetFor, nil), 10_000, 0.03)
	l = ask(3)
	for part := range uint64(3) {
		l.within(fmt.Sprintf("part %d of three", part+1), l.rate(warm, warm+*budgetFor, func(place uint64) bool {
			return place/(math.MaxUint64/3+1) == part
		}), 6_000, 0.03)
	}
}

// TestNeighbour measures the latency of a table whose load is within its throughput. In each of five pairs of runs, a
// second table first receives ten times its limit and then exactly its limit.
func TestNeighbour(t *testing.T) {
	if *budgetFor == 0 {
		t.Skip("measurement: needs -budget, such as -budget 30s")
	}
	const clients, throughput, price = 32, 3_000, 6.73
	f := startFleet(t, 4, "")
	good, bad := f.fill("rus.good", 1_000, 100, 100), f.fill("rus.bad", throughput, 40, 64<<10)
	measure := func(times float64) (p50, p99 time.Duration) {
		l, over := newThroughputLoad(t, "rus.good"), newThroughputLoad(t, "rus.bad")
		for i := range 8 {
			l.ask(f.nodes[i%4], dberr.Quorum, good, 20*time.Millisecond) // 400 reads per second
		}
		each := time.Duration(float64(time.Second) * clients * price / throughput / times)
		for i := range clients {
			over.ask(f.nodes[i%4], dberr.Quorum, bad, each)
		}
		time.Sleep(time.Until(l.began.Add(*budgetFor / 5)))
		l.end()
		over.end()
		var took []time.Duration
		for _, s := range l.done {
			took = append(took, s.took)
		}
		slices.Sort(took)
		t.Logf("next to %5.0f RU/s and %5.0f rejections per second: p50 %v, p99 %v", over.rate(0, *budgetFor/5, nil),
			float64(over.refused)/(*budgetFor/5).Seconds(), took[len(took)/2], took[len(took)*99/100])
		return took[len(took)/2], took[len(took)*99/100]
	}
	measure(10)
	var half, tail []float64
	for range 5 {
		a50, a99 := measure(1)
		b50, b99 := measure(10)
		half, tail = append(half, float64(b50)/float64(a50)), append(tail, float64(b99)/float64(a99))
	}
	slices.Sort(half)
	slices.Sort(tail)
	text := fmt.Sprintf("relative to a neighbor within its throughput: p50 %.2f, p99 %.2f", half[2], tail[2])
	if half[2] > 1.1 || tail[2] > 1.5 {
		t.Error(text)
		return
	}
	t.Log(text)
}
