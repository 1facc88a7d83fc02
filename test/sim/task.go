// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
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

// limit is a context with a deadline in virtual time.
type limit struct {
	context.Context
	w     *world
	until time.Duration
}

// Err implements context.Context.
func (l limit) Err() error {
	if l.w.now >= l.until {
		return context.DeadlineExceeded
	}
	return nil
}

// await is partition.Drive's Wait.
func (n *node) await(ctx context.Context, ready func() bool, most time.Duration) error {
	w := n.w
	if l, ok := ctx.(limit); ok {
		left := l.until - w.now
		if left <= 0 {
			return context.DeadlineExceeded
		}
		if most == 0 || left < most {
			most = left
		}
	}
	if w.current == nil || w.current.n != n {
		panic("somebody waits who is no task of the node")
	}
	return w.current.wait(ready, most)
}
