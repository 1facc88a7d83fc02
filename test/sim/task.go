// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
)

// task is something that waits in the middle of what it does: a request at a replica, a client, the loop that looks after the map. It has
// a goroutine to keep its stack on, and runs only while the world waits for it, so there is one thread all the same.
type task struct {
	w *world
	// n is the node whose process it is part of.
	n *node
	// run gives it its turn, back gives the turn back.
	run, back chan struct{}
	// ready is asked after every event, nil if the task waits for time only. parked counts waits, so that a timer of an earlier one does
	// nothing.
	ready  func() bool
	parked int
	// late says that the time of the wait is over, dead that the process is, over that the task has ended.
	late, dead, over bool
}

var errDead = errors.New("the process is gone")

// spawn begins a task and runs it until it waits.
func (w *world) spawn(n *node, f func(t *task)) {
	t := &task{w: w, n: n, run: make(chan struct{}), back: make(chan struct{})}
	n.tasks = append(n.tasks, t)
	go func() {
		<-t.run
		defer func() {
			if r := recover(); r != nil {
				w.fail("node %d: panic: %v\n%s", n.id, r, debug.Stack())
			}
			t.over = true
			t.back <- struct{}{}
		}()
		f(t)
	}()
	w.resume(t)
}

// resume gives a task its turn until it waits again or ends.
func (w *world) resume(t *task) {
	before := w.current
	w.current = t
	t.run <- struct{}{}
	<-t.back
	w.current = before
	if t.over {
		if i := slices.Index(t.n.tasks, t); i >= 0 {
			t.n.tasks = slices.Delete(t.n.tasks, i, i+1)
		}
	}
}

// wait waits until ready says true, but not longer than most, if that is not 0.
func (t *task) wait(ready func() bool, most time.Duration) error {
	if t.dead {
		return errDead
	}
	if ready != nil && ready() {
		return nil
	}
	w := t.w
	t.parked++
	t.ready, t.late = ready, false
	if ready != nil {
		w.waiting = append(w.waiting, t)
	}
	if most > 0 {
		parked := t.parked
		var over func()
		over = func() {
			switch {
			case t.over || t.parked != parked || t.dead:
			case t.n.paused > w.now:
				w.after(t.n.paused-w.now, over)
			default:
				w.unpark(t)
				t.late = true
				w.resume(t)
			}
		}
		w.after(most, over)
	}
	t.back <- struct{}{}
	<-t.run
	t.parked++
	switch {
	case t.dead:
		return errDead
	case t.late:
		return context.DeadlineExceeded
	}
	return nil
}

// sleep waits for a while; it reports false if the process ended.
func (t *task) sleep(d time.Duration) bool { return !errors.Is(t.wait(nil, max(d, 1)), errDead) }

func (w *world) unpark(t *task) {
	if i := slices.Index(w.waiting, t); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
}

// poll resumes, in the order in which they began to wait, the tasks that can go on.
func (w *world) poll() {
	for i := 0; i < len(w.waiting); {
		t := w.waiting[i]
		if t.n.paused > w.now || !t.ready() {
			i++
			continue
		}
		w.unpark(t)
		w.resume(t)
		i = 0 // it may have made others ready
	}
}

// kill ends the tasks of a process: what they wait for does not come.
func (n *node) kill() {
	for _, t := range slices.Clone(n.tasks) {
		n.w.unpark(t)
		t.dead = true
	}
	for _, t := range slices.Clone(n.tasks) {
		if !t.over {
			n.w.resume(t)
		}
		if !t.over {
			panic(fmt.Sprintf("node %d: a task waits on after the end of its process", n.id))
		}
	}
}

// limit is a context of the node with a deadline in virtual time.
func (n *node) limit(d time.Duration) context.Context {
	return limited{context.Background(), n, process{n: n}.Now().Add(d)}
}

// limited needs no timer: whoever waits with it asks for the deadline.
type limited struct {
	context.Context
	n  *node
	at time.Time
}

// Deadline implements context.Context.
func (l limited) Deadline() (time.Time, bool) { return l.at, true }

// Err implements context.Context.
func (l limited) Err() error {
	if (process{n: l.n}).Now().Before(l.at) {
		return nil
	}
	return context.DeadlineExceeded
}

// real is how long a duration by the node's clock takes.
func (p process) real(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return max(1, time.Duration(float64(d)/p.n.rate))
}

// process is the sched.Driver of one life of a node.
type process struct {
	n    *node
	life int
}

// Now implements sched.Driver, as do the others. It is far from the wall clock, so that who confuses them is found.
func (p process) Now() time.Time { return monotone.Add(time.Duration(p.n.Now())) }

var monotone = time.Unix(1_000_000, 0)

func (p process) Wall() time.Time { return p.n.wall() }

func (p process) Boot() time.Duration { return time.Duration(p.n.Now()) }

func (p process) Go(f func()) { p.AfterFunc(0, f) }

func (p process) AfterFunc(d time.Duration, f func()) sched.Timer {
	t := &timer{process: p, f: f}
	t.Reset(d)
	return t
}

func (p process) Wait(ctx context.Context, ready func() bool, most time.Duration) error {
	w := p.n.w
	if w.current == nil || w.current.n != p.n {
		panic("a wait outside the tasks of the node")
	}
	if at, ok := ctx.Deadline(); ok {
		left := at.Sub(p.Now())
		if left <= 0 {
			return context.DeadlineExceeded
		}
		if most == 0 || left < most {
			most = left
		}
	}
	most = p.real(most)
	ended := func() bool { return ctx.Err() != nil || ready != nil && ready() }
	if ctx.Done() == nil {
		ended = ready
	}
	err := w.current.wait(ended, most)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return err
}

// timer runs a function as a task of its process.
type timer struct {
	process
	f func()
	// set counts settings, so that an earlier one does nothing; armed says that the last one has not fired.
	set   int
	armed bool
}

// Stop implements sched.Timer.
func (t *timer) Stop() bool {
	was := t.armed
	t.armed = false
	return was
}

// Reset implements sched.Timer.
func (t *timer) Reset(d time.Duration) bool {
	was := t.armed
	t.armed = true
	t.set++
	set := t.set
	var fire func()
	fire = func() {
		n := t.n
		switch {
		case !t.armed || t.set != set || n.life != t.life || n.host == nil:
		case n.paused > n.w.now:
			n.w.after(n.paused-n.w.now, fire)
		default:
			t.armed = false
			n.w.spawn(n, func(*task) { t.f() })
		}
	}
	t.n.w.after(t.real(d), fire)
	return was
}
