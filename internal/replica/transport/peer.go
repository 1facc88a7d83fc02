// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// peer is an entry of the address book and the connections this node dials to it.
type peer struct {
	t      *Transport
	node   NodeID
	ctx    context.Context
	cancel context.CancelFunc
	raft   atomic.Pointer[link]

	mu      sync.Mutex
	address string
	// proven is the process that answered at address; its incarnation is 0 if none did.
	proven  Peer
	command *link
}

// SetAddress tells where a node is. Connections that work stay; those that do not are tried there at once.
func (t *Transport) SetAddress(node NodeID, address string) {
	if node == t.self.Node || (node == NodeID{}) {
		return
	}
	t.book.Lock()
	p := t.peers[node]
	if p == nil {
		p = &peer{t: t, node: node, address: address}
		p.ctx, p.cancel = context.WithCancel(t.ctx)
		t.peers[node] = p
	}
	t.book.Unlock()
	p.mu.Lock()
	if p.address != address {
		p.address, p.proven = address, Peer{}
	}
	p.mu.Unlock()
	p.retry(0)
}

// Address returns where a node is, "" if that is not known.
func (t *Transport) Address(node NodeID) string {
	if p := t.peerOf(node); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.address
	}
	return ""
}

// Forget removes a node from the address book and ends the connections that were dialled to it.
func (t *Transport) Forget(node NodeID) {
	t.book.Lock()
	p := t.peers[node]
	delete(t.peers, node)
	t.book.Unlock()
	if p == nil {
		return
	}
	p.cancel()
	for _, l := range p.links() {
		l.abort(ErrNoAddress)
	}
}

func (t *Transport) peerOf(node NodeID) *peer {
	t.book.RLock()
	defer t.book.RUnlock()
	return t.peers[node]
}

// heard takes note that a process shook hands with this node: it lives, and says where.
func (t *Transport) heard(from Peer) {
	p := t.peerOf(from.Node)
	if from.Address != "" {
		was := ""
		if p != nil {
			was = t.Address(from.Node)
		}
		t.book.RLock()
		full := len(t.peers) >= t.opts.InboundConnections
		t.book.RUnlock()
		if was != from.Address && (p != nil || !full) {
			t.SetAddress(from.Node, from.Address)
			if t.opts.Events.AddressChanged != nil {
				t.opts.Events.AddressChanged(from.Node, was, from.Address)
			}
		}
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

// retry ends pauses between attempts, and connections to another incarnation than this one, unless it is 0.
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

// link returns the connection of a class, which begins with its first use.
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

// reach dials a peer and tells what became of it.
func (p *peer) reach(ctx context.Context, c Class) (*stream, error) {
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
		if t.opts.Events.Connected != nil {
			t.opts.Events.Connected(s.peer, c)
		}
		return s, nil
	}
	if ctx.Err() != nil {
		return nil, ErrClosed
	}
	err = fmt.Errorf("dial %x at %s: %w", p.node, address, err)
	t.counters.dialsFailed.Add(1)
	if t.opts.Events.DialFailed != nil {
		t.opts.Events.DialFailed(p.node, c, address, err)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return nil, err
	}
	t.counters.dialsRefused.Add(1)
	p.mu.Lock()
	last := p.proven
	if p.address != address {
		last = Peer{}
	}
	p.mu.Unlock()
	if last.Node == p.node && t.opts.Events.Refused != nil {
		t.opts.Events.Refused(last)
	}
	return nil, err
}

// departTime bounds how long a process that ends waits for its peers to hear so.
const departTime = 300 * time.Millisecond

// Depart tells the peers, after the last raft frame, that this process serves nothing any more, and returns when they
// have heard it or a moment later. It is for an owner that ends in order: no read may be served under a lease after
// Depart was called. Only Close may follow.
func (t *Transport) Depart() error {
	ctx, cancel := context.WithTimeout(t.ctx, departTime)
	defer cancel()
	var wg sync.WaitGroup
	t.book.RLock()
	for _, p := range t.peers {
		p.cancel() // it is not dialled again
		if l := p.raft.Load(); l != nil {
			wg.Go(func() { l.depart(ctx) })
		}
	}
	t.book.RUnlock()
	wg.Wait()
	return nil
}

// depart says the last word on a connection, which the peer closes when it has heard it.
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

// link is one connection that is dialled to a peer, again and again.
type link struct {
	t     *Transport
	p     *peer
	class Class
	// out outlives connections; it is shut while the last attempt failed.
	out   *outbox
	early chan struct{}

	mu      sync.Mutex
	session *session
	// err is why the last attempt failed, nil while there is a connection or a first attempt.
	err   error
	calls map[uint64]*call
	last  uint64
	// sweeper looks for commands whose time is over, at sweepAt; zero while none has a bound.
	sweeper *time.Timer
	sweepAt time.Time
}

// run connects until the peer is forgotten.
func (l *link) run() {
	failures := 0
	for {
		s, err := l.p.reach(l.p.ctx, l.class)
		if err != nil {
			l.failed(err)
		} else {
			since := time.Now()
			err = l.serve(s)
			if l.t.opts.Events.Lost != nil {
				l.t.opts.Events.Lost(s.peer, l.class, err)
			}
			if time.Since(since) > l.t.opts.BackoffMax {
				failures = 0
				continue
			}
			// A peer that hangs up at once, again and again, is not dialled in a tight loop; after the first time it is
			// dialled at once.
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

// serve moves frames over a connection until it is lost.
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
	tell(untold, lost)
	return err
}

// failed makes the link refuse what comes.
func (l *link) failed(err error) {
	err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	l.mu.Lock()
	l.err = err
	untold := l.drop(true, err)
	l.mu.Unlock()
	tell(untold, err)
}

// drop ends everything that waits, and returns the calls whose Answers are to be called when mu, with which it is
// called, is free.
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

// handle takes what the peer sends on a connection that this node dialled.
func (l *link) handle(kind byte, payload []byte) error {
	if l.class == Raft {
		return malformed(kind, len(payload))
	}
	return l.answer(kind, payload)
}

func (l *link) abort(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil {
		l.session.abort(err)
	}
}

// abortOther ends a connection to an earlier process of the node.
func (l *link) abortOther(incarnation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil && l.session.s.peer.Incarnation != incarnation {
		l.session.abort(ErrLost)
	}
}
