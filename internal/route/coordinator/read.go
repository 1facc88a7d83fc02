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

// Read passes the result of q to v. The result contains one logical partition, or all logical partitions of a range in
// ring order.
func (c *Coordinator) Read(ctx context.Context, q *command.Read, v command.Visitor) error {
	if err := c.admit(); err != nil {
		return err
	}
	defer c.leave()
	c.stats.reads.Add(1)
	r := c.readRelays.Get().(*readRelay)
	e := c.newRequest(q.Level, c.opts.ReadTimeout)
	if !q.Deadline.IsZero() {
		e.capDeadline(q.Deadline)
	}
	r.begin(v, e.deadline)
	whole := &r.ctx
	if !c.cluster.singleNode() {
		whole = new(readContext) // a replica set may still use the context after the read has ended
	}
	*whole = readContext{Context: ctx, sched: c.sched, until: r.deadline}
	e.anyReplica, e.localFollower, e.who, e.blocking = q.Level.OneReplica(), true, q.Principal, true
	if q.NoWait {
		e.throttleDeadline = time.Time{}
	}
	defer e.leaveQueue()
	err := c.readOn(whole, q, r, &e)
	if err == ErrRepeat { //nolint:errorlint // it is made here
		c.stats.readRestarts.Add(1)
	}
	if err = e.readError(err, r.seen); err != nil && r.failure != nil && errors.Is(err, r.failure) {
		err = r.failure // visitor errors are returned unchanged
	}
	if !whole.end() {
		return err // another goroutine may still use the request
	}
	r.v, r.failure, r.sub, r.ctx = nil, nil, command.Read{}, readContext{}
	c.readRelays.Put(r)
	return err
}

// readOn reads the physical partitions one after the other. A read of a key needs only one partition. Each partition
// confirms its rows at the end. Then the read continues at the end of the partition. The end position does not depend
// on partition IDs, so the topology may change between two partitions. If a partition has delivered rows and does not
// confirm the rows, the session must restart the read (ErrRepeat).
func (c *Coordinator) readOn(ctx context.Context, q *command.Read, r *readRelay, e *routedRequest) error {
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
		t, err := e.pickReplica(v, p)
		if err == nil {
			err = e.queuedError(&t)
		}
		if err == nil {
			sub.Epoch, sub.Level, r.inPartition, r.price = p.Epoch, e.levelAt(&t), false, 0
			r.lent, sub.Owed, sub.Wanted = 0, 0, 0
			if sub.Pushdown = q.Pushdown; !exact {
				sub.Pushdown = nil // rows that were already read must be skipped
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
			sub.Continued = false // the next physical partition is read from its start
			cursor = p.Span.Limit
			exact = len(cursor.Key) == 0 && cursor.Low == 0
			if q.Key != nil || r.stopped || cursor.IsZero() || q.Range.Limit != 0 &&
				cursor.Compare(topology.Position{Ring: q.Range.Limit}) >= 0 {
				if tr != nil && q.Key == nil {
					tr.Add("Read from " + strconv.Itoa(touched) + " physical partitions of table " +
						c.tableName(q.Table))
				}
				return nil
			}
			e.reset()
			continue
		}
		switch {
		case r.failure != nil:
			return r.failure
		case ctx.Err() != nil || !c.sched.Now().Before(r.deadline):
			return context.DeadlineExceeded
		case !e.handleFailure(&t, err):
			return err
		case r.inPartition:
			return ErrRepeat
		case e.waitToRetry(ctx, &t, v) != nil:
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

// readRelay is the visitor between a replica and the caller's visitor. It enforces the deadline and records whether the
// caller has stopped.
type readRelay struct {
	sched    *sched.Scheduler
	v        command.Visitor
	deadline time.Time
	// from is the start position of the read. Rows before from are skipped, because they have already been read.
	from topology.Position
	// stopped is true if the visitor accepts no more rows. seen is true if the visitor has received a row or a
	// partition.
	stopped, seen bool
	// failure is the error that the visitor has returned, or nil.
	failure error
	rows    uint
	// received is set by the first call of the visitor. A timer on another goroutine reads received.
	received atomic.Bool
	// sub is the command for the current physical partition.
	sub command.Read
	ctx readContext
	// inPartition is true if rows of the current physical partition have been delivered. price is the cost of reading
	// the current physical partition.
	inPartition bool
	// lent is the number of units that the leader has lent to the replica on this node.
	price, lent ru.Units
	invariants  invariants
}

func (r *readRelay) begin(v command.Visitor, deadline time.Time) {
	r.received.Store(false)
	r.v, r.deadline, r.from, r.failure, r.rows = v, deadline, topology.Position{}, nil, 0
	r.stopped, r.seen, r.inPartition, r.invariants = false, false, false, invariants{}
}

// checkEvery is the number of rows after which the visitor checks the deadline.
const checkEvery = 256

// Partition implements command.Visitor.
func (r *readRelay) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	if !r.received.Load() {
		r.received.Store(true)
	}
	if !r.from.IsZero() && topology.At(t, key).Compare(r.from) < 0 {
		if r.sub.Changes == nil || !r.sub.Changes.Horizon {
			return command.NextPartition, nil
		}
		// A partially read partition is treated like a complete partition.
		t, key = token.AtPosition(r.from.Ring), r.from.Key
	}
	if err := r.tick(); err != nil {
		return command.Stop, err
	}
	r.seen, r.inPartition = true, true
	r.invariants.checkOrder(r, t, key)
	return r.handle(r.v.Partition(t, key, static))
}

// Row implements command.Visitor.
func (r *readRelay) Row(clustering []byte, found *row.Row) (command.Step, error) {
	if err := r.tick(); err != nil {
		return command.Stop, err
	}
	return r.handle(r.v.Row(clustering, found))
}

// Passed implements command.ProgressVisitor.
func (r *readRelay) Passed(t token.Token, key []byte, looked int) (command.Step, error) {
	if !r.received.Load() {
		r.received.Store(true)
	}
	switch {
	case !r.from.IsZero() && topology.At(t, key).Compare(r.from) < 0:
		return command.More, nil
	case r.sched.Now().After(r.deadline):
		return command.Stop, context.DeadlineExceeded
	}
	step, err := r.handle(command.Passed(r.v, t, key, looked))
	if step == command.Stop {
		r.seen, r.inPartition = true, true
	}
	return step, err
}

// PushedDown implements command.PushdownVisitor. If the physical partition contains more rows, the read does not
// continue with the next partition.
func (r *readRelay) PushedDown(f *command.PushdownResult) (command.Step, error) {
	r.received.Store(true)
	r.seen, r.inPartition = true, true
	to, ok := r.v.(command.PushdownVisitor)
	if !ok {
		return command.Stop, dberr.Serverf("received an aggregate that was not requested")
	}
	step, err := r.handle(to.PushedDown(f))
	r.stopped = r.stopped || f.More || f.Failed
	return step, err
}

// Lent implements partition.Borrower.
func (r *readRelay) Lent(u ru.Units) { r.lent = u }

// Charge implements ru.Charged.
func (r *readRelay) Charge(u ru.Units) { r.price = u }

func (r *readRelay) tick() error {
	if r.rows++; r.rows%checkEvery == 0 && r.sched.Now().After(r.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// handle records the result of the visitor.
func (r *readRelay) handle(s command.Step, err error) (command.Step, error) {
	switch {
	case err != nil:
		r.failure = err
	case s == command.Stop:
		r.stopped = true
	}
	return s, err
}
