// SPDX-License-Identifier: Apache-2.0

package simenv

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

// Environment is the environment of one simulation run.
type Environment struct {
	Rand *rand.Rand
	// Now is the virtual time since the start.
	Now      time.Duration
	Machines []*Machine
	Net      Network
	Faults   Faults
	// Events counts the events. Failures holds the violations found.
	Events   int
	Failures []string
	// Trace is a hash of all notes and frames.
	Trace uint64
	// Calm is set when the faults end.
	Calm bool
	// Wait waits for background work of the file systems before a crash. Print receives every note. Both may be nil.
	Wait  func()
	Print func(line string)

	seed uint64
	// wrong is the last time at which a wrong wall clock was reset.
	wrong time.Duration
	queue events
	seq   int
	// current is the running task. waiting holds the waiting tasks in the order in which they began to wait.
	current *Task
	// touched is the bit set of machines with events since the last poll.
	touched uint64
	waiting []*Task
}

// Faults counts faults.
type Faults struct {
	Crashes, Cuts, Pauses, SlowDisks, FullDisks int
	// Jumps counts jumps of wall clocks, and Suspends counts suspended machines. Lost and RolledBack count lost and
	// outdated directories.
	Jumps, Suspends, Lost, RolledBack int
	// Rejected counts running machines whose address refused connections. Refused counts refused connections that a
	// node regarded as a sign of another node's end. Dropped and Delayed count frames.
	Rejected, Refused, Dropped, Delayed int
	// Breaks counts connections that broke within a frame, Flips counts single bit errors, and Stalls counts delayed
	// connections.
	Breaks, Flips, Stalls int
}

// Sum returns the total number of faults.
func (f *Faults) Sum() int {
	return f.Crashes + f.Cuts + f.Pauses + f.SlowDisks + f.FullDisks + f.Jumps + f.Suspends + f.Lost + f.RolledBack +
		f.Rejected + f.Refused + f.Dropped + f.Delayed + f.Breaks + f.Flips + f.Stalls
}

// Frugal reduces the resources of the process until undo is called. An environment runs one goroutine at a time, so a
// second processor would only add a wake-up cost at each switch. Garbage collection is less frequent because a run
// produces little garbage.
func Frugal() (undo func()) {
	processors, percent := runtime.GOMAXPROCS(1), debug.SetGCPercent(400)
	return func() {
		runtime.GOMAXPROCS(processors)
		debug.SetGCPercent(percent)
	}
}

// New creates an environment with the given number of machines.
func New(seed uint64, machines int) *Environment {
	w := &Environment{Rand: rand.New(rand.NewPCG(seed, 0x51)), seed: seed}
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

// After schedules a function.
func (w *Environment) After(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, event{w.Now + d, w.seq, do})
}

// Run runs events until a given time or the first failure.
func (w *Environment) Run(until time.Duration) {
	for len(w.queue) > 0 && len(w.Failures) == 0 && w.queue[0].at <= until {
		e := heap.Pop(&w.queue).(event)
		w.Now = e.at
		w.Events++
		e.do()
		w.poll()
	}
}

// Between draws a duration.
func (w *Environment) Between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.Rand.Int64N(int64(hi-lo)))
}

// OneIn returns true with probability 1/n.
func (w *Environment) OneIn(n int) bool { return w.Rand.IntN(n) == 0 }

// Fail records a violation, which ends the run.
func (w *Environment) Fail(format string, args ...any) {
	w.Failures = append(w.Failures, fmt.Sprintf(format, args...))
	w.Note("FAIL %s", fmt.Sprintf(format, args...))
}

// Note adds a line to the trace.
func (w *Environment) Note(format string, args ...any) {
	line := fmt.Sprintf("%12v ", w.Now) + fmt.Sprintf(format, args...)
	w.trace([]byte(line))
	if w.Print != nil {
		w.Print(line)
	}
}

// NoteFrame adds a frame to the trace. The frames that a node sends reflect every decision of the node.
func (w *Environment) NoteFrame(from, to int, frame []byte) {
	w.trace([]byte{byte(from), byte(to)}, frame)
}

func (w *Environment) trace(parts ...[]byte) {
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, w.Trace))
	for _, p := range parts {
		_, _ = h.Write(p)
	}
	w.Trace = h.Sum64()
}
