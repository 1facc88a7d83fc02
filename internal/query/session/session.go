// SPDX-License-Identifier: Apache-2.0

// Package session is the single entry to the query wing: a Session is one client's state, an Engine what all sessions
// share. Doors (CQL today) turn what they receive into a Call and get back a Result, both free of any protocol.
//
// Guarantees: (SE1) a prepared statement is executed against the revision of the table it was bound to, or not at all;
// (SE2) the path of a prepared single-partition statement allocates nothing here; (SE3) what may wait for anything but
// a processor is not done on a goroutine that must not block (Offload); (SE4) other clients hear of a schema change
// before its own client has the answer; (SE5) nothing that a read found before it had to be repeated is left in its
// result; (SE6) nothing is executed for a client whose role may not do it at the present state of the roles; (SE7) a
// statement is not refused because of a schema or roles that miss a change which was acknowledged before, on whatever
// node, as long as the meta partition has a leader that answers; without one, a keyspace or a table that is not known
// here is not denied.
//
// Start at Session.Execute.
package session

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/share"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Session is the state of one client. Its methods may be called concurrently.
type Session struct {
	engine   *Engine
	client   Client
	claimant share.Claimant
	// account is what the key of a client of the account allows, nil for others.
	account  *access.Subject
	keyspace atomic.Pointer[string]
	// admitted is what the client may do at the state of the roles that it was last asked at.
	access atomic.Pointer[sessionAccess]
	// warned has a bit for each consistency level that the client was warned about, and warnedOfUse.
	warned atomic.Uint32
}

// Close ends the session.
func (s *Session) Close() {}

// inKeyspace is the keyspace a request is to be understood in.
func (s *Session) inKeyspace(r *Request) string {
	if len(r.Keyspace) > 0 {
		return string(r.Keyspace)
	}
	return s.Keyspace()
}

// inlineTextMax is the longest statement that is parsed on the goroutine of a connection, in bytes.
const inlineTextMax = 64 << 10

// Query executes a statement given as text.
func (s *Session) Query(ctx context.Context, c *Call) Status {
	if !c.MayBlock && len(c.Request.Text) > inlineTextMax {
		return Offload
	}
	began := s.engine.opts.Now()
	st, err := s.query(c)
	verdict, err := s.engine.recheck(ctx, c, err)
	switch verdict {
	case recheckOnWorker:
		return Offload
	case recheckNow:
		st, err = s.query(c)
	}
	if err != nil {
		s.engine.latency[KindOther].record(s.engine.opts.Now().Sub(began), true)
		if s.engine.opts.Audit != nil {
			s.audit(nil, err, "", display(string(c.Request.Text), nil, nil))
		}
		return c.Result.Fail(err)
	}
	if !st.modifies() {
		defer s.engine.texts.release(st.reserved) // a modification does it when it is done
	}
	return s.start(ctx, c, st, traceQuery, began)
}

// query parses and binds the text of a request.
func (s *Session) query(c *Call) (*statement, error) {
	held, err := s.engine.texts.reserve(c.Request.Text)
	if err != nil {
		return nil, err
	}
	st, err := s.engine.parse(c.Request.Text, s.inKeyspace(&c.Request))
	if err == nil {
		err = st.checkAmount(&c.Request)
	}
	if err != nil {
		s.engine.texts.release(held)
		return nil, err
	}
	st.reserved = held
	return st, nil
}

// Prepare binds a statement and remembers it under its id.
func (s *Session) Prepare(ctx context.Context, c *Call) Status {
	if !c.MayBlock && len(c.Request.Text) > inlineTextMax {
		return Offload
	}
	if c.Request.Tracing {
		info := traceInfo{request: tracePrepare}
		return s.traced(ctx, c, &info, func(ctx context.Context, c *Call) Status {
			return s.runPrepare(ctx, c, &info.text)
		})
	}
	var shown string
	return s.runPrepare(ctx, c, &shown)
}

// runPrepare prepares a statement. If a trace or an audit log asks for it, shown becomes its text for them.
func (s *Session) runPrepare(ctx context.Context, c *Call, shown *string) Status {
	st, err := s.prepare(c)
	verdict, err := s.engine.recheck(ctx, c, err)
	switch verdict {
	case recheckOnWorker:
		return Offload
	case recheckNow:
		st, err = s.prepare(c)
	}
	if s.engine.opts.Audit != nil || c.Request.Tracing {
		if st != nil {
			*shown = st.display
		} else {
			*shown = display(string(c.Request.Text), nil, nil)
		}
		s.audit(st, err, "PREPARE_STATEMENT", *shown)
	}
	if err != nil {
		return c.Result.Fail(err)
	}
	return Done
}

// prepare fills in the result of Prepare.
func (s *Session) prepare(c *Call) (*statement, error) {
	if _, err := s.subject(); err != nil {
		return nil, err
	}
	held, err := s.engine.texts.reserve(c.Request.Text)
	if err != nil {
		return nil, err
	}
	defer s.engine.texts.release(held)
	st, id, err := s.engine.prepare(c.Request.Text, s.inKeyspace(&c.Request))
	if err != nil {
		return nil, err
	}
	c.Result.Kind, c.Result.Prepared = PreparedStatement, st.describe(id)
	s.warnUse(c, st, st.keyspace, id)
	return st, nil
}

// Execute executes a prepared statement.
func (s *Session) Execute(ctx context.Context, c *Call) Status {
	began := s.engine.opts.Now()
	st := s.engine.prepared.get(c.Request.ID)
	if st == nil {
		return c.Result.Fail(&dberr.Unprepared{ID: c.Request.ID})
	}
	if s.preparedElsewhere(st) {
		if !c.MayBlock {
			return Offload // to be told once, by whoever carries it out
		}
		s.warnUse(c, st, s.Keyspace(), c.Request.ID)
	}
	s.addTabletPayload(c, st)
	return s.start(ctx, c, st, traceExecute, began)
}

// start runs a statement, with a trace if the client asked for one.
func (s *Session) start(ctx context.Context, c *Call, st *statement, request string, began time.Time) Status {
	if c.MayBlock {
		c.setRunning(st, began)
	}
	if c.Request.Tracing {
		info := traceInfo{request: request, text: st.display}
		return s.traced(ctx, c, &info, func(ctx context.Context, c *Call) Status {
			if st.read != nil && st.display == st.text { // a plan repeats constants
				lines := strings.Split(strings.TrimSpace(st.read.Explain()), "\n")
				trace.From(ctx).Add("Plan: " + strings.Join(lines, "; "))
			}
			return s.run(ctx, c, st, began)
		})
	}
	return s.run(ctx, c, st, began)
}

// run executes a bound statement and records its latency, unless it is pending: then its completion does.
func (s *Session) run(ctx context.Context, c *Call, st *statement, began time.Time) Status {
	var status Status
	err := c.readPayload()
	if err == nil {
		var v recheckResult
		if v, err = s.engine.recheck(ctx, c, s.check(st)); v == recheckNow {
			err = s.check(st)
		} else if v == recheckOnWorker {
			if st.modifies() {
				s.engine.texts.release(st.reserved)
			}
			return Offload
		}
	}
	switch {
	case err != nil:
		if status = c.Result.Fail(err); st.modifies() {
			s.engine.texts.release(st.reserved)
		}
	case st.read != nil:
		status = s.runRead(ctx, c, st, began)
	case st.explains != nil:
		if !c.MayBlock {
			return Offload
		}
		status = s.runExplain(ctx, c, st, began)
	case st.call != nil:
		if !c.MayBlock {
			return Offload
		}
		status = s.runCall(ctx, c, st, began)
	case st.changesCIDRGroups:
		if !c.MayBlock {
			return Offload
		}
		status = s.runCIDRGroups(ctx, c, st, began)
	case st.deletesCacheKeys: // there is nothing to do: the result is that of a deletion
	case st.modifies():
		return s.runModify(ctx, c, st, began)
	case !c.MayBlock && st.mayBlock():
		return Offload
	default:
		status = s.runOther(ctx, c, st)
		var v recheckResult
		switch v, c.Result.Err = s.engine.recheck(ctx, c, c.Result.Err); v {
		case recheckOnWorker:
			c.Result.Err = nil
			return Offload
		case recheckNow:
			c.Result.Err, c.Result.Warnings = nil, nil
			status = s.runOther(ctx, c, st)
		}
	}
	if status == Done {
		took := s.finished(c, st.kind, st.tables, began)
		if st.read != nil && !st.computed {
			op := Read
			if st.read.Scans() {
				op = Scan
			}
			s.engine.tableLatencies.record(st.tables, op, took, began)
		}
		if s.engine.opts.Slow.IsSlow(took) {
			s.recordSlow(c, st.display, st.tables, took)
		}
		s.audit(st, c.Result.Err, "", "")
	}
	return status
}

// finished records a request that has its result, and returns how long it took.
func (s *Session) finished(c *Call, kind StatementKind, tables []*schema.Table, began time.Time) time.Duration {
	switch {
	case errors.Is(c.Result.Err, coordinator.ErrUnknownTable):
		c.Result.Err = s.engine.droppedTableError(c.Result.Err, tables)
	case c.Result.Err != nil:
		c.Result.Err = toClientError(c.Result.Err, &c.Request, kind)
	case kind == KindModify || kind == KindConditional || kind == KindBatch:
		s.warnLevel(c)
	}
	s.attachCharge(c, tables)
	took := s.engine.opts.Now().Sub(began)
	s.engine.latency[kind].record(took, c.Result.Err != nil)
	return took
}
