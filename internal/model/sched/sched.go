// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrEnded reports that the awaited event can no longer occur. Either an end of Await was closed, or the simulated
// process has ended.
var ErrEnded = errors.New("sched: ended")

// Driver is the simulator's side of one process. Only goroutines that the driver runs call its methods. They call one
// method at a time.
type Driver interface {
	// Now, Wall, and Boot return the same times as the methods of Scheduler.
	Now() time.Time
	Wall() time.Time
	Boot() time.Duration
	// Go runs f as a goroutine of the process. The goroutine may start later.
	Go(f func())
	// Wait returns nil as soon as ready returns true. Unless most is 0, Wait returns context.DeadlineExceeded after
	// the duration most. When ctx has ended, Wait returns the error of ctx. When the process has ended, Wait returns
	// ErrEnded. A nil ready means that Wait waits only for time. After ready has returned true, Wait does not call it
	// again.
	Wait(ctx context.Context, ready func() bool, most time.Duration) error
	// AfterFunc works like time.AfterFunc.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is the result of AfterFunc.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// Scheduler reads clocks, starts goroutines, and waits. All methods work on a nil Scheduler, which uses the real clock
// and scheduler.
type Scheduler struct{ driver Driver }

// Driven returns a scheduler that delegates to a simulator.
func Driven(d Driver) *Scheduler { return &Scheduler{d} }

// Now returns the monotonic time. Now never jumps, and it does not advance while the machine is suspended. The result
// must be used only for deadlines and durations within this process.
func (s *Scheduler) Now() time.Time {
	if s != nil {
		return s.driver.Now()
	}
	return time.Now()
}

// Since returns the time elapsed since t. Now must have returned t.
func (s *Scheduler) Since(t time.Time) time.Duration {
	if s != nil {
		return s.driver.Now().Sub(t)
	}
	return time.Since(t)
}

// Until returns the time remaining until t. Now must have returned t.
func (s *Scheduler) Until(t time.Time) time.Duration {
	if s != nil {
		return t.Sub(s.driver.Now())
	}
	return time.Until(t)
}

// Wall returns the calendar time. It is used for timestamps in rows and records, and in messages to other nodes. It
// may jump in both directions.
func (s *Scheduler) Wall() time.Time {
	if s != nil {
		return s.driver.Wall()
	}
	return time.Now()
}

// Boot returns the time since a fixed point at or before the machine's start. It includes the time during which the
// machine was suspended. On systems other than Linux, it does not advance during suspension.
func (s *Scheduler) Boot() time.Duration {
	if s != nil {
		return s.driver.Boot()
	}
	return boot()
}

// Go starts a goroutine.
func (s *Scheduler) Go(f func()) {
	if s != nil {
		s.driver.Go(f)
		return
	}
	go f()
}

// AfterFunc runs f in a new goroutine after d, as time.AfterFunc does.
func (s *Scheduler) AfterFunc(d time.Duration, f func()) Timer {
	if s != nil {
		return s.driver.AfterFunc(d, f)
	}
	return time.AfterFunc(d, f)
}

// Group is a sync.WaitGroup of goroutines. The zero value is ready for use. It works with and without a scheduler.
type Group struct {
	Scheduler *Scheduler
	wait      sync.WaitGroup
	// running counts driven goroutines. Only one driven goroutine runs at a time.
	running int
}

// Go starts a goroutine of the group.
func (g *Group) Go(f func()) {
	if g.Scheduler == nil {
		g.wait.Go(f)
		return
	}
	g.running++
	g.Scheduler.Go(func() {
		defer func() { g.running-- }()
		f()
	})
}

// Wait waits until all goroutines of the group have ended.
func (g *Group) Wait() {
	if g.Scheduler == nil {
		g.wait.Wait()
		return
	}
	_ = g.Scheduler.driver.Wait(context.Background(), func() bool { return g.running == 0 }, 0)
}
