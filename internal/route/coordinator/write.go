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
	// Atomic requires that either all mutations or no mutations be applied, as in a logged batch.
	Atomic bool
	// Updates are applied together with the mutations of an Atomic write. Updates have no conditions. If an update
	// cannot be applied, no mutation is applied.
	Updates []*command.Conditional
	// Timeout is the client's timeout, or 0 if the client has not set a timeout. It can only shorten the coordinator's
	// timeout, because a longer timeout would exceed the lifetime of the dedupe records.
	Timeout time.Duration
	// Type is the write type in errors: SIMPLE, BATCH, UNLOGGED_BATCH, COUNTER, or CAS. An empty string means SIMPLE.
	Type string
}

// writeTime returns the timeout of a write. timeout is the client's timeout or 0.
func (o *Options) writeTime(timeout time.Duration) time.Duration {
	if timeout > 0 {
		return min(timeout, o.WriteTimeout)
	}
	return o.WriteTimeout
}

// Write sends mutations to their partitions. It calls done exactly once, possibly before Write returns. Write copies
// all data that it retains. It sets the Epoch of each mutation and the timestamps of Unstamped operands in place.
// Unless Atomic is set, some mutations may have been applied if Write returns an error.
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

// ConditionalWrite executes a conditional write in its partition. It calls done exactly once, possibly before
// ConditionalWrite returns. The write waits for earlier conditional writes with the same partition key. After
// ConditionalWrite has returned, it does not refer to cond.
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

// write is a Write or a ConditionalWrite in progress. It receives one notification for each mutation.
type write struct {
	c       *Coordinator
	done    command.Completion
	level   dberr.Consistency
	kind    string
	timeout time.Duration
	pending atomic.Int64
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

func (w *write) addCharge(u ru.Units) { w.charge.Add(int64(u)) }

// Done receives the outcome of a mutation directly from a local replica.
func (w *write) Done(o command.Outcome) {
	if o.Err != nil {
		e := routedRequest{level: w.level}
		o.Err = e.writeError(o.Err, w.kind)
	}
	w.tell(o)
}

// tell counts a completed mutation. The last mutation completes the write.
func (w *write) tell(o command.Outcome) {
	if o.Err != nil {
		first := o.Err // a copy, so that only failures allocate memory
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
			// The original error states that the request had no effect, although some mutations were applied.
			o.Err = &dberr.WriteTimeout{Level: e.Level, BlockFor: e.Required, WriteType: w.kind}
		}
		w.failure.Store(nil)
	}
	w.done, w.cas = nil, nil
	c.writes.Put(w)
	c.leave()
	done.Done(o)
}

// inParallel calls do with the numbers from 0 to n-1 and returns the first error. Up to atOnce calls run concurrently.
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
