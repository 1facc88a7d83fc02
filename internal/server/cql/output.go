// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// writeChunk is the number of bytes that are written under one deadline.
const writeChunk = 256 << 10

// ErrSlowClient is the reason for closing a connection whose client did not read, or did not complete a message.
var ErrSlowClient = errors.New("the client is too slow")

// begin starts a response in the output. mu must be held.
func (c *conn) begin(h cqlwire.Header) {
	if c.outBuffer == nil {
		c.outBuffer = getBuffer()
		c.out.Buf = c.outBuffer.b[:0]
	}
	h.Response = true
	if h.Version = c.version; c.version == 0 {
		h.Version = cqlwire.VersionMax
	}
	c.out.Begin(h)
}

// enlarge makes room for a body of about size bytes in the current response, in a pooled buffer instead of a grown
// one. mu must be held.
func (c *conn) enlarge(size int) {
	need := len(c.out.Buf) + size
	if need <= cap(c.out.Buf) || need > largeKeepMax {
		return
	}
	b, old := getLarge(need), c.outBuffer
	old.b = c.out.Buf
	c.outBuffer, c.out.Buf = b, append(b.b[:0], c.out.Buf...)
	putBuffer(old)
}

// respond sends a response without a prefix from the goroutine of the connection. body appends its body.
func (c *conn) respond(stream int16, op cqlwire.Opcode, body func(dst []byte) []byte) {
	c.mu.Lock()
	if !c.closed {
		c.begin(cqlwire.Header{Stream: stream, Opcode: op})
		c.out.Buf = body(c.out.Buf)
		c.out.End()
	}
	c.mu.Unlock()
}

func (c *conn) respondError(stream int16, err error) {
	c.srv.stats.Errors.Add(1)
	c.respond(stream, cqlwire.OpError, func(dst []byte) []byte { return cqlwire.AppendError(dst, c.version, err) })
}

// overloaded answers a request that exceeds a limit of this package.
func (c *conn) overloaded(stream int16, err error) {
	c.srv.stats.Overloaded.Add(1)
	if c.asker != nil {
		c.asker.Add(1, 1, 0)
	}
	c.respondError(stream, err)
}

// flush writes the output until it is empty, unless another goroutine is writing. mu must be held; it is released
// during writes.
func (c *conn) flush() {
	c.tellExecuted()
	if c.writing {
		return
	}
	c.writing = true
	for len(c.out.Buf) > 0 && !c.closed {
		c.out.Finish()
		b, data := c.outBuffer, c.out.Buf
		c.outBuffer, c.out.Buf, c.unsent = nil, nil, cap(data)
		c.account()
		c.mu.Unlock()
		err := c.write(data)
		b.b = data
		putBuffer(b)
		c.mu.Lock()
		c.unsent = 0
		c.account()
		if err != nil {
			c.failLocked(err)
		}
		c.unpark()
		c.wakeReader()
	}
	c.writing = false
	c.wakeReader()
}

// write writes data. The caller has set writing.
func (c *conn) write(data []byte) error {
	for len(data) > 0 {
		timeout := c.srv.opts.WriteTimeout
		now := time.Now()
		if c.deadline.Sub(now) < timeout-timeout/4 {
			c.deadline = now.Add(timeout)
			if err := c.nc.SetWriteDeadline(c.deadline); err != nil {
				return err
			}
		}
		c.writingSince.Store(now.UnixNano())
		n, err := c.send(data[:min(len(data), writeChunk)])
		c.writingSince.Store(0)
		c.srv.stats.Writes.Add(1)
		c.srv.stats.BytesOut.Add(int64(n))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("%w: it has not read %d bytes of responses for %s", ErrSlowClient, len(data)-n, timeout)
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// send writes data and records whether it had to wait for the client. The caller has set writing.
func (c *conn) send(data []byte) (n int, err error) {
	if c.raw == nil {
		return c.nc.Write(data)
	}
	c.sending, c.sent, c.sendErr = data, 0, nil
	if err = c.raw.Write(c.trySend); err == nil {
		err = c.sendErr
	}
	c.sending = nil
	return c.sent, err
}

// trySendFD is called by the runtime when the socket may be writable.
func (c *conn) trySendFD(fd uintptr) (done bool) {
	for c.sent < len(c.sending) {
		n, again, err := writeFD(fd, c.sending[c.sent:])
		if again {
			c.held.Store(true)
			return false
		}
		if n == 0 && err == nil {
			err = io.ErrUnexpectedEOF
		}
		if c.sent += n; err != nil {
			c.sendErr = err
			break
		}
	}
	return true
}

// drain flushes and waits until the client has read enough output to be read from again. Only the goroutine of the
// connection may call it.
func (c *conn) drain() {
	c.mu.Lock()
	c.flush()
	c.wait(func() bool { return len(c.out.Buf) > c.srv.opts.OutputBytesMax })
	c.mu.Unlock()
}

// wait waits while blocked returns true and the connection is open. mu must be held. Only the goroutine of the
// connection may call it.
func (c *conn) wait(blocked func() bool) {
	c.waiting = true
	for !c.closed && blocked() {
		c.held.Store(true)
		c.wake.Wait()
	}
	c.waiting = false
}

func (c *conn) wakeReader() {
	if c.waiting {
		c.wake.Signal()
	}
}

// scheduleFlush arranges that the output is written soon. mu must be held.
func (c *conn) scheduleFlush() {
	if c.writing || c.scheduled || c.closed {
		return
	}
	c.scheduled = true
	c.tasks.Add(1)
	go c.flushSoon()
}

func (c *conn) flushSoon() {
	defer c.tasks.Done()
	// Completions arrive in bursts, as groups commit. Wait for the end of the burst and write once.
	runtime.Gosched()
	c.mu.Lock()
	c.scheduled = false
	c.flush()
	c.mu.Unlock()
}

func (c *conn) releaseOutput() {
	if c.outBuffer != nil && !c.writing {
		c.outBuffer.b = c.out.Buf
		putBuffer(c.outBuffer)
		c.outBuffer, c.out.Buf = nil, nil
	}
}

// checkResponse replaces a response that is too long for a frame.
func (c *conn) checkResponse(size int) error {
	if size <= c.srv.opts.FrameBytesMax-responseSlack {
		return nil
	}
	return dberr.Serverf("The response is too big: %d bytes exceed the maximum of %d; use a smaller page size", size,
		c.srv.opts.FrameBytesMax)
}

// responseSlack is the space for the parts of a response other than its cells.
const responseSlack = 1 << 20
