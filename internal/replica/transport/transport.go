// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// Transport manages all connections of this node to other nodes. It is safe for concurrent use.
type Transport struct {
	lifetime
	opts     Options
	dial     Dial
	counters counters
	handshaker
	book addressBook

	// raft and commands are set by Start.
	raft     RaftHandler
	commands CommandHandler
	workers  workerPool
	limits   inboundLimits
	inbound  inboundRaft
	sender   snapshotSender
	receiver snapshotReceiver
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
	t := &Transport{dial: dial, opts: opts.withDefaults()}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.conns = map[net.Conn]struct{}{}
	t.book.peers = map[NodeID]*peer{}
	t.handshaker.init(self, &t.opts, s)
	t.workers.lifetime, t.inbound.conns = &t.lifetime, map[NodeID]*raftConn{}
	t.limits.connections, t.limits.handshakes = t.opts.InboundConnections, t.opts.Handshakes
	t.limits.shakingOf = map[string]int{}
	t.sender.t, t.sender.slots = t, make(chan struct{}, t.opts.SnapshotsAtOnce)
	t.sender.bucket.rate, t.sender.bucket.load = t.opts.SnapshotRate, t.opts.Load
	t.receiver.t, t.receiver.transfers = t, map[transferID]*transfer{}
	return t, nil
}

// SetTLS replaces Options.TLS for new connections. SetTLS returns an error and has no effect if config is invalid.
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
	t.raft, t.commands = raft, commands
	if !t.trackListener(l) || !t.goRun(func() { t.accept(l) }) {
		return ErrClosed
	}
	return nil
}

// Close closes the listener and all connections, ends all work in progress, and waits for all goroutines. Handlers must
// therefore return when their context or reader ends.
func (t *Transport) Close() error {
	t.end()
	t.receiver.fail(ErrClosed)
	t.done.Wait()
	t.receiver.forgetAll()
	return nil
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
		host, ok := t.limits.admit(conn)
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
	defer t.limits.closed()
	defer t.release(conn)
	s, class, err := t.receive(t.ctx, conn)
	t.limits.shook(host)
	if err != nil {
		if t.ctx.Err() == nil {
			t.handshakeRefused(conn, err)
		}
		return
	}
	if class == classIdentify {
		return // the response has been sent
	}
	defer t.present.leave(s.peer, class)
	t.noteHandshake(s.peer)
	t.opts.Observer.Accepted(s.peer)
	switch class {
	case Raft:
		t.serveRaft(s)
	case Snapshot:
		t.receiver.serve(s)
	case Command:
		t.serveCommands(s)
	}
}

// serveRaft processes Raft frames. To keep the frames of a node in order, a new connection waits until the last frame
// of the previous connection has been processed. The dialer sends no frames before this side has responded.
func (t *Transport) serveRaft(s *stream) {
	node := s.peer.Node
	defer t.inbound.replace(node, s.raw)()
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
// peer's queue is full, the last connection attempt failed, or the peer's address is unknown.
func (t *Transport) Send(to NodeID, frame []byte) bool {
	p := t.book.of(to)
	if p == nil || len(frame) > t.opts.FrameBytes || !p.link(Raft).out.put(kindRaft, nil, frame) {
		t.counters.framesDropped.Add(1)
		return false
	}
	t.counters.framesSent.Add(1)
	return true
}

// backoff returns the delay after n+1 consecutive failures.
func (t *Transport) backoff(n int) time.Duration {
	d := t.opts.BackoffMax
	if n < 30 {
		d = min(d, t.opts.BackoffMin<<n)
	}
	return d - time.Duration(float64(d/2)*rand.Float64())
}
