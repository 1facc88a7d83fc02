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

// send is a mutation or a conditional on its way. The first attempt is made on the caller's goroutine, with the
// caller's memory; if it fails in a way that is worth another one, the others are made on a goroutine of its own, from
// a copy: the same id, the same operands, unstamped where they came so. That nothing is applied twice is the id's
// doing.
type send struct {
	errand
	// One of these is told, once, by whichever goroutine sets answered.
	write    *write
	decide   *decide
	answered atomic.Bool

	copy  []byte // encoded
	table uint32
	token token.Token
	key   []byte // of the copy's; kept apart, so that finding the partition decodes nothing
	kind  string
	trace *trace.Trace

	// need is the quorum, for late.
	need atomic.Int32
	// both are the call of the first attempt and its completion: the second one has the send used again, or begins the
	// next attempt.
	both sched.Rendezvous
	// expiry are that call and the end of the send's time: the second one tells that it is over. Until the call has
	// returned, what the caller passed in is still read.
	expiry  sched.Rendezvous
	target  target
	view    *view
	err     error
	outcome *command.Decision
	price   ru.Units
	bound   bound

	// The place in the watch, under its mutex.
	before, behind *send
	watched        bool
}

// bound is a context that knows a deadline and does not end at it: whoever is asked keeps it.
type bound struct {
	context.Context
	until time.Time
}

func (b *bound) Deadline() (time.Time, bool) { return b.until, true }

// straight returns the replica to ask where there is no other node: what it takes cannot get lost, so it needs no id,
// no copy and, unless the client has set a timeout, no deadline of its own. It is nil where there are others, and where
// there is no replica now. What it refuses goes the way of all.
func (c *Coordinator) straight(tr *trace.Trace, m *command.Mutation, what string, timeout time.Duration) Local {
	if timeout > 0 || !c.cluster.alone() {
		return nil
	}
	p := c.view.Load().snapshot.Locate(m.Table, m.Token, m.Key)
	if p == nil {
		return nil
	}
	here := c.cluster.here(p.ID)
	if here != nil && c.queues.ahead(claim{p.ID, m.Principal}) != nil {
		return nil
	}
	if here != nil {
		m.Epoch, m.Dedupe, m.Retried, m.Sent = p.Epoch, command.DedupeID{}, false, false
		c.noteAt(tr, what, p, &target{})
		if tr != nil && what == writing {
			price, _ := ru.Write(m) // m may be another one when it is done
			noteCharge(tr, p.ID, price)
		}
	}
	return here
}

// writing is what a trace says of a plain write, whose price is known before.
const writing = "Writing to"

// sendWrite and sendDecision make the first attempt; the write or the decide is told once.
func (c *Coordinator) sendWrite(ctx context.Context, tr *trace.Trace, m *command.Mutation, w *write) {
	if r := c.straight(tr, m, writing, w.timeout); r != nil && r.Write(ctx, m, w) == nil {
		return
	}
	s := c.newSend(tr, m, w.level, w.kind, w.timeout)
	s.write = w
	s.copy = command.AppendMutation(s.copy[:0], m)
	c.watch.add(s)
	err := s.aim(m, writing)
	if err == nil {
		err = s.target.member.Write(s.context(ctx), m, s)
	}
	s.returned(err)
}

func (c *Coordinator) sendDecision(ctx context.Context, tr *trace.Trace, cond *command.Conditional, d *decide) {
	m := &cond.Mutation
	if r := c.straight(tr, m, "Deciding at", d.timeout); r != nil && r.Decide(ctx, cond, d) == nil {
		return
	}
	s := c.newSend(tr, m, d.level, d.kind, d.timeout)
	s.decide, s.booted = d, c.sched.Boot()
	s.copy = command.AppendConditional(s.copy[:0], cond)
	c.watch.add(s)
	err := s.aim(m, "Deciding at")
	if err == nil {
		err = s.target.member.Decide(s.context(ctx), cond, s)
	}
	s.returned(err)
}

func (c *Coordinator) newSend(tr *trace.Trace, m *command.Mutation, level dberr.Consistency, kind string,
	timeout time.Duration) *send {
	m.Dedupe, m.Retried, m.Sent, m.Known = c.cluster.nextID(), false, false, 0
	s := c.sends.Get().(*send)
	s.errand = c.errand(level, c.opts.writeTime(timeout))
	s.memory, s.who = c.cluster.memory(), m.Principal
	s.answered.Store(false)
	s.price = 0
	s.trace, s.kind = tr, kind
	s.table, s.token, s.key = m.Table, m.Token, append(s.key[:0], m.Key...)
	s.both.Reset()
	s.expiry.Reset()
	return s
}

// aim finds the replica to ask.
func (s *send) aim(m *command.Mutation, what string) error {
	s.view = s.c.view.Load()
	p := s.locate(s.view)
	if p == nil {
		return ErrUnknownTable
	}
	var err error
	if s.target, err = s.pick(s.view, p); err != nil {
		return err
	}
	if err := s.others(&s.target); err != nil {
		return err
	}
	s.address(m, &s.target, p)
	s.need.Store(int32(s.required))
	s.c.noteAt(s.trace, what, p, &s.target)
	return nil
}

// context is that of the first attempt.
func (s *send) context(ctx context.Context) context.Context {
	until := s.deadline
	if s.target.remote {
		until = s.attempt()
	}
	s.bound = bound{ctx, until}
	return &s.bound
}

// returned hears how the call of the first attempt returned: with an error it is over, else its completion is told.
func (s *send) returned(err error) {
	if second := s.expiry.Arrive(); second {
		s.tellLate()
	}
	if err == nil {
		s.part()
		return
	}
	s.err = err
	s.ended()
}

func (s *send) locate(v *view) *topology.Partition {
	return v.snapshot.Locate(s.table, s.token, s.key)
}

// At hears the index of the write in the partition's log.
func (s *send) At(index uint64) {
	s.target.seen(index)
}

// Charge hears what the write has cost.
func (s *send) Charge(u ru.Units) { s.price = u }

// Done and Decided hear how the first attempt ended.
func (s *send) Done(err error) { s.heard(nil, err) }

// Decided implements command.DecisionCompletion.
func (s *send) Decided(d *command.Decision, err error) { s.heard(d, err) }

func (s *send) heard(d *command.Decision, err error) {
	s.err = err
	if err != nil {
		s.part()
		return
	}
	s.succeeded(&s.target)
	s.c.watch.drop(s)
	if !s.answered.CompareAndSwap(false, true) {
		return // too late: the collector takes it
	}
	w, dec, price := s.write, s.decide, s.price
	s.noteCharge(s.target.id, d)
	s.part()
	if w != nil {
		w.Charge(price)
		w.tell(nil)
	} else {
		dec.tell(d, nil)
	}
}

// noteCharge adds to the trace what the attempt that succeeded has cost.
func (s *send) noteCharge(at topology.PartitionID, d *command.Decision) {
	if d != nil {
		noteCharge(s.trace, at, ru.Units(d.Charge))
	} else {
		noteCharge(s.trace, at, s.price)
	}
}

// part is where the call of the first attempt and its completion part with the send.
func (s *send) part() {
	if second := s.both.Arrive(); !second {
		return
	}
	if s.err != nil {
		s.ended()
		return
	}
	s.release()
}

// release gives a send back whose only attempt has ended well.
func (s *send) release() {
	c := s.c
	if cap(s.copy) > keepBytesMax {
		s.copy = nil
	}
	s.write, s.decide, s.trace, s.view, s.err, s.outcome = nil, nil, nil, nil, nil, nil
	s.target, s.bound = target{}, bound{}
	c.sends.Put(s)
}

// keepBytesMax is the size of the largest copy whose memory is kept.
const keepBytesMax = 64 << 10

// ended decides what follows a first attempt that failed.
func (s *send) ended() {
	err := s.err
	if !s.failed(&s.target, err) {
		s.finish(nil, err)
		return
	}
	if !s.c.tasks.start(func() { s.again(err) }) {
		s.leaveQueue()
		s.finish(nil, err)
	}
}

// again makes the other attempts.
func (s *send) again(err error) {
	ctx, cancel := s.c.sched.WithDeadline(trace.With(s.c.tasks.ctx, s.trace), s.deadline)
	defer cancel()
	defer s.leaveQueue()
	t, seen := s.target, s.view
	for {
		if s.wait(ctx, &t, seen) != nil || s.answered.Load() {
			s.finish(nil, err)
			return
		}
		seen = s.c.view.Load()
		p := s.locate(seen)
		if p == nil {
			s.finish(nil, ErrUnknownTable)
			return
		}
		var d *command.Decision
		if t, err = s.pick(seen, p); err == nil {
			err = s.others(&t)
		}
		if err == nil {
			s.c.noteAt(s.trace, "Asking again:", p, &t)
			err = s.once(ctx, &t, p, func(ctx context.Context, t *target, p *topology.Partition) error {
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
		if !s.failed(&t, err) {
			s.finish(nil, err)
			return
		}
	}
}

// attemptCopy sends the copy and waits. What is sent is a copy of it, for a replica on this node stamps in place.
func (s *send) attemptCopy(ctx context.Context, t *target, p *topology.Partition) (*command.Decision, error) {
	done := &ending{told: make(chan struct{}), target: *t}
	var err error
	if s.decide != nil {
		cond := new(command.Conditional)
		if err = command.DecodeConditional(cond, bytes.Clone(s.copy)); err != nil {
			return nil, err
		}
		s.address(&cond.Mutation, t, p)
		err = t.member.Decide(ctx, cond, done)
	} else {
		m := new(command.Mutation)
		if err = command.DecodeMutation(m, bytes.Clone(s.copy)); err != nil {
			return nil, err
		}
		s.address(m, t, p)
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

// address says where a command goes, and whether an earlier attempt may have arrived.
func (s *send) address(m *command.Mutation, t *target, p *topology.Partition) {
	m.Epoch = p.Epoch
	s.attests(m, t)
}

// ending is a completion that somebody waits for.
type ending struct {
	told    chan struct{}
	outcome *command.Decision
	err     error
	target  target
	index   uint64 // in the log, 0 if it was not told
	price   ru.Units
}

// Charge hears what the command has cost.
func (e *ending) Charge(u ru.Units) { e.price = u }

func (e *ending) At(index uint64) {
	e.index = index
	e.target.seen(index)
}

func (e *ending) Done(err error) { e.Decided(nil, err) }

func (e *ending) Decided(d *command.Decision, err error) {
	e.outcome, e.err = d, err
	close(e.told)
}

// wait returns the outcome, or the context's error when that ends first: then it is not known.
func (e *ending) wait(ctx context.Context) (*command.Decision, error) {
	if _, err := sched.Await(e.target.sched, ctx, e.told, 0); err != nil {
		return nil, context.DeadlineExceeded
	}
	return e.outcome, e.err
}

// late ends a send at its deadline, whatever is still under way; the watch has set answered. The errand may belong to
// another goroutine.
func (s *send) late() {
	if second := s.expiry.Arrive(); second {
		s.tellLate()
	}
}

func (s *send) tellLate() {
	s.tell(nil, &dberr.WriteTimeout{Level: s.level, BlockFor: int(s.need.Load()), WriteType: s.kind})
}

// finish ends a send that has no attempt under way.
func (s *send) finish(d *command.Decision, err error) {
	s.c.watch.drop(s)
	if s.answered.CompareAndSwap(false, true) {
		s.tell(d, s.writeError(err, s.kind))
	}
}

func (s *send) tell(d *command.Decision, answer error) {
	if s.write != nil {
		if answer == nil {
			s.write.Charge(s.price)
		}
		s.write.tell(answer)
	} else {
		s.decide.tell(d, answer)
	}
}
