// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"sync"
	"time"
)

// expiry is a context that ends at a deadline and in no other way. Unlike those of package context it is used again: one for each write would be five
// allocations.
type expiry struct {
	deadline time.Time
	over     chan struct{}
	timer    *time.Timer
}

// begin takes one from the pool.
func begin(p *sync.Pool, deadline time.Time) *expiry {
	e, ok := p.Get().(*expiry)
	wait := time.Until(deadline)
	if !ok {
		e = &expiry{over: make(chan struct{})}
		e.deadline = deadline
		e.timer = time.AfterFunc(wait, func() { close(e.over) })
		return e
	}
	e.deadline = deadline
	e.timer.Reset(wait)
	return e
}

// end gives it back, when nobody looks at it any more. One whose time is over is left to the collector.
func (e *expiry) end(p *sync.Pool) {
	if e.timer.Stop() {
		p.Put(e)
	}
}

// Deadline implements context.Context, as do the others.
func (e *expiry) Deadline() (time.Time, bool) { return e.deadline, true }
func (e *expiry) Done() <-chan struct{}       { return e.over }
func (e *expiry) Value(any) any               { return nil }

func (e *expiry) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
