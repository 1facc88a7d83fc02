// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"time"
)

// lazyContext is the state of a command's context. It needs neither a channel nor a timer unless a goroutine waits for
// the context.
type lazyContext struct {
	// done is created by the first waiter and closed when the context ends.
	done  chan struct{}
	timer *time.Timer
	err   error
}

// commandContext is a responder that serves as the context of its handler. The context ends at the deadline, when the
// caller abandons the command, when the connection is lost, or when the response has been sent.
type commandContext responder

var _ context.Context = (*commandContext)(nil)

// Deadline implements context.Context.
func (c *commandContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }
func (c *commandContext) Done() <-chan struct{}       { return (*responder)(c).ended() }
func (c *commandContext) Err() error                  { return (*responder)(c).why() }
func (c *commandContext) Value(any) any               { return nil }

// closed is the channel of all contexts that have ended before Done is called.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// ended returns a channel that is closed when the context has ended.
func (r *responder) ended() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.ctx
	switch {
	case l.done != nil:
	case l.err != nil:
		l.done = closed
	default:
		l.done = make(chan struct{})
		if !r.deadline.IsZero() {
			l.timer = time.AfterFunc(time.Until(r.deadline), func() { r.end(context.DeadlineExceeded) })
		}
	}
	return l.done
}

// why returns the reason why the context ended, or nil if it has not ended.
func (r *responder) why() error {
	r.mu.Lock()
	err := r.ctx.err
	r.mu.Unlock()
	if err == nil && !r.deadline.IsZero() && !time.Now().Before(r.deadline) {
		r.end(context.DeadlineExceeded)
		return r.why()
	}
	return err
}

// end ends the context. Only the first call sets the reason.
func (r *responder) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.ctx
	if l.err != nil {
		return
	}
	l.err = err
	if l.done != nil {
		close(l.done)
	}
	if l.timer != nil {
		l.timer.Stop()
	}
}
