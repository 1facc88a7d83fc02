// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/guardrail"
	"github.com/ilion-db/ilion/internal/query/read"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// scratch is what an execution needs and the next one can use again.
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
	// pageBytesMax is where a page ends, however few its rows are, in bytes.
	pageBytesMax = 8 << 20
)

// resultMemory bounds the memory of all results that are being read.
type resultMemory struct {
	*meter.Pool
	// pressed reports whether clients have so much to read that pages are to be small.
	memoryPressure func() bool
}

// Spare implements read.Memory. It leaves half of the memory to results without paging, which are refused where there
// is none.
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
		return &dberr.Overloaded{Message: "Too many large results without paging are being read: set a page size"}
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
		if errors.Is(err, coordinator.ErrStaleSchema) { // the attempt before read by an index that has been dropped
			sc.check.Warnings = sc.check.Warnings[:before]
			if st, err = s.rebindRead(ctx, c, st, sc, &o); err != nil {
				break
			}
		}
		sc.page.Cells, sc.check.Warnings = c.Result.Cells[:0], sc.check.Warnings[:before]
		err = st.read.Execute(ctx, st.reader, &sc.bindings, o, &sc.page)
		s.engine.results.Give(sc.page.Held)
		c.Result.Cells, c.Result.Charge = sc.page.Cells, sc.page.Charge
		late := !c.MayBlock && s.engine.coordinator.Waits() && throttled(err)
		stale := errors.Is(err, coordinator.ErrStaleSchema) && s.engine.opts.Now().Sub(began) <= rebindTime
		if !late && !stale && !errors.Is(err, coordinator.ErrRepeat) {
			break
		}
		if !c.MayBlock {
			return Offload // which begins anew, and may wait
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
	// Version 5 finds out by itself that the columns have changed; before it, a client that is not told them again
	// decodes the rows by those it remembers.
	c.Result.AlwaysMetadata = !st.stable && r.Version < 5
	if len(sc.page.PagingState) > 0 {
		// The scratch is reused before the answer may be encoded.
		c.Result.PagingState = append([]byte(nil), sc.page.PagingState...)
	}
	return Done
}

// rebindRead waits for the schema change that has outdated a SELECT, and binds the SELECT again.
func (s *Session) rebindRead(ctx context.Context, c *Call, st *statement, sc *scratch, o *read.Options) (*statement,
	error) {
	s.engine.awaitChange(ctx, st.tables)
	next, err := s.engine.parse([]byte(st.text), st.keyspace)
	if err == nil {
		err = s.check(next) // another table may have the name now
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

// throttled reports whether a request was refused because its partition has spent what it may take for now.
func throttled(err error) bool {
	busy, ok := errors.AsType[*dberr.Overloaded](err)
	return ok && busy.RetryAfter > 0
}

// readOptions say how a SELECT is to be executed.
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

// bound sets the bounds of the evaluation of a SELECT. One that does not read much has the time of a read.
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

// evaluationParts is the part of the memory for results and evaluations that one evaluation may hold.
const evaluationParts = 2

// near reports whether a SELECT of one partition can be answered without asking another node.
func (s *Session) servesLocally(c *Call, st *statement) bool {
	if s.engine.opts.ServesLocally == nil || st.computed {
		return true
	}
	r := &c.Request
	table, t, ok := st.token(r)
	return ok && s.engine.opts.ServesLocally(table, t, r.Consistency, s.claimantOf(c, st.tables))
}

// bindingsFor prepares the values of a request for its statement.
func (s *Session) bindingsFor(b *expr.Bindings, st *statement, r *Request, began time.Time) error {
	b.Now, b.UUIDs = began, s.engine.uuids
	return st.bindings(b, r)
}
