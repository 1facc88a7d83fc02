// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
)

// Read passes what q finds to v: of one logical partition, or of all in a range, in ring order. Epoch is filled in.
func (c *Coordinator) Read(ctx context.Context, q *command.Read, v command.Visitor) error {
	if err := c.admit(); err != nil {
		return err
	}
	defer c.leave()
	c.stats.reads.Add(1)
	r := c.relays.Get().(*relay)
	e := c.errand(q.Level, c.opts.ReadTimeout)
	if !q.Deadline.IsZero() {
		e.endBy(q.Deadline)
	}
	r.begin(v, e.deadline)
	whole := &r.whole
	if !c.cluster.alone() {
		whole = new(readContext) // a replica set may look at it after the read has ended
	}
	*whole = readContext{Context: ctx, sched: c.sched, until: r.deadline}
	e.any, e.nearby, e.who, e.reads = q.Level.OneReplica(), true, q.Claimant, true
	if q.NoWait {
		e.patience = time.Time{}
	}
	defer e.leaveQueue()
	err := c.readOn(whole, q, r, &e)
	if err == ErrRepeat { //nolint:errorlint // it is made here
		c.stats.repeated.Add(1)
	}
	if err = e.readError(err, r.seen); err != nil && r.failure != nil && errors.Is(err, r.failure) {
		err = r.failure // what the visitor itself returned goes back unchanged
	}
	if !whole.end() {
		return err // somebody may still look at it
	}
	r.v, r.failure, r.sub, r.whole = nil, nil, command.Read{}, readContext{}
	c.relays.Put(r)
	return err
}

// readOn goes from physical partition to physical partition; a read of a key needs one. Each of them confirms at its
// end what it gave. After one that was confirmed a read goes on wherever it can, from the position before which all is
// read: no partition id says where, so the map may change meanwhile. What was passed on of a partition that was not
// confirmed makes all of it worthless, and the session has to begin again (ErrRepeat).
func (c *Coordinator) readOn(ctx context.Context, q *command.Read, r *relay, e *errand) error {
	tr := trace.From(ctx)
	sub := &r.sub
	*sub = *q
	cursor, exact := rangeBegin(q), true
	touched := 0
	for {
		v := c.view.Load()
		p := find(v, q, cursor)
		if p == nil {
			return ErrUnknownTable
		}
		t, err := e.pick(v, p)
		if err == nil {
			err = e.others(&t)
		}
		if err == nil {
			sub.Epoch, sub.Level, r.inPartition, r.price = p.Epoch, e.levelAt(&t), false, 0
			r.lent, sub.Owed, sub.Wanted = 0, 0, 0
			if sub.Fold = q.Fold; !exact {
				sub.Fold = nil // should a merge have brought in what was read before, the rows of that are left out
			}
			if q.Key == nil {
				sub.Range.Begin, r.from = cursor.Ring, cursor
			}
			c.noteAt(tr, "Reading from", p, &t)
			err = e.readFor(ctx, &t, sub, r)
			touched++
		}
		if err == nil {
			e.succeeded(&t)
			ru.Tell(r.v, r.price)
			noteCharge(tr, p.ID, r.price)
			sub.Continued = false // of the next physical partition nothing was read
			cursor = p.Span.Limit
			exact = len(cursor.Key) == 0 && cursor.Low == 0
			if q.Key != nil || r.stopped || cursor.IsZero() || q.Range.Limit != 0 &&
				cursor.Compare(topology.Position{Ring: q.Range.Limit}) >= 0 {
				if tr != nil && q.Key == nil {
					tr.Add("Read from " + strconv.Itoa(touched) + " physical partitions of table " +
						c.opts.TableName(q.Table))
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
	if q.Key == nil && q.AfterKey != nil && !q.Index.Ordered() {
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

// relay stands between a replica and the visitor: it keeps the deadline, remembers a stop, and knows where to go on.
type relay struct {
	sched    *sched.Scheduler
	v        command.Visitor
	deadline time.Time
	// from hides what was read before, should a merge of partitions have brought it in.
	from topology.Position
	// stopped: the visitor wants no more. seen: it was given something.
	stopped, seen bool
	// failure is the visitor's own error.
	failure error
	rows    uint
	// heard is set by the first call, for the timer that watches from another goroutine.
	heard atomic.Bool
	// sub is the command sent to one physical partition, whole the context of the read.
	sub   command.Read
	whole readContext
	// inPartition: something of the physical partition being read was passed on. price is what reading it has cost.
	inPartition bool
	// lent is what the leader has lent to the replica here.
	price, lent ru.Units
	laws        laws
}

// begin prepares a relay for a read.
func (r *relay) begin(v command.Visitor, deadline time.Time) {
	r.heard.Store(false)
	r.v, r.deadline, r.from, r.failure, r.rows = v, deadline, topology.Position{}, nil, 0
	r.stopped, r.seen, r.inPartition, r.laws = false, false, false, laws{}
}

// checkEvery is how many rows pass between two looks at the clock.
const checkEvery = 256

// Partition implements command.Visitor.
func (r *relay) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	if !r.heard.Load() {
		r.heard.Store(true)
	}
	if !r.from.IsZero() && topology.At(t, key).Compare(r.from) < 0 {
		if r.sub.Changes == nil || !r.sub.Changes.Horizon {
			return command.NextPartition, nil
		}
		t, key = token.AtPosition(r.from.Ring), r.from.Key // of a part it is that of the whole
	}
	if err := r.tick(); err != nil {
		return command.Stop, err
	}
	r.seen, r.inPartition = true, true
	r.laws.passed(r, t, key)
	return r.pass(r.v.Partition(t, key, static))
}

// Row implements command.Visitor.
func (r *relay) Row(clustering []byte, found *row.Row) (command.Step, error) {
	if err := r.tick(); err != nil {
		return command.Stop, err
	}
	return r.pass(r.v.Row(clustering, found))
}

// Passed implements command.Walker.
func (r *relay) Passed(t token.Token, key []byte, looked int) (command.Step, error) {
	if !r.heard.Load() {
		r.heard.Store(true)
	}
	switch {
	case !r.from.IsZero() && topology.At(t, key).Compare(r.from) < 0:
		return command.More, nil
	case r.sched.Now().After(r.deadline):
		return command.Stop, context.DeadlineExceeded
	}
	step, err := r.pass(command.Passed(r.v, t, key, looked))
	if step == command.Stop {
		r.seen, r.inPartition = true, true
	}
	return step, err
}

// Folded implements command.Folder. Where there is more of a physical partition the read does not go on to the next.
func (r *relay) Folded(f *command.Folded) (command.Step, error) {
	r.heard.Store(true)
	r.seen, r.inPartition = true, true
	to, ok := r.v.(command.Folder)
	if !ok {
		return command.Stop, dberr.Serverf("rows were folded for somebody who did not ask for it")
	}
	step, err := r.pass(to.Folded(f))
	r.stopped = r.stopped || f.More || f.Failed
	return step, err
}

// Lent implements partition.Borrower.
func (r *relay) Lent(u ru.Units) { r.lent = u }

// Charge implements ru.Charged.
func (r *relay) Charge(u ru.Units) { r.price = u }

func (r *relay) tick() error {
	if r.rows++; r.rows%checkEvery == 0 && r.sched.Now().After(r.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// pass remembers the visitor's answer.
func (r *relay) pass(s command.Step, err error) (command.Step, error) {
	switch {
	case err != nil:
		r.failure = err
	case s == command.Stop:
		r.stopped = true
	}
	return s, err
}
