// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
)

// readInCluster is Read on one of many nodes. It goes from physical partition to physical partition; a read of a key needs one. Each of them
// confirms at its end what it gave. Behind a partition that was confirmed a read goes on wherever it can; what was passed on of one that was not
// makes all of it worthless, and the session has to begin again (ErrRepeat). The error is what the client is told.
func (c *Coordinator) readInCluster(ctx context.Context, q *command.Read, r *relay) error {
	lazy := &readContext{Context: ctx, sched: c.sched, until: r.deadline}
	defer lazy.end()
	ctx = lazy
	e := c.errand(q.Level, c.opts.ReadTimeout)
	e.any, e.nearby = anyReplica(q.Level), true
	err := c.readOn(ctx, q, r, &e)
	if err == ErrRepeat { //nolint:errorlint // it is made here
		c.stats.repeated.Add(1)
	}
	return e.readError(err, r.seen)
}

func (c *Coordinator) readOn(ctx context.Context, q *command.Read, r *relay, e *errand) error {
	tr := trace.From(ctx)
	sub := &r.sub
	*sub = *q
	cursor := rangeBegin(q)
	touched := 0
	for {
		v := c.view.Load()
		p := find(v, q, cursor)
		if p == nil {
			return ErrUnknownTable
		}
		t, err := e.pick(v, p)
		if err == nil {
			sub.Epoch, r.inPartition = p.Epoch, false
			if q.Key == nil {
				sub.Range.Begin, r.from = cursor.Ring, cursor
			}
			c.noteAt(tr, "Reading from", p, &t)
			err = e.read(ctx, &t, sub, r)
			touched++
		}
		if err == nil {
			e.succeeded(&t)
			cursor = p.Span.Limit
			if q.Key != nil || r.stopped || cursor.IsZero() || q.Range.Limit != 0 && cursor.Compare(topology.Position{Ring: q.Range.Limit}) >= 0 {
				if tr != nil && q.Key == nil {
					tr.Add("Read from " + strconv.Itoa(touched) + " physical partitions of table " + c.opts.TableName(q.Table))
				}
				return nil
			}
			e.anew()
			continue
		}
		switch {
		case r.failure != nil:
			return r.failure
		case ctx.Err() != nil || !c.sched.Now().Before(r.deadline):
			return context.DeadlineExceeded
		case !e.failed(&t, err):
			return err
		case r.inPartition:
			return ErrRepeat
		case e.wait(ctx, &t, v) != nil:
			return err
		}
	}
}

func rangeBegin(q *command.Read) topology.Position {
	cursor := topology.Position{Ring: q.Range.Begin}
	if q.Key == nil && q.AfterKey != nil {
		if after := topology.At(q.AfterToken, q.AfterKey); cursor.Compare(after) < 0 {
			cursor = after
		}
	}
	return cursor
}

func find(v *view, q *command.Read, cursor topology.Position) *topology.Partition {
	if q.Key != nil {
		return v.snapshot.Locate(q.Table, q.Token, q.Key)
	}
	if i := v.snapshot.Find(q.Table, cursor); i >= 0 {
		return v.snapshot.Partitions(q.Table)[i]
	}
	return nil
}

// anew prepares for the next partition, of which nothing is known yet.
func (e *errand) anew() {
	e.pause, e.refused, e.turn, e.late, e.atOnce = 0, false, 0, 0, 0
	none := topology.NodeID{}
	e.next, e.avoid, e.cut, e.by = none, none, none, none
}

// read makes one attempt. One at another node is given up when nothing has come by the time that attempt says; what has begun may take as long
// as there is.
func (e *errand) read(ctx context.Context, t *target, q *command.Read, r *relay) error {
	switch {
	case t.follower:
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

// readContext is context.WithDeadline for reads, most of which wait for nothing: a timer, a channel and a place among the children of the context of
// the client's connection cost as much as a read. They are made for the first who waits; the transport keeps the bounds itself.
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

// end frees what was made. Nobody waits any more.
func (c *readContext) end() {
	if c.close == nil {
		return
	}
	c.close()
	if c.timer != nil {
		c.timer.Stop()
	}
}
