// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
)

// writeRequest is a mutation or a conditional write in flight. The first attempt runs on the caller's goroutine and
// uses the caller's memory. Further attempts run on a goroutine of their own, from a copy with the same ID and the same
// operands. The ID ensures that nothing is applied twice.
type writeRequest struct {
	routedRequest
	// The goroutine that sets answered notifies either write or conditional, once.
	write       *write
	conditional *conditional
	answered    atomic.Bool

	copy  []byte // encoded
	table uint32
	token token.Token
	key   []byte // key of copy; separate, so that locating the partition decodes nothing
	kind  string
	trace *trace.Trace

	// quorum is the quorum of the partition, for expire.
	quorum atomic.Int32
	// firstAttempt joins the call of the first attempt and its completion. The second of the two reuses the
	// writeRequest or starts the next attempt.
	firstAttempt sched.Rendezvous
	// expiry joins the call of the first attempt and the end of the request's time. The second of the two reports the
	// timeout. Until the call has returned, the caller's memory is still being read.
	expiry  sched.Rendezvous
	target  target
	view    *view
	err     error
	outcome *command.CASResult
	price   ru.Units
	ctx     deadlineCtx

	// The links of the deadline list, guarded by its mutex.
	prev, next *writeRequest
	watched    bool
}

// deadlineCtx is a context that has a deadline but does not end when it passes. The receiver enforces the deadline.
type deadlineCtx struct {
	context.Context
	until time.Time
}

func (b *deadlineCtx) Deadline() (time.Time, bool) { return b.until, true }

// localFastPath returns the replica to use on a node without other nodes. A request to it cannot get lost, so it needs
// no ID, no copy, and no deadline unless the client has set a timeout. localFastPath returns nil if there are other
// nodes or if no replica exists. A rejected request takes the normal path.
func (c *Coordinator) localFastPath(tr *trace.Trace, m *command.Mutation, what string, timeout time.Duration) Local {
	if timeout > 0 || !c.cluster.singleNode() {
		return nil
	}
	p := c.view.Load().snapshot.Locate(m.Table, m.Token, m.Key)
	if p == nil {
		return nil
	}
	here := c.cluster.localReplica(p.ID)
	if here != nil && c.queues.ahead(claim{p.ID, m.Principal}) != nil {
		return nil
	}
	if here != nil {
		m.Epoch, m.Dedupe, m.Retried, m.Sent = p.Epoch, command.DedupeID{}, false, false
		c.noteAt(tr, what, p, &target{})
		if tr != nil && what == writing {
			price, _ := ru.Write(m) // m may be reused once the write completes
			noteCharge(tr, p.ID, price)
		}
	}
	return here
}

// writing is the trace text of a plain write, whose price is known in advance.
const writing = "Writing to"

// sendWrite and sendConditional make the first attempt. The write or the conditional is notified once.
func (c *Coordinator) sendWrite(ctx context.Context, tr *trace.Trace, m *command.Mutation, w *write) {
	if r := c.localFastPath(tr, m, writing, w.timeout); r != nil && r.Write(ctx, m, w) == nil {
		return
	}
	s := c.newWriteRequest(tr, m, w.level, w.kind, w.timeout)
	s.write = w
	s.copy = command.AppendMutation(s.copy[:0], m)
	c.deadlines.add(s)
	err := s.pickTarget(m, writing)
	if err == nil {
		err = s.target.member.Write(s.context(ctx), m, s)
	}
	s.callReturned(err)
}

func (c *Coordinator) sendConditional(ctx context.Context, tr *trace.Trace, cond *command.Conditional, d *conditional) {
	m := &cond.Mutation
	if r := c.localFastPath(tr, m, "Deciding at", d.timeout); r != nil && r.ConditionalWrite(ctx, cond, d) == nil {
		return
	}
	s := c.newWriteRequest(tr, m, d.level, d.kind, d.timeout)
	s.conditional, s.bootStart = d, c.sched.Boot()
	s.copy = command.AppendConditional(s.copy[:0], cond)
	c.deadlines.add(s)
	err := s.pickTarget(m, "Deciding at")
	if err == nil {
		err = s.target.member.ConditionalWrite(s.context(ctx), cond, s)
	}
	s.callReturned(err)
}

func (c *Coordinator) newWriteRequest(tr *trace.Trace, m *command.Mutation, level dberr.Consistency, kind string,
	timeout time.Duration) *writeRequest {
	m.Dedupe, m.Retried, m.Sent, m.Known = c.cluster.nextID(), false, false, 0
	s := c.writeRequests.Get().(*writeRequest)
	s.routedRequest = c.newRequest(level, c.opts.writeTime(timeout))
	s.localEpoch, s.who = c.cluster.localEpoch(), m.Principal
	s.answered.Store(false)
	s.price = 0
	s.trace, s.kind = tr, kind
	s.table, s.token, s.key = m.Table, m.Token, append(s.key[:0], m.Key...)
	s.firstAttempt.Reset()
	s.expiry.Reset()
	return s
}

// pickTarget selects the replica to ask.
func (s *writeRequest) pickTarget(m *command.Mutation, what string) error {
	s.view = s.c.view.Load()
	p := s.locate(s.view)
	if p == nil {
		return ErrUnknownTable
	}
	var err error
	if s.target, err = s.pickReplica(s.view, p); err != nil {
		return err
	}
	if err := s.queuedError(&s.target); err != nil {
		return err
	}
	s.setAddress(m, &s.target, p)
	s.quorum.Store(int32(s.required))
	s.c.noteAt(s.trace, what, p, &s.target)
	return nil
}

// context returns the context of the first attempt.
func (s *writeRequest) context(ctx context.Context) context.Context {
	until := s.deadline
	if s.target.remote {
		until = s.attemptDeadline()
	}
	s.ctx = deadlineCtx{ctx, until}
	return &s.ctx
}

// callReturned processes the return of the first attempt's call. An error ends the attempt; otherwise the completion is
// called.
func (s *writeRequest) callReturned(err error) {
	if second := s.expiry.Arrive(); second {
		s.reportTimeout()
	}
	if err == nil {
		s.finishFirst()
		return
	}
	s.err = err
	s.attemptFailed()
}

func (s *writeRequest) locate(v *view) *topology.Partition {
	return v.snapshot.Locate(s.table, s.token, s.key)
}

// At receives the index of the write in the partition's log.
func (s *writeRequest) At(index uint64) {
	s.target.noteAcknowledged(index)
}

// Charge receives the cost of the write.
func (s *writeRequest) Charge(u ru.Units) { s.price = u }

// Done implements command.Completion.
func (s *writeRequest) Done(err error) { s.attemptDone(nil, err) }

// CASDone implements command.CASCompletion.
func (s *writeRequest) CASDone(d *command.CASResult, err error) { s.attemptDone(d, err) }

func (s *writeRequest) attemptDone(d *command.CASResult, err error) {
	s.err = err
	if err != nil {
		s.finishFirst()
		return
	}
	s.succeeded(&s.target)
	s.c.deadlines.drop(s)
	if !s.answered.CompareAndSwap(false, true) {
		return // too late: left to the garbage collector
	}
	w, dec, price := s.write, s.conditional, s.price
	s.noteCharge(s.target.id, d)
	s.finishFirst()
	if w != nil {
		w.Charge(price)
		w.tell(nil)
	} else {
		dec.tell(d, nil)
	}
}

// noteCharge adds the cost of the successful attempt to the trace.
func (s *writeRequest) noteCharge(at topology.PartitionID, d *command.CASResult) {
	if d != nil {
		noteCharge(s.trace, at, ru.Units(d.Charge))
	} else {
		noteCharge(s.trace, at, s.price)
	}
}

// finishFirst is called by the call of the first attempt and by its completion. The second of the two calls continues.
func (s *writeRequest) finishFirst() {
	if second := s.firstAttempt.Arrive(); !second {
		return
	}
	if s.err != nil {
		s.attemptFailed()
		return
	}
	s.release()
}

// release returns a writeRequest to its pool after its only attempt has succeeded.
func (s *writeRequest) release() {
	c := s.c
	if cap(s.copy) > keepBytesMax {
		s.copy = nil
	}
	s.write, s.conditional, s.trace, s.view, s.err, s.outcome = nil, nil, nil, nil, nil, nil
	s.target, s.ctx = target{}, deadlineCtx{}
	c.writeRequests.Put(s)
}

// keepBytesMax is the maximum size of a copy whose memory is kept.
const keepBytesMax = 64 << 10

// attemptFailed decides what to do after a failed first attempt.
func (s *writeRequest) attemptFailed() {
	err := s.err
	if !s.handleFailure(&s.target, err) {
		s.finish(nil, err)
		return
	}
	if !s.c.tasks.start(func() { s.retry(err) }) {
		s.leaveQueue()
		s.finish(nil, err)
	}
}

// retry makes the further attempts.
func (s *writeRequest) retry(err error) {
	ctx, cancel := s.c.sched.WithDeadline(trace.With(s.c.tasks.ctx, s.trace), s.deadline)
	defer cancel()
	defer s.leaveQueue()
	t, seen := s.target, s.view
	for {
		if s.waitToRetry(ctx, &t, seen) != nil || s.answered.Load() {
			s.finish(nil, err)
			return
		}
		seen = s.c.view.Load()
		p := s.locate(seen)
		if p == nil {
			s.finish(nil, ErrUnknownTable)
			return
		}
		var d *command.CASResult
		if t, err = s.pickReplica(seen, p); err == nil {
			err = s.queuedError(&t)
		}
		if err == nil {
			s.c.noteAt(s.trace, "Asking again:", p, &t)
			err = s.attemptOnce(ctx, &t, p, func(ctx context.Context, t *target, p *topology.Partition) error {
				var err error
				d, err = s.attemptCopy(ctx, t, p)
				return err
			})
		}
		if err == nil {
			s.succeeded(&t)
			s.noteCharge(p.ID, d)
			s.finish(d, nil)
			return
		}
		if !s.handleFailure(&t, err) {
			s.finish(nil, err)
			return
		}
	}
}

// attemptCopy sends the copy and waits. It sends a copy of the copy because a replica on this node sets timestamps in
// place.
func (s *writeRequest) attemptCopy(ctx context.Context, t *target, p *topology.Partition) (*command.CASResult, error) {
	done := &waiter{done: make(chan struct{}), target: *t}
	var err error
	if s.conditional != nil {
		cond := new(command.Conditional)
		if err = command.DecodeConditional(cond, bytes.Clone(s.copy)); err != nil {
			return nil, err
		}
		s.setAddress(&cond.Mutation, t, p)
		err = t.member.ConditionalWrite(ctx, cond, done)
	} else {
		m := new(command.Mutation)
		if err = command.DecodeMutation(m, bytes.Clone(s.copy)); err != nil {
			return nil, err
		}
		s.setAddress(m, t, p)
		err = t.member.Write(ctx, m, done)
	}
	if err != nil {
		return nil, err
	}
	d, err := done.wait(ctx)
	if err == nil {
		s.price = done.price
	}
	return d, err
}

// setAddress sets the destination of a command, and whether an earlier attempt may have arrived.
func (s *writeRequest) setAddress(m *command.Mutation, t *target, p *topology.Partition) {
	m.Epoch = p.Epoch
	s.setDedupe(m, t)
}

// waiter is a completion for a caller that blocks.
type waiter struct {
	done    chan struct{}
	outcome *command.CASResult
	err     error
	target  target
	index   uint64 // in the log, 0 if unknown
	price   ru.Units
}

// Charge receives the cost of the command.
func (e *waiter) Charge(u ru.Units) { e.price = u }

func (e *waiter) At(index uint64) {
	e.index = index
	e.target.noteAcknowledged(index)
}

func (e *waiter) Done(err error) { e.CASDone(nil, err) }

func (e *waiter) CASDone(d *command.CASResult, err error) {
	e.outcome, e.err = d, err
	close(e.done)
}

// wait returns the outcome. If the context ends first, it returns an error, and the outcome is unknown.
func (e *waiter) wait(ctx context.Context) (*command.CASResult, error) {
	if _, err := sched.Await(e.target.sched, ctx, e.done, 0); err != nil {
		return nil, context.DeadlineExceeded
	}
	return e.outcome, e.err
}

// expire ends a request at its deadline, even if an attempt is still in flight. The deadline list has set answered. The
// routing state may belong to another goroutine.
func (s *writeRequest) expire() {
	if second := s.expiry.Arrive(); second {
		s.reportTimeout()
	}
}

func (s *writeRequest) reportTimeout() {
	s.tell(nil, &dberr.WriteTimeout{Level: s.level, BlockFor: int(s.quorum.Load()), WriteType: s.kind})
}

// finish ends a request that has no attempt in flight.
func (s *writeRequest) finish(d *command.CASResult, err error) {
	s.c.deadlines.drop(s)
	if s.answered.CompareAndSwap(false, true) {
		s.tell(d, s.writeError(err, s.kind))
	}
}

func (s *writeRequest) tell(d *command.CASResult, answer error) {
	if s.write != nil {
		if answer == nil {
			s.write.Charge(s.price)
		}
		s.write.tell(answer)
	} else {
		s.conditional.tell(d, answer)
	}
}
