// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
)

// writeRequest is a mutation or a conditional write in flight. The first attempt runs on the caller's goroutine and
// uses the caller's memory. Later attempts run on a separate goroutine and use a copy with the same ID and operands.
// The ID prevents the operands from being applied twice.
type writeRequest struct {
	routedRequest
	write *write // the goroutine that sets answered notifies write once

	conditional bool
	copy        []byte // encoded mutation or conditional write
	table       uint32
	token       token.Token
	key         []byte // key of copy, for finding the partition without decoding
	trace       *trace.Trace

	// mu guards the fields below.
	mu sync.Mutex
	// calling is true until the call of the first attempt returns. During the call, the replica reads the caller's
	// memory. waiting is true until the outcome of the first attempt is known. When both fields are false, the request
	// is released or retried.
	calling, waiting bool
	// answered is true if write has been notified or will be notified immediately. expired is true if the request's
	// deadline has passed before an outcome was known.
	answered, expired bool

	quorum  int // quorum of the first attempt's partition, for reportTimeout
	target  target
	view    *view
	outcome command.Outcome // outcome of the first attempt
	ctx     deadlineCtx

	// prev and next are the links of the deadline list. The mutex of the list guards prev and next.
	prev, next *writeRequest
	watched    bool
}

// deadlineCtx is a context that has a deadline but does not end at the deadline. The receiver of the context enforces
// the deadline.
type deadlineCtx struct {
	context.Context
	until time.Time
}

func (b *deadlineCtx) Deadline() (time.Time, bool) { return b.until, true }

// localFastPath returns the replica for a write in a single-node cluster. Otherwise, or if the replica does not exist,
// it returns nil. Requests to this replica cannot be lost, so they need no ID and no copy. A request needs a deadline
// only if the client has set a timeout. If the replica rejects the request, the caller must use the normal path.
func (c *Coordinator) localFastPath(tr *trace.Trace, m *command.Mutation, what string, timeout time.Duration) Local {
	if timeout > 0 || !c.cluster.singleNode() {
		return nil
	}
	p := c.view.Load().snapshot.Locate(m.Table, m.Token, m.Key)
	if p == nil {
		return nil
	}
	here := c.cluster.local.Replica(p.ID)
	if here != nil && c.queues.ahead(claim{p.ID, m.Principal}) != nil {
		return nil
	}
	if here != nil {
		m.Epoch, m.Dedupe, m.Retried, m.Sent = p.Epoch, command.DedupeID{}, false, false
		c.noteAt(tr, what, p, &target{})
		if tr != nil && what == writing {
			price, _ := ru.Write(m) // m may be reused when the write completes
			noteCharge(tr, p.ID, price)
		}
	}
	return here
}

// writing is the trace text of a plain write. The price of a plain write is known in advance.
const writing = "Writing to"

// send makes the first attempt of a mutation. If cond is not nil, send makes the first attempt of the conditional write
// cond, which contains the mutation.
func (c *Coordinator) send(ctx context.Context, tr *trace.Trace, m *command.Mutation, cond *command.Conditional,
	w *write) {
	what := writing
	if cond != nil {
		what = "Evaluating the conditions at"
	}
	if r := c.localFastPath(tr, m, what, w.timeout); r != nil && ask(ctx, r, m, cond, w) == nil {
		return
	}
	s := c.newWriteRequest(tr, m, w)
	if s.conditional = cond != nil; s.conditional {
		s.bootStart = c.sched.Boot()
		s.copy = command.AppendConditional(s.copy[:0], cond)
	} else {
		s.copy = command.AppendMutation(s.copy[:0], m)
	}
	c.deadlines.add(s)
	err := s.pickTarget(m, what)
	if err == nil {
		err = ask(s.context(ctx), s.target.member, m, cond, s)
	}
	s.callReturned(err)
}

// ask sends a mutation to a replica. If cond is not nil, ask sends the conditional write cond, which contains the
// mutation.
func ask(ctx context.Context, r Member, m *command.Mutation, cond *command.Conditional, done command.Completion) error {
	if cond != nil {
		return r.ConditionalWrite(ctx, cond, done)
	}
	return r.Write(ctx, m, done)
}

func (c *Coordinator) newWriteRequest(tr *trace.Trace, m *command.Mutation, w *write) *writeRequest {
	m.Dedupe, m.Retried, m.Sent, m.Known = c.cluster.nextID(), false, false, 0
	s := c.writeRequests.Get().(*writeRequest)
	s.routedRequest = c.newRequest(w.level, c.opts.writeTime(w.timeout))
	s.localEpoch, s.who = c.cluster.local.DedupeEpoch(), m.Principal
	s.write, s.trace = w, tr
	s.table, s.token, s.key = m.Table, m.Token, append(s.key[:0], m.Key...)
	s.calling, s.waiting, s.answered, s.expired = true, true, false, false
	return s
}

// pickTarget selects the replica for the first attempt.
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
	s.quorum = s.required
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

func (s *writeRequest) locate(v *view) *topology.Partition {
	return v.snapshot.Locate(s.table, s.token, s.key)
}

// callReturned is called after the call of the first attempt has returned. If the call returned an error, Done is not
// called.
func (s *writeRequest) callReturned(err error) {
	s.mu.Lock()
	s.calling = false
	if err != nil {
		s.outcome, s.waiting = command.Failed(err), false
	}
	ended, expired := !s.waiting, s.expired
	s.mu.Unlock()
	if expired {
		s.reportTimeout()
	}
	if ended {
		s.firstEnded()
	}
}

// Done implements command.Completion for the first attempt.
func (s *writeRequest) Done(o command.Outcome) {
	if o.Err == nil {
		s.target.noteAcknowledged(o.Index)
		s.succeeded(&s.target)
		s.c.deadlines.drop(s)
	}
	s.mu.Lock()
	s.outcome, s.waiting = o, false
	first := o.Err == nil && !s.answered
	s.answered = s.answered || first
	ended, w := !s.calling, s.write
	if first {
		noteCharge(s.trace, s.target.id, ru.Units(o.Charge))
	}
	s.mu.Unlock()
	if ended {
		s.firstEnded()
	}
	if first {
		w.tell(o)
	}
}

// firstEnded is called once, after the outcome of the first attempt is known and the call has returned.
func (s *writeRequest) firstEnded() {
	switch {
	case s.outcome.Err != nil:
		s.firstFailed(s.outcome.Err)
	case !s.expired: // the deadline list may still use an expired request
		s.release()
	}
}

// release returns a writeRequest to its pool after its only attempt has succeeded.
func (s *writeRequest) release() {
	c := s.c
	if cap(s.copy) > keepBytesMax {
		s.copy = nil
	}
	s.write, s.trace, s.view = nil, nil, nil
	s.outcome, s.target, s.ctx = command.Outcome{}, target{}, deadlineCtx{}
	c.writeRequests.Put(s)
}

// keepBytesMax is the maximum size in bytes of a copy whose memory is reused.
const keepBytesMax = 64 << 10

// expire marks a request as answered after its deadline, even if an attempt is in flight. If expire returns true, the
// caller must call reportTimeout. If the call of the first attempt is still running, expire returns false because the
// call reads the memory of the client's request. In this case, callReturned reports the timeout.
func (s *writeRequest) expire() (report bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered {
		return false
	}
	s.answered, s.expired = true, true
	return !s.calling
}

func (s *writeRequest) reportTimeout() {
	w := s.write
	w.tell(command.Failed(&dberr.WriteTimeout{Level: s.level, BlockFor: s.quorum, WriteType: w.kind}))
}

// finish ends a request that has no attempt in flight.
func (s *writeRequest) finish(o command.Outcome) {
	s.c.deadlines.drop(s)
	s.mu.Lock()
	first := !s.answered
	s.answered = true
	s.mu.Unlock()
	if !first {
		return
	}
	if o.Err != nil {
		o.Err = s.writeError(o.Err, s.write.kind)
	}
	s.write.tell(o)
}
