// SPDX-License-Identifier: Apache-2.0

package world

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"
)

// World is one run.
type World struct {
	Rand *rand.Rand
	// Now is the virtual time since the beginning.
	Now      time.Duration
	Machines []*Machine
	Net      Network
	Faults   Faults
	// Events counts what has happened, Failures are the violations that were found.
	Events   int
	Failures []string
	// Trace is a hash over every note and frame.
	Trace uint64
	// Calm is set when faults end.
	Calm bool
	// Wait lets background work of the file systems come to rest before a crash; Print hears every note. Either may be
	// nil.
	Wait  func()
	Print func(line string)

	seed uint64
	// wrong is when a wall clock was set right last.
	wrong time.Duration
	queue events
	seq   int
	// tasks: the one that runs, and those that wait for something, in order.
	current *Task
	// touched are the machines, by their bits, on which something happened since the last poll.
	touched uint64
	waiting []*Task
}

// Faults counts what went wrong.
type Faults struct {
	Crashes, Cuts, Pauses, SlowDisks, FullDisks int
	// Jumps are of wall clocks, Suspends of machines; Lost and RolledBack are directories.
	Jumps, Suspends, Lost, RolledBack int
	// Refused connections are those that a node took for a sign of another's end; Dropped and Delayed are frames.
	// Rejected counts the machines whose address refused connections while they lived.
	Rejected, Refused, Dropped, Delayed int
	// Breaks are of connections within a frame, Flips of single bits on their way, Stalls of connections for a while.
	Breaks, Flips, Stalls int
}

// Sum is how much went wrong.
func (f *Faults) Sum() int {
	return f.Crashes + f.Cuts + f.Pauses + f.SlowDisks + f.FullDisks + f.Jumps + f.Suspends + f.Lost + f.RolledBack +
		f.Rejected + f.Refused + f.Dropped + f.Delayed + f.Breaks + f.Flips + f.Stalls
}

// Frugal has the process spend no more on runs than it must, until undo is called. A world has one thread, however many
// goroutines take turns as that, so a second processor would only be woken with each turn; what a run leaves is little.
func Frugal() (undo func()) {
	processors, percent := runtime.GOMAXPROCS(1), debug.SetGCPercent(400)
	return func() {
		runtime.GOMAXPROCS(processors)
		debug.SetGCPercent(percent)
	}
}

// New makes a world of so many machines.
func New(seed uint64, machines int) *World {
	w := &World{Rand: rand.New(rand.NewPCG(seed, 0x51)), seed: seed}
	for i := range machines {
		w.Machines = append(w.Machines, newMachine(w, i))
	}
	w.Net.init(w, machines)
	return w
}

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

// After has something done later.
func (w *World) After(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, event{w.Now + d, w.seq, do})
}

// Run goes on until a moment, or the first failure.
func (w *World) Run(until time.Duration) {
	for len(w.queue) > 0 && len(w.Failures) == 0 && w.queue[0].at <= until {
		e := heap.Pop(&w.queue).(event)
		w.Now = e.at
		w.Events++
		e.do()
		w.poll()
	}
}

// Between draws a duration.
func (w *World) Between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.Rand.Int64N(int64(hi-lo)))
}

// OneIn is true once in n times.
func (w *World) OneIn(n int) bool { return w.Rand.IntN(n) == 0 }

// Fail records a violation, which ends the run.
func (w *World) Fail(format string, args ...any) {
	w.Failures = append(w.Failures, fmt.Sprintf(format, args...))
	w.Note("FAIL %s", fmt.Sprintf(format, args...))
}

// Note enters a line into the trace.
func (w *World) Note(format string, args ...any) {
	line := fmt.Sprintf("%12v ", w.Now) + fmt.Sprintf(format, args...)
	w.trace([]byte(line))
	if w.Print != nil {
		w.Print(line)
	}
}

// NoteFrame enters a frame into the trace: its bytes are all that a node decided.
func (w *World) NoteFrame(from, to int, frame []byte) {
	w.trace([]byte{byte(from), byte(to)}, frame)
}

func (w *World) trace(parts ...[]byte) {
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, w.Trace))
	for _, p := range parts {
		_, _ = h.Write(p)
	}
	w.Trace = h.Sum64()
}
