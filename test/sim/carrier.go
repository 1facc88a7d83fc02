// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/remote"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/test/sim/world"
)

// carrier is what package transport is to package remote: it brings requests to other nodes and their answers back,
// over the world's network, for one life of a node. Like a connection it loses what is under way when the other process
// ends, and says so unless the two are cut off: then there is silence. What arrived stays in the buffers of a process
// that is paused, however long.
type carrier struct {
	n    *node
	life int
	p    world.Process
	s    *sched.Scheduler
}

func (n *node) newCarrier() *carrier {
	return &carrier{n: n, life: n.Life, p: n.Process(), s: n.Scheduler()}
}

// exchange is a request under way: the caller's side.
type exchange struct {
	c      *carrier
	to     topology.NodeID
	answer transport.Answer
	// pages have arrived and were not taken; end is what follows the last, over says that nothing more is wanted.
	pages [][]byte
	end   error
	over  bool
	// heard is when the last page arrives, for they stay in order; credit is what the other side may send.
	heard  time.Duration
	credit int
	// cancel ends the request at the other node.
	cancel func()
	parent context.Context
	// until and first are as in transport.Bounded.
	until, first time.Time
}

// pagesAhead is how many pages may be under way.
const pagesAhead = 2

// Call implements remote.Carrier, as do the others.
func (c *carrier) Call(ctx context.Context, to topology.NodeID, request []byte) ([]byte, error) {
	s, err := c.Stream(ctx, to, request)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Next()
}

func (c *carrier) Stream(ctx context.Context, to topology.NodeID, request []byte) (remote.Stream, error) {
	e := &exchange{c: c, to: to, parent: ctx, credit: pagesAhead}
	if b, ok := ctx.(transport.Bounded); ok {
		e.parent, e.until, e.first = b.Bounds()
	} else {
		e.until, _ = ctx.Deadline()
	}
	if err := e.parent.Err(); err != nil {
		return nil, err
	}
	return e, e.start(request)
}

func (c *carrier) Begin(_ *transport.Pending, to topology.NodeID, until time.Time, request []byte,
	answer transport.Answer) error {
	e := &exchange{c: c, to: to, parent: context.Background(), until: until, answer: answer}
	if err := e.start(request); err != nil {
		return err
	}
	if !until.IsZero() {
		c.n.AfterClock(c.s.Until(until), func() { e.finish(context.DeadlineExceeded) })
	}
	return nil
}

// Discover implements membership.Network: it finds out who is at an address.
func (c *carrier) Discover(ctx context.Context, address string) (transport.Peer, error) {
	n, w := c.n, c.n.w
	for _, to := range w.nodes {
		if to.name() != address {
			continue
		}
		if err := c.p.Wait(ctx, nil, w.Net.Delay(n.ID, to.ID)+w.Net.Delay(to.ID, n.ID)); !errors.Is(err,
			context.DeadlineExceeded) ||
			ctx.Err() != nil {
			return transport.Peer{}, err
		}
		if to.Up && !w.Net.Parted(n.ID, to.ID) && n.connected(to) {
			return transport.Peer{Node: to.self()}, nil
		}
	}
	return transport.Peer{}, transport.ErrUnreachable
}

// SetAddress implements membership.Network: addresses stay what they are.
func (c *carrier) SetAddress(topology.NodeID, string) {}

// Forget implements membership.Network: a node that is gone answers nothing.
func (c *carrier) Forget(topology.NodeID) {}

// start sends the request, or says that there is no connection.
func (e *exchange) start(request []byte) error {
	n := e.c.n
	w := n.w
	target := w.nodeOf(e.to)
	switch {
	case target == nil, !target.Up && w.OneIn(2):
		return transport.ErrUnreachable
	}
	own, life := append([]byte(nil), request...), target.Life
	left := time.Duration(0)
	if !e.until.IsZero() {
		left = max(time.Microsecond, e.c.s.Until(e.until))
	}
	target.callers = append(target.callers, e)
	w.After(w.Net.Delay(n.ID, target.ID), func() {
		switch {
		case w.Net.Blocked(n.ID, target.ID):
			w.After(w.Between(time.Second, 4*time.Second), func() { e.finish(transport.ErrLost) })
		case !target.Up || target.Life != life:
			e.lost()
		case !n.connected(target):
			e.c.p.AfterLife(w.Net.Delay(target.ID, n.ID), func() { e.finish(transport.ErrUnreachable) })
		default:
			target.AfterPause(func() { target.serve(n.self(), own, left, e) })
		}
	})
	return nil
}

// serve carries out a request of another node as a task of this one.
func (n *node) serve(from topology.NodeID, request []byte, left time.Duration, e *exchange) {
	if !n.Up {
		return
	}
	r := &responder{e: e, n: n, life: n.Life, p: n.Process()}
	ctx, cancel := context.WithCancel(context.Background())
	if left > 0 {
		ctx, cancel = n.Scheduler().WithTimeout(context.Background(), left)
	}
	r.cancel = cancel
	e.cancel = func() { r.over = true; cancel() }
	n.Spawn(func(*world.Task) {
		n.answer(ctx, from, request, r)
	})
}

// lost is the end of a connection: the caller hears of it unless the two are cut off.
func (e *exchange) lost() {
	w := e.c.n.w
	e.c.p.AfterLife(w.Between(time.Millisecond, 20*time.Millisecond), func() { e.finish(transport.ErrLost) })
}

// finish ends an exchange at the caller's side.
func (e *exchange) finish(err error) {
	n := e.c.n
	if e.over || e.end != nil || n.Life != e.c.life || !n.Up {
		return
	}
	n.AfterPause(func() {
		if e.over || e.end != nil {
			return
		}
		e.end = err
		e.tellServer()
		if e.answer != nil {
			e.over = true
			e.answer.Answered(nil, err)
		}
	})
}

// tellServer has the other node hear that nothing more is wanted.
func (e *exchange) tellServer() {
	w := e.c.n.w
	target := w.nodeOf(e.to)
	if target == nil {
		return
	}
	life := target.Life
	w.After(w.Net.Delay(e.c.n.ID, target.ID), func() {
		if e.cancel != nil && target.Up && target.Life == life && !w.Net.Blocked(e.c.n.ID, target.ID) {
			target.Touch()
			e.cancel()
		}
	})
}

// Next implements remote.Stream.
func (e *exchange) Next() ([]byte, error) {
	if len(e.pages) == 0 && e.end == nil {
		most := time.Duration(0)
		until := e.until
		if !e.first.IsZero() && (until.IsZero() || e.first.Before(until)) {
			until = e.first
		}
		if !until.IsZero() {
			if most = e.c.s.Until(until); most <= 0 {
				e.Close()
				return nil, context.DeadlineExceeded
			}
		}
		if err := e.c.p.Wait(e.parent, func() bool { return len(e.pages) > 0 || e.end != nil }, most); err != nil {
			e.Close()
			e.end = err
			return nil, err
		}
	}
	if len(e.pages) == 0 {
		return nil, e.end
	}
	b := e.pages[0]
	e.pages = e.pages[1:]
	w, target := e.c.n.w, e.c.n.w.nodeOf(e.to)
	if target != nil {
		w.After(w.Net.Delay(e.c.n.ID, target.ID), func() { e.credit++; target.Touch() })
	}
	return b, nil
}

// Close implements remote.Stream.
func (e *exchange) Close() {
	if e.over || e.end != nil {
		e.over = true
		return
	}
	e.over = true
	e.tellServer()
}

// responder is the side that answers.
type responder struct {
	e      *exchange
	n      *node
	life   int
	p      world.Process
	over   bool
	cancel context.CancelFunc
}

// Page implements remote.Responder, as do the others.
func (r *responder) Page(data []byte) error {
	if r.e.answer != nil {
		return transport.ErrOneAnswer
	}
	err := r.p.Wait(context.Background(), func() bool { return r.over || r.e.credit > 0 }, 5*time.Second)
	if err != nil || r.over {
		return transport.ErrLost
	}
	r.e.credit--
	r.send(data, nil)
	return nil
}

func (r *responder) End(data []byte) error {
	if r.over {
		return transport.ErrLost
	}
	r.over = true
	r.cancel()
	r.send(data, io.EOF)
	return nil
}

func (r *responder) Fail(err error) {
	if r.over {
		return
	}
	r.over = true
	r.cancel()
	r.send(nil, &transport.RemoteError{Text: err.Error()})
}

// send brings a part of the answer to the caller, in order.
func (r *responder) send(data []byte, end error) {
	e := r.e
	if r.n.Life != r.life {
		return // a process that is gone says nothing
	}
	w, n := r.n.w, e.c.n
	own := append([]byte(nil), data...)
	w.NoteFrame(r.n.ID, n.ID, own)
	at := max(w.Now+w.Net.Delay(r.n.ID, n.ID), e.heard)
	e.heard = at
	w.After(at-w.Now, func() {
		switch {
		case n.Life != e.c.life || !n.Up || e.over || e.end != nil:
		case w.Net.Blocked(r.n.ID, n.ID):
			w.After(w.Between(time.Second, 4*time.Second), func() { e.finish(transport.ErrLost) })
		default:
			n.AfterPause(func() { e.arrived(own, end) })
		}
	})
}

// arrived takes a part of the answer.
func (e *exchange) arrived(data []byte, end error) {
	if e.over || e.end != nil {
		return
	}
	e.first = time.Time{}
	if e.answer == nil {
		if data != nil {
			e.pages = append(e.pages, data)
		}
		e.end = end
		return
	}
	e.over = true
	if end == io.EOF { //nolint:errorlint // send passes it as it is
		end = nil
	}
	e.answer.Answered(data, end)
}
