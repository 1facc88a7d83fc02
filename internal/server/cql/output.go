// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"syscall"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// ErrSlowClient is the reason for closing a connection whose client did not read, or did not complete a message.
var ErrSlowClient = errors.New("the client is too slow")

// output collects the responses of a connection and writes the responses. An output is safe for concurrent use.
// Methods lock mu unless their comments require the caller to hold it.
type output struct {
	srv    *Server
	sock   socketWriter
	cancel context.CancelFunc // cancels the context of the connection
	// version is the version of responses. Until STARTUP has negotiated a version, it is the version of the last
	// message. It is 0 if the version is not supported. It belongs to the goroutine of the connection and does not
	// change after the handshake.
	version uint8
	// tasks counts workers and flushers. No task is added after closed is set.
	tasks sync.WaitGroup

	mu sync.Mutex
	// mu guards the following fields.
	wake      sync.Cond // signaled when writing or the number of requests changes, output decreases, or closed is set
	waiting   bool
	w         cqlwire.Writer
	buf       *buffer                // owner of w.Buf, or nil if the output is empty
	payload   []cqlwire.PayloadEntry // payload of the last response with a payload
	writing   bool                   // a goroutine is writing and continues until the output is empty
	scheduled bool                   // a flusher has been started but is not running yet
	unsent    int                    // bytes of the buffer that is being written
	counted   int64                  // output that Stats.Backlog includes
	charges   charges
	// parked holds the requests for workers that wait until the client has read more output.
	parked []*request
	closed bool
	reason error
}

func (o *output) init(s *Server, sock, nc net.Conn, raw syscall.RawConn, cancel context.CancelFunc) {
	o.srv, o.cancel, o.wake.L = s, cancel, &o.mu
	o.sock.init(s, sock, nc, raw)
}

// begin starts a response. The caller must hold mu.
func (o *output) begin(h cqlwire.Header) {
	if o.buf == nil {
		o.buf = getBuffer()
		o.w.Buf = o.buf.b[:0]
	}
	h.Response = true
	if h.Version = o.version; o.version == 0 {
		h.Version = cqlwire.VersionMax
	}
	o.w.Begin(h)
}

// enlarge makes room for a body of about size bytes in the current response. It takes a pooled buffer instead of
// growing the current buffer. The caller must hold mu.
func (o *output) enlarge(size int) {
	need := len(o.w.Buf) + size
	if need <= cap(o.w.Buf) || need > largeKeepMax {
		return
	}
	b, old := getLarge(need), o.buf
	old.b = o.w.Buf
	o.buf, o.w.Buf = b, append(b.b[:0], o.w.Buf...)
	putBuffer(old)
}

// respond adds a response without a prefix. The goroutine of the connection must call it. body appends the body of the
// response.
func (o *output) respond(stream int16, op cqlwire.Opcode, body func(dst []byte) []byte) {
	o.mu.Lock()
	if !o.closed {
		o.begin(cqlwire.Header{Stream: stream, Opcode: op})
		o.w.Buf = body(o.w.Buf)
		o.w.End()
	}
	o.mu.Unlock()
}

func (o *output) respondError(stream int16, err error) {
	o.srv.stats.Errors.Add(1)
	o.respond(stream, cqlwire.OpError, func(dst []byte) []byte { return cqlwire.AppendError(dst, o.version, err) })
}

// overloaded sends the response to a request that exceeds a limit of this package.
func (o *output) overloaded(stream int16, err error) {
	o.srv.stats.Overloaded.Add(1)
	if o.charges.user != nil {
		o.charges.user.Add(1, 1, 0)
	}
	o.respondError(stream, err)
}

// respondResult adds the response to a request that was executed synchronously.
func (o *output) respondResult(r *request) {
	o.mu.Lock()
	if !o.closed {
		o.encode(r)
	}
	full := len(o.w.Buf) >= flushSize
	o.mu.Unlock()
	if full {
		o.drain()
	}
}

// pushEvent adds an event. If the client does not read, pushEvent closes the connection. body appends the event.
func (o *output) pushEvent(body func(dst []byte) []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
	case len(o.w.Buf) > o.srv.opts.OutputBytesMax:
		o.failLocked(fmt.Errorf("%w: it had not read %d bytes when an event occurred", ErrSlowClient, len(o.w.Buf)))
	default:
		o.begin(cqlwire.Header{Stream: cqlwire.EventStream, Opcode: cqlwire.OpEvent})
		o.w.Buf = body(o.w.Buf)
		o.w.End()
		o.scheduleFlush()
		o.srv.stats.EventsSent.Add(1)
	}
}

// flush writes output until the buffer is empty, unless another goroutine is writing. The caller must hold mu. flush
// releases mu during writes.
func (o *output) flush() {
	o.charges.report(&o.srv.stats)
	if o.writing {
		return
	}
	o.writing = true
	for len(o.w.Buf) > 0 && !o.closed {
		o.w.Finish()
		b, data := o.buf, o.w.Buf
		o.buf, o.w.Buf, o.unsent = nil, nil, cap(data)
		o.account()
		o.mu.Unlock()
		err := o.sock.write(data)
		b.b = data
		putBuffer(b)
		o.mu.Lock()
		o.unsent = 0
		o.account()
		if err != nil {
			o.failLocked(err)
		}
		o.unpark()
		o.wakeReader()
	}
	o.writing = false
	o.wakeReader()
}

// drain flushes the output and waits until the client has read enough output. The server can then read from the client
// again. Only the goroutine of the connection may call it.
func (o *output) drain() {
	o.flushUntil(func() bool { return len(o.w.Buf) <= o.srv.opts.OutputBytesMax })
}

// flushUntil flushes the output and waits until done returns true or the connection is closed. It holds mu when it
// calls done. Only the goroutine of the connection may call it.
func (o *output) flushUntil(done func() bool) {
	o.mu.Lock()
	o.flush()
	o.waiting = true
	for !o.closed && !done() {
		o.sock.held.Store(true)
		o.wake.Wait()
	}
	o.waiting = false
	o.mu.Unlock()
}

// empty reports whether all output has been written. The caller must hold mu.
func (o *output) empty() bool { return !o.writing && !o.scheduled && len(o.w.Buf) == 0 }

// wakeReader wakes flushUntil. The caller must hold mu.
func (o *output) wakeReader() {
	if o.waiting {
		o.wake.Signal()
	}
}

// scheduleFlush ensures that the output is written soon. The caller must hold mu.
func (o *output) scheduleFlush() {
	if o.writing || o.scheduled || o.closed {
		return
	}
	o.scheduled = true
	o.tasks.Add(1)
	go o.flushSoon()
}

func (o *output) flushSoon() {
	defer o.tasks.Done()
	// Completions arrive in bursts, because groups commit together. The flusher waits for the end of the burst and
	// then writes once.
	runtime.Gosched()
	o.mu.Lock()
	o.scheduled = false
	o.flush()
	o.mu.Unlock()
}

// park postpones a request whose client does not read earlier responses (CQ2). A postponed request stays in flight,
// but needs no worker.
func (o *output) park(r *request) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	unread := len(o.w.Buf) + o.unsent
	if o.closed || unread == 0 || unread <= o.srv.opts.OutputBytesMax && !o.srv.Pressed() {
		return false
	}
	o.parked = append(o.parked, r)
	o.srv.stats.Parked.Add(1)
	return true
}

// unpark passes a postponed request to a worker. It starts one request at a time, because a response may be large.
// When the response has been written, the next request is started. The caller must hold mu.
func (o *output) unpark() {
	for len(o.parked) > 0 && !o.closed && len(o.w.Buf) <= o.srv.opts.OutputBytesMax {
		r := o.parked[0]
		o.parked[0] = nil
		o.parked = o.parked[1:]
		o.srv.stats.Parked.Add(-1)
		o.tasks.Add(1)
		if o.srv.workers.submit(r) {
			return
		}
		o.tasks.Done()
		o.srv.stats.Overloaded.Add(1)
		r.Result.Err = errQueueFull
		r.answer()
	}
}

// dropParked drops the postponed requests of a client that has disconnected.
func (o *output) dropParked() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.parked {
		o.srv.stats.Parked.Add(-1)
		r.answer()
	}
	o.parked = nil
}

// fail closes the connection. Only the first reason is kept.
func (o *output) fail(reason error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failLocked(reason)
}

func (o *output) failLocked(reason error) {
	if o.closed {
		return
	}
	o.closed = true
	o.reason = reason
	o.cancel()
	o.wake.Broadcast()
	o.sock.close()
}

// end releases the buffers after the connection has failed, and returns the reason.
func (o *output) end() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buf != nil && !o.writing {
		o.buf.b = o.w.Buf
		putBuffer(o.buf)
		o.buf, o.w.Buf = nil, nil
	}
	o.unsent = 0
	o.account()
	return o.reason
}

// checkResponse replaces a response that is too long for a frame.
func (o *output) checkResponse(size int) error {
	if size <= o.srv.opts.FrameBytesMax-responseSlack {
		return nil
	}
	return dberr.Serverf("The response is too big: %d bytes exceed the maximum of %d; use a smaller page size", size,
		o.srv.opts.FrameBytesMax)
}

// responseSlack is the space for the parts of a response in addition to its cells.
const responseSlack = 1 << 20
