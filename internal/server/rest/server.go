// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/server/httpwire"
)

const (
	// headerBytesMax is the maximum size of a request's headers. Continuations and session tokens are the longest
	// headers.
	headerBytesMax = 64 << 10
	// BodyBytesMax is the maximum size of an encoded request body in bytes.
	BodyBytesMax = 2 << 20
	// discardMax is the maximum size of an oversized body that is discarded. The client can then read the response.
	discardMax = 32 << 20
	// headerWait is the time within which a client must send the headers of a request. requestWait is the time for
	// sending the body. answerWait is the time for reading the response.
	headerWait, requestWait, answerWait = 10 * time.Second, 30 * time.Second, 2 * time.Minute
	// stopGap is the value of Server.idleGap.
	stopGap = 250 * time.Millisecond
)

// Account is the account that a Server serves.
type Account interface {
	// Keys returns the current keys.
	Keys() *Keys
	// Admit reports whether the admission control of the node admits a request. The server must call done after the
	// response.
	Admit(who fairshare.Principal) (done func(), ok bool)
}

// Auditor records completed requests. *audit.Log implements it.
type Auditor interface{ WriteREST(a *Audited) }

// Options configures a Server. Account is required. If another field is zero, its documented default applies.
type Options struct {
	Account Account
	// Clock determines the expiry of signatures. The default is sched.SystemClock.
	Clock sched.Clock
	// TLS is the TLS configuration. If it is nil, connections are not encrypted.
	TLS *tls.Config
	// Region is the region that is reported to clients. The default is "South Central US".
	Region string
	// ConnectionsMax is the maximum number of connections. The default is 2000. Above the limit, the oldest connection
	// without a valid signature is closed. If no such connection exists, the new connection receives 503.
	// AddressConnectionsMax is the maximum number of connections per client address. The default is ConnectionsMax.
	ConnectionsMax, AddressConnectionsMax int
	// RequestsMax is the maximum number of concurrent requests. The default is 256 per processor. Additional requests
	// receive 429.
	RequestsMax int
	// RequestBytesMax is the maximum total size of the bodies of concurrent requests. The default is 256 MiB.
	// Additional requests receive 429.
	RequestBytesMax int64
	// IdleTimeout is the time after which an idle connection is closed. The default is 5 min.
	IdleTimeout time.Duration
	// Auditor records requests. It may be nil.
	Auditor Auditor
	// Log, if not nil, receives messages about panics.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = sched.SystemClock
	}
	if o.Region == "" {
		o.Region = "South Central US"
	}
	if o.ConnectionsMax == 0 {
		o.ConnectionsMax = 2000
	}
	if o.AddressConnectionsMax == 0 {
		o.AddressConnectionsMax = o.ConnectionsMax
	}
	if o.RequestsMax == 0 {
		o.RequestsMax = 256 * runtime.GOMAXPROCS(0)
	}
	if o.RequestBytesMax == 0 {
		o.RequestBytesMax = 256 << 20
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 5 * time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Stats holds the counters of a Server. They may be read at any time.
type Stats struct {
	// Requests counts completed requests. Errors counts responses with a status of 400 or higher. Refused counts
	// requests that a limit of this package or admission control rejected.
	Requests, Errors, Refused atomic.Int64
	// InFlight is the number of current requests. InFlightBytes is the total size of their bodies.
	InFlight, InFlightBytes atomic.Int64
	// Connections is the number of open connections. Crowded counts connections that were closed or rejected because
	// of a connection limit.
	Connections, Crowded atomic.Int64
}

// Server serves the containers of an engine to HTTP clients.
type Server struct {
	engine      Engine
	scripts     Scripts
	opts        Options
	routes      routes
	stats       Stats
	connLimiter connLimiter
	dates       httpwire.Dates
	exchanges   sync.Pool // pool of *exchange

	// idleGap is the time after which Shutdown closes an idle connection.
	idleGap time.Duration
	// draining makes each connection end with the response to its next request.
	draining atomic.Bool
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup // counts connections

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	// number is the number of the newest connection. watching reports whether watch is running.
	number   uint64
	watching bool
}

// user is the principal of all clients that sign with an account key. The principals of users with resource tokens have
// higher numbers.
const user = 1 << 31

// New returns a server without a listener.
func New(engine Engine, scripts Scripts, o Options) *Server {
	s := &Server{engine: engine, scripts: scripts, opts: o.withDefaults(), listeners: map[net.Listener]struct{}{},
		conns: map[*conn]struct{}{}, idleGap: stopGap}
	s.connLimiter.max, s.connLimiter.perAddress = s.opts.ConnectionsMax, s.opts.AddressConnectionsMax
	s.connLimiter.stats = &s.stats
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.routes = newRoutes(s)
	s.number = uint64(time.Now().UnixMilli()) // exceed all numbers before a restart
	return s
}

// Stats returns the counters, which are valid while the server exists.
func (s *Server) Stats() *Stats { return &s.stats }

// acceptPause is the delay before the server accepts connections again when the process has no free file descriptors.
const acceptPause = 50 * time.Millisecond

// Serve serves the clients of l until Shutdown is called. It then closes l. It returns nil after Shutdown.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.listeners[l] = struct{}{}
		if !s.watching {
			s.watching = true
			s.wg.Go(s.watch)
		}
	}
	s.mu.Unlock()
	for !closed {
		nc, err := l.Accept()
		if err == nil {
			s.accept(nc)
			continue
		}
		s.mu.Lock()
		closed = s.closed
		s.mu.Unlock()
		if !closed && errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept HTTP connections: %w", err)
		}
		select {
		case <-time.After(acceptPause):
		case <-s.ctx.Done():
		}
	}
	return nil
}

// accept registers a connection if the limits allow it.
func (s *Server) accept(nc net.Conn) {
	g, out := s.connLimiter.admit(nc)
	if out != nil {
		_ = out.Close()
	}
	if out != nil || g == nil || g.refusal != "" {
		s.stats.Crowded.Add(1)
	}
	if g == nil {
		_ = nc.Close()
		return
	}
	c := newConn(s, g)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		c.cancel()
		_ = g.Close()
		return
	}
	s.number++
	c.number = s.number
	s.conns[c] = struct{}{}
	s.wg.Go(func() {
		c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
	s.mu.Unlock()
}

// Shutdown stops accepting connections. It ends each connection with the response to the current or next request, or
// when the connection is idle. When ctx ends, it closes the remaining connections. It returns after all connections
// have ended.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		_ = l.Close()
	}
	s.mu.Unlock()
	s.draining.Store(true)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.each((*conn).interrupt) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	s.cancel()
	s.each(func(c *conn) { _ = c.clientConn.Close() })
	s.wg.Wait()
	return nil
}

// each calls do for all connections. It returns false if the server has no connections.
func (s *Server) each(do func(*conn)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		do(c)
	}
	return len(s.conns) > 0
}
