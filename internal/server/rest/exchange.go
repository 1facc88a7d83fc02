// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/server/httpwire"
)

// exchange is one request and its answer. Its memory is used again for others.
type exchange struct {
	server  *Server
	conn    *conn
	request httpwire.Request
	header  httpwire.Fields // of the request
	target  *target
	// signer is the key that it was signed with, operation what it asks for; empty as long as they are not known.
	signer    string
	operation *operation
	// body is what was sent, held the memory that is counted for it.
	body []byte
	held int64

	output
	// byRID says that the path is made of resource ids.
	byRID bool
	// charge is what the request has cost.
	charge ru.Units
}

// answer is what an operation answers: a status and JSON.
type answer struct {
	status int
	body   []byte
}

// acquire takes an exchange for the requests of a connection, release gives it back.
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

// reset forgets the request of before, but for what is to be written.
func (x *exchange) reset() {
	x.header, x.target, x.signer, x.operation, x.body, x.held = nil, nil, "", nil, nil, 0
	x.byRID, x.charge = false, 0
	x.output.reset()
}

// exchange answers the request whose head was read. Who reads the answer finds the request counted and audited.
func (c *conn) exchange() {
	c.x.reset()
	c.x.header = c.x.request.Fields
	c.x.write(c.x.carryOut())
}

// carryOut does what is asked for, and comes to the end of the request.
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
	if s.opts.Audit != nil {
		x.audit(a.status)
	}
	return a
}

// serve finds out what is asked for, by whom, and does it.
func (x *exchange) serve() (a *answer, err error) {
	defer func() {
		if defect := recover(); defect != nil {
			err = x.defect(defect)
		}
	}()
	s, c, method := x.server, x.conn, x.request.Method
	if c.guest.refusal != "" {
		c.last = true
		return nil, &failure{status: http.StatusServiceUnavailable, message: c.guest.refusal}
	}
	path := x.request.Path()
	// Who has no key is told the same of every path, also of those that lead nowhere.
	target := parseTarget(path)
	known := target != nil
	if !known {
		target = &targetNone
	}
	x.target = target
	signer, refusal := s.opts.Keys().authenticate(method, x.header, target, s.opts.Now(), x.values)
	if refusal != nil {
		c.last = true // strangers do not keep a connection
		return nil, refusal
	}
	x.signer = signer
	if !c.known {
		c.known = true
		c.guest.known()
		c.introduced(signer, x.header.Get("User-Agent"))
	}
	if !known {
		return nil, badRequest("The path " + strconv.Quote(path) + " is none of this interface.")
	}
	op, refusal := operationOf(method, target, x.header)
	if refusal != nil {
		return nil, refusal
	}
	x.operation = op
	c.doing.target.Store(target)
	c.doing.operation.Store(op)
	if signer == readOnlyKey && !op.reads {
		return nil, &failure{status: http.StatusForbidden, message: "The read-only key does not allow " + op.name +
			": sign the request with the primary or the secondary key."}
	}
	done, refusal := x.admit()
	if refusal != nil {
		return nil, refusal
	}
	defer done()
	if err := x.read(); err != nil {
		return nil, err
	}
	return op.do(x, c.ctx)
}

// defect logs what a request has panicked with, and returns what its client is told.
func (x *exchange) defect(defect any) *failure {
	x.server.opts.Log.LogAttrs(x.server.ctx, slog.LevelError, "defect in a request over HTTP",
		slog.String("method", x.request.Method), slog.Any("defect", defect),
		slog.String("stack", string(debug.Stack())))
	return &failure{status: http.StatusInternalServerError, message: "An internal error: see the log of the node."}
}

// targetNone stands for a path that leads nowhere: nobody signs it.
var targetNone = target{kind: "none"}

// admit refuses a request that a bound, or the machine, does not let in.
func (x *exchange) admit() (done func(), refusal *failure) {
	s := x.server
	if s.stats.InFlight.Load() > int64(s.opts.RequestsMax) {
		s.stats.Refused.Add(1)
		return nil, busy("Too many requests are in flight on this node.")
	}
	if s.opts.Admit == nil {
		return func() {}, nil
	}
	done, ok := s.opts.Admit(x.claimant())
	if !ok {
		s.stats.Refused.Add(1)
		return nil, busy("The node is overloaded: requests exceed its capacity. Retry later or use another node.")
	}
	return done, nil
}

// claimant is who asks.
func (x *exchange) claimant() fairshare.Principal {
	return fairshare.Principal{User: user, Connection: x.conn.guest.number,
		Low: httpwire.EqualFold(x.header.Get(hPriority), "low")}
}

func busy(message string) *failure {
	return &failure{status: http.StatusTooManyRequests, sub: container.SubThroughput, message: message,
		retryAfter: overloadWait}
}

// read takes the body in.
func (x *exchange) read() error {
	size := x.conn.left
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
		return busy("The bodies of the requests in flight on this node take too much memory.")
	}
	body, err := x.conn.body(BodyBytesMax)
	if err != nil {
		x.conn.last = true // where the next request begins is not known
		return bodyFailure(err)
	}
	x.body = body
	return nil
}

// tooLarge reads what a client that sends too much sends, up to a bound, so that it comes to read its answer; but not
// where it asked before.
func (x *exchange) tooLarge() error {
	if c := x.conn; !c.awaited {
		c.discard(discardMax)
	}
	return &failure{status: http.StatusRequestEntityTooLarge,
		message: "Request size is too large: the body of a request may have " + strconv.Itoa(BodyBytesMax) + " bytes."}
}

// refuse makes the answer of a failure.
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
