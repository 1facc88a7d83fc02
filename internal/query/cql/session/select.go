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

// selection holds the state of one execution of a SELECT. Selections are pooled.
type selection struct {
	session  *Session
	call     *Call
	st       *statement
	began    time.Time
	bindings expr.Bindings
	check    guardrail.Check
	options  read.Options
	page     read.Page
	restarts readRestart
}

var selections = sync.Pool{New: func() any { return new(selection) }}

// newSelection returns a selection. The caller must release the selection.
func (s *Session) newSelection(c *Call, st *statement, began time.Time) *selection {
	x := selections.Get().(*selection)
	x.session, x.call, x.st, x.began = s, c, st, began
	x.restarts = readRestart{engine: s.engine, began: began}
	return x
}

func (x *selection) release() {
	*x = selection{page: read.Page{PagingState: x.page.PagingState}}
	selections.Put(x)
}

const (
	// inlineRowsMax is the maximum number of rows in a page that a connection's goroutine reads.
	inlineRowsMax = 5000
	// pageBytesMax is the size in bytes at which a page ends, regardless of the number of rows.
	pageBytesMax = 8 << 20
)

// resultMemory limits the memory of all results that are being read.
type resultMemory struct {
	*meter.Pool
	clients Pressure // may be nil
}

// Pressure reports memory pressure from unread responses. Under pressure, pages end early.
type Pressure interface {
	Pressed() bool
}

// Spare implements read.Memory. It leaves half of the memory to unpaged results, because they are rejected when no
// memory is left.
func (m *resultMemory) Spare(n int) bool {
	if m.clients != nil && m.clients.Pressed() {
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
	if !c.MayBlock && (!st.read.IsShort(int(c.Request.PageSize), inlineRowsMax) || !s.servesLocally(c, st)) {
		return Offload
	}
	x := s.newSelection(c, st, began)
	defer x.release()
	if err := x.begin(); err != nil {
		return c.failGuardrail(&x.check, err)
	}
	if st.computed {
		ctx = catalog.WithLocal(ctx, s.client.Local)
	} else {
		x.options.MaxCharge, x.options.NoWait = c.maxCharge, !c.MayBlock
		x.options.Claimant = s.claimantOf(c, st.tables)
	}
	if st.read.Evaluates() {
		x.limitEvaluation()
	}
	offload, err := x.read(ctx)
	if offload {
		return Offload
	}
	c.Result.Warnings = append(append(c.Result.Warnings, x.check.Warnings...), x.page.Warnings...)
	if err != nil {
		return c.Result.Fail(err)
	}
	x.fill(&c.Result)
	return Done
}

// begin sets the values and the options. Then it checks the permissions and guardrails that depend on them.
func (x *selection) begin() error {
	s, c, st := x.session, x.call, x.st
	if err := s.bindingsFor(&x.bindings, st, &c.Request, x.began); err != nil {
		return err
	}
	if st.traces != nil {
		if err := s.checkTraces(st, &x.bindings); err != nil {
			return err
		}
	}
	x.options = s.readOptions(&c.Request, x.began)
	x.options.Clear = s.clear(st.tables)
	if x.check.Guards = s.guardrails(); x.check.Guards == nil {
		return nil
	}
	x.options.Guard = &x.check
	return checkSelectGuardrails(&x.check, st, &c.Request)
}

// read reads a page. If rows could not be confirmed, read restarts the SELECT. If the schema has changed, read binds
// the SELECT again. If the SELECT may have to wait, offload is true and the SELECT must be executed on a worker.
func (x *selection) read(ctx context.Context) (offload bool, err error) {
	e, c := x.session.engine, x.call
	before := len(x.check.Warnings)
	for {
		x.page.Cells, x.check.Warnings = c.Result.Cells[:0], x.check.Warnings[:before]
		err := x.st.read.Execute(ctx, x.st.reader, &x.bindings, x.options, &x.page)
		e.results.Give(x.page.Held)
		c.Result.Cells, c.Result.Charge = x.page.Cells, x.page.Charge
		late := !c.MayBlock && e.coordinator.QueuesThrottled() && throttled(err)
		stale := errors.Is(err, coordinator.ErrStaleSchema) && e.opts.Clock.Wall().Sub(x.began) <= rebindTime
		if !late && !stale && !errors.Is(err, coordinator.ErrRepeat) {
			return false, err
		}
		if !c.MayBlock {
			return true, nil // a worker restarts the SELECT and may wait
		}
		if stale { // the attempt used a dropped index
			x.check.Warnings = x.check.Warnings[:before]
			err = x.rebind(ctx)
		} else {
			err = x.restarts.wait(ctx, c.Request.Consistency)
		}
		if err != nil {
			return false, err
		}
	}
}

// fill copies the page to the result.
func (x *selection) fill(r *Result) {
	request := &x.call.Request
	if x.st.scans != nil {
		x.st.scans.record(len(request.PagingState) == 0, x.page.Rows, x.page.Charge)
	}
	r.Kind, r.Metadata, r.RowCount = Rows, x.st.result, x.page.Rows
	// Clients of version 5 detect changed columns. Older clients use cached columns to decode the rows unless the
	// response contains the columns.
	r.AlwaysMetadata = !x.st.stable && request.Version < 5
	if len(x.page.PagingState) > 0 {
		// The memory of the page may be reused before the response has been encoded.
		r.PagingState = append([]byte(nil), x.page.PagingState...)
	}
}

// rebind waits for the schema change that made the SELECT stale. Then it binds the SELECT again.
func (x *selection) rebind(ctx context.Context) error {
	s, r := x.session, &x.call.Request
	s.engine.awaitChange(ctx, x.st.tables)
	next, err := s.engine.parse([]byte(x.st.text), x.st.keyspace)
	if err == nil {
		err = s.check(next) // a different table may have this name now
	}
	if err == nil && next.read == nil {
		err = coordinator.ErrStaleSchema
	}
	if err == nil {
		err = next.bindings(&x.bindings, r)
	}
	if err != nil {
		return err
	}
	x.st = next
	if x.options.Clear = s.clear(next.tables); x.check.On() {
		err = checkSelectGuardrails(&x.check, next, r)
	}
	return err
}

// throttled reports whether a request was rejected because it exceeded the throughput of a partition.
func throttled(err error) bool {
	busy, ok := errors.AsType[*dberr.Overloaded](err)
	return ok && busy.RetryAfter > 0
}

// readOptions returns the options for executing a SELECT.
func (s *Session) readOptions(r *Request, began time.Time) read.Options {
	e := s.engine
	o := read.Options{Level: r.Consistency, PageSize: int(r.PageSize), PagingState: r.PagingState, Now: began.Unix(),
		Builds:       e.opts.Builds,
		PageBytesMax: min(pageBytesMax, e.opts.ResultBytesMax), ResultBytesMax: e.opts.ResultBytesMax,
		Memory: &e.results, Deadline: began.Add(e.opts.ScanTimeout), Clock: e.opts.Clock}
	if r.HasNow {
		o.Now = int64(r.Now)
	}
	return o
}

// limitEvaluation sets the limits for evaluating the SELECT. The read timeout limits the evaluation unless the SELECT
// is a scan.
func (x *selection) limitEvaluation() {
	e := x.session.engine
	x.options.Evaluation = read.Evaluation{Pool: e.results.Pool, Bytes: e.results.Max() / evaluationParts,
		Who: x.session.claimant}
	if x.call.MayBlock {
		x.options.Evaluation.Slots = e.opts.Slots
	}
	if !x.st.read.Scans() {
		x.options.Evaluation.Deadline = x.began.Add(e.opts.ReadTimeout)
	}
}

// evaluationParts limits the memory of one evaluation. The limit is 1/evaluationParts of the memory for results and
// evaluations.
const evaluationParts = 2

// servesLocally reports whether this node can serve a SELECT of one partition without contacting another node.
func (s *Session) servesLocally(c *Call, st *statement) bool {
	if s.engine.opts.Routing == nil || st.computed {
		return true
	}
	r := &c.Request
	table, t, ok := st.token(r)
	return ok && s.engine.opts.Routing.ServesLocally(table, t, r.Consistency, s.claimantOf(c, st.tables))
}

// bindingsFor assigns the values of a request to the markers of its statement.
func (s *Session) bindingsFor(b *expr.Bindings, st *statement, r *Request, began time.Time) error {
	b.Now, b.UUIDs = began, s.engine.uuids
	return st.bindings(b, r)
}
