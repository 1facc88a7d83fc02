// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/function/call"
)

// bindCall binds CALL. The statement requires the EXECUTE permission on the procedure, but no permission on the
// container.
func (e *Engine) bindCall(st *statement, s *parser.Call) error {
	p, err := call.Prepare(e.opts.Release, s, e.catalog.Snapshot(), st.keyspace, len(st.markers))
	if err != nil {
		return err
	}
	t := p.Table()
	st.kind, st.call, st.tables = KindConditional, p, []*schema.Table{t}
	st.variables, st.pkIndexes = p.Variables(), p.PKIndexes()
	st.required = []requiredPermission{{access.Execute, p.Procedure()}}
	st.result, st.stable = NewMetadata(p.Columns()), true
	return nil
}

// runCall executes CALL. It waits until the logical partition has a leader.
func (s *Session) runCall(ctx context.Context, c *Call, st *statement, began time.Time) Status {
	if s.engine.opts.Calls == nil {
		return c.Result.Fail(dberr.Invalidf("Stored procedures are not available on this node"))
	}
	r := &c.Request
	var bindings expr.Bindings
	if err := s.bindingsFor(&bindings, st, r, began); err != nil {
		return c.Result.Fail(err)
	}
	check := guardrail.Check{Guards: s.guardrails()}
	if check.On() {
		if err := check.WriteLevels(r.Consistency, r.Serial, true); err != nil {
			return c.failGuardrail(&check, err)
		}
		c.Result.Warnings = append(c.Result.Warnings, check.Warnings...)
	}
	out, err := s.engine.opts.Calls.Execute(ctx, st.call, &bindings, container.RequestOptions{
		MaxCharge: c.maxCharge, Claimant: s.claimantOf(c, st.tables)})
	s.engine.tableLatencies.record(st.tables, Write, s.engine.opts.Clock.Wall().Sub(began), began)
	if c.Result.Charge = out.Charge; err != nil {
		return c.Result.Fail(err)
	}
	c.Result.Kind, c.Result.Metadata, c.Result.RowCount = Rows, st.result, 1
	c.Result.Cells = c.Result.Cells[:0]
	for _, v := range out.Cells {
		c.Result.Cells = cqltype.AppendValue(c.Result.Cells, v)
	}
	return Done
}
