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

// reset clears the state of the previous partition.
func (e *routedRequest) reset() {
	e.pause, e.localRefused, e.nextVoter, e.timeouts, e.immediateRetries = 0, false, 0, 0, 0
	none := topology.NodeID{}
	e.leaderHint, e.exclude, e.unreachable, e.relay = none, none, none, none
}

// read makes one attempt. An attempt on another node ends if no data arrives before the attempt's deadline. After data
// has arrived, the attempt may continue until the request's deadline.
func (e *routedRequest) read(ctx context.Context, t *target, q *command.Read, r *readRelay) error {
	switch {
	case t.follower, e.anyReplica && !t.remote:
		return t.local.ReadHere(ctx, q, r)
	case !t.remote:
		return t.member.Read(ctx, q, r)
	}
	r.received.Store(false)
	attempt := &readContext{Context: ctx, sched: e.c.sched, until: r.deadline, first: e.attemptDeadline(),
		received: &r.received}
	if whole, ok := ctx.(*readContext); ok {
		attempt.Context = whole.Context // both contexts end at the same time
	}
	err := t.member.Read(attempt, q, r)
	attempt.end()
	if err != nil && !r.received.Load() && !e.c.sched.Now().Before(attempt.first) && timedOut(err) {
		return context.DeadlineExceeded
	}
	return err
}

// readFor calls read. If the read is sent to another node, readFor also requests a share of the budget for the follower
// on this node. If this node has no follower, readFor pays this node's debt to the partition.
func (e *routedRequest) readFor(ctx context.Context, t *target, q *command.Read, r *readRelay) error {
	switch {
	case !t.remote:
		return e.read(ctx, t, q, r)
	case t.local == nil:
		owed := e.c.debts.take(t.id)
		q.Owed = int64(owed)
		err := e.read(ctx, t, q, r)
		if err != nil && owed > 0 {
			e.c.debts.add(t.id, owed)
		}
		return err
	}
	t.local.Throughput().Borrow(q)
	err := e.read(ctx, t, q, r)
	if err == nil {
		t.local.Throughput().Lent(r.lent, r.price)
	} else if busy, ok := errors.AsType[*dberr.Overloaded](err); ok && busy.RetryAfter > 0 {
		t.local.Throughput().Refused(q.Principal, busy.RetryAfter)
	}
	return err
}

// readContext is a replacement for context.WithDeadline. Most reads never wait on their context. A timer, a channel,
// and an entry in the parent context would cost as much as a read, so readContext creates them only for the first
// waiter. The transport enforces the deadlines.
type readContext struct {
	context.Context
	sched *sched.Scheduler
	until time.Time
	// first is the deadline that applies until data has been received, or zero.
	first    time.Time
	received *atomic.Bool

	once  sync.Once
	real  context.Context
	close context.CancelFunc
	timer sched.Timer
}

// Bounds implements transport.Bounded.
func (c *readContext) Bounds() (parent context.Context, until, first time.Time) {
	return c.Context, c.until, c.first
}

// Deadline and the methods below implement context.Context.
func (c *readContext) Deadline() (time.Time, bool) { return c.until, true }

func (c *readContext) Done() <-chan struct{} {
	c.once.Do(func() {
		c.real, c.close = c.sched.WithDeadline(c.Context, c.until)
		if !c.first.IsZero() {
			c.timer = c.sched.AfterFunc(c.sched.Until(c.first), func() {
				if !c.received.Load() {
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

// end releases the resources. The caller must ensure that no goroutine waits on the context. end returns true if no
// goroutine has ever waited on the context, and therefore no other goroutine can refer to the context.
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
