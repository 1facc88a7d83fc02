// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Transport is the node's end of all connections to other nodes. It is safe for concurrent use.
type Transport struct {
	self        Self
	dial        Dial
	opts        Options
	raft        RaftHandler
	commands    CommandHandler
	security    atomic.Pointer[security]
	incarnation uint64
	counters    counters

	workers   workerPool
	bucket    rateLimiter
	sendSlots chan struct{}
	sequence  atomic.Uint64

	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup

	book  sync.RWMutex
	peers map[NodeID]*peer

	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
	conns     map[net.Conn]struct{}
	accepted  int
	shaking   int
	shakingOf map[string]int // number of handshakes in progress by remote host
	present   map[NodeID]*peerProcess
	inbound   map[NodeID]*inboundRaft
	transfers map[transferID]*transfer
}

// inboundRaft is the accepted Raft connection of a node.
type inboundRaft struct {
	conn net.Conn
	done chan struct{}
}

// New returns a transport that can dial. Start makes the transport accept connections.
func New(self Self, dial Dial, opts Options) (*Transport, error) {
	if (self.Node == NodeID{}) {
		return nil, errors.New("transport: the node ID is missing")
	}
	if len(self.Address) > addressMax {
		return nil, fmt.Errorf("transport: the address has %d bytes; the maximum is %d", len(self.Address), addressMax)
	}
	if len(self.History) > lineageMax {
		return nil, fmt.Errorf("transport: the history has %d bytes; the maximum is %d", len(self.History), lineageMax)
	}
	s, err := newSecurity(opts.TLS, opts.Secret)
	if err != nil {
		return nil, err
	}
	t := &Transport{
		self: self, dial: dial, opts: opts.withDefaults(),
		peers: map[NodeID]*peer{}, conns: map[net.Conn]struct{}{}, inbound: map[NodeID]*inboundRaft{},
		transfers: map[transferID]*transfer{},
		shakingOf: map[string]int{}, present: map[NodeID]*peerProcess{},
	}
	t.security.Store(s)
	var b [8]byte
	_, _ = rand.Read(b[:]) // Read never fails
	t.incarnation = binary.LittleEndian.Uint64(b[:])
	t.workers.t = t
	t.bucket.rate, t.bucket.overloaded = t.opts.SnapshotRate, t.opts.Overloaded
	t.sendSlots = make(chan struct{}, t.opts.SnapshotsAtOnce)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t, nil
}

// SetTLS replaces Options.TLS for new connections. If New would fail with config, SetTLS fails and changes nothing.
func (t *Transport) SetTLS(config *tls.Config) error {
	s, err := newSecurity(config, t.opts.Secret)
	if err != nil {
		return err
	}
	t.security.Store(s)
	return nil
}

// Start accepts connections from a listener. Close closes the listener. Start must be called once, before any
// connection can arrive.
func (t *Transport) Start(l net.Listener, raft RaftHandler, commands CommandHandler) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	t.raft, t.commands = raft, commands
	t.listeners = append(t.listeners, l)
	t.done.Add(1)
	go func() {
		defer t.done.Done()
		t.accept(l)
	}()
	return nil
}

// Close closes the listener and all connections, ends all work in progress, and returns when all goroutines have ended.
// Handlers must therefore return when their context or reader ends.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	for _, l := range t.listeners {
		_ = l.Close()
	}
	for c := range t.conns {
		_ = c.Close()
	}
	for _, tr := range t.transfers {
		tr.fail(ErrClosed)
	}
	t.mu.Unlock()
	t.cancel()
	t.done.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tr := range t.transfers {
		tr.mu.Lock()
		tr.timer.Stop()
		tr.mu.Unlock()
	}
	clear(t.transfers)
	return nil
}

// goRun runs f on a goroutine. Close waits for the goroutine. It returns false if the transport is closed.
func (t *Transport) goRun(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.done.Add(1)
	go func() {
		defer t.done.Done()
		f()
	}()
	return true
}

// track registers a connection that Close must close. If the transport is closed, it closes the connection and returns
// false.
func (t *Transport) track(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = c.Close()
		return false
	}
	t.conns[c] = struct{}{}
	return true
}

// release closes a connection and unregisters it.
func (t *Transport) release(c net.Conn) {
	_ = c.Close()
	t.mu.Lock()
	delete(t.conns, c)
	t.mu.Unlock()
}

// acceptPause is the delay after a failed accept.
const acceptPause = 50 * time.Millisecond

func (t *Transport) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			if t.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			if !t.pause(t.ctx, acceptPause, nil) {
				return
			}
			continue
		}
		host, ok := t.admitHandshake(conn)
		if !ok {
			_ = conn.Close()
			t.handshakeRefused(conn, fmt.Errorf("%w: InboundConnections or Handshakes", ErrBusy))
			continue
		}
		if !t.track(conn) {
			return
		}
		if !t.goRun(func() { t.serve(conn, host) }) {
			return
		}
	}
}

func (t *Transport) handshakeRefused(c net.Conn, err error) {
	t.counters.handshakesRefused.Add(1)
	remote := ""
	if a := c.RemoteAddr(); a != nil {
		remote = a.String()
	}
	t.opts.Observer.HandshakeRefused(remote, err)
}

// serve serves an accepted connection until it closes.
func (t *Transport) serve(conn net.Conn, host string) {
	defer func() {
		t.release(conn)
		t.mu.Lock()
		t.accepted--
		t.mu.Unlock()
	}()
	s, class, err := t.receive(t.ctx, conn)
	t.freeHandshake(host)
	if err != nil {
		if t.ctx.Err() == nil {
			t.handshakeRefused(conn, err)
		}
		return
	}
	if class == classIdentify {
		return // the response has been sent
	}
	defer t.leave(s.peer, class)
	t.noteHandshake(s.peer)
	t.opts.Observer.Accepted(s.peer)
	switch class {
	case Raft:
		t.serveRaft(s)
	case Snapshot:
		t.serveSnapshot(s)
	case Command:
		t.serveCommands(s)
	}
}

// serveRaft processes Raft frames. A node has one such connection. A new connection waits until the last frame of the
// previous connection has been processed. The dialer sends no frames before this side has responded. The frames of a
// node therefore stay in order.
func (t *Transport) serveRaft(s *stream) {
	mine := &inboundRaft{conn: s.raw, done: make(chan struct{})}
	node := s.peer.Node
	t.mu.Lock()
	before := t.inbound[node]
	t.inbound[node] = mine
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		if t.inbound[node] == mine {
			delete(t.inbound, node)
		}
		t.mu.Unlock()
		close(mine.done)
	}()
	if before != nil {
		_ = before.conn.Close()
		<-before.done
	}
	if t.reply(s, Raft, node, nil) != nil {
		return
	}
	_ = t.newSession(s, t.outbox()).run(false, func(kind byte, payload []byte) error {
		frame, departed, err := Frame{kind, payload}.Raft()
		switch {
		case err != nil:
			return err
		case departed:
			t.opts.Observer.Departed(s.peer)
			return errDeparted
		}
		return t.raft.Receive(node, frame)
	})
}

// Send queues a copy of a Raft frame and returns immediately. It returns false if the frame was dropped because the
// peer's queue is full, the last attempt to reach the peer failed, or its address is unknown.
func (t *Transport) Send(to NodeID, frame []byte) bool {
	p := t.peerOf(to)
	if p == nil || len(frame) > t.opts.FrameBytes || !p.link(Raft).out.put(kindRaft, nil, frame) {
		t.counters.framesDropped.Add(1)
		return false
	}
	t.counters.framesSent.Add(1)
	return true
}

// pause waits for d. It returns false if ctx or the transport has ended. early, if not nil, ends the wait when it is
// closed.
func (t *Transport) pause(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-early:
		return true
	case <-ctx.Done():
		return false
	case <-t.ctx.Done():
		return false
	}
}

// backoff returns the delay after the n-th consecutive failure, counted from 0.
func (t *Transport) backoff(n int) time.Duration {
	d := t.opts.BackoffMax
	if n < 30 {
		d = min(d, t.opts.BackoffMin<<n)
	}
	return d - time.Duration(float64(d/2)*t.opts.Jitter())
}
