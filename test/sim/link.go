// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// link is a connection on which one process run of a node sends requests to one process run of another node. A link
// includes both ends and the product's frames between them. Like a connection of package transport, it closes when
// either process ends or a frame is corrupted. All requests in flight on the link then fail.
type link struct {
	c *fakeTransport
	// to is the remote node in its current process run.
	to   *node
	life int
	over bool
	// asks and answers are the two directions of the connection.
	asks, answers *simenv.Wire
	// last is the number of requests so far. under holds the requests whose final response the caller has not
	// received. served holds the requests that the remote node may still answer.
	last   uint64
	under  map[uint64]*exchange
	served map[uint64]*responder
}

// link returns the connection to a node. It opens a new connection if the old connection has ended.
func (c *fakeTransport) link(to *node) *link {
	id := to.self()
	if l := c.links[id]; l != nil && !l.over && l.life == to.Life {
		return l
	}
	net := &c.n.w.Net
	l := &link{c: c, to: to, life: to.Life, asks: net.Wire(c.n.ID, to.ID, &net.Requests),
		answers: net.Wire(to.ID, c.n.ID, &net.Requests), under: map[uint64]*exchange{}, served: map[uint64]*responder{}}
	l.asks.Ended, l.answers.Ended = l.broken, l.broken
	c.links[id] = l
	to.callers = append(slices.DeleteFunc(to.callers, func(l *link) bool { return l.over }), l)
	return l
}

// request sends a request on the connection.
func (l *link) request(e *exchange, left time.Duration, request []byte) {
	l.last++
	e.l, e.id = l, l.last
	l.under[e.id] = e
	l.asks.Send(transport.AppendRequest(nil, e.id, left, e.ahead, request), l.asked)
}

// tell sends a control frame about a request on the connection.
func (l *link) tell(word []byte) {
	if !l.over {
		l.asks.Send(word, l.asked)
	}
}

// soon returns the delay until a process learns that a connection has ended. late returns the time after which a
// caller stops waiting for a missing response.
func soon(w *simulation) time.Duration { return w.Between(time.Millisecond, 20*time.Millisecond) }
func late(w *simulation) time.Duration { return w.Between(time.Second, 4*time.Second) }

// broken ends the connection. If silent is set, neither side is notified.
func (l *link) broken(silent bool) {
	if l.over {
		return
	}
	after := soon
	if silent {
		after = late
	}
	l.end(after(l.c.n.w), transport.ErrLost)
}

// end ends the connection. After a delay, it notifies the caller and, unless the remote process has ended, the remote
// node.
func (l *link) end(after time.Duration, err error) {
	if l.over {
		return
	}
	l.over = true
	l.asks.Close()
	l.answers.Close()
	for _, id := range slices.Sorted(maps.Keys(l.under)) {
		e := l.under[id]
		l.c.p.AfterLife(after, func() { e.finish(err) })
	}
	if l.to.Up && l.to.Life == l.life {
		l.to.AfterLife(after, func() {
			for _, id := range slices.Sorted(maps.Keys(l.served)) {
				l.served[id].finish()
			}
		})
	}
}

// asked handles a frame that arrives at the remote node. Frames that arrived before a pause wait in the buffers of the
// process.
func (l *link) asked(f transport.Frame) {
	n, to := l.c.n, l.to
	a, err := f.Request()
	switch {
	case err != nil:
		n.w.Fail("from node %d to node %d: %v", n.ID, to.ID, err)
	case !to.Up || to.Life != l.life:
		l.broken(false)
	case !n.connected(to):
		l.end(n.w.Net.Delay(to.ID, n.ID), transport.ErrUnreachable)
	default:
		to.AfterPause(func() { l.take(a) })
	}
}

// take handles a frame of the caller on the remote node.
func (l *link) take(a transport.RequestFrame) {
	r := l.served[a.ID]
	switch {
	case l.over:
	case a.Cancel && r != nil:
		r.finish()
	case a.Credit && r != nil:
		r.credit++
	case a.Request != nil:
		l.serve(a)
	}
}

// serve executes a request as a task of the remote node. Like goroutines, tasks do not run in the order in which
// requests arrive.
func (l *link) serve(a transport.RequestFrame) {
	n, from := l.to, l.c.n.self()
	r := &responder{l: l, n: n, id: a.ID, life: n.Life, p: n.Process(), ahead: a.Ahead, credit: a.Ahead}
	ctx, cancel := context.WithCancel(context.Background())
	if a.Left > 0 {
		ctx, cancel = n.Scheduler().WithTimeout(context.Background(), a.Left)
	}
	r.cancel = cancel
	l.served[a.ID] = r
	if n.w.plan.With.Stragglers && n.w.OneIn(stragglerIn) {
		l.straggle(r, a.Request)
		return
	}
	n.AfterLife(n.w.Between(0, 300*time.Microsecond), func() {
		n.AfterPause(func() {
			n.Spawn(func(*simenv.Task) { n.answer(ctx, from, a.Request, r) })
		})
	})
}

// stragglerIn is the frequency of stragglers. One in stragglerIn requests is a straggler.
const stragglerIn = 25

// straggle executes a request long after its connection was lost, as if its goroutine had not been scheduled in time.
// By then, the caller has repeated the request, and the dedupe record of the repetition has been removed.
func (l *link) straggle(r *responder, request []byte) {
	n, from := l.to, l.c.n.self()
	l.end(soon(n.w), transport.ErrLost)
	request = bytes.Clone(request)
	n.AfterLife(n.w.Between(dedupeKept*time.Second, (dedupeKept+6)*time.Second), func() {
		n.AfterPause(func() {
			n.w.counts.Stragglers++
			n.Spawn(func(*simenv.Task) { n.answer(context.Background(), from, request, r) })
		})
	})
}

// answered handles a frame that arrives at the caller.
func (l *link) answered(f transport.Frame) {
	n := l.c.n
	a, err := f.HandleResponse()
	e := l.under[a.ID]
	switch {
	case err != nil:
		n.w.Fail("from node %d to node %d: %v", l.to.ID, n.ID, err)
	case !n.Up || n.Life != l.c.life || e == nil:
	default:
		if a.End != nil {
			delete(l.under, a.ID)
		}
		n.AfterPause(func() { e.arrived(a.Data, a.End) })
	}
}

// responder is the server side of a request.
type responder struct {
	l    *link
	n    *node
	id   uint64
	life int
	p    simenv.Process
	over bool
	// ahead is 0 for a request with a single response. credit is the number of pages that may be sent.
	ahead, credit int
	cancel        context.CancelFunc
}

// finish ends the request on the server side. finish reports whether the request was still active.
func (r *responder) finish() bool {
	if r.over {
		return false
	}
	r.over = true
	delete(r.l.served, r.id)
	r.n.Touch()
	r.cancel()
	return true
}

// Page implements transport.Responder.
func (r *responder) Page(data []byte) error {
	if r.ahead == 0 {
		return transport.ErrOneAnswer
	}
	err := r.p.Wait(context.Background(), func() bool { return r.over || r.credit > 0 }, 5*time.Second)
	if err != nil || r.over {
		return transport.ErrLost
	}
	r.credit--
	r.send(transport.AppendPage(nil, r.id, data))
	return nil
}

func (r *responder) End(data []byte) error {
	if !r.finish() {
		return transport.ErrLost
	}
	r.send(transport.AppendLast(nil, r.id, data))
	return nil
}

func (r *responder) Fail(err error) {
	if r.finish() {
		r.send(transport.AppendFail(nil, r.id, err))
	}
}

// send sends part of the response on the connection. A process that has ended sends nothing.
func (r *responder) send(frame []byte) {
	if r.n.Life == r.life && !r.l.over {
		r.l.answers.Send(frame, r.l.answered)
	}
}

// exchange is the client side of a request in flight.
type exchange struct {
	c      *fakeTransport
	l      *link
	id     uint64
	to     topology.NodeID
	answer transport.ResponseHandler
	// pages holds the pages that have arrived and have not been consumed. end is the result after the last page. over
	// is set when the caller needs no more pages.
	pages [][]byte
	end   error
	over  bool
	// ahead is the maximum number of pages in flight, or 0 for a request with a single response.
	ahead  int
	parent context.Context
	// until and first are the deadlines of transport.Bounded.
	until, first time.Time
}

// start sends the request. start returns an error if there is no connection.
func (e *exchange) start(request []byte) error {
	w := e.c.n.w
	target := w.nodeOf(e.to)
	if target == nil || !target.Up && w.OneIn(2) {
		return transport.ErrUnreachable
	}
	left := time.Duration(0)
	if !e.until.IsZero() {
		left = max(time.Microsecond, e.c.s.Until(e.until))
	}
	e.c.link(target).request(e, left, request)
	return nil
}

// finish ends an exchange on the client side.
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
		e.giveUp()
		if e.answer != nil {
			e.over = true
			e.answer.HandleResponse(nil, err)
		}
	})
}

// giveUp notifies the remote node that the caller needs no more pages.
func (e *exchange) giveUp() {
	if _, ok := e.l.under[e.id]; ok {
		delete(e.l.under, e.id)
		e.l.tell(transport.AppendCancel(nil, e.id))
	}
}

// Next implements transport.Stream.
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
	if e.ahead > 0 && e.end == nil {
		e.l.tell(transport.AppendCredit(nil, e.id))
	}
	return b, nil
}

// Close implements transport.Stream.
func (e *exchange) Close() {
	if !e.over && e.end == nil {
		e.giveUp()
	}
	e.over = true
}

// arrived processes part of the response.
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
	if errors.Is(end, io.EOF) {
		end = nil
	}
	e.answer.HandleResponse(data, end)
}
