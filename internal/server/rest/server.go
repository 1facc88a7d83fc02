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
	"github.com/ilion-db/ilion/internal/server/httpwire"
)

const (
	// headerBytesMax bounds the headers of a request: the longest are continuations and session tokens.
	headerBytesMax = 64 << 10
	// BodyBytesMax bounds the body of a request, as sent.
	BodyBytesMax = 2 << 20
	// discardMax is how much of a body that is too large is read, so that the client sees its answer.
	discardMax = 32 << 20
	// headerWait is how long a client may take to send a request's headers, requestWait for its body, and answerWait to
	// read its answer.
	headerWait, requestWait, answerWait = 10 * time.Second, 30 * time.Second, 2 * time.Minute
	// stopGap is Server.idleGap.
	stopGap = 250 * time.Millisecond
)

// Options bound and configure a Server. Zero values mean the defaults named with the fields.
type Options struct {
	// Keys are what requests have to be signed with now.
	Keys func() *Keys
	// Now is the clock of the cluster, by which signatures expire; default time.Now.
	Now func() time.Time
	// TLS encrypts connections; nil leaves them in the clear.
	TLS *tls.Config
	// Region is the region that clients are told, default "South Central US".
	Region string
	// ConnectionsMax is the number of connections, default 2000. For a further one the oldest goes that has not asked
	// anything with a valid signature; if there is none it is answered 503. AddressConnectionsMax is how many may come
	// from one address, default ConnectionsMax.
	ConnectionsMax, AddressConnectionsMax int
	// RequestsMax is how many requests may be under way, default 256 per processor. Beyond it requests are answered
	// 429.
	RequestsMax int
	// RequestBytesMax bounds the bodies of requests under way, all together, default 256 MiB. Beyond it requests are
	// answered 429.
	RequestBytesMax int64
	// IdleTimeout is the time after which a connection without requests is closed, default 5 min.
	IdleTimeout time.Duration
	// Admit says whether the machine's admission control lets a request in, and is told by the function that it returns
	// that the request is answered. nil: all are let in.
	Admit func(who fairshare.Principal) (done func(), ok bool)
	// Audit is told of every request that is over; nil: nobody is.
	Audit func(*Audited)
	// Log hears of defects; nil: nobody does.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
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

// Stats are the counters of a Server. They may be read at any time.
type Stats struct {
	// Requests counts those that were answered, Errors those among them with a status of 400 or more, Refused those
	// that a bound of this package, or the admission control, refused.
	Requests, Errors, Refused atomic.Int64
	// InFlight is the number of requests under way, InFlightBytes what their bodies take.
	InFlight, InFlightBytes atomic.Int64
	// Connections is the number of open connections, Crowded counts those that had to go, or were refused, because
	// there were too many.
	Connections, Crowded atomic.Int64
}

// Server serves the containers of an engine to HTTP clients.
type Server struct {
	engine    Engine
	scripts   Scripts
	opts      Options
	stats     Stats
	guests    guests
	dates     httpwire.Dates
	exchanges sync.Pool // of *exchange

	// idleGap is how long a connection has to be idle to be closed by Shutdown.
	idleGap time.Duration
	// draining tells connections to end with the answer to their next request.
	draining atomic.Bool
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup // connections

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	// number is that of the newest connection, and watching says that watch runs.
	number   uint64
	watching bool
}

// user is who all clients are that sign with a key of the account, among those who share what is scarce.
const user = 1 << 31

// New makes a server that has no listener yet.
func New(engine Engine, scripts Scripts, o Options) *Server {
	s := &Server{engine: engine, scripts: scripts, opts: o.withDefaults(), listeners: map[net.Listener]struct{}{},
		conns: map[*conn]struct{}{}, idleGap: stopGap}
	s.guests.max, s.guests.perAddress, s.guests.stats = s.opts.ConnectionsMax, s.opts.AddressConnectionsMax, &s.stats
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.number = uint64(time.Now().UnixMilli()) // above all numbers before a restart: there were fewer connections
	return s
}

// Stats returns the counters, which live as long as the server.
func (s *Server) Stats() *Stats { return &s.stats }

// acceptPause is how long nobody is let in when the process has no descriptors left.
const acceptPause = 50 * time.Millisecond

// Serve answers clients of l until Shutdown, and closes l. It returns nil after Shutdown.
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

// accept takes a connection in, if there is room for it.
func (s *Server) accept(nc net.Conn) {
	g, out := s.guests.admit(nc)
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

// Shutdown takes no more connections, and ends the others with the answer to the request under way or the next one, or
// when they are idle; all that are left when ctx ends. It returns when they have ended.
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
	s.each(func(c *conn) { _ = c.guest.Close() })
	s.wg.Wait()
	return nil
}

// each does something to all connections; false if there are none.
func (s *Server) each(do func(*conn)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		do(c)
	}
	return len(s.conns) > 0
}
