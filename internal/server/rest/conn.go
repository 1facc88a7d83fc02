// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/server/httpwire"
)

const (
	// keepBytes is the maximum size of a reused buffer. Response bodies of up to this size are copied into the buffer
	// of the head. A single write then sends the response.
	keepBytes = 64 << 10
	// lingerTime and lingerBytes limit the input that is read after the connection has been closed for writing.
	lingerTime, lingerBytes = time.Second, 4 << 20
)

// conn is a connection. Its goroutine runs serve and owns all fields without a comment.
type conn struct {
	server     *Server
	clientConn *clientConn // the socket with its slot
	nc         net.Conn    // clientConn, or TLS on top of clientConn
	// ctx is the context of the requests on the connection. It ends when the connection ends, or when the client
	// disconnects during a request.
	ctx    context.Context
	cancel context.CancelFunc
	// number is unique on the node, even across restarts. since is the start time of the connection.
	number uint64
	since  time.Time
	doing  doing
	// looked is the last request that look has seen.
	looked int64

	in input
	// x is the current exchange with its output, or nil between requests.
	x *exchange
	// readBy and writeBy are the current deadlines.
	readBy, writeBy time.Time
	// last means that the connection ends with the current response.
	last bool
	idle idleness
}

var errHeadSize = &httpwire.Malformed{Status: http.StatusRequestHeaderFieldsTooLarge,
	Message: "The headers of the request exceed 65536 bytes."}

func newConn(s *Server, g *clientConn) *conn {
	c := &conn{server: s, clientConn: g, nc: g, since: time.Now()}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	if s.opts.TLS != nil {
		c.nc = tls.Server(g, s.opts.TLS)
	}
	c.in.reset()
	return c
}

// serve serves requests until the server or the client closes the connection.
func (c *conn) serve() {
	defer c.end()
	// An unauthenticated client must complete the TLS handshake and send the first request within headerWait.
	c.readBy = time.Now().Add(headerWait)
	c.writeBy = c.readBy
	if c.nc.SetDeadline(c.readBy) != nil {
		return
	}
	for first := true; !c.last; first = false {
		if err := c.await(first); err != nil {
			c.refuseClear(err)
			return
		}
		if err := c.head(first); err != nil {
			refused, ok := errors.AsType[*httpwire.Malformed](err)
			if !ok {
				return
			}
			c.last = true
			c.begin()
			c.x.refuseMalformed(refused)
			break
		}
		c.exchange()
	}
	if c.flush() == nil && (c.in.left != 0 || c.in.r < c.in.w) {
		c.linger()
	}
}

// end closes the connection and releases its slot, even after a panic.
func (c *conn) end() {
	if panicked := recover(); panicked != nil {
		c.server.opts.Log.LogAttrs(c.server.ctx, slog.LevelError, "panic while serving an HTTP connection",
			slog.Any("panic", panicked), slog.String("stack", string(debug.Stack())))
	}
	c.cancel()
	_ = c.clientConn.Close()
}

// await waits for the first byte of a request. An idle connection has no buffer in addition to room.
func (c *conn) await(first bool) error {
	if c.in.r < c.in.w {
		return nil
	}
	if err := c.flush(); err != nil {
		return err
	}
	c.server.release(c.x)
	c.x = nil
	c.in.reset()
	if !first {
		if err := c.readWithin(c.server.opts.IdleTimeout); err != nil {
			return err
		}
	}
	c.idle.set(true)
	n, err := c.nc.Read(c.in.buf)
	c.idle.set(false)
	if c.in.w = n; n > 0 {
		return nil
	}
	return err
}

// begin acquires an exchange. It is called only when the head is complete, so slow clients do not occupy memory.
func (c *conn) begin() {
	if c.x == nil {
		c.x = c.server.acquire(c)
	}
}

// interrupt closes the connection if it has been idle for Server.idleGap. The response to an earlier request has
// announced the end of the connection, so no request of the client is lost.
func (c *conn) interrupt() {
	c.idle.mu.Lock()
	defer c.idle.mu.Unlock()
	if now := time.Now(); c.idle.since(now) >= c.server.idleGap {
		_ = c.clientConn.SetReadDeadline(now)
	}
}

// readWithin sets a read deadline. If the previous deadline is earlier by at most a quarter of the time, it is kept,
// because setting timers is expensive.
func (c *conn) readWithin(d time.Duration) error {
	now := time.Now()
	if left := c.readBy.Sub(now); left <= d && left >= d-d/4 {
		return nil
	}
	c.readBy = now.Add(d)
	return c.nc.SetReadDeadline(c.readBy)
}

// fill performs one read after pending responses have been written.
func (c *conn) fill() error {
	if err := c.flush(); err != nil {
		return err
	}
	n, err := c.nc.Read(c.in.space())
	if c.in.w += n; n > 0 {
		return nil
	}
	return err
}

// head reads the head of a request. The error is a *httpwire.Malformed or an error from the connection.
func (c *conn) head(first bool) error {
	c.in.left, c.in.awaited = 0, false
	looked, limited, blank := 0, first, false
	for {
		data := c.in.unread()
		if !blank && len(data) > 1 && data[0] == '\r' && data[1] == '\n' {
			// Some clients send an additional line break after the previous body.
			c.in.r, looked, blank = c.in.r+2, 0, true
			continue
		}
		end, err := httpwire.End(data, looked)
		switch {
		case err != nil:
			return err
		case end > headerBytesMax, end == 0 && len(data) >= headerBytesMax:
			return errHeadSize
		case end > 0:
			c.begin()
			r := &c.x.request
			if err := r.Parse(data[:end]); err != nil {
				return err
			}
			c.in.r += end
			c.in.left, c.in.chunks, c.in.awaited = r.Length, httpwire.Body{}, r.Continue
			c.last = r.Close
			return nil
		}
		looked = len(data)
		if !limited {
			limited = true
			if err := c.readWithin(headerWait); err != nil {
				return err
			}
		}
		if err := c.fill(); err != nil {
			return err
		}
	}
}

// flush writes the pending output. The client must read the output within about answerWait.
func (c *conn) flush() error {
	if c.x == nil || len(c.x.out) == 0 {
		return nil
	}
	err := c.write(c.x.out)
	c.x.out = c.x.out[:0]
	return err
}

func (c *conn) write(b []byte) error {
	now := time.Now()
	if c.writeBy.Sub(now) < answerWait-answerWait/4 {
		c.writeBy = now.Add(answerWait)
		if err := c.nc.SetWriteDeadline(c.writeBy); err != nil {
			return err
		}
	}
	_, err := c.nc.Write(b)
	return err
}

// linger discards input for some time, during which the client can read its response. If a socket with unread input is
// closed, the connection is reset, and the response is lost.
func (c *conn) linger() {
	var half interface{ CloseWrite() error }
	if t, ok := c.nc.(*tls.Conn); ok {
		half = t
	} else if half, ok = c.clientConn.Conn.(interface{ CloseWrite() error }); !ok {
		return
	}
	if half.CloseWrite() != nil || c.nc.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	for total := 0; total < lingerBytes; {
		n, err := c.nc.Read(c.in.buf)
		if err != nil {
			return
		}
		total += n
	}
}

// refuseClear responds to a client that uses HTTP on an HTTPS port.
func (c *conn) refuseClear(err error) {
	clear, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || clear.Conn == nil {
		return
	}
	switch string(clear.RecordHeader[:4]) {
	case "GET ", "POST", "PUT ", "PATC", "DELE", "HEAD", "OPTI":
		const text = "This address requires HTTPS.\n"
		_, _ = clear.Conn.Write([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n" +
			"Content-Length: 29\r\n\r\n" + text))
		c.nc = c.clientConn
		c.linger()
	}
}

// idleness records when a connection is between two requests.
type idleness struct {
	mu sync.Mutex
	// idle reports whether no request has begun. turn counts requests. mu guards all fields.
	idle bool
	turn uint64
	// from is the time at which the method since first found the connection idle. fromTurn is the value of turn at
	// that time.
	from     time.Time
	fromTurn uint64
}

// set records whether a request has begun.
func (i *idleness) set(idle bool) {
	i.mu.Lock()
	if i.idle = idle; !idle {
		i.turn++
	}
	i.mu.Unlock()
}

// since returns the time since it first found the connection idle. It returns 0 if the connection is not idle. The
// caller must hold mu.
func (i *idleness) since(now time.Time) time.Duration {
	if !i.idle {
		return 0
	}
	if i.from.IsZero() || i.fromTurn != i.turn {
		i.from, i.fromTurn = now, i.turn
	}
	return now.Sub(i.from)
}
