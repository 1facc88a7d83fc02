// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// anew prepares for the next partition, of which nothing is known yet.
func (e *errand) anew() {
	e.pause, e.refused, e.turn, e.late, e.atOnce = 0, false, 0, 0, 0
	none := topology.NodeID{}
	e.next, e.avoid, e.cut, e.by = none, none, none, none
}

// read makes one attempt. One at another node is given up when nothing has come by the time that attempt says; what has
// begun may take as long as there is.
func (e *errand) read(ctx context.Context, t *target, q *command.Read, r *relay) error {
	switch {
	case t.follower, e.any && !t.remote:
		return t.here.ReadHere(ctx, q, r)
	case !t.remote:
		return t.member.Read(ctx, q, r)
	}
	r.heard.Store(false)
	attempt := &readContext{Context: ctx, sched: e.c.sched, until: r.deadline, first: e.attempt(), heard: &r.heard}
	if whole, ok := ctx.(*readContext); ok {
		attempt.Context = whole.Context // their ends are the same
	}
	err := t.member.Read(attempt, q, r)
	attempt.end()
	if err != nil && !r.heard.Load() && !e.c.sched.Now().Before(attempt.first) && timedOut(err) {
		return context.DeadlineExceeded
	}
	return err
}

// readFor is read, and has a follower on this node that could serve reads of the table borrow what they cost.
func (e *errand) readFor(ctx context.Context, t *target, q *command.Read, r *relay) error {
	if !t.remote || t.here == nil {
		return e.read(ctx, t, q, r)
	}
	t.here.Borrow(q)
	err := e.read(ctx, t, q, r)
	if err == nil {
		t.here.Lent(r.lent, r.price)
	} else if busy, ok := errors.AsType[*dberr.Overloaded](err); ok && busy.RetryAfter > 0 {
		t.here.Refused(q.Principal, busy.RetryAfter)
	}
	return err
}

// readContext is context.WithDeadline for reads, most of which wait for nothing: a timer, a channel and a place among
// the children of the context of the client's connection cost as much as a read. They are made for the first waiter
// only; the transport keeps the bounds itself.
type readContext struct {
	context.Context
	sched *sched.Scheduler
	until time.Time
	// first, if not zero, is when it ends if nothing was heard.
	first time.Time
	heard *atomic.Bool

	once  sync.Once
	real  context.Context
	close context.CancelFunc
	timer sched.Timer
}

// Bounds implements transport.Bounded.
func (c *readContext) Bounds() (parent context.Context, until, first time.Time) {
	return c.Context, c.until, c.first
}

// Deadline implements context.Context, as do the others.
func (c *readContext) Deadline() (time.Time, bool) { return c.until, true }

func (c *readContext) Done() <-chan struct{} {
	c.once.Do(func() {
		c.real, c.close = c.sched.WithDeadline(c.Context, c.until)
		if !c.first.IsZero() {
			c.timer = c.sched.AfterFunc(c.sched.Until(c.first), func() {
				if !c.heard.Load() {
					c.close()
				}
			})
		}
	})
	return c.real.Done()
}

func (c *readContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if !c.sched.Now().Before(c.until) {
		return context.DeadlineExceeded
	}
	return nil
}

// end frees what was made. Nobody waits any more. It reports whether nobody ever did: then nobody else has the context.
func (c *readContext) end() (alone bool) {
	if c.close == nil {
		return true
	}
	c.close()
	if c.timer != nil {
		c.timer.Stop()
	}
	return false
}
