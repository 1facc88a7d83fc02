// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrEnded says that what was waited for cannot come any more: one of the ends of Await was closed, or the simulated
// process is gone.
var ErrEnded = errors.New("sched: ended")

// Driver is a simulator's side of one process. All methods are called by goroutines that the driver runs, one at a
// time.
type Driver interface {
	// Now, Wall and Boot are the clocks, as in Scheduler.
	Now() time.Time
	Wall() time.Time
	Boot() time.Duration
	// Go runs f as a goroutine of the process; it may begin later.
	Go(f func())
	// Wait returns nil as soon as ready has said true, context.DeadlineExceeded after most, if that is not 0, the error
	// of ctx once that has ended, or ErrEnded once the process has. ready is nil if only time is waited for, and is not
	// called again after it said true.
	Wait(ctx context.Context, ready func() bool, most time.Duration) error
	// AfterFunc is time.AfterFunc.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is what time.AfterFunc gives.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// Scheduler tells time, starts goroutines and waits. All methods work on nil, which is the real thing.
type Scheduler struct{ driver Driver }

// Driven returns a scheduler that asks a simulator.
func Driven(d Driver) *Scheduler { return &Scheduler{d} }

// Now is the time to measure with: it never jumps, and stands still while the machine is suspended. What it returns is
// meant for deadlines and durations within this process, and nothing else.
func (s *Scheduler) Now() time.Time {
	if s != nil {
		return s.driver.Now()
	}
	return time.Now()
}

// Since is how long ago an instant of Now was.
func (s *Scheduler) Since(t time.Time) time.Duration {
	if s != nil {
		return s.driver.Now().Sub(t)
	}
	return time.Since(t)
}

// Until is how long it is until an instant of Now.
func (s *Scheduler) Until(t time.Time) time.Duration {
	if s != nil {
		return t.Sub(s.driver.Now())
	}
	return time.Until(t)
}

// Wall is the calendar's time: what is stamped into rows and records, and told to other nodes. It may jump both ways.
func (s *Scheduler) Wall() time.Time {
	if s != nil {
		return s.driver.Wall()
	}
	return time.Now()
}

// Boot is the time since some fixed moment, at or before the machine's start, that includes the times at which it was
// suspended. On systems other than Linux it stands still then, as Now does.
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

// AfterFunc runs f in a goroutine of its own after d, as time.AfterFunc does.
func (s *Scheduler) AfterFunc(d time.Duration, f func()) Timer {
	if s != nil {
		return s.driver.AfterFunc(d, f)
	}
	return time.AfterFunc(d, f)
}

// Group is a sync.WaitGroup of goroutines. The zero value, with or without a scheduler, is ready for use.
type Group struct {
	Scheduler *Scheduler
	wait      sync.WaitGroup
	// running counts driven goroutines, of which one runs at a time.
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

// Wait returns when no goroutine of the group is left.
func (g *Group) Wait() {
	if g.Scheduler == nil {
		g.wait.Wait()
		return
	}
	_ = g.Scheduler.driver.Wait(context.Background(), func() bool { return g.running == 0 }, 0)
}
