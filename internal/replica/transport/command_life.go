// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"time"
)

// life is the end of a command's context. Most commands are over before anybody waits for it: then there is neither a
// channel nor a timer, which is what contexts of package context would cost each.
type life struct {
	// done is made for the first goroutine that waits, and closed at the end.
	done  chan struct{}
	timer *time.Timer
	err   error
}

// served is a Responder as the context of its handler. It ends at the deadline, when the caller gave up, when the
// connection is lost and when the command was answered.
type served Responder

var _ context.Context = (*served)(nil)

// Deadline implements context.Context, as do the others.
func (c *served) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }
func (c *served) Done() <-chan struct{}       { return (*Responder)(c).ended() }
func (c *served) Err() error                  { return (*Responder)(c).why() }
func (c *served) Value(any) any               { return nil }

// closed is the channel of contexts that had ended before anybody asked.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// ended is closed when the context has ended.
func (r *Responder) ended() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.life
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

// why returns how the context ended, nil while it has not.
func (r *Responder) why() error {
	r.mu.Lock()
	err := r.life.err
	r.mu.Unlock()
	if err == nil && !r.deadline.IsZero() && !time.Now().Before(r.deadline) {
		r.end(context.DeadlineExceeded)
		return r.why()
	}
	return err
}

// end ends the context; the first reason stays.
func (r *Responder) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.life
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
