// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// operation describes an opcode that a session executes: the function that decodes its body into a request, and the
// method of the session. parse must not retain the body: a request is parsed again when a worker executes it.
type operation struct {
	parse func(r *request, body []byte) error
	run   func(r *request) session.Status
}

var operations [cqlwire.OpBatch + 1]operation

func init() {
	operations[cqlwire.OpQuery] = operation{(*request).parseQuery, (*request).runQuery}
	operations[cqlwire.OpPrepare] = operation{(*request).parsePrepare, (*request).runPrepare}
	operations[cqlwire.OpExecute] = operation{(*request).parseExecute, (*request).runExecute}
	operations[cqlwire.OpBatch] = operation{(*request).parseBatch, (*request).runBatch}
}

// message executes or answers one message. An error ends the connection.
func (c *conn) message(h cqlwire.Header, body []byte) error {
	c.tally.count(h.Opcode)
	if c.phase == expectStartup {
		c.version = h.Version // not negotiated yet: respond in the requested version
	}
	if err := c.validate(h); err != nil {
		stream := h.Stream
		if c.phase == expectStartup {
			stream = 0 // like Cassandra
		}
		c.respondError(stream, err)
		return nil
	}
	if h.Flags&cqlwire.FlagCompressed != 0 && !c.segments && len(body) > 0 {
		var err error
		if body, err = c.decompress(body); err != nil {
			c.respondError(h.Stream, err)
			return nil
		}
		defer c.releasePlain()
	}
	switch h.Opcode {
	case cqlwire.OpStartup:
		c.startup(h, body)
	case cqlwire.OpOptions:
		c.options(h)
	case cqlwire.OpAuthResponse:
		c.authResponse(h, body)
	case cqlwire.OpRegister:
		c.register(h, body)
	default:
		c.execute(h, body)
	}
	return nil
}

// validate checks that a message is allowed in the current phase.
func (c *conn) validate(h cqlwire.Header) error {
	op := h.Opcode
	if h.Response {
		return dberr.Protocolf("Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode %d (%s)",
			uint8(op), op)
	}
	if h.Version != c.version {
		return dberr.Protocolf("Invalid message version. Got %d/v%d but previous messages on this connection had "+
			"version %d/v%d", h.Version, h.Version, c.version, c.version)
	}
	switch op {
	case cqlwire.OpQuery, cqlwire.OpPrepare, cqlwire.OpExecute, cqlwire.OpBatch, cqlwire.OpRegister,
		cqlwire.OpStartup, cqlwire.OpOptions, cqlwire.OpAuthResponse:
	case cqlwire.OpError, cqlwire.OpReady, cqlwire.OpAuthenticate, cqlwire.OpSupported, cqlwire.OpResult,
		cqlwire.OpEvent, cqlwire.OpAuthChallenge, cqlwire.OpAuthSuccess:
		return dberr.Protocolf("Wrong protocol direction (expected RESPONSE, got REQUEST) for opcode %d (%s)",
			uint8(op), op)
	default:
		return dberr.Protocolf("Unknown opcode %d", uint8(op))
	}
	switch c.phase {
	case expectStartup:
		if op != cqlwire.OpStartup && op != cqlwire.OpOptions {
			return dberr.Protocolf("Unexpected message %s, expecting STARTUP or OPTIONS", op)
		}
	case expectAuthResponse:
		if op != cqlwire.OpAuthResponse {
			return dberr.Protocolf("Unexpected message %s, expecting SASL_RESPONSE", op)
		}
	default:
		if op == cqlwire.OpStartup {
			return dberr.Protocolf("Unexpected message STARTUP, the connection is already initialized")
		}
		if op == cqlwire.OpAuthResponse {
			return dberr.Protocolf("Unexpected message %s, the connection is already initialized", op)
		}
	}
	return nil
}

var (
	errConnectionInFlight error = &dberr.Overloaded{Message: "Too many requests are in flight on this connection"}
	errInFlight           error = &dberr.Overloaded{Message: "Too many requests are in flight on this node"}
)

// execute passes a request to the session unless a limit is reached.
func (c *conn) execute(h cqlwire.Header, body []byte) {
	if c.srv.gate.Closed() && !c.letIn(h, body) {
		c.overloaded(h.Stream, errOverload)
		return
	}
	if err := c.admit(); err != nil {
		c.overloaded(h.Stream, err)
		return
	}
	r := c.request
	if r == nil {
		r = c.newRequest()
		c.request = r
	}
	if err := r.parse(h, body); err != nil {
		r.Result.Err = err
		c.respondResult(r)
		return
	}
	c.run(r, body)
}

func (c *conn) admit() error {
	opts := &c.srv.opts
	if int(c.pending.Load()) >= opts.ConnectionInFlightMax {
		if c.throwOnOverload {
			return errConnectionInFlight
		}
		c.mu.Lock()
		c.flush()
		c.wait(func() bool { return int(c.pending.Load()) >= opts.ConnectionInFlightMax })
		c.mu.Unlock()
	}
	if c.srv.stats.InFlight.Load() >= int64(opts.InFlightMax) {
		return errInFlight
	}
	if c.srv.Pressed() {
		if err := c.yield(); err != nil {
			return err
		}
	}
	if c.srv.stats.InFlightBytes.Load() > opts.InFlightBytesMax {
		return errNoMemory
	}
	return nil
}
