// SPDX-License-Identifier: Apache-2.0

package httpguard

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Options holds the limits of a Listener.
type Options struct {
	// Max is the maximum number of connections. AddressMax is the maximum number of connections per address.
	Max, AddressMax int
	// TLS encrypts connections. If TLS is nil, connections are not encrypted.
	TLS *tls.Config
}

// Listener is a net.Listener that limits and checks its connections. A Listener must be used with a server that Attach
// has prepared.
type Listener struct {
	net.Listener
	o Options

	mu        sync.Mutex
	conns     list.List // list of *conn, oldest first
	byAddress map[netip.Addr]int
}

// Listen wraps a listener.
func Listen(l net.Listener, o Options) *Listener {
	return &Listener{Listener: l, o: o, byAddress: map[netip.Addr]int{}}
}

type connKey struct{}

// Attach prepares a server for a Listener. The listener must know which connections have a request in flight. The
// caller must call Attach before the server serves.
func Attach(s *http.Server) {
	h := s.Handler
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.setBusy(true)
			defer c.setBusy(false)
			if t, ok := c.Conn.(*tls.Conn); ok {
				state := t.ConnectionState()
				r.TLS = &state
			}
		}
		h.ServeHTTP(w, r)
	})
}

// Accept waits for a connection that is within the limits. Accept closes connections above the limits.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: nc, of: l}
		if l.o.TLS != nil {
			c.Conn = tls.Server(nc, l.o.TLS)
		}
		if a, err := netip.ParseAddrPort(nc.RemoteAddr().String()); err == nil {
			c.remote = a.Addr().Unmap()
		}
		out, ok := l.admit(c)
		if out != nil {
			_ = out.end()
		}
		if ok {
			return c, nil
		}
		_ = nc.Close()
	}
}

// admit adds a connection. out is a connection that must be closed to make room.
func (l *Listener) admit(c *conn) (out *conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.byAddress[c.remote] >= l.o.AddressMax:
		out = l.oldestIdle(func(o *conn) bool { return o.remote == c.remote })
	case l.conns.Len() >= l.o.Max:
		out = l.oldestIdle(func(*conn) bool { return true })
	default:
		ok = true
	}
	if !ok && out == nil {
		return nil, false
	}
	if out != nil {
		l.leave(out)
	}
	c.place = l.conns.PushBack(c)
	l.byAddress[c.remote]++
	return out, true
}

// oldestIdle returns the oldest connection that has no request in flight and that satisfies fits. The caller must hold
// mu.
func (l *Listener) oldestIdle(fits func(*conn) bool) *conn {
	for e := l.conns.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); !c.busy && fits(c) {
			return c
		}
	}
	return nil
}

// leave removes a connection. Further calls have no effect. The caller must hold mu.
func (l *Listener) leave(c *conn) {
	if c.place == nil {
		return
	}
	l.conns.Remove(c.place)
	c.place = nil
	if l.byAddress[c.remote]--; l.byAddress[c.remote] == 0 {
		delete(l.byAddress, c.remote)
	}
}

// conn is a connection. Its reads are sequential.
type conn struct {
	net.Conn
	of     *Listener
	remote netip.Addr
	framed framing

	// Listener.mu guards place and busy.
	place *list.Element
	busy  bool
}

func (c *conn) setBusy(busy bool) {
	c.of.mu.Lock()
	c.busy = busy
	c.of.mu.Unlock()
}

// Read implements net.Conn. Read returns only bytes of requests with accepted framing.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.framed.read(c.Conn, p)
	if clear, ok := errors.AsType[tls.RecordHeaderError](err); ok && clear.Conn != nil {
		refuseClear(clear)
	}
	return n, err
}

// refuseClear sends an error to a client that uses HTTP with an HTTPS listener. The error has the same text as in
// net/http.
func refuseClear(clear tls.RecordHeaderError) {
	switch string(clear.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		_, _ = io.WriteString(clear.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
	_ = clear.Conn.Close()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.leave(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// end closes the socket immediately. TLS would first write a close notification and wait for a client that does not
// read.
func (c *conn) end() error {
	if t, ok := c.Conn.(*tls.Conn); ok {
		return t.NetConn().Close()
	}
	_ = c.SetDeadline(time.Unix(1, 0))
	return c.Conn.Close()
}
