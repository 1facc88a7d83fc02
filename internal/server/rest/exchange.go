// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/server/httpwire"
)

// exchange is a request with its response. Its memory is reused.
type exchange struct {
	server  *Server
	conn    *conn
	request httpwire.Request
	header  httpwire.Fields // headers of the request
	target  *target
	// signer is the name of the key that signed the request, or the path of the permission of a resource token.
	// operation is the requested operation. They are empty
	// until they are known.
	signer    string
	operation *operation
	// granted holds the permissions of a request with resource tokens. It is nil for a request signed with a key.
	granted []*container.DatabaseResource
	// body is the request body. held is the amount of memory that is counted for the body.
	body []byte
	held int64

	output
	// byRID reports whether the path consists of resource IDs.
	byRID bool
}

// answer is the response of an operation, which consists of a status and JSON.
type answer struct {
	status int
	body   []byte
}

// acquire returns an exchange for the requests of a connection. release returns the exchange to the pool.
func (s *Server) acquire(c *conn) *exchange {
	x, ok := s.exchanges.Get().(*exchange)
	if !ok {
		x = &exchange{}
	}
	x.server, x.conn = s, c
	return x
}

func (s *Server) release(x *exchange) {
	if x == nil {
		return
	}
	x.reset()
	x.server, x.conn, x.request = nil, nil, httpwire.Request{Fields: x.request.Fields[:0]}
	s.exchanges.Put(x)
}

// reset discards the previous request, but keeps the pending output.
func (x *exchange) reset() {
	x.header, x.target, x.signer, x.operation, x.body, x.held = nil, nil, "", nil, nil, 0
	x.byRID, x.granted = false, nil
	x.output.reset()
}

// exchange serves the request whose head has been read. The request is counted and audited before its response is
// sent.
func (c *conn) exchange() {
	c.x.reset()
	c.x.header = c.x.request.Fields
	c.x.write(c.x.carryOut())
}

// carryOut executes the operation and reads the remaining request.
func (x *exchange) carryOut() *answer {
	s, c := x.server, x.conn
	s.stats.InFlight.Add(1)
	c.doing.begin(time.Now())
	defer func() {
		c.doing.end()
		s.stats.InFlight.Add(-1)
		s.stats.InFlightBytes.Add(-x.held)
	}()
	a, err := x.serve()
	if err != nil {
		a = x.refuse(failureOf(err))
	}
	c.settle()
	c.last = c.last || c.ctx.Err() != nil
	if s.opts.Auditor != nil {
		x.audit(a.status)
	}
	return a
}

// serve authenticates the request, determines its operation, and executes the operation.
func (x *exchange) serve() (a *answer, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = x.recovered(panicked)
		}
	}()
	s, c, method := x.server, x.conn, x.request.Method
	if c.clientConn.refusal != "" {
		c.last = true
		return nil, &failure{status: http.StatusServiceUnavailable, message: c.clientConn.refusal}
	}
	path := x.request.Path()
	// A client without a key receives the same response for every path, including invalid paths.
	target := parseTarget(path)
	known := target != nil
	if !known {
		target = &targetNone
	}
	x.target = target
	if refusal := x.authenticate(); refusal != nil {
		c.last = true // the connection of an unauthenticated client must be closed
		return nil, refusal
	}
	if c.doing.client.Load() == nil {
		c.clientConn.known()
		// The value refers to the memory of the whole head, so it is copied.
		c.doing.client.Store(&clientID{x.signer, strings.Clone(x.header.Get("User-Agent"))})
	}
	if !known {
		return nil, badRequest("The path " + strconv.Quote(path) + " does not exist in this API.")
	}
	op, refusal := s.routes.find(method, target, x.header)
	if refusal != nil {
		return nil, refusal
	}
	x.operation = op
	c.doing.target.Store(target)
	c.doing.operation.Store(op)
	if refusal := x.authorize(); refusal != nil {
		return nil, refusal
	}
	done, refusal := x.admit()
	if refusal != nil {
		return nil, refusal
	}
	defer done()
	if err := x.read(); err != nil {
		return nil, err
	}
	return op.do(c.ctx, x)
}

// authenticate determines the key or the permissions of the request.
func (x *exchange) authenticate() (refusal *failure) {
	tokens, refusal := resourceTokens(x.header.Get("Authorization"))
	if refusal != nil {
		return refusal
	}
	if tokens != nil {
		return x.authenticateTokens(tokens)
	}
	s := x.server
	x.signer, refusal = s.opts.Account.Keys().authenticate(x.request.Method, x.header, x.target, s.opts.Clock.Wall(),
		x.values)
	return refusal
}

// authorize rejects an operation that the key or the permissions of the request do not allow on any resource.
func (x *exchange) authorize() *failure {
	op := x.operation
	switch {
	case x.granted != nil:
		if !tokensMay(op) {
			return forbidden()
		}
	case x.signer == readOnlyKey && (!op.reads || op.kind == permits):
		return &failure{status: http.StatusForbidden, message: "The read-only key does not allow " + op.name +
			". Sign the request with the primary or the secondary key."}
	}
	return nil
}

// recovered logs a panic in a request and returns the client's error.
func (x *exchange) recovered(panicked any) *failure {
	x.server.opts.Log.LogAttrs(x.server.ctx, slog.LevelError, "panic while serving an HTTP request",
		slog.String("method", x.request.Method), slog.Any("panic", panicked),
		slog.String("stack", string(debug.Stack())))
	return &failure{status: http.StatusInternalServerError, message: "Internal error. See the log of the node."}
}

// targetNone represents an invalid path. No client can sign a request for it.
var targetNone = target{kind: "none"}

// admit rejects a request that a limit or the node's admission control does not permit.
func (x *exchange) admit() (done func(), refusal *failure) {
	s := x.server
	if s.stats.InFlight.Load() > int64(s.opts.RequestsMax) {
		s.stats.Refused.Add(1)
		return nil, busy("Too many requests are in flight on this node.")
	}
	done, ok := s.opts.Account.Admit(x.claimant())
	if !ok {
		s.stats.Refused.Add(1)
		return nil, busy("The node is overloaded: requests exceed its capacity. Retry later or use another node.")
	}
	return done, nil
}

// claimant returns the principal of the request.
func (x *exchange) claimant() fairshare.Principal {
	who := fairshare.Principal{User: user, Connection: x.conn.clientConn.number,
		Low: httpwire.EqualFold(x.header.Get(hPriority), "low")}
	if x.granted != nil {
		who.User += x.granted[0].Owner
	}
	return who
}

func busy(message string) *failure {
	return &failure{status: http.StatusTooManyRequests, sub: container.SubThroughput, message: message,
		retryAfter: overloadWait}
}

// read reads the request body.
func (x *exchange) read() error {
	size := x.conn.in.left
	if size == 0 {
		return nil
	}
	if size > BodyBytesMax {
		return x.tooLarge()
	}
	if size < 0 {
		size = BodyBytesMax
	}
	s := x.server
	x.held = size
	if s.stats.InFlightBytes.Add(size) > s.opts.RequestBytesMax {
		s.stats.Refused.Add(1)
		return busy("The bodies of concurrent requests on this node take too much memory.")
	}
	body, err := x.conn.body(BodyBytesMax)
	if err != nil {
		x.conn.last = true // the start of the next request is unknown
		return bodyFailure(err)
	}
	x.body = body
	return nil
}

// tooLarge rejects a body that exceeds the limit. It discards the body, up to a limit, so the client can read the
// response. It does not do this if the client waits for "100 Continue".
func (x *exchange) tooLarge() error {
	if c := x.conn; !c.in.awaited {
		c.discard(discardMax)
	}
	return &failure{status: http.StatusRequestEntityTooLarge,
		message: "Request size is too large: the limit of the body is " + strconv.Itoa(BodyBytesMax) + " bytes."}
}

// refuse returns the response for a failure.
func (x *exchange) refuse(f *failure) *answer {
	x.server.stats.Errors.Add(1)
	x.charge = max(x.charge, f.charge)
	if f.sub != 0 {
		x.set(aSubStatus, strconv.Itoa(f.sub))
	}
	if f.retryAfter > 0 {
		x.set(aRetryAfter, strconv.FormatInt(max(1, f.retryAfter.Milliseconds()), 10))
	}
	return &answer{f.status, f.body()}
}
