// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// Plan says what to simulate. The zero value but for Seed is the usual run.
type Plan struct {
	Seed uint64
	// Length of the part with faults, in virtual time; 20 s if 0. A quiet part follows.
	Length time.Duration
	// Wait lets the file systems' background work settle before a crash: synctest.Wait.
	Wait func()
	// Bugs are planted.
	Bugs Bugs
	// Print hears one line for each fault and each acknowledgement; nil for none.
	Print func(line string)
}

// Report is what a run came to.
type Report struct {
	Plan     Plan
	Trace    uint64
	Duration time.Duration
	Counts   Counts
	// Failures are the violations found; empty for a good run.
	Failures []string
	// Unchecked are the keys whose history took porcupine too long.
	Unchecked int
}

// Counts of what happened.
type Counts struct {
	Events, Acked, Unknown, IndexReads                            int
	Crashes, Cuts, Pauses, SlowDisks, FullDisks, Transfers, Wipes int
	Snapshots, Truncations, Moves, Settled, Quiesced, Leaders     int
	Compared, Refused, Updates, Sweeps, Asked                     int
	// Lost outcomes were not known to the replica that was asked, UnderWay are requests that met themselves.
	Lost, UnderWay int
	// Of HereAsked reads at ONE HereReads were served on the spot, FollowerReads of them by replicas that did not lead.
	HereAsked, HereReads, FollowerReads int
	// Discards are snapshots that arrived and were not needed, Unwanted those that did not have to arrive.
	Discards, Unwanted int
	// Dropped and Delayed are frames.
	Dropped, Delayed int
}

// Faults is how much went wrong.
func (c *Counts) Faults() int {
	return c.Crashes + c.Cuts + c.Pauses + c.SlowDisks + c.FullDisks + c.Transfers + c.Wipes + c.Refused + c.Asked + c.Dropped + c.Delayed
}

func (c *Counts) add(o *Counts) {
	to, from := reflect.ValueOf(c).Elem(), reflect.ValueOf(o).Elem()
	for i := range to.NumField() {
		to.Field(i).SetInt(to.Field(i).Int() + from.Field(i).Int())
	}
}

func (r *Report) String() string {
	return fmt.Sprintf("seed %d: %v, trace %016x, %+v, unchecked %d, failures %v", r.Plan.Seed, r.Duration, r.Trace, r.Counts, r.Unchecked, r.Failures)
}

// Shape of the cluster.
const (
	nodeCount  = 5
	voterCount = 4
	healAfter  = 2500 * time.Millisecond
	tick       = 50 * time.Millisecond
	elections  = 20
)

type event struct {
	at  time.Duration
	seq int
	do  func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}

// world is one run.
type world struct {
	plan   Plan
	rng    *rand.Rand
	now    time.Duration
	queue  events
	seq    int
	nodes  []*node
	net    network
	counts Counts
	trace  uint64
	hist   history
	// calm is set when faults end, finished when clients do.
	calm, finished bool
	// hashes of groups at applied indexes, as first seen.
	hashes   map[stateAt]uint64
	failures []string
	// tasks: the one that runs, those that wait for something, in order.
	current *task
	waiting []*task
	// born is the map as it was in the beginning.
	born    *topology.Snapshot
	records []command.Record
}

type stateAt struct{ partition, applied uint64 }

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, event{w.now + d, w.seq, do})
}

// between draws a duration.
func (w *world) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

// oneIn is true once in n times.
func (w *world) oneIn(n int) bool { return w.rng.IntN(n) == 0 }

func (w *world) fail(format string, args ...any) {
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
	w.note("FAIL %s", fmt.Sprintf(format, args...))
}

// note enters a line into the trace.
func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf("%12v ", w.now) + fmt.Sprintf(format, args...)
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, w.trace))
	_, _ = h.Write([]byte(line))
	w.trace = h.Sum64()
	if w.plan.Print != nil {
		w.plan.Print(line)
	}
}

// noteFrame enters a frame into the trace: its bytes are all that a node decided.
func (w *world) noteFrame(from, to int, frame []byte) {
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, w.trace))
	_, _ = h.Write([]byte{byte(from), byte(to)})
	_, _ = h.Write(frame)
	w.trace = h.Sum64()
}

// Run simulates one plan.
func Run(p Plan) *Report {
	if p.Length == 0 {
		p.Length = 20 * time.Second
	}
	w := &world{plan: p, rng: rand.New(rand.NewPCG(p.Seed, 0x51)), hashes: map[stateAt]uint64{}}
	w.net.init(w)
	w.begin()
	w.startChaos()
	// After the faults everything heals; clients go on for a while, then every key is read once more.
	w.after(p.Length, w.heal)
	w.after(p.Length+3*time.Second, func() { w.finished = true })
	end := p.Length + 13*time.Second
	w.after(p.Length+8*time.Second, w.lastReads)
	for len(w.queue) > 0 && len(w.failures) == 0 {
		e := heap.Pop(&w.queue).(event)
		if e.at > end {
			break
		}
		w.now = e.at
		w.counts.Events++
		e.do()
		w.poll()
	}
	r := &Report{Plan: p, Duration: w.now}
	if len(w.failures) == 0 {
		w.checkConverged()
		r.Unchecked = w.checkHistories()
	}
	for _, n := range w.nodes {
		n.close()
	}
	r.Trace, r.Counts, r.Failures = w.trace, w.counts, w.failures
	return r
}

// begin makes the nodes and the first map.
func (w *world) begin() {
	for i := range nodeCount {
		n := &node{w: w, id: i, fs: vfs.NewCrashableMem(), slow: 1}
		n.rate = 1 + (w.rng.Float64()-0.5)*0.08
		n.base = w.between(0, time.Hour)
		n.skew = w.between(-2*time.Second, 2*time.Second)
		w.nodes = append(w.nodes, n)
	}
	if err := w.firstMap(); err != nil {
		w.fail("first map: %v", err)
		return
	}
	for _, n := range w.nodes {
		n.start()
	}
}

// firstMap cuts the tables: most replica sets have four voters, one of them has a single one, and grows.
func (w *world) firstMap() (err error) {
	at := func(first, n int) []topology.Place {
		p := topology.Place{Region: region}
		for i := range n {
			p.Nodes = append(p.Nodes, w.nodes[(first+i)%nodeCount].self())
		}
		return []topology.Place{p}
	}
	m := topology.New()
	if m, err = m.AddMeta(at(0, voterCount)); err == nil {
		pieces := topology.Equal(2, at(1, voterCount))
		pieces[1].Places = at(3, voterCount)
		m, err = m.CutTable(rowsTable, pieces)
	}
	if err == nil {
		m, err = m.AddTable(wipedTable, 1, at(2, voterCount))
	}
	if err == nil {
		m, err = m.AddTable(smallTable, 1, at(4, 1))
	}
	if err != nil {
		return err
	}
	w.born = m
	return w.firstRecords()
}

var _ partition.Runner = driver{}
