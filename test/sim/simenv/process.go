// SPDX-License-Identifier: Apache-2.0

package simenv

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
)

// Process is the sched.Driver of one process run of a machine.
type Process struct {
	*Machine
	life int
}

// Process returns the driver of the current process run.
func (m *Machine) Process() Process { return Process{m, m.Life} }

// Scheduler returns the scheduler of the current process run.
func (m *Machine) Scheduler() *sched.Scheduler { return sched.Driven(m.Process()) }

// Now implements sched.Driver.
func (p Process) Now() time.Time { return origin.Add(p.monotone()) }

// Boot implements sched.Driver. Boot returns Machine.Now.
func (p Process) Boot() time.Duration { return time.Duration(p.Machine.Now()) }

// Go starts a task, which runs as soon as the running task waits.
func (p Process) Go(f func()) { p.AfterFunc(0, f) }

// AfterFunc runs f as a task of this process run.
func (p Process) AfterFunc(d time.Duration, f func()) sched.Timer {
	t := &timer{process: p, f: f}
	t.Reset(d)
	return t
}

// Wait blocks the running task.
func (p Process) Wait(ctx context.Context, ready func() bool, most time.Duration) error {
	t := p.Environment.current
	if t == nil || t.Machine != p.Machine {
		panic("a wait outside the tasks of the process")
	}
	if at, ok := ctx.Deadline(); ok {
		left := at.Sub(p.Now())
		if err := ctx.Err(); err != nil {
			return err
		}
		if left > 0 && (most == 0 || left < most) {
			most = left
		}
	}
	ended := ready
	if ctx.Done() != nil {
		ended = func() bool { return ctx.Err() != nil || ready != nil && ready() }
	}
	if err := t.wait(ended, most, p.AfterClock); err != nil {
		return err
	}
	return ctx.Err()
}

// timer runs a function as a task of its process.
type timer struct {
	process Process
	f       func()
	// set counts the calls that set the timer, so earlier calls have no effect. armed is set while the timer is
	// running.
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
	was := t.Stop()
	t.armed = true
	t.set++
	t.schedule(t.set, d)
	return was
}

func (t *timer) schedule(set int, d time.Duration) {
	p := t.process
	if p.Life != p.life {
		return
	}
	p.AfterClock(max(d, 0), func() {
		if t.armed && t.set == set {
			t.armed = false
			p.Spawn(func(*Task) { t.f() })
		}
	})
}

// Limit returns a context with a deadline by the clock of the current process run. The context needs no timer, because
// waits check the deadline.
func (m *Machine) Limit(d time.Duration) context.Context {
	p := m.Process()
	return limited{context.Background(), p, p.Now().Add(d)}
}

type limited struct {
	context.Context
	p  Process
	at time.Time
}

// Deadline implements context.Context.
func (l limited) Deadline() (time.Time, bool) { return l.at, true }

// Err implements context.Context.
func (l limited) Err() error {
	if l.p.Now().Before(l.at) {
		return nil
	}
	return context.DeadlineExceeded
}
