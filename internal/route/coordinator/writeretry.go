// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
)

// firstFailed determines the next step after a failed first attempt.
func (s *writeRequest) firstFailed(err error) {
	if !s.handleFailure(&s.target, err) {
		s.finish(command.Failed(err))
		return
	}
	if !s.c.tasks.start(func() { s.retry(err) }) {
		s.leaveQueue()
		s.finish(command.Failed(err))
	}
}

// retry makes further attempts and ends the request.
func (s *writeRequest) retry(err error) {
	ctx, cancel := s.c.sched.WithDeadline(trace.With(s.c.tasks.ctx, s.trace), s.deadline)
	defer cancel()
	defer s.leaveQueue()
	t, seen := s.target, s.view
	for {
		if s.waitToRetry(ctx, &t, seen) != nil || s.isAnswered() {
			s.finish(command.Failed(err))
			return
		}
		seen = s.c.view.Load()
		p := s.locate(seen)
		if p == nil {
			s.finish(command.Failed(ErrUnknownTable))
			return
		}
		var o command.Outcome
		if t, err = s.pickReplica(seen, p); err == nil {
			err = s.queuedError(&t)
		}
		if err == nil {
			s.c.noteAt(s.trace, "Retrying:", p, &t)
			err = s.attemptOnce(ctx, &t, p, func(ctx context.Context, t *target, p *topology.Partition) error {
				o = s.attemptCopy(ctx, t, p)
				return o.Err
			})
		}
		if err == nil {
			s.succeeded(&t)
			noteCharge(s.trace, p.ID, ru.Units(o.Charge))
			s.finish(o)
			return
		}
		if !s.handleFailure(&t, err) {
			s.finish(command.Failed(err))
			return
		}
	}
}

func (s *writeRequest) isAnswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}

// attemptCopy sends the copy of the command and waits for the outcome. It decodes the copy for each attempt, because a
// replica on this node sets timestamps in place.
func (s *writeRequest) attemptCopy(ctx context.Context, t *target, p *topology.Partition) command.Outcome {
	done := newWaiter(t)
	var cond *command.Conditional
	m := new(command.Mutation)
	var err error
	if s.conditional {
		cond = new(command.Conditional)
		m = &cond.Mutation
		err = command.DecodeConditional(cond, bytes.Clone(s.copy))
	} else {
		err = command.DecodeMutation(m, bytes.Clone(s.copy))
	}
	if err == nil {
		s.setAddress(m, t, p)
		err = ask(ctx, t.member, m, cond, done)
	}
	if err != nil {
		return command.Failed(err)
	}
	return done.wait(ctx)
}

// setAddress sets the partition epoch and the dedupe fields of a command.
func (s *writeRequest) setAddress(m *command.Mutation, t *target, p *topology.Partition) {
	m.Epoch = p.Epoch
	s.setDedupe(m, t)
}

// waiter is a completion for callers that block.
type waiter struct {
	done    chan struct{}
	outcome command.Outcome
	target  target
}

func newWaiter(t *target) *waiter { return &waiter{done: make(chan struct{}), target: *t} }

// Done implements command.Completion.
func (e *waiter) Done(o command.Outcome) {
	if o.Err == nil {
		e.target.noteAcknowledged(o.Index)
	}
	e.outcome = o
	close(e.done)
}

// wait returns the outcome. If the context ends first, wait returns an error because the outcome is unknown.
func (e *waiter) wait(ctx context.Context) command.Outcome {
	if _, err := sched.Await(e.target.sched, ctx, e.done, 0); err != nil {
		return command.Failed(context.DeadlineExceeded)
	}
	return e.outcome
}
