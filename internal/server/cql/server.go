// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/internal/server/admission"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// Server serves CQL clients on any number of listeners.
type Server struct {
	newSession NewSession
	opts       Options
	supported  []byte // body of SUPPORTED
	stats      Stats
	workers    workers
	gate       *admission.Gate
	pressure   pressure
	made       time.Time
	events     subscribers
	nodes      nodeStates
	users      usage.Users

	// relieving is set while a goroutine searches for slow clients.
	relieving atomic.Bool
	// draining makes each connection close when the connection is idle. leavingSince is the time at which Shutdown set
	// draining.
	draining     atomic.Bool
	leavingSince time.Time

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // counts listeners, connections, and workers

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	crowd     crowd
	number    uint64 // number of the newest connection
}

// New returns a server without listeners.
func New(newSession NewSession, opts Options) *Server {
	opts = opts.withDefaults()
	s := &Server{
		newSession: newSession, opts: opts,
		listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{},
		made: time.Now(), gate: admission.New(max(0, opts.WaitMax), min(runtime.NumCPU(), runtime.GOMAXPROCS(0))),
	}
	// The number exceeds all numbers before the restart, because the server accepts fewer than one connection per
	// millisecond.
	s.number = uint64(s.made.UnixMilli())
	s.workers.init(s, opts.Workers, opts.WorkQueueMax)
	s.events.conns = map[*conn]eventMask{}
	s.nodes.up, s.nodes.added = map[netip.AddrPort]bool{}, map[netip.AddrPort]bool{}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	supported := []cqlwire.Option{
		{Key: "COMPRESSION", Values: []string{"snappy", "lz4"}},
		{Key: "CQL_VERSION", Values: []string{opts.CQLVersion}},
		{Key: "PROTOCOL_VERSIONS", Values: cqlwire.Versions},
	}
	if opts.Tablets {
		supported = append(supported, cqlwire.Option{Key: cqlwire.TabletsRouting, Values: []string{""}})
	}
	s.wg.Go(s.endIdle)
	s.pressure.processors = newProcessorWait()
	s.wg.Go(s.watchPressure)
	s.supported = cqlwire.AppendSupported(nil, append(supported, opts.Supported...))
	return s
}

// Stats returns the counters, which are valid while the server exists.
func (s *Server) Stats() *Stats { return &s.stats }

// Users returns the load of each user on this node in descending order.
func (s *Server) Users() []usage.User { return s.users.List() }

// Gate returns the state of admission control.
func (s *Server) Gate() admission.Stats { return s.gate.Stats() }

// Serve accepts connections from l until the server or the listener is closed. It then closes l. Serve returns nil
// after Close or Shutdown.
func (s *Server) Serve(l net.Listener) error { return s.serve(l, nil) }

// ServeAccount works like Serve for clients of Azure Cosmos DB. Each client must authenticate with an account key,
// regardless of Options.Authenticator and CertificateRole. keys returns the name of the key (see
// session.Client.Account).
func (s *Server) ServeAccount(l net.Listener, keys Authenticator) error { return s.serve(l, keys) }

func (s *Server) serve(l net.Listener, keys Authenticator) error {
	defer l.Close()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.listeners[l] = struct{}{}
	s.wg.Add(1)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
		s.wg.Done()
	}()
	for {
		nc, err := l.Accept()
		if err != nil {
			if s.ctx.Err() != nil || s.isClosed() {
				return nil
			}
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("cannot accept CQL connections: %w", err)
			}
			// The process has probably run out of file descriptors. Established connections continue, and new
			// connections wait. The oldest connection in the handshake is closed to free a descriptor for the store.
			s.crowdOut()
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-s.ctx.Done():
				return nil
			}
		}
		s.accept(nc, keys)
	}
}

// crowdOut closes the connection whose handshake has taken longest, if such a connection exists.
func (s *Server) crowdOut() {
	s.mu.Lock()
	out := s.crowd.oldest()
	s.mu.Unlock()
	s.closeCrowded(out)
}

// closeCrowded closes a connection to make room for other connections. It does nothing if c is nil.
func (s *Server) closeCrowded(c *conn) {
	if c != nil {
		s.stats.CrowdedOut.Add(1)
		c.out.fail(errCrowdedOut)
	}
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *Server) accept(nc net.Conn, keys Authenticator) {
	remote := addrPort(nc.RemoteAddr())
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		nc.Close()
		return
	case len(s.conns) >= s.opts.ConnectionsMax:
		s.mu.Unlock()
		s.refuse(nc, "Too many connections")
		return
	}
	c := newConn(s, nc, keys)
	s.number++
	c.number = s.number
	out, ok := s.crowd.admit(c, s.opts.AddressConnectionsMax, s.opts.ArrivingMax)
	if !ok {
		s.mu.Unlock()
		c.cancel()
		s.refuse(nc, "Too many connections from "+remote.Addr().String())
		return
	}
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	s.mu.Unlock()
	s.closeCrowded(out)
	s.stats.Accepted.Add(1)
	s.stats.Connections.Add(1)
	go func() {
		defer s.wg.Done()
		err := c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.crowd.leave(c)
		s.mu.Unlock()
		if c.out.charges.user != nil {
			s.users.Disconnect(c.out.charges.user)
		}
		s.stats.Connections.Add(-1)
		if s.opts.Closed != nil {
			s.opts.Closed(remote, err)
		}
	}()
}

// refuse sends an error to a client when the connection limit is exceeded. The client has not sent a request yet, so
// the response uses stream 0 and a version that all clients can read.
func (s *Server) refuse(nc net.Conn, why string) {
	s.stats.Refused.Add(1)
	defer nc.Close()
	if s.opts.TLS != nil {
		return
	}
	var w cqlwire.Writer
	w.Begin(cqlwire.Header{Version: cqlwire.V4, Response: true, Opcode: cqlwire.OpError})
	w.Buf = cqlwire.AppendError(w.Buf, cqlwire.V4, &dberr.Overloaded{Message: why})
	w.End()
	_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = nc.Write(w.Buf)
}

func (s *Server) stopListening() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
}

// connections returns the open connections, in no particular order.
func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

// Close closes all connections and waits for all goroutines of the server. Pending calls may complete afterward.
func (s *Server) Close() {
	s.stopListening()
	s.cancel()
	for _, c := range s.connections() {
		c.out.fail(errClosing)
	}
	s.workers.close()
	s.wg.Wait()
}

var errClosing = errors.New("the server is closing")

func addrPort(a net.Addr) netip.AddrPort {
	if a, ok := a.(*net.TCPAddr); ok {
		ap := a.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}
