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
	// inputBytes is the buffer that a connection has while it waits, and all that most requests need.
	inputBytes = 4 << 10
	// keepBytes is the largest buffer that is used again, and how much of an answer is copied so that it leaves with
	// its head in one piece.
	keepBytes = 64 << 10
	// lingerTime and lingerBytes bound what a client may still send that was told that the connection ends.
	lingerTime, lingerBytes = time.Second, 4 << 20
)

// conn is a connection. Its goroutine runs serve; fields without a remark belong to that goroutine.
type conn struct {
	server *Server
	guest  *guest   // the socket, and its place
	nc     net.Conn // what is spoken through: guest, or TLS over it
	// ctx is that of its requests: it ends with the connection, or earlier if the client leaves during a request.
	ctx    context.Context
	cancel context.CancelFunc
	// number is its own among all of the node, those before a restart included; since is when it began.
	number uint64
	since  time.Time
	doing  doing
	// looked is what look has found the last time.
	looked int64

	// in holds what has arrived, from r to w. It is room but for what does not fit there.
	in   []byte
	r, w int
	room [inputBytes]byte
	// left is how much of the body of the request has not been read, or httpwire.Chunks; chunks is how far it is
	// then, and awaited says that the client sends it only when it is told to.
	left    int64
	chunks  httpwire.Body
	awaited bool

	// x is the request at hand and what is to be written, nil while there is neither.
	x *exchange
	// readBy and writeBy are the deadlines that are set.
	readBy, writeBy time.Time
	// known says that somebody with a key is at the other end; last that the connection ends with the answer at hand.
	known, last bool

	mu sync.Mutex
	// idle says that no request has begun, and turn counts requests. mu guards them.
	idle bool
	turn uint64
	// key and agent are what the client has introduced itself with. mu guards them.
	key, agent string
	// idleFrom is when interrupt first saw the connection idle, and idleTurn the request before that. They belong to
	// Shutdown.
	idleFrom time.Time
	idleTurn uint64
}

var errHeadSize = &httpwire.Malformed{Status: http.StatusRequestHeaderFieldsTooLarge,
	Message: "The headers of the request are too large: they may have 65536 bytes."}

func newConn(s *Server, g *guest) *conn {
	c := &conn{server: s, guest: g, nc: g, since: time.Now()}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	if s.opts.TLS != nil {
		c.nc = tls.Server(g, s.opts.TLS)
	}
	c.in = c.room[:]
	return c
}

// serve answers requests until either side ends the connection.
func (c *conn) serve() {
	defer c.end()
	// A stranger has as long for the handshake of TLS and the first request as others for the headers of a request.
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
	if c.flush() == nil && (c.left != 0 || c.r < c.w) {
		c.linger()
	}
}

// end closes the connection and gives up its place, also where a defect has ended it.
func (c *conn) end() {
	if defect := recover(); defect != nil {
		c.server.opts.Log.LogAttrs(c.server.ctx, slog.LevelError, "defect in a connection over HTTP",
			slog.Any("defect", defect), slog.String("stack", string(debug.Stack())))
	}
	c.cancel()
	_ = c.guest.Close()
}

// await waits for the first byte of a request. A connection that waits has no buffers but its room.
func (c *conn) await(first bool) error {
	if c.r < c.w {
		return nil
	}
	if err := c.flush(); err != nil {
		return err
	}
	c.server.release(c.x)
	c.x, c.in, c.r, c.w = nil, c.room[:], 0, 0
	if !first {
		if err := c.readWithin(c.server.opts.IdleTimeout); err != nil {
			return err
		}
	}
	c.setIdle(true)
	n, err := c.nc.Read(c.in)
	c.setIdle(false)
	if c.w = n; n > 0 {
		return nil
	}
	return err
}

// begin takes what the exchange of a request needs, which strangers who drip do not get.
func (c *conn) begin() {
	if c.x == nil {
		c.x = c.server.acquire(c)
	}
}

// setIdle notes whether a request has begun.
func (c *conn) setIdle(idle bool) {
	c.mu.Lock()
	if c.idle = idle; !idle {
		c.turn++
	}
	c.mu.Unlock()
}

// interrupt ends the connection if no request has begun for Server.idleGap. The answer to a request that comes before
// that says that the connection ends: so a client hears of it in a way that loses nothing.
func (c *conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case !c.idle:
		c.idleFrom = time.Time{}
	case c.idleFrom.IsZero() || c.idleTurn != c.turn:
		c.idleFrom, c.idleTurn = now, c.turn
	case now.Sub(c.idleFrom) >= c.server.idleGap:
		_ = c.guest.SetReadDeadline(now)
	}
}

// readWithin has reads fail after about a time, of which a quarter may be gone: timers cost more than they are worth.
func (c *conn) readWithin(d time.Duration) error {
	now := time.Now()
	if left := c.readBy.Sub(now); left <= d && left >= d-d/4 {
		return nil
	}
	c.readBy = now.Add(d)
	return c.nc.SetReadDeadline(c.readBy)
}

// fill reads once, when what was answered is written. There is room for it then.
func (c *conn) fill() error {
	if err := c.flush(); err != nil {
		return err
	}
	switch {
	case c.r == c.w:
		c.r, c.w = 0, 0
	case c.w < len(c.in):
	case c.r > 0:
		c.w = copy(c.in, c.in[c.r:c.w])
		c.r = 0
	default:
		grown := make([]byte, 2*len(c.in))
		copy(grown, c.in)
		c.in = grown
	}
	n, err := c.nc.Read(c.in[c.w:])
	if c.w += n; n > 0 {
		return nil
	}
	return err
}

// head reads the head of a request. The error is a *httpwire.Malformed, or that of the connection.
func (c *conn) head(first bool) error {
	c.left, c.awaited = 0, false
	looked, limited, blank := 0, first, false
	for {
		data := c.in[c.r:c.w]
		if !blank && len(data) > 1 && data[0] == '\r' && data[1] == '\n' {
			// Some clients end the body before with a line that is none of it.
			c.r, looked, blank = c.r+2, 0, true
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
			c.r += end
			c.left, c.chunks, c.awaited = r.Length, httpwire.Body{}, r.Continue
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

// flush writes what is to be written. A client has about answerWait to read it.
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

// linger gives a client that sends what nobody will read the time to read its answer: closing a socket with unread
// input resets it, and the answer would be lost.
func (c *conn) linger() {
	var half interface{ CloseWrite() error }
	if t, ok := c.nc.(*tls.Conn); ok {
		half = t
	} else if half, ok = c.guest.Conn.(interface{ CloseWrite() error }); !ok {
		return
	}
	if half.CloseWrite() != nil || c.nc.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	for total := 0; total < lingerBytes; {
		n, err := c.nc.Read(c.in)
		if err != nil {
			return
		}
		total += n
	}
}

// refuseClear tells a client that speaks HTTP at an address for HTTPS what is wrong.
func (c *conn) refuseClear(err error) {
	clear, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || clear.Conn == nil {
		return
	}
	switch string(clear.RecordHeader[:4]) {
	case "GET ", "POST", "PUT ", "PATC", "DELE", "HEAD", "OPTI":
		const text = "This address takes HTTPS only.\n"
		_, _ = clear.Conn.Write([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n" +
			"Content-Length: 31\r\n\r\n" + text))
		c.nc = c.guest
		c.linger()
	}
}
