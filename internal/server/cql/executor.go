// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// executor admits the requests of a connection, passes them to its session, and tracks them until their responses have
// been sent. Fields without a comment belong to the goroutine of the connection. They do not change after the
// handshake.
type executor struct {
	srv  *Server
	out  *output
	ctx  context.Context // the context of the connection
	sess Session
	// client and claimant identify the client and its principal.
	client          *session.Client
	claimant        fairshare.Principal
	throwOnOverload bool
	current         *request // the request for synchronous execution, or nil when the connection is idle
	// pending is the number of requests that execute asynchronously.
	pending atomic.Int32
	// inFlight holds the requests that execute asynchronously. out.mu guards it.
	inFlight requestList
}

var (
	errConnectionInFlight error = &dberr.Overloaded{Message: "Too many requests are in flight on this connection"}
	errInFlight           error = &dberr.Overloaded{Message: "Too many requests are in flight on this node"}
	errQueueFull          error = &dberr.Overloaded{Message: "Too many long-running requests are waiting on this node"}
)

// execute passes a request to the session unless a limit is reached. waited is the time for which the request has been
// in the socket.
func (x *executor) execute(h cqlwire.Header, body []byte, waited time.Duration) {
	if x.srv.gate.Closed() && !x.letIn(h, body, waited) {
		x.out.overloaded(h.Stream, errOverload)
		return
	}
	if err := x.admit(); err != nil {
		x.out.overloaded(h.Stream, err)
		return
	}
	r := x.current
	if r == nil {
		r = newRequest(x)
		x.current = r
	}
	if err := r.parse(h, body); err != nil {
		r.Result.Err = err
		x.out.respondResult(r)
		return
	}
	x.run(r, body)
}

// letIn reports whether admission control admits a request while it is closed.
func (x *executor) letIn(h cqlwire.Header, body []byte, waited time.Duration) bool {
	who := x.claimant
	if who.Low = x.low(); !who.Low && h.Flags&cqlwire.FlagPayload != 0 && x.out.version >= cqlwire.V4 {
		who.Low = lowPriority(body)
	}
	x.out.mu.Lock()
	cost := x.out.charges.cost
	x.out.mu.Unlock()
	return x.srv.gate.Admit(who, cost, waited, x.srv.sampleIfDue())
}

// lowPriority reports whether the custom payload at the start of a body requests low priority. The code that parses a
// payload rejects malformed payloads.
func lowPriority(body []byte) bool {
	entries, _, err := cqlwire.SplitPayload(nil, body)
	for i := range entries {
		if err == nil && string(entries[i].Key) == session.PriorityPayload {
			low, err := session.IsLow(entries[i].Value)
			return low && err == nil
		}
	}
	return false
}

// low reports whether the client's role has low priority.
func (x *executor) low() bool {
	f, client := x.srv.opts.LowPriority, x.client
	return f != nil && client != nil && client.User != "" && !client.Account && f(client.User)
}

// admit checks the limits for requests in flight and for unread responses.
func (x *executor) admit() error {
	opts := &x.srv.opts
	if int(x.pending.Load()) >= opts.ConnectionInFlightMax {
		if x.throwOnOverload {
			return errConnectionInFlight
		}
		x.out.flushUntil(func() bool { return int(x.pending.Load()) < opts.ConnectionInFlightMax })
	}
	if x.srv.stats.InFlight.Load() >= int64(opts.InFlightMax) {
		return errInFlight
	}
	if x.srv.Pressed() {
		if err := x.out.yield(x.ctx); err != nil {
			return err
		}
	}
	if x.srv.stats.InFlightBytes.Load() > opts.InFlightBytesMax {
		return errNoMemory
	}
	return nil
}

// run executes a request synchronously. It sends the response unless the request is pending or a worker executes it.
func (x *executor) run(r *request, body []byte) {
	switch r.run() {
	case session.Done:
		x.out.respondResult(r)
	case session.Pending:
		x.depart(r, len(body))
		if r.both.Arrive() {
			r.finish()
		}
	case session.Offload:
		r.own = append(r.own[:0], body...)
		r.MayBlock = true
		if x.depart(r, len(body)) {
			x.offload(r)
		} else {
			r.finish()
		}
	}
}

// depart marks a request as in flight. It returns false if the connection is closed.
func (x *executor) depart(r *request, size int) bool {
	x.current = nil
	r.size = int64(size) + requestBytes
	x.pending.Add(1)
	x.srv.stats.InFlight.Add(1)
	x.srv.stats.InFlightBytes.Add(r.size)
	x.out.mu.Lock()
	defer x.out.mu.Unlock()
	x.inFlight.add(r)
	if r.MayBlock && !x.out.closed {
		x.out.tasks.Add(1)
	}
	return !x.out.closed
}

// offload passes a request in flight to a worker.
func (x *executor) offload(r *request) {
	err := r.parse(r.h, r.own)
	if err == nil && !x.srv.workers.submit(r) {
		x.srv.stats.Overloaded.Add(1)
		err = errQueueFull
	}
	if err != nil {
		x.out.tasks.Done()
		r.Result.Err = err
		r.finish()
	}
}

// work executes a request on a worker.
func (r *request) work() {
	o := r.x.out
	defer o.tasks.Done()
	if r.x.ctx.Err() != nil {
		r.finish() // the client has disconnected
		return
	}
	if o.park(r) {
		return
	}
	if r.run() == session.Pending && !r.both.Arrive() {
		return
	}
	r.finish()
}

// longest returns the longest running statement and its start time. If no statement is running, it returns the zero
// time.
func (x *executor) longest() (text string, began time.Time) {
	x.out.mu.Lock()
	defer x.out.mu.Unlock()
	return x.inFlight.longest()
}

// release returns the request that is used for synchronous execution to the pool.
func (x *executor) release() {
	if x.current != nil {
		x.current.recycle()
		x.current = nil
	}
}

// requestList is a list of requests from the oldest to the newest.
type requestList struct{ oldest, newest *request }

func (l *requestList) add(r *request) {
	if r.older = l.newest; r.older != nil {
		r.older.newer = r
	} else {
		l.oldest = r
	}
	l.newest = r
}

func (l *requestList) remove(r *request) {
	if r.older != nil {
		r.older.newer = r.newer
	} else {
		l.oldest = r.newer
	}
	if r.newer != nil {
		r.newer.older = r.older
	} else {
		l.newest = r.older
	}
	r.older, r.newer = nil, nil
}

// lookedMax is the maximum number of a connection's requests that are examined to find a running statement.
const lookedMax = 64

func (l *requestList) longest() (text string, began time.Time) {
	r := l.oldest
	for n := 0; r != nil && n < lookedMax; n++ {
		if at, since := r.Running(); !since.IsZero() && (began.IsZero() || since.Before(began)) {
			text, began = at, since
		}
		r = r.newer
	}
	return text, began
}
