// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
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
	Events, Acked, Unknown, LeaseReads, IndexReads         int
	Crashes, Cuts, Pauses, SlowDisks, FullDisks, Transfers int
	Snapshots, Truncations, Moves, Quiesced, Leaders       int
	Compared, Refused, Resets, Departures                  int
	// Inherited proposals succeeded after their leader had stepped down, Replaced ones are known to be nowhere, of Lost
	// ones nothing is known. Of FreshAsked replicas FreshReads were fresh enough, FollowerReads of them did not lead.
	Inherited, Replaced, Lost             int
	FreshAsked, FreshReads, FollowerReads int
	// AskedReads are those at followers that asked their leader.
	AskedReads int
	// Discards are snapshots that arrived and were not needed, Unwanted those that did not have to arrive.
	Discards, Unwanted int
}

func (c *Counts) add(o *Counts) {
	for _, p := range []struct{ to, from *int }{
		{&c.Events, &o.Events}, {&c.Acked, &o.Acked}, {&c.Unknown, &o.Unknown}, {&c.LeaseReads, &o.LeaseReads}, {&c.IndexReads, &o.IndexReads},
		{&c.Crashes, &o.Crashes}, {&c.Cuts, &o.Cuts}, {&c.Pauses, &o.Pauses}, {&c.SlowDisks, &o.SlowDisks}, {&c.FullDisks, &o.FullDisks},
		{&c.Transfers, &o.Transfers}, {&c.Snapshots, &o.Snapshots}, {&c.Truncations, &o.Truncations}, {&c.Moves, &o.Moves},
		{&c.Quiesced, &o.Quiesced}, {&c.Leaders, &o.Leaders}, {&c.Compared, &o.Compared}, {&c.Refused, &o.Refused}, {&c.Resets, &o.Resets}, {&c.Departures, &o.Departures},
		{&c.Inherited, &o.Inherited}, {&c.Replaced, &o.Replaced}, {&c.Lost, &o.Lost}, {&c.FreshAsked, &o.FreshAsked},
		{&c.FreshReads, &o.FreshReads}, {&c.AskedReads, &o.AskedReads},
		{&c.FollowerReads, &o.FollowerReads}, {&c.Discards, &o.Discards}, {&c.Unwanted, &o.Unwanted},
	} {
		*p.to += *p.from
	}
}

func (r *Report) String() string {
	return fmt.Sprintf(
		"seed %d: %v, trace %016x, %+v, unchecked %d, failures %v",
		r.Plan.Seed,
		r.Duration,
		r.Trace,
		r.Counts,
		r.Unchecked,
		r.Failures,
	)
}

// Shape of the cluster.
const (
	nodeCount  = 5
	groupCount = 3
	voterCount = 4
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
	moves    []*move
	replicas uint64 // the last replica id given
}

type stateAt struct{ group, applied uint64 }

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
	w.startClients()
	w.startChaos()
	// After the faults everything heals; clients go on for a while, then every key is read once more.
	w.after(p.Length, w.heal)
	w.after(p.Length+3*time.Second, func() { w.finished = true })
	end := p.Length + 12*time.Second
	w.after(p.Length+7*time.Second, w.lastReads)
	for len(w.queue) > 0 && len(w.failures) == 0 {
		e := heap.Pop(&w.queue).(event)
		if e.at > end {
			break
		}
		w.now = e.at
		w.counts.Events++
		e.do()
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

func nodeID(i int) (id raftgroup.NodeID) {
	id[0] = byte(i + 1)
	return id
}

func nodeOf(id raftgroup.NodeID) int { return int(id[0]) - 1 }
