// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// peer is an entry of the address book with the connections that this node dials to the peer.
type peer struct {
	t      *Transport
	node   NodeID
	ctx    context.Context
	cancel context.CancelFunc
	raft   atomic.Pointer[link]

	mu      sync.Mutex
	address string
	// proven is the process that responded at address. Its incarnation is 0 if no process responded.
	proven  Peer
	command *link
}

// addressBook holds the peers of a transport.
type addressBook struct {
	mu    sync.RWMutex
	peers map[NodeID]*peer
}

// of returns the peer of a node, or nil.
func (b *addressBook) of(node NodeID) *peer {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.peers[node]
}

// add returns the peer of a node and creates it if necessary.
func (b *addressBook) add(t *Transport, node NodeID, address string) *peer {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.peers[node]
	if p == nil {
		p = &peer{t: t, node: node, address: address}
		p.ctx, p.cancel = context.WithCancel(t.ctx)
		b.peers[node] = p
	}
	return p
}

func (b *addressBook) all() []*peer {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.Collect(maps.Values(b.peers))
}

// SetAddress sets the address of a node. It keeps working connections. All other connections immediately try the new
// address.
func (t *Transport) SetAddress(node NodeID, address string) {
	if node == t.self.Node || (node == NodeID{}) {
		return
	}
	p := t.book.add(t, node, address)
	p.mu.Lock()
	if p.address != address {
		p.address, p.proven = address, Peer{}
	}
	p.mu.Unlock()
	p.retry(0)
}

// Address returns the address of a node, or an empty string if the address is unknown.
func (t *Transport) Address(node NodeID) string {
	if p := t.book.of(node); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.address
	}
	return ""
}

// Forget removes a node from the address book and closes all connections that were dialed to this node.
func (t *Transport) Forget(node NodeID) {
	t.book.mu.Lock()
	p := t.book.peers[node]
	delete(t.book.peers, node)
	t.book.mu.Unlock()
	if p == nil {
		return
	}
	p.cancel()
	for _, l := range p.links() {
		l.abort(ErrNoAddress)
	}
}

// noteHandshake records that a process has completed a handshake with this node. The handshake contains the address of
// the process.
func (t *Transport) noteHandshake(from Peer) {
	p := t.book.of(from.Node)
	if from.Address != "" && t.Address(from.Node) != from.Address &&
		(p != nil || len(t.book.all()) < t.opts.InboundConnections) {
		t.SetAddress(from.Node, from.Address)
	}
	if p != nil {
		p.retry(from.Incarnation)
	}
}

func (p *peer) links() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*link
	if l := p.raft.Load(); l != nil {
		all = append(all, l)
	}
	if p.command != nil {
		all = append(all, p.command)
	}
	return all
}

// retry ends the delays between connection attempts. If incarnation is not 0, it also closes connections to other
// incarnations.
func (p *peer) retry(incarnation uint64) {
	for _, l := range p.links() {
		select {
		case l.early <- struct{}{}:
		default:
		}
		if incarnation != 0 {
			l.abortOther(incarnation)
		}
	}
}

// link returns the connection of a class, and starts the connection on the first call.
func (p *peer) link(c Class) *link {
	if c == Raft {
		if l := p.raft.Load(); l != nil {
			return l
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c == Raft {
		if l := p.raft.Load(); l != nil {
			return l
		}
	} else if p.command != nil {
		return p.command
	}
	l := &link{t: p.t, p: p, class: c, out: p.t.outbox(), early: make(chan struct{}, 1)}
	if !p.t.goRun(l.run) {
		l.failed(ErrClosed)
	}
	if c == Raft {
		p.raft.Store(l)
	} else {
		p.command = l
	}
	return l
}

// connect dials a peer and records the result.
func (p *peer) connect(ctx context.Context, c Class) (*stream, error) {
	t := p.t
	p.mu.Lock()
	address := p.address
	p.mu.Unlock()
	if address == "" {
		return nil, ErrNoAddress
	}
	t.counters.dials.Add(1)
	s, err := t.connect(ctx, address, c, p.node)
	if err == nil {
		p.mu.Lock()
		if p.address == address {
			p.proven = s.peer
		}
		p.mu.Unlock()
		return s, nil
	}
	if ctx.Err() != nil {
		return nil, ErrClosed
	}
	err = fmt.Errorf("dial %x at %s: %w", p.node, address, err)
	t.opts.Observer.DialFailed(p.node, address, err)
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return nil, err
	}
	p.mu.Lock()
	last := p.proven
	if p.address != address {
		last = Peer{}
	}
	p.mu.Unlock()
	if last.Node == p.node {
		t.opts.Observer.Refused(last)
	}
	return nil, err
}

// connect dials and performs the handshake. The caller must end the connection with t.release.
func (t *Transport) connect(ctx context.Context, address string, c Class, want NodeID) (*stream, error) {
	ctx, cancel := context.WithTimeout(ctx, t.opts.DialTimeout)
	defer cancel()
	raw, err := t.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	if !t.track(raw) {
		return nil, ErrClosed
	}
	s, err := t.greet(ctx, raw, c, want)
	if err != nil {
		t.release(raw)
		return nil, err
	}
	s.peer.Address = address
	return s, nil
}

// Discover performs a handshake with the node at an address, adds the node to the address book, and returns the node.
func (t *Transport) Discover(ctx context.Context, address string) (Peer, error) {
	s, err := t.connect(ctx, address, Command, NodeID{})
	if err != nil {
		return Peer{}, fmt.Errorf("discover %s: %w", address, err)
	}
	t.release(s.raw)
	t.SetAddress(s.peer.Node, address)
	return s.peer, nil
}

// departTime is the maximum time for which a stopping process waits until its peers have received its announcement.
const departTime = 300 * time.Millisecond

// Depart notifies the peers that this process no longer serves requests. It sends the notification after the last Raft
// frame. It returns when the peers have received the notification, or after departTime. An orderly stop must call
// Depart. After the call, the process must not serve reads under a lease, and may call only Close.
func (t *Transport) Depart() error {
	ctx, cancel := context.WithTimeout(t.ctx, departTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range t.book.all() {
		p.cancel() // do not dial the peer again
		if l := p.raft.Load(); l != nil {
			wg.Go(func() { l.depart(ctx) })
		}
	}
	wg.Wait()
	return nil
}

// depart sends the last frame on a connection. The peer closes the connection when it has received the frame.
func (l *link) depart(ctx context.Context) {
	l.mu.Lock()
	s := l.session
	l.mu.Unlock()
	if s == nil {
		return
	}
	l.out.force(kindDepart, nil, nil)
	select {
	case <-s.dead:
	case <-ctx.Done():
	}
}

// link is a connection to a peer that is reestablished as necessary.
type link struct {
	t     *Transport
	p     *peer
	class Class
	// out is the queue of the link. It is shut after a failed connection attempt.
	out   *outbox
	early chan struct{}

	mu      sync.Mutex
	session *session
	// err is the error of the last connection attempt. It is nil while the link is connected or the first attempt is in
	// progress.
	err   error
	calls map[uint64]*call
	last  uint64
	// sweeper runs at sweepAt and ends commands whose deadline has passed. sweepAt is zero if no command has a
	// deadline.
	sweeper *time.Timer
	sweepAt time.Time
}

// run connects repeatedly until the peer is removed from the address book.
func (l *link) run() {
	failures := 0
	for {
		s, err := l.p.connect(l.p.ctx, l.class)
		if err != nil {
			l.failed(err)
		} else {
			since := time.Now()
			_ = l.serve(s)
			if time.Since(since) > l.t.opts.BackoffMax {
				failures = 0
				continue
			}
			// The link redials immediately only after the first failure, so that it does not redial in a tight loop.
			if failures++; failures == 1 {
				continue
			}
		}
		if !l.t.pause(l.p.ctx, l.t.backoff(failures), l.early) {
			l.failed(ErrClosed)
			return
		}
		failures++
	}
}

// serve exchanges frames over a connection until it is lost.
func (l *link) serve(s *stream) error {
	session := l.t.newSession(s, l.out)
	l.mu.Lock()
	if l.err != nil {
		l.out.reset(false)
	}
	l.err, l.session = nil, session
	l.mu.Unlock()
	if l.p.ctx.Err() != nil {
		session.abort(ErrClosed)
	}
	err := session.run(false, l.handle)
	l.mu.Lock()
	l.session = nil
	lost := fmt.Errorf("%w: %w", ErrLost, err)
	untold := l.drop(false, lost)
	l.mu.Unlock()
	notifyHandlers(untold, lost)
	return err
}

// failed makes the link reject new frames.
func (l *link) failed(err error) {
	err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	l.mu.Lock()
	l.err = err
	untold := l.drop(true, err)
	l.mu.Unlock()
	notifyHandlers(untold, err)
}

// drop fails all waiting commands. The caller must hold mu. After the caller has released mu, it must call the handlers
// of the returned calls.
func (l *link) drop(shut bool, err error) (untold []*call) {
	n := l.out.reset(shut)
	if l.class == Raft {
		l.t.counters.framesDropped.Add(n)
	}
	for _, c := range l.calls {
		if !c.end(err) {
			untold = append(untold, c)
		}
	}
	clear(l.calls)
	if l.sweeper != nil {
		l.sweeper.Stop()
	}
	l.sweepAt = time.Time{}
	return untold
}

// handle processes frames from the peer on a connection that this node dialed.
func (l *link) handle(kind byte, payload []byte) error {
	if l.class == Raft {
		return malformed(kind, len(payload))
	}
	return l.handleResponse(kind, payload)
}

func (l *link) abort(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil {
		l.session.abort(err)
	}
}

// abortOther closes a connection to an earlier process of the node.
func (l *link) abortOther(incarnation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil && l.session.s.peer.Incarnation != incarnation {
		l.session.abort(ErrLost)
	}
}
