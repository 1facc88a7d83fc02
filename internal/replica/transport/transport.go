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
	handlers    Handlers
	security    atomic.Pointer[security]
	incarnation uint64
	counters    counters

	crew      crew
	bucket    bucket
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
	shakingOf map[string]int // by the host they come from
	present   map[NodeID]*presence
	inbound   map[NodeID]*inbound
	transfers map[transferID]*transfer
}

// inbound is the accepted raft connection of a node.
type inbound struct {
	conn net.Conn
	done chan struct{}
}

// New returns a transport that can dial. Start lets it receive.
func New(self Self, dial Dial, opts Options) (*Transport, error) {
	if (self.Node == NodeID{}) {
		return nil, errors.New("transport: a node needs an id")
	}
	if len(self.Address) > addressMax {
		return nil, fmt.Errorf("transport: address of %d bytes, at most %d", len(self.Address), addressMax)
	}
	if len(self.Lineage) > lineageMax {
		return nil, fmt.Errorf("transport: lineage of %d bytes, at most %d", len(self.Lineage), lineageMax)
	}
	s, err := newSecurity(opts.TLS, opts.Secret)
	if err != nil {
		return nil, err
	}
	t := &Transport{
		self: self, dial: dial, opts: opts.withDefaults(),
		peers: map[NodeID]*peer{}, conns: map[net.Conn]struct{}{}, inbound: map[NodeID]*inbound{},
		transfers: map[transferID]*transfer{},
		shakingOf: map[string]int{}, present: map[NodeID]*presence{},
	}
	t.security.Store(s)
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	t.incarnation = binary.LittleEndian.Uint64(b[:])
	t.crew.t = t
	t.bucket.rate, t.bucket.pressed = t.opts.SnapshotRate, t.opts.Pressed
	t.sendSlots = make(chan struct{}, t.opts.SnapshotsAtOnce)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t, nil
}

// SetTLS exchanges Options.TLS: connections from now on are made with it. It fails, and changes nothing, if New would
// fail with it.
func (t *Transport) SetTLS(config *tls.Config) error {
	s, err := newSecurity(config, t.opts.Secret)
	if err != nil {
		return err
	}
	t.security.Store(s)
	return nil
}

// Start receives from a listener, which Close closes. It is called once, before anything can arrive.
func (t *Transport) Start(l net.Listener, h Handlers) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	t.handlers = h
	t.listeners = append(t.listeners, l)
	t.done.Add(1)
	go func() {
		defer t.done.Done()
		t.accept(l)
	}()
	return nil
}

// Close closes the listener and every connection, ends what is under way, and returns when no goroutine is left; those
// of handlers must therefore end when their context or their reader does.
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

// goRun runs f on a goroutine that Close waits for; false if the transport is closed.
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

// track lets Close close a connection; false, and the connection is closed, if that is over.
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

// release closes a connection and forgets it.
func (t *Transport) release(c net.Conn) {
	_ = c.Close()
	t.mu.Lock()
	delete(t.conns, c)
	t.mu.Unlock()
}

// acceptPause is how long accepting rests when it fails.
const acceptPause = 50 * time.Millisecond

func (t *Transport) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			if t.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			if t.opts.Events.AcceptFailed != nil {
				t.opts.Events.AcceptFailed(err)
			}
			if !t.pause(t.ctx, acceptPause, nil) {
				return
			}
			continue
		}
		host, ok := t.room(conn)
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
	if t.opts.Events.HandshakeRefused != nil {
		remote := ""
		if a := c.RemoteAddr(); a != nil {
			remote = a.String()
		}
		t.opts.Events.HandshakeRefused(remote, err)
	}
}

// serve is the life of an accepted connection.
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
	if class == ask {
		return // it was answered
	}
	defer t.leave(s.peer, class)
	t.heard(s.peer)
	t.counters.accepted.Add(1)
	if t.opts.Events.Accepted != nil {
		t.opts.Events.Accepted(s.peer, class)
	}
	switch class {
	case Raft:
		t.serveRaft(s)
	case Snapshot:
		t.serveSnapshot(s)
	case Command:
		t.serveCommands(s)
	}
}

// serveRaft takes frames. A node has one such connection: the next one waits until the last frame of the one before was
// handled, and the dialler sends nothing before this side answered, so frames of one node keep their order.
func (t *Transport) serveRaft(s *stream) {
	mine := &inbound{conn: s.raw, done: make(chan struct{})}
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
			if t.opts.Events.Departed != nil {
				t.opts.Events.Departed(s.peer)
			}
			return errDeparted
		case t.handlers.OnFrame == nil:
			return malformed(kind, len(payload))
		}
		t.counters.framesReceived.Add(1)
		return t.handlers.OnFrame(node, frame)
	})
}

// Send queues a copy of a raft frame and returns at once; false says that it was dropped: the peer's queue is full, the
// last attempt to reach the peer failed, or its address is not known.
func (t *Transport) Send(to NodeID, frame []byte) bool {
	p := t.peerOf(to)
	if p == nil || len(frame) > t.opts.FrameBytes || !p.link(Raft).out.put(kindRaft, nil, frame) {
		t.counters.framesDropped.Add(1)
		return false
	}
	t.counters.framesSent.Add(1)
	return true
}

// pause waits; false if ctx or the transport ended. early, which may be nil, ends it.
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

// backoff is the pause after the n-th failure in a row, n from 0.
func (t *Transport) backoff(n int) time.Duration {
	d := t.opts.BackoffMax
	if n < 30 {
		d = min(d, t.opts.BackoffMin<<n)
	}
	return d - time.Duration(float64(d/2)*t.opts.Jitter())
}
