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

// reset prepares the request for the next partition and clears the state of the previous partition.
func (e *routedRequest) reset() {
	e.pause, e.localRefused, e.nextVoter, e.timeouts, e.immediateRetries = 0, false, 0, 0, 0
	none := topology.NodeID{}
	e.leaderHint, e.exclude, e.unreachable, e.relay = none, none, none, none
}

// read makes one attempt. An attempt on another node is abandoned if no data arrives by its attempt deadline. Once data
// has arrived, the read may continue until the request's deadline.
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

// readFor calls read. If the read goes to the leader and a follower on this node could serve reads of the table, it
// also requests the follower's share of the budget. If this node has no such follower, it pays the debt of this node to
// the partition.
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
// and an entry among the children of the connection's context would cost as much as a read. readContext creates them
// only for the first waiter. The transport enforces the deadlines itself.
type readContext struct {
	context.Context
	sched *sched.Scheduler
	until time.Time
	// first, if not zero, is the deadline that applies until data has been received.
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

// Deadline implements context.Context, as do the methods below.
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

// end releases the resources. No goroutine may wait on the context. It reports whether no goroutine has ever waited. In
// that case, no other goroutine has a reference to the context.
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
