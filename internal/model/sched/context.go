// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"context"
	"time"
)

// WithTimeout works like context.WithTimeout, but uses the scheduler's time.
func (s *Scheduler) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if s != nil {
		return s.WithDeadline(ctx, s.driver.Now().Add(d))
	}
	return context.WithTimeout(ctx, d)
}

// WithDeadline works like context.WithDeadline, but accepts a time that Now returned.
func (s *Scheduler) WithDeadline(ctx context.Context, at time.Time) (context.Context, context.CancelFunc) {
	if s == nil {
		return context.WithDeadline(ctx, at)
	}
	inner, cancel := context.WithCancelCause(ctx)
	c := &simContext{Context: inner, s: s, parent: ctx, at: at}
	d := s.Until(at)
	if d <= 0 {
		cancel(context.DeadlineExceeded)
		return c, func() {}
	}
	timer := s.driver.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return c, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}

// AfterDone runs f in a new goroutine when ctx has ended. It works like context.AfterFunc. stop reports whether it has
// prevented the call of f.
func (s *Scheduler) AfterDone(ctx context.Context, f func()) (stop func() bool) {
	if s == nil {
		return context.AfterFunc(ctx, f)
	}
	const waiting, stopped, done = 0, 1, 2
	state := waiting
	s.driver.Go(func() {
		err := s.driver.Wait(context.Background(), func() bool { return state == stopped || ctx.Err() != nil }, 0)
		if err == nil && state == waiting {
			state = done
			f()
		}
	})
	return func() bool {
		if state != waiting {
			return false
		}
		state = stopped
		return true
	}
}

// simContext is a context with a deadline in simulated time. It embeds a context of the standard library, whose Done
// channel it returns. Derived contexts are therefore canceled immediately, without a goroutine. The error of derived
// contexts is context.Canceled.
type simContext struct {
	context.Context
	s      *Scheduler
	parent context.Context
	at     time.Time
}

// Deadline implements context.Context.
func (c *simContext) Deadline() (time.Time, bool) {
	if at, ok := c.parent.Deadline(); ok && at.Before(c.at) {
		return at, true
	}
	return c.at, true
}

// Err implements context.Context.
func (c *simContext) Err() error {
	if c.Context.Err() == nil {
		if c.s.Until(c.at) <= 0 {
			return context.DeadlineExceeded // the timer is about to fire
		}
		return nil
	}
	if err := c.parent.Err(); err != nil {
		return err
	}
	return context.Cause(c.Context)
}
