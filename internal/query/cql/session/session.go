// SPDX-License-Identifier: Apache-2.0

// Package session is the entry point for executing CQL. A Session holds the state of one client. An Engine holds the
// state that all sessions share. Protocol servers convert a message into a Call and receive a Result. Call and Result
// are independent of the protocol.
//
// Guarantees:
//
//   - (SE1) A prepared statement is executed only on the table revision to which it is bound.
//   - (SE2) Executing a prepared single-partition statement allocates no memory in this package.
//   - (SE3) A goroutine that must not block never waits for anything except a processor (Offload).
//   - (SE4) The engine publishes a schema change to the listeners of the catalog before the client receives the
//     response. The listeners announce the change to the other clients.
//   - (SE5) The result of a restarted read contains no rows of an earlier attempt.
//   - (SE6) The engine does not execute a statement if the client's role currently lacks the required permission.
//   - (SE7) While the leader of the meta partition responds, no statement is rejected because the schema or the roles
//     of this node are outdated. The schema and the roles contain every change that any node acknowledged before the
//     statement. If the meta partition has no leader, an unknown keyspace or table is not reported as missing.
//
// Start reading at Session.Execute.
package session

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Session is the state of one client. Its methods are safe for concurrent use.
type Session struct {
	identity
	keyspace atomic.Pointer[string]
	warned   warnings
}

// Close ends the session.
func (s *Session) Close() {}

// inKeyspace returns the keyspace of a request.
func (s *Session) inKeyspace(r *Request) string {
	if len(r.Keyspace) > 0 {
		return string(r.Keyspace)
	}
	return s.Keyspace()
}

// inlineTextMax is the maximum length in bytes of a statement that a connection's goroutine parses.
const inlineTextMax = 64 << 10

// Query executes an unprepared statement.
func (s *Session) Query(ctx context.Context, c *Call) Status {
	if !c.MayBlock && len(c.Request.Text) > inlineTextMax {
		return Offload
	}
	began := s.engine.opts.Clock.Wall()
	st, err := s.query(c)
	verdict, err := s.engine.recheck(ctx, c, err)
	switch verdict {
	case recheckOnWorker:
		return Offload
	case recheckNow:
		st, err = s.query(c)
	}
	if err != nil {
		s.engine.latency[KindOther].record(s.engine.opts.Clock.Wall().Sub(began), true)
		if s.engine.opts.auditsAll() {
			s.audit(nil, err, "", display(string(c.Request.Text), nil, nil))
		}
		return c.Result.Fail(err)
	}
	if !st.modifies() {
		defer s.engine.texts.release(st.reserved) // modifications release their memory on completion
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

// Prepare binds a statement and caches the statement.
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

// runPrepare prepares a statement. If the request is traced or audited, runPrepare sets shown to the display text.
func (s *Session) runPrepare(ctx context.Context, c *Call, shown *string) Status {
	st, err := s.prepare(c)
	verdict, err := s.engine.recheck(ctx, c, err)
	switch verdict {
	case recheckOnWorker:
		return Offload
	case recheckNow:
		st, err = s.prepare(c)
	}
	if s.engine.opts.auditsAll() || c.Request.Tracing {
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

// prepare prepares a statement and sets the result of the call.
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
	s.warned.addUse(c, s.engine, st, st.keyspace, id)
	return st, nil
}

// Execute executes a prepared statement.
func (s *Session) Execute(ctx context.Context, c *Call) Status {
	began := s.engine.opts.Clock.Wall()
	st := s.engine.prepared.get(c.Request.ID)
	if st == nil {
		return c.Result.Fail(&dberr.Unprepared{ID: c.Request.ID})
	}
	if s.warned.preparedElsewhere(s.engine, st, s.Keyspace()) {
		if !c.MayBlock {
			return Offload // a worker adds the warning, so that the warning is sent only once
		}
		s.warned.addUse(c, s.engine, st, s.Keyspace(), c.Request.ID)
	}
	s.addTabletPayload(c, st)
	return s.start(ctx, c, st, traceExecute, began)
}

// start executes a statement. It stores a trace if the client requested tracing.
func (s *Session) start(ctx context.Context, c *Call, st *statement, request string, began time.Time) Status {
	if c.MayBlock {
		c.setRunning(st, began)
	}
	if c.Request.Tracing {
		info := traceInfo{request: request, text: st.display}
		return s.traced(ctx, c, &info, func(ctx context.Context, c *Call) Status {
			if st.read != nil && st.display == st.text { // plans contain the constants of the statement
				lines := strings.Split(strings.TrimSpace(st.read.Explain()), "\n")
				trace.From(ctx).Add("Plan: " + strings.Join(lines, "; "))
			}
			return s.run(ctx, c, st, began)
		})
	}
	return s.run(ctx, c, st, began)
}

// run executes a bound statement. It records the latency unless the statement is pending.
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
	case st.virtual == cidrGroups:
		if !c.MayBlock {
			return Offload
		}
		status = s.runCIDRGroups(ctx, c, st, began)
	case st.virtual == deletedCacheKeys: // these deletions have no effect
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

// finished records a completed request and returns the duration of the request.
func (s *Session) finished(c *Call, kind StatementKind, tables []*schema.Table, began time.Time) time.Duration {
	switch {
	case errors.Is(c.Result.Err, coordinator.ErrUnknownTable):
		c.Result.Err = s.engine.droppedTableError(c.Result.Err, tables)
	case c.Result.Err != nil:
		c.Result.Err = toClientError(c.Result.Err, &c.Request, kind)
	case kind == KindModify || kind == KindConditional || kind == KindBatch:
		s.warned.addLevel(c, s.engine)
	}
	s.attachCharge(c, tables)
	took := s.engine.opts.Clock.Wall().Sub(began)
	s.engine.latency[kind].record(took, c.Result.Err != nil)
	return took
}
