// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/test/eventually"
)

// loadSchema holds the tables of the load. Each has at least one physical partition.
var loadSchema = []string{
	"CREATE KEYSPACE load WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 4}",
	"CREATE TABLE load.plain (k bigint PRIMARY KEY, v bigint)",
	"CREATE TABLE load.stamped (k bigint PRIMARY KEY, v bigint)",
	"CREATE TABLE load.registers (k bigint PRIMARY KEY, v bigint)",
	"CREATE TABLE load.twins (k bigint PRIMARY KEY, v bigint)",
	"CREATE TABLE load.counters (k bigint PRIMARY KEY, n counter)",
	"CREATE TABLE load.lists (k bigint PRIMARY KEY, l list<bigint>)",
	"CREATE TABLE load.batch_a (k bigint PRIMARY KEY, v bigint)",
	"CREATE TABLE load.batch_b (k bigint PRIMARY KEY, v bigint)",
	"CREATE TABLE load.batch_c (k bigint, c bigint, v bigint, PRIMARY KEY (k, c))",
}

var loadTables = []string{"plain", "stamped", "registers", "twins", "counters", "lists", "batch_a", "batch_b",
	"batch_c"}

const (
	keysPerClient = 4
	counterKeys   = 4
	// listLength is the length at which a new list is started.
	listLength = 40
	// registersAtOnce is the number of registers in use at the same time, each for registerTime. The number is even,
	// so pairs end together.
	registersAtOnce = 6
	registerTime    = time.Second
	// stalenessMax is the maximum age of a read at ONE. It is the server's limit plus an allowance for a busy machine.
	stalenessMax = 500*time.Millisecond + 500*time.Millisecond
	errorsMax    = 20
)

// kind is a kind of request.
type kind uint8

const (
	plainWrite kind = iota
	stampedWrite
	readOne
	readQuorum
	condition
	increment
	readCounter
	batch
	listAppend
	kinds
)

var kindNames = [kinds]string{"write", "write with a timestamp", "read ONE", "read QUORUM", "register", "counter",
	"read of a counter", "logged batch", "list append"}

// sample is a completed request.
type sample struct {
	kind kind
	at   time.Duration // since the load began
	took time.Duration
}

// load consists of clients that send requests continuously, and of the data that these clients know.
type load struct {
	f     *fleet
	t     testing.TB
	began time.Time
	// uncertain allows errors. The models allow two states after a request that received no response.
	uncertain atomic.Bool
	tolerated atomic.Int64

	targets atomic.Pointer[[]*member]
	clients []*client
	stop    atomic.Bool
	wg      sync.WaitGroup
	limit   int64 // number of requests, or 0 for no limit
	done    atomic.Int64
	values  atomic.Int64
	history history

	counters [counterKeys]struct{ begun, acked, unknown atomic.Int64 }

	mu      sync.Mutex
	errs    []string
	excused []string // errors that were allowed
	failed  int
	marks   []mark
}

type mark struct {
	at   time.Duration
	name string
}

// cell is a key that one client writes and all clients read. Values only grow.
type cell struct {
	mu      sync.Mutex
	table   string
	key     int64
	tried   int64
	unknown bool // a write failed, so the key is not written again
	acked   []ack
}

type ack struct {
	value int64
	at    time.Time
	node  *member
}

// startLoad creates the tables and runs clients until finish.
func startLoad(f *fleet, clients int, limit int64) *load {
	f.t.Helper()
	f.alive()[0].do(loadSchema...)
	f.settle()
	l := &load{f: f, t: f.t, began: time.Now(), limit: limit}
	alive := f.alive()
	l.targets.Store(&alive)
	for id := range clients {
		c := &client{l: l, id: id, rng: rand.New(rand.NewPCG(uint64(id), uint64(time.Now().UnixNano()))),
			seen: map[int64]int64{}, batches: map[int64]bool{}}
		for i := range keysPerClient {
			c.plain[i], c.stamped[i] = c.newCell("plain"), c.newCell("stamped")
		}
		c.publish()
		l.clients = append(l.clients, c)
	}
	f.t.Cleanup(l.end)
	for _, c := range l.clients {
		l.wg.Go(c.run)
	}
	return l
}

// end stops the clients.
func (l *load) end() {
	l.stop.Store(true)
	l.wg.Wait()
}

// tolerate allows or forbids errors.
func (l *load) tolerate(yes bool) {
	l.uncertain.Store(yes)
	if !yes {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.t.Logf("%d tolerated errors, starting with:\n%s", l.tolerated.Swap(0), strings.Join(l.excused, "\n"))
		l.excused = nil
	}
}

// mark begins a phase of the report.
func (l *load) mark(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marks = append(l.marks, mark{time.Since(l.began), name})
}

// only makes the clients use only these nodes, and returns when all clients have moved.
func (l *load) only(nodes ...*member) {
	l.t.Helper()
	p := &nodes
	l.targets.Store(p)
	l.f.until("clients move", eventually.Limit, func() string {
		for _, c := range l.clients {
			if c.moved.Load() != p && !l.ended() {
				return fmt.Sprintf("client %d still waits for a response", c.id)
			}
		}
		return ""
	})
}

func (l *load) ended() bool { return l.stop.Load() || l.limit > 0 && l.done.Load() >= l.limit }

// more waits for the given number of further responses.
func (l *load) more(requests int64) {
	l.t.Helper()
	want := l.done.Load() + requests
	l.f.until(fmt.Sprintf("%d requests", requests), 5*time.Minute, func() string {
		if l.ended() || l.done.Load() >= want {
			return ""
		}
		return fmt.Sprintf("%d left", want-l.done.Load())
	})
}

// lasts runs the load for a given time. The number of requests varies.
func (l *load) lasts(d time.Duration) { time.Sleep(d) }

// unanswered records an error. The error fails the test unless errors are allowed.
func (l *load) unanswered(format string, args ...any) {
	if l.uncertain.Load() {
		l.tolerated.Add(1)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.excused = l.keep(l.excused, format, args...)
	} else {
		l.fail(format, args...)
	}
}

// keep adds an error with its time to a list, which keeps only the first errors.
func (l *load) keep(list []string, format string, args ...any) []string {
	if len(list) >= errorsMax {
		return list
	}
	return append(list, fmt.Sprintf("%8.3f s: ", time.Since(l.began).Seconds())+fmt.Sprintf(format, args...))
}

// failures returns the number of failed and wrong requests so far.
func (l *load) failures() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed++
	l.errs = l.keep(l.errs, format, args...)
}

// report logs the number and latency of requests by kind, in total and in each phase.
func (l *load) report() {
	var all []sample
	for _, c := range l.clients {
		all = append(all, c.samples...)
	}
	var b strings.Builder
	took := time.Since(l.began)
	fmt.Fprintf(&b, "%d requests by %d clients in %s, %.0f a second\n", len(all), len(l.clients),
		took.Round(time.Millisecond), float64(len(all))/took.Seconds())
	for k := range kinds {
		line(&b, kindNames[k], choose(all, func(s sample) bool { return s.kind == k }))
	}
	for i, m := range l.marks {
		end := time.Duration(1 << 62)
		if i+1 < len(l.marks) {
			end = l.marks[i+1].at
		}
		line(&b, fmt.Sprintf("%.1f s: %s", m.at.Seconds(), m.name), choose(all, func(s sample) bool {
			return s.at+s.took >= m.at && s.at < end
		}))
	}
	l.t.Log(b.String())
}

func choose(all []sample, ok func(sample) bool) []time.Duration {
	var out []time.Duration
	for _, s := range all {
		if ok(s) {
			out = append(out, s.took)
		}
	}
	slices.Sort(out)
	return out
}

func line(b *strings.Builder, name string, took []time.Duration) {
	if len(took) == 0 {
		return
	}
	at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))].Round(10 * time.Microsecond) }
	fmt.Fprintf(b, "  %-44s %8d requests, p50 %8s, p99 %8s, max %8s\n", name, len(took), at(0.5), at(0.99), at(1))
}
