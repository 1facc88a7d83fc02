// SPDX-License-Identifier: Apache-2.0

// Package memnet is an in-memory network for tests of code that uses connections. Tests can inject delays, cuts, and
// losses, and the network works with virtual time. Start reading at Network.
package memnet

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Network is an in-memory network for tests and simulations. It consists of named hosts and the streams between them,
// and it can inject faults into the streams. The network uses no randomness and no goroutines, and runs inside
// testing/synctest.
//
// All settings apply to a directed pair of hosts. They affect the bytes that the first host sends to the second host,
// regardless of the host that opened the connection.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	ways      map[[2]string]*way
}

// way is one direction between two hosts.
type way struct {
	mu    sync.Mutex
	cut   bool
	delay time.Duration
	// changed is closed when cut is removed.
	changed chan struct{}
	conns   map[*conn]struct{}
}

// New returns a network without hosts.
func New() *Network {
	return &Network{listeners: map[string]*listener{}, ways: map[[2]string]*way{}}
}

func (n *Network) way(from, to string) *way {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.ways[[2]string{from, to}]
	if w == nil {
		w = &way{changed: make(chan struct{}), conns: map[*conn]struct{}{}}
		n.ways[[2]string{from, to}] = w
	}
	return w
}

// Cut silently holds back all data and connection attempts from one host to another until the cut is removed. The data
// then arrives, as with TCP retransmission.
func (n *Network) Cut(from, to string, cut bool) {
	w := n.way(from, to)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut && !cut {
		close(w.changed)
		w.changed = make(chan struct{})
	}
	w.cut = cut
}

// Delay delays all later data from one host to another by d.
func (n *Network) Delay(from, to string, d time.Duration) {
	w := n.way(from, to)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
}

// Drop breaks the connections that one host has opened to another host. Both ends see a reset, and data in flight is
// lost.
func (n *Network) Drop(from, to string) {
	w := n.way(from, to)
	w.mu.Lock()
	conns := make([]*conn, 0, len(w.conns))
	for c := range w.conns {
		conns = append(conns, c)
	}
	w.mu.Unlock()
	for _, c := range conns {
		c.in.reset()
		c.out.reset()
		c.forget()
	}
}

// state reports whether a direction is cut, and returns its delay and the channel that is closed when the cut is
// removed.
func (w *way) state() (cut bool, delay time.Duration, changed chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut, w.delay, w.changed
}

// pass waits until a message has passed from one host to the other. It is used for connecting.
func (w *way) pass(ctx context.Context) error {
	for {
		cut, delay, changed := w.state()
		if !cut {
			timer := time.NewTimer(delay)
			defer timer.Stop()
			select {
			case <-timer.C:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Listen makes a host reachable. Connections to a host that does not listen are refused.
func (n *Network) Listen(host string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[host] != nil {
		return nil, fmt.Errorf("listen on %s: %w", host, syscall.EADDRINUSE)
	}
	l := &listener{n: n, host: host, backlog: make(chan *conn, 128), closed: make(chan struct{})}
	n.listeners[host] = l
	return l, nil
}

// Dialler returns a function that opens connections from a host.
func (n *Network) Dialler(from string) func(ctx context.Context, to string) (net.Conn, error) {
	return func(ctx context.Context, to string) (net.Conn, error) {
		there, back := n.way(from, to), n.way(to, from)
		if err := there.pass(ctx); err != nil {
			return nil, fmt.Errorf("dial %s: %w", to, err)
		}
		n.mu.Lock()
		l := n.listeners[to]
		n.mu.Unlock()
		if err := back.pass(ctx); err != nil {
			return nil, fmt.Errorf("dial %s: %w", to, err)
		}
		if l == nil {
			return nil, fmt.Errorf("dial %s: %w", to, syscall.ECONNREFUSED)
		}
		a, b := newFlow(there), newFlow(back)
		near := &conn{local: addr(from), remote: addr(to), in: b, out: a, way: there}
		far := &conn{local: addr(to), remote: addr(from), in: a, out: b, way: there}
		there.mu.Lock()
		there.conns[near], there.conns[far] = struct{}{}, struct{}{}
		there.mu.Unlock()
		select {
		case l.backlog <- far:
			return near, nil
		case <-l.closed:
			_ = near.Close()
			_ = far.Close()
			return nil, fmt.Errorf("dial %s: %w", to, syscall.ECONNREFUSED)
		case <-ctx.Done():
			_ = near.Close()
			_ = far.Close()
			return nil, fmt.Errorf("dial %s: %w", to, ctx.Err())
		}
	}
}

type addr string

func (addr) Network() string  { return "memory" }
func (a addr) String() string { return string(a) }

type listener struct {
	n       *Network
	host    string
	backlog chan *conn
	once    sync.Once
	closed  chan struct{}
}

func (l *listener) Addr() net.Addr { return addr(l.host) }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close makes the host refuse new connections and resets connections that have not been accepted.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.n.mu.Lock()
		delete(l.n.listeners, l.host)
		l.n.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.backlog:
				_ = c.Close()
			default:
				return
			}
		}
	})
	return nil
}

// conn is one end of a connection.
type conn struct {
	local, remote addr
	in, out       *flow
	way           *way
}

func (c *conn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b) }
func (c *conn) LocalAddr() net.Addr         { return c.local }
func (c *conn) RemoteAddr() net.Addr        { return c.remote }

// Close closes both directions. The other end reads the data in flight, and then io.EOF.
func (c *conn) Close() error {
	c.out.close(false)
	c.in.close(true)
	c.forget()
	return nil
}

func (c *conn) forget() {
	c.way.mu.Lock()
	delete(c.way.conns, c)
	c.way.mu.Unlock()
}

func (c *conn) SetDeadline(t time.Time) error {
	c.in.deadline(&c.in.readBy, t)
	c.out.deadline(&c.out.writeBy, t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.deadline(&c.in.readBy, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.deadline(&c.out.writeBy, t)
	return nil
}

// flow is one direction of a connection.
type flow struct {
	way *way

	mu       sync.Mutex
	segments []segment
	bytes    int
	// ended is set when the writer has closed the flow, and gone is set when the reader has closed it. err breaks both
	// ends.
	ended, gone     bool
	err             error
	readBy, writeBy time.Time
	// changed is closed and replaced when one of the preceding fields changes.
	changed chan struct{}
}

// segment is the data of one write.
type segment struct {
	data []byte
	due  time.Time
}

// flowBytes is the buffer size of a connection.
const flowBytes = 256 << 10

func newFlow(w *way) *flow { return &flow{way: w, changed: make(chan struct{})} }

func (f *flow) signal() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *flow) deadline(which *time.Time, t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*which = t
	f.signal()
}

func (f *flow) close(reader bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if reader {
		f.gone, f.segments, f.bytes = true, nil, 0
	} else {
		f.ended = true
	}
	f.signal()
}

func (f *flow) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = syscall.ECONNRESET
	}
	f.segments, f.bytes = nil, 0
	f.signal()
}

// until waits for a change, for the removal of the cut, or for the earliest of the given times. The caller must hold
// mu. until releases mu while it waits.
func (f *flow) until(lifted chan struct{}, times ...time.Time) {
	changed := f.changed
	var at time.Time
	for _, t := range times {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	var fire <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		fire = timer.C
	}
	f.mu.Unlock()
	select {
	case <-changed:
	case <-lifted:
	case <-fire:
	}
	f.mu.Lock()
}

func passed(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

func (f *flow) read(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		cut, _, lifted := f.way.state()
		switch {
		case f.gone:
			return 0, net.ErrClosed
		case f.err != nil:
			return 0, f.err
		case passed(f.readBy):
			return 0, os.ErrDeadlineExceeded
		case cut:
			f.until(lifted, f.readBy)
		case len(f.segments) == 0 && f.ended:
			return 0, io.EOF
		case len(f.segments) == 0:
			f.until(nil, f.readBy)
		case time.Now().Before(f.segments[0].due):
			f.until(nil, f.readBy, f.segments[0].due)
		default:
			s := &f.segments[0]
			n := copy(b, s.data)
			if s.data = s.data[n:]; len(s.data) == 0 {
				f.segments = f.segments[1:]
			}
			f.bytes -= n
			f.signal()
			return n, nil
		}
	}
}

func (f *flow) write(b []byte) (written int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		switch {
		case f.ended:
			return written, net.ErrClosed
		case f.err != nil:
			return written, f.err
		case f.gone:
			return written, syscall.EPIPE
		case passed(f.writeBy):
			return written, os.ErrDeadlineExceeded
		case written == len(b):
			return written, nil
		case f.bytes >= flowBytes:
			f.until(nil, f.writeBy)
		default:
			_, delay, _ := f.way.state()
			due := time.Now().Add(delay)
			if n := len(f.segments); n > 0 && f.segments[n-1].due.After(due) {
				due = f.segments[n-1].due
			}
			part := b[written:min(len(b), written+flowBytes-f.bytes)]
			f.segments = append(f.segments, segment{append([]byte(nil), part...), due})
			f.bytes += len(part)
			written += len(part)
			f.signal()
		}
	}
}
