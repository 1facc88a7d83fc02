// SPDX-License-Identifier: Apache-2.0

package simenv

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

// Task is a goroutine of a process. A task has its own stack and runs only while the event loop waits for it, so only
// one thread is active at a time.
type Task struct {
	// Machine is the machine whose process contains the task.
	Machine *Machine
	// run passes control to the task, and back returns control.
	run, back chan struct{}
	// ready is evaluated after every event. ready is nil if the task waits only for a time. parked counts waits, so
	// the timer of an earlier wait has no effect.
	ready  func() bool
	parked int
	// late is set when the wait has timed out, dead is set when the process has ended, and over is set when the task
	// has ended. refused counts waits after the end of the process.
	late, dead, over bool
	refused          int
}

// refusals is the number of times that a task of an ended process may wait before it is terminated.
const refusals = 16

// Spawn starts a task and runs it until it waits.
func (m *Machine) Spawn(f func(t *Task)) {
	t := &Task{Machine: m, run: make(chan struct{}), back: make(chan struct{})}
	m.tasks = append(m.tasks, t)
	go func() {
		<-t.run
		defer func() {
			if r := recover(); r != nil {
				m.Environment.Fail("node %d: panic: %v\n%s", m.ID, r, debug.Stack())
			}
			t.over = true
			t.back <- struct{}{}
		}()
		f(t)
	}()
	m.Environment.resume(t)
}

// resume runs a task until it waits again or ends.
func (w *Environment) resume(t *Task) {
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

// Dead reports whether the task's process has ended.
func (t *Task) Dead() bool { return t.dead }

// Wait waits until ready returns true, or until most has passed if most is not 0. Wait returns sched.ErrEnded if the
// process has ended, and context.DeadlineExceeded after a timeout.
func (t *Task) Wait(ready func() bool, most time.Duration) error {
	m := t.Machine
	return t.wait(ready, most, func(d time.Duration, do func()) { m.Environment.After(d, func() { m.AfterPause(do) }) })
}

// wait implements Wait with a given clock.
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
	w := m.Environment
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

// Sleep waits for the given time. Sleep returns false if the process has ended.
func (t *Task) Sleep(d time.Duration) bool { return !errors.Is(t.Wait(nil, max(d, 1)), sched.ErrEnded) }

func (w *Environment) unpark(t *Task) {
	if i := slices.Index(w.waiting, t); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
}

// poll resumes the tasks that are ready, in the order in which they began to wait. A task waits only for events on its
// machine, so tasks of machines without events are skipped.
func (w *Environment) poll() {
	for i := 0; i < len(w.waiting) && w.touched != 0; {
		t := w.waiting[i]
		if w.touched&t.Machine.bit() == 0 || t.Machine.Paused > w.Now || !t.ready() {
			i++
			continue
		}
		w.unpark(t)
		w.resume(t)
		i = 0 // the task may have made other tasks ready
	}
	w.touched = 0
}

// Touch reports an event on a machine to the tasks that wait for it.
func (m *Machine) Touch() { m.Environment.touched |= m.bit() }

func (m *Machine) bit() uint64 { return 1 << m.ID }

// kill ends the tasks of a process.
func (m *Machine) kill() {
	for _, t := range slices.Clone(m.tasks) {
		m.Environment.unpark(t)
		t.dead = true
	}
	for _, t := range slices.Clone(m.tasks) {
		if !t.over {
			m.Environment.resume(t)
		}
		if !t.over {
			panic(fmt.Sprintf("node %d: a task still waits after the end of its process", m.ID))
		}
	}
}
