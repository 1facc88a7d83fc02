// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"sync"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// request is a request that a session executes. It is pooled. One request object serves all synchronous requests of a
// read. A request that becomes pending or is passed to a worker owns its object until its response has been encoded.
type request struct {
	session.Call
	x *executor
	h cqlwire.Header
	// both synchronizes two events, which are the end of the session's method with Pending and the completion of the
	// request. The second of these events causes the response to be sent.
	both sched.Rendezvous
	// size is the share of a request in flight in InFlightBytes.
	size int64
	// older and newer link the requests in flight (executor.inFlight). out.mu guards them.
	older, newer *request
	// own is the body of a request that a worker executes, because a worker must not use the read buffer.
	own []byte

	// skipMetadata and metadataID describe the columns that the client already knows.
	skipMetadata bool
	metadataID   []byte

	// The following fields are decoded messages. They are kept to reuse the capacity of their slices.
	query      cqlwire.Query
	execute    cqlwire.Execute
	prepare    cqlwire.Prepare
	batch      cqlwire.Batch
	statements []session.BatchStatement
	entries    []cqlwire.PayloadEntry
	payload    []session.Payload
}

var requests = sync.Pool{New: func() any {
	r := new(request)
	r.Call.CompleteTo(r)
	return r
}}

// ownMax is the maximum capacity, in bytes, of own and of a result's cells that is kept.
const ownMax = 256 << 10

func newRequest(x *executor) *request {
	r := requests.Get().(*request)
	r.x = x
	return r
}

// recycle returns the request to the pool. It clears all references, so the pool keeps only buffers alive.
func (r *request) recycle() {
	r.x = nil
	r.ClearRunning()
	r.Request = session.Request{}
	r.Result.Reset()
	r.MayBlock = false
	r.metadataID = nil
	if cap(r.own) > ownMax {
		r.own = nil
	}
	if cap(r.Result.Cells) > ownMax {
		r.Result.Cells = nil
	}
	if len(r.batch.Statements) > 1000 || len(r.execute.Values) > 1000 || len(r.query.Values) > 1000 {
		r.query, r.execute, r.batch, r.statements = cqlwire.Query{}, cqlwire.Execute{}, cqlwire.Batch{}, nil
	}
	requests.Put(r)
}

// parse decodes the body into the session's request.
func (r *request) parse(h cqlwire.Header, body []byte) (err error) {
	r.h = h
	r.both.Reset()
	r.Result.Reset()
	r.ClearRunning()
	r.skipMetadata, r.metadataID = false, nil
	r.Request = session.Request{Version: r.x.out.version, Serial: dberr.Serial, PageSize: cqlwire.NoPaging,
		Tracing: h.Flags&cqlwire.FlagTracing != 0}
	if h.Flags&cqlwire.FlagPayload != 0 && r.x.out.version >= cqlwire.V4 {
		if r.entries, body, err = cqlwire.SplitPayload(r.entries[:0], body); err != nil {
			return err
		}
		r.payload = r.payload[:0]
		for _, e := range r.entries {
			if string(e.Key) == session.PriorityPayload {
				if _, err := session.IsLow(e.Value); err != nil {
					return err
				}
			}
			r.payload = append(r.payload, session.Payload(e))
		}
		r.Request.Payload = r.payload
	}
	return operations[h.Opcode].parse(r, body)
}

// run passes the request to the session.
func (r *request) run() session.Status { return operations[r.h.Opcode].run(r.x.sess, r.x.ctx, &r.Call) }

func (r *request) setOptions(o *cqlwire.Options) {
	q := &r.Request
	q.Consistency, q.Serial = o.Consistency, o.Serial
	q.Timestamp, q.HasTimestamp = o.Timestamp, o.HasTimestamp
	q.Keyspace = o.Keyspace
	q.Now, q.HasNow = o.Now, o.HasNow
}

func (r *request) setParams(p *cqlwire.Params) {
	r.setOptions(&p.Options)
	q := &r.Request
	q.PageSize, q.PagingState = p.PageSize, p.PagingState
	q.Values = p.Values
	if len(p.Unset) > 0 {
		q.Unset = p.Unset
	}
	if len(p.Names) > 0 {
		q.Names = p.Names
	}
	r.skipMetadata = p.SkipMetadata
}

// setID sets the ID of a prepared statement. An ID of a different length is treated as unknown.
func setID(dst *[16]byte, id []byte) error {
	if len(id) != len(dst) {
		return &unknownID{id}
	}
	copy(dst[:], id)
	return nil
}

// unknownID is a prepared statement ID that this server cannot have issued.
type unknownID struct{ id []byte }

func (e *unknownID) Error() string { return "prepared statement ID has the wrong length" }

// requestBytes is the approximate memory of a request in flight without its body, in bytes.
const requestBytes = 1 << 10

// Completed is called when the result of a pending request is available.
func (r *request) Completed() {
	if r.both.Arrive() {
		r.finish()
	}
}

// finish sends the response to a request that was in flight. It is safe for concurrent use.
func (r *request) finish() {
	o := r.x.out
	o.mu.Lock()
	r.answer()
	o.mu.Unlock()
}

// answer works like finish, but requires output.mu. The caller must not use the request afterward.
func (r *request) answer() {
	x, o := r.x, r.x.out
	x.inFlight.remove(r)
	if !o.closed {
		o.encode(r)
		o.scheduleFlush()
	}
	x.pending.Add(-1)
	o.wakeReader()
	x.srv.stats.InFlightBytes.Add(-r.size)
	x.srv.stats.InFlight.Add(-1)
	r.recycle()
}
