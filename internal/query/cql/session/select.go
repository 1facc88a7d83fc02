// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/query/cql/read"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// scratch holds the reusable memory of an execution.
type scratch struct {
	bindings expr.Bindings
	page     read.Page
	check    guardrail.Check
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (s *scratch) release() {
	s.bindings, s.check = expr.Bindings{}, guardrail.Check{}
	s.page.Cells, s.page.Warnings = nil, nil
	scratches.Put(s)
}

const (
	// inlineRowsMax is the largest page that is read on the goroutine of a connection.
	inlineRowsMax = 5000
	// pageBytesMax is the size in bytes at which a page ends, regardless of its number of rows.
	pageBytesMax = 8 << 20
)

// resultMemory limits the memory of all results that are being read.
type resultMemory struct {
	*meter.Pool
	// memoryPressure reports whether clients have so many unread responses that pages must be small.
	memoryPressure func() bool
}

// Spare implements read.Memory. It reserves half of the memory for unpaged results, which are rejected when no memory
// is left.
func (m *resultMemory) Spare(n int) bool {
	if m.memoryPressure() {
		return false
	}
	return m.Pool.Used()+int64(n) <= m.Max()/2 && m.Pool.Take(int64(n))
}

// Give implements read.Memory.
func (m *resultMemory) Give(n int) { m.Pool.Give(int64(n)) }

// Take implements read.Memory.
func (m *resultMemory) Take(n int) error {
	if !m.Pool.Take(int64(n)) {
		return &dberr.Overloaded{Message: "Too many large unpaged results are being read. Set a page size"}
	}
	return nil
}

// runRead executes a SELECT.
func (s *Session) runRead(ctx context.Context, c *Call, st *statement, began time.Time) Status {
	r := &c.Request
	if !c.MayBlock && (!st.read.IsShort(int(r.PageSize), inlineRowsMax) || !s.servesLocally(c, st)) {
		return Offload
	}
	sc := scratches.Get().(*scratch)
	defer sc.release()
	if err := s.bindingsFor(&sc.bindings, st, r, began); err != nil {
		return c.Result.Fail(err)
	}
	if st.traces != nil {
		if err := s.checkTraces(st, &sc.bindings); err != nil {
			return c.Result.Fail(err)
		}
	}
	o := s.readOptions(r, began)
	if !st.computed {
		o.MaxCharge, o.Claimant, o.NoWait = c.maxCharge, s.claimantOf(c, st.tables), !c.MayBlock
	}
	o.Clear = s.clear(st.tables)
	if st.read.Evaluates() {
		s.limitEvaluation(&o, c, st, began)
	}
	if sc.check.Guards = s.guardrails(); sc.check.Guards != nil {
		o.Guard = &sc.check
		if err := checkSelectGuardrails(o.Guard, st, r); err != nil {
			return c.failGuardrail(o.Guard, err)
		}
	}
	if st.computed {
		ctx = catalog.WithLocal(ctx, s.client.Local)
	}
	again, before := readRestart{engine: s.engine, began: began}, len(sc.check.Warnings)
	var err error
	for {
		if errors.Is(err, coordinator.ErrStaleSchema) { // the previous attempt used an index that has been dropped
			sc.check.Warnings = sc.check.Warnings[:before]
			if st, err = s.rebindRead(ctx, c, st, sc, &o); err != nil {
				break
			}
		}
		sc.page.Cells, sc.check.Warnings = c.Result.Cells[:0], sc.check.Warnings[:before]
		err = st.read.Execute(ctx, st.reader, &sc.bindings, o, &sc.page)
		s.engine.results.Give(sc.page.Held)
		c.Result.Cells, c.Result.Charge = sc.page.Cells, sc.page.Charge
		late := !c.MayBlock && s.engine.coordinator.QueuesThrottled() && throttled(err)
		stale := errors.Is(err, coordinator.ErrStaleSchema) && s.engine.opts.Now().Sub(began) <= rebindTime
		if !late && !stale && !errors.Is(err, coordinator.ErrRepeat) {
			break
		}
		if !c.MayBlock {
			return Offload // the worker restarts the SELECT and may wait
		}
		if !stale {
			if err = again.wait(ctx, r.Consistency); err != nil {
				break
			}
		}
	}
	c.Result.Warnings = append(append(c.Result.Warnings, sc.check.Warnings...), sc.page.Warnings...)
	if err != nil {
		return c.Result.Fail(err)
	}
	if st.scans != nil {
		st.scans.record(len(r.PagingState) == 0, sc.page.Rows, sc.page.Charge)
	}
	c.Result.Kind, c.Result.Metadata, c.Result.RowCount = Rows, st.result, sc.page.Rows
	// A client of version 5 detects changed columns. An older client decodes the rows by the columns that it has cached
	// unless it receives them again.
	c.Result.AlwaysMetadata = !st.stable && r.Version < 5
	if len(sc.page.PagingState) > 0 {
		// The scratch may be reused before the response has been encoded.
		c.Result.PagingState = append([]byte(nil), sc.page.PagingState...)
	}
	return Done
}

// rebindRead waits for the schema change that made a SELECT stale, and binds the SELECT again.
func (s *Session) rebindRead(ctx context.Context, c *Call, st *statement, sc *scratch, o *read.Options) (*statement,
	error) {
	s.engine.awaitChange(ctx, st.tables)
	next, err := s.engine.parse([]byte(st.text), st.keyspace)
	if err == nil {
		err = s.check(next) // a different table may have the name now
	}
	if err == nil && next.read == nil {
		err = coordinator.ErrStaleSchema
	}
	if err != nil {
		return st, err
	}
	if err := next.bindings(&sc.bindings, &c.Request); err != nil {
		return st, err
	}
	if o.Clear = s.clear(next.tables); sc.check.On() {
		err = checkSelectGuardrails(&sc.check, next, &c.Request)
	}
	return next, err
}

// throttled reports whether a request was rejected because its partition has used its throughput.
func throttled(err error) bool {
	busy, ok := errors.AsType[*dberr.Overloaded](err)
	return ok && busy.RetryAfter > 0
}

// readOptions returns the options for executing a SELECT.
func (s *Session) readOptions(r *Request, began time.Time) read.Options {
	e := s.engine
	o := read.Options{Level: r.Consistency, PageSize: int(r.PageSize), PagingState: r.PagingState, Now: began.Unix(),
		Building:     e.opts.Building,
		PageBytesMax: min(pageBytesMax, e.opts.ResultBytesMax), ResultBytesMax: e.opts.ResultBytesMax,
		Memory: &e.results, Deadline: began.Add(e.opts.ScanTimeout), Clock: e.opts.Now}
	if r.HasNow {
		o.Now = int64(r.Now)
	}
	return o
}

// limitEvaluation sets the limits for evaluating a SELECT. If the SELECT is not a scan, its evaluation is limited by
// the read timeout.
func (s *Session) limitEvaluation(o *read.Options, c *Call, st *statement, began time.Time) {
	e := s.engine
	o.Evaluation = read.Evaluation{Pool: e.results.Pool, Bytes: e.results.Max() / evaluationParts, Who: s.claimant}
	if c.MayBlock {
		o.Evaluation.Slots = e.opts.Slots
	}
	if !st.read.Scans() {
		o.Evaluation.Deadline = began.Add(e.opts.ReadTimeout)
	}
}

// evaluationParts is the divisor of the memory for results and evaluations that one evaluation may use.
const evaluationParts = 2

// servesLocally reports whether this node can serve a SELECT of one partition without another node.
func (s *Session) servesLocally(c *Call, st *statement) bool {
	if s.engine.opts.ServesLocally == nil || st.computed {
		return true
	}
	r := &c.Request
	table, t, ok := st.token(r)
	return ok && s.engine.opts.ServesLocally(table, t, r.Consistency, s.claimantOf(c, st.tables))
}

// bindingsFor sets the values of a request for its statement.
func (s *Session) bindingsFor(b *expr.Bindings, st *statement, r *Request, began time.Time) error {
	b.Now, b.UUIDs = began, s.engine.uuids
	return st.bindings(b, r)
}
