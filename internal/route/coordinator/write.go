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

// WriteOptions say how a write is to be done.
type WriteOptions struct {
	Level dberr.Consistency
	// Atomic asks that all mutations are applied or none, as a logged batch does.
	Atomic bool
	// Updates are applied together with the mutations of an Atomic write. They have no conditions; if one of them
	// cannot be carried out, nothing is.
	Updates []*command.Conditional
	// Timeout is how long the client waits, if that is shorter than the coordinator's own bound; 0: it has set none. A
	// longer one would outlast the records by which repetitions are recognized.
	Timeout time.Duration
	// Type is the write type that errors carry: SIMPLE, BATCH, UNLOGGED_BATCH, COUNTER or CAS. Empty means SIMPLE.
	Type string
}

// writeTime is how long a write may take whose client has set a timeout, or none (0).
func (o *Options) writeTime(timeout time.Duration) time.Duration {
	if timeout > 0 {
		return min(timeout, o.WriteTimeout)
	}
	return o.WriteTimeout
}

// Write sends mutations to their partitions and completes done once, perhaps before it returns. Everything is copied by
// then; operands that came Unstamped are stamped in place, and Epoch is filled in. Without Atomic each mutation stands
// for itself: after an error some may have been applied.
func (c *Coordinator) Write(ctx context.Context, ms []command.Mutation, o WriteOptions, done command.Completion) {
	if len(ms)+len(o.Updates) == 0 {
		done.Done(nil)
		return
	}
	if err := c.admit(); err != nil {
		done.Done(err)
		return
	}
	c.stats.writes.Add(1)
	w := c.writes.Get().(*write)
	w.done, w.level, w.kind, w.timeout = done, o.Level, o.Type, o.Timeout
	if w.kind == "" {
		w.kind = "SIMPLE"
	}
	t := trace.From(ctx)
	if o.Atomic && len(ms) > 1 || len(o.Updates) > 0 {
		w.pending.Store(1)
		c.batch(t, ms, o.Updates, w)
		return
	}
	w.pending.Store(int64(len(ms)))
	for i := range ms {
		c.sendWrite(ctx, t, &ms[i], w)
	}
}

// write is a Write under way: it is told once for each of its mutations.
type write struct {
	c       *Coordinator
	done    command.Completion
	level   dberr.Consistency
	kind    string
	timeout time.Duration
	pending atomic.Int64
	// wrote counts the mutations that were written, price what they have cost.
	wrote   atomic.Int64
	price   atomic.Int64
	failure atomic.Pointer[error] // the first
}

// Charge hears of the price of a mutation that was written.
func (w *write) Charge(u ru.Units) { w.price.Add(int64(u)) }

// Done hears of a mutation from the replica, where nothing stands between.
func (w *write) Done(err error) {
	if err != nil {
		e := errand{level: w.level}
		err = e.writeError(err, w.kind)
	}
	w.tell(err)
}

// tell counts one mutation off, with what its client is told; the last one completes the whole.
func (w *write) tell(answer error) {
	if answer != nil {
		first := answer // a copy, so that only failures allocate
		w.failure.CompareAndSwap(nil, &first)
	} else {
		w.wrote.Add(1)
	}
	if w.pending.Add(-1) > 0 {
		return
	}
	c, done := w.c, w.done
	answer = nil
	if p := w.failure.Load(); p != nil {
		answer = *p
		if e, ok := answer.(*dberr.Unavailable); ok && w.wrote.Load() > 0 {
			// It would say that nothing was done.
			answer = &dberr.WriteTimeout{Level: e.Level, BlockFor: e.Required, WriteType: w.kind}
		}
		w.failure.Store(nil)
	}
	w.wrote.Store(0)
	price := ru.Units(w.price.Swap(0))
	w.done = nil
	c.writes.Put(w)
	c.leave()
	if answer == nil {
		ru.Tell(done, price)
	}
	done.Done(answer)
}

// Decide has a conditional evaluated where its partition is, and tells done once, perhaps before it returns. It waits
// for its turn among the conditionals of the same partition key. Nothing of cond is kept when it returns.
func (c *Coordinator) Decide(ctx context.Context, cond *command.Conditional, o WriteOptions,
	done command.DecisionCompletion) {
	if err := c.admit(); err != nil {
		done.Decided(nil, err)
		return
	}
	c.stats.decisions.Add(1)
	cond.Issued = c.opts.Now().Unix()
	d := c.decides.Get().(*decide)
	d.done, d.level, d.kind, d.timeout = done, o.Level, o.Type, o.Timeout
	if d.kind == "" {
		d.kind = "CAS"
	}
	if d.kind == "CAS" && cond.Serial != 0 {
		d.level = cond.Serial
	}
	c.sendDecision(ctx, trace.From(ctx), cond, d)
}

// decide is a Decide under way.
type decide struct {
	c     *Coordinator
	done  command.DecisionCompletion
	level dberr.Consistency
	kind  string
	// timeout is WriteOptions.Timeout.
	timeout time.Duration
}

// Decided hears of the outcome from the replica, where nothing stands between.
func (d *decide) Decided(out *command.Decision, err error) {
	if err != nil {
		e := errand{level: d.level}
		err = e.writeError(err, d.kind)
	}
	d.tell(out, err)
}

// tell passes the outcome on, with what the client is told.
func (d *decide) tell(out *command.Decision, answer error) {
	c, done := d.c, d.done
	d.done = nil
	c.decides.Put(d)
	c.leave()
	done.Decided(out, answer)
}

// inParallel calls do with 0 to n-1, so many at a time, and returns the first error.
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
