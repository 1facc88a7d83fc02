// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/trace"
)

// WriteOptions configure a write.
type WriteOptions struct {
	Level dberr.Consistency
	// Atomic means that either all mutations or none must be applied, as in a logged batch.
	Atomic bool
	// Updates are applied together with the mutations of an Atomic write. Updates have no conditions. If one update is
	// not possible, no mutation is applied.
	Updates []*command.Conditional
	// Timeout is the client's timeout if it is shorter than the coordinator's timeout. It is 0 if the client has not
	// set a timeout. A longer timeout would exceed the lifetime of the dedupe records.
	Timeout time.Duration
	// Type is the write type in errors: SIMPLE, BATCH, UNLOGGED_BATCH, COUNTER, or CAS. An empty string means SIMPLE.
	Type string
}

// writeTime returns the timeout of a write, given the client's timeout or 0.
func (o *Options) writeTime(timeout time.Duration) time.Duration {
	if timeout > 0 {
		return min(timeout, o.WriteTimeout)
	}
	return o.WriteTimeout
}

// Write sends mutations to their partitions and completes done exactly once, possibly before it returns. It copies all
// data that it keeps. It sets Epoch, and sets the timestamps of Unstamped operands in place. Without Atomic, the
// mutations are independent. After an error, some of them may have been applied.
func (c *Coordinator) Write(ctx context.Context, ms []command.Mutation, o WriteOptions, done command.Completion) {
	if len(ms)+len(o.Updates) == 0 {
		done.Done(command.Outcome{})
		return
	}
	if err := c.admit(); err != nil {
		done.Done(command.Failed(err))
		return
	}
	c.stats.writes.Add(1)
	w := c.newWrite(&o, "SIMPLE", done)
	t := trace.From(ctx)
	if o.Atomic && len(ms) > 1 || len(o.Updates) > 0 {
		w.pending.Store(1)
		c.batch(t, ms, o.Updates, w)
		return
	}
	w.pending.Store(int64(len(ms)))
	for i := range ms {
		c.send(ctx, t, &ms[i], nil, w)
	}
}

// ConditionalWrite evaluates a conditional write in its partition and completes done exactly once, possibly before it
// returns. The evaluation waits for earlier conditional writes of the same partition key. It keeps no reference to cond
// after it returns.
func (c *Coordinator) ConditionalWrite(ctx context.Context, cond *command.Conditional, o WriteOptions,
	done command.Completion) {
	if err := c.admit(); err != nil {
		done.Done(command.Failed(err))
		return
	}
	c.stats.conditionalWrites.Add(1)
	cond.Issued = c.opts.Clock.Wall().Unix()
	w := c.newWrite(&o, "CAS", done)
	if w.kind == "CAS" && cond.Serial != 0 {
		w.level = cond.Serial
	}
	w.pending.Store(1)
	c.send(ctx, trace.From(ctx), &cond.Mutation, cond, w)
}

// write is a Write or a ConditionalWrite in progress. It is notified once for each of its mutations.
type write struct {
	c       *Coordinator
	done    command.Completion
	level   dberr.Consistency
	kind    string
	timeout time.Duration
	pending atomic.Int64
	// wrote is the number of mutations that have been written. charge is their total cost.
	wrote   atomic.Int64
	charge  atomic.Int64
	failure atomic.Pointer[error] // the first error
	cas     *command.CASResult    // result of a ConditionalWrite
}

func (c *Coordinator) newWrite(o *WriteOptions, kind string, done command.Completion) *write {
	w := c.writes.Get().(*write)
	w.done, w.level, w.kind, w.timeout = done, o.Level, o.Type, o.Timeout
	if w.kind == "" {
		w.kind = kind
	}
	return w
}

// addCharge adds the cost of a written mutation.
func (w *write) addCharge(u ru.Units) { w.charge.Add(int64(u)) }

// Done receives the outcome of a mutation directly from a local replica.
func (w *write) Done(o command.Outcome) {
	if o.Err != nil {
		e := routedRequest{level: w.level}
		o.Err = e.writeError(o.Err, w.kind)
	}
	w.tell(o)
}

// tell counts one completed mutation. The error is the error for the client. The last mutation completes the write.
func (w *write) tell(o command.Outcome) {
	if o.Err != nil {
		first := o.Err // this is a copy, so that only failures allocate
		w.failure.CompareAndSwap(nil, &first)
	} else {
		w.wrote.Add(1)
		w.charge.Add(o.Charge)
		if o.CAS != nil {
			w.cas = o.CAS
		}
	}
	if w.pending.Add(-1) > 0 {
		return
	}
	c, done := w.c, w.done
	wrote := w.wrote.Swap(0)
	o = command.Outcome{Charge: w.charge.Swap(0), CAS: w.cas}
	if p := w.failure.Load(); p != nil {
		o = command.Failed(*p)
		if e, ok := o.Err.(*dberr.Unavailable); ok && wrote > 0 { //nolint:errorlint // a failure is not wrapped
			// The replaced error would state that the request had no effect.
			o.Err = &dberr.WriteTimeout{Level: e.Level, BlockFor: e.Required, WriteType: w.kind}
		}
		w.failure.Store(nil)
	}
	w.done, w.cas = nil, nil
	c.writes.Put(w)
	c.leave()
	done.Done(o)
}

// inParallel calls do with the numbers from 0 to n-1. Up to atOnce calls run concurrently. It returns the first error.
func inParallel(s *sched.Scheduler, atOnce, n int, do func(i int) error) error {
	var next atomic.Int64
	all := sched.Group{Scheduler: s}
	var failure atomic.Pointer[error]
	for range min(atOnce, n) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && failure.Load() == nil; i = next.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					failure.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	all.Wait()
	if p := failure.Load(); p != nil {
		return *p
	}
	return nil
}
