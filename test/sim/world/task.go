// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
)

// Task is a goroutine of a process. It has a stack of its own, and runs only while the world waits for it, so there is
// one thread all the same.
type Task struct {
	// Machine is the one whose process it is part of.
	Machine *Machine
	// run gives it its turn, back gives the turn back.
	run, back chan struct{}
	// ready is asked after every event, nil if the task waits for time only. parked counts waits, so that a timer of an
	// earlier one does nothing.
	ready  func() bool
	parked int
	// late says that the time of the wait is over, dead that the process is, over that the task has ended. refused
	// counts waits after that.
	late, dead, over bool
	refused          int
}

// refusals bounds how often a task of a process that is gone may wait, before it is ended where it waits.
const refusals = 16

// Spawn begins a task and runs it until it waits.
func (m *Machine) Spawn(f func(t *Task)) {
	t := &Task{Machine: m, run: make(chan struct{}), back: make(chan struct{})}
	m.tasks = append(m.tasks, t)
	go func() {
		<-t.run
		defer func() {
			if r := recover(); r != nil {
				m.World.Fail("node %d: panic: %v\n%s", m.ID, r, debug.Stack())
			}
			t.over = true
			t.back <- struct{}{}
		}()
		f(t)
	}()
	m.World.resume(t)
}

// resume gives a task its turn until it waits again or ends.
func (w *World) resume(t *Task) {
	before := w.current
	w.current = t
	t.Machine.Touch()
	t.run <- struct{}{}
	<-t.back
	w.current = before
	if tasks := t.Machine.tasks; t.over {
		if i := slices.Index(tasks, t); i >= 0 {
			t.Machine.tasks = slices.Delete(tasks, i, i+1)
		}
	}
}

// Dead reports whether the task's process is gone.
func (t *Task) Dead() bool { return t.dead }

// Wait waits until ready says true, but not longer than most, if that is not 0. Its errors are sched.ErrEnded if the
// process is gone, and context.DeadlineExceeded.
func (t *Task) Wait(ready func() bool, most time.Duration) error {
	m := t.Machine
	return t.wait(ready, most, func(d time.Duration, do func()) { m.World.After(d, func() { m.AfterPause(do) }) })
}

// wait is Wait by a clock.
func (t *Task) wait(ready func() bool, most time.Duration, after func(d time.Duration, do func())) error {
	if t.dead {
		if t.refused++; t.refused > refusals {
			runtime.Goexit()
		}
		return sched.ErrEnded
	}
	if ready != nil && ready() {
		return nil
	}
	m := t.Machine
	w := m.World
	t.parked++
	t.ready, t.late = ready, false
	if ready != nil {
		w.waiting = append(w.waiting, t)
	}
	if most > 0 {
		parked := t.parked
		after(most, func() {
			if !t.over && t.parked == parked && !t.dead {
				w.unpark(t)
				t.late = true
				w.resume(t)
			}
		})
	}
	t.back <- struct{}{}
	<-t.run
	t.parked++
	switch {
	case t.dead:
		return sched.ErrEnded
	case t.late:
		return context.DeadlineExceeded
	}
	return nil
}

// Sleep waits for a while; it reports false if the process ended.
func (t *Task) Sleep(d time.Duration) bool { return !errors.Is(t.Wait(nil, max(d, 1)), sched.ErrEnded) }

func (w *World) unpark(t *Task) {
	if i := slices.Index(w.waiting, t); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
}

// poll resumes, in the order in which they began to wait, the tasks that can go on. A task waits for what happens on
// its machine, so those of others are not asked.
func (w *World) poll() {
	for i := 0; i < len(w.waiting) && w.touched != 0; {
		t := w.waiting[i]
		if w.touched&t.Machine.bit() == 0 || t.Machine.Paused > w.Now || !t.ready() {
			i++
			continue
		}
		w.unpark(t)
		w.resume(t)
		i = 0 // it may have made others ready
	}
	w.touched = 0
}

// Touch says that something happened on a machine, for which its tasks may wait.
func (m *Machine) Touch() { m.World.touched |= m.bit() }

func (m *Machine) bit() uint64 { return 1 << m.ID }

// kill ends the tasks of a process: what they wait for does not come.
func (m *Machine) kill() {
	for _, t := range slices.Clone(m.tasks) {
		m.World.unpark(t)
		t.dead = true
	}
	for _, t := range slices.Clone(m.tasks) {
		if !t.over {
			m.World.resume(t)
		}
		if !t.over {
			panic(fmt.Sprintf("node %d: a task waits on after the end of its process", m.ID))
		}
	}
}
