// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/explain"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// explainMetadata describes the row that EXPLAIN returns. Its keyspace name and table name resemble the names of
// Ilion's virtual tables, but the table does not exist.
var explainMetadata = func() *Metadata {
	text, double := cqltype.Native(cqltype.Text), cqltype.Native(cqltype.Double)
	columns := []Column{{Name: "plan", Type: text}, {Name: "index", Type: text},
		{Name: "partitions", Type: cqltype.Native(cqltype.Int)},
		{Name: "min_ru", Type: double}, {Name: "expected_ru", Type: double}, {Name: "max_ru", Type: double}}
	for i := range columns {
		columns[i].Keyspace, columns[i].Table = "ilion", "explain"
	}
	return NewMetadata(columns)
}()

const unknownPriceWarning = "The cost depends on the bound values. Bind all markers to see the cost"

// bindExplain binds EXPLAIN. EXPLAIN has the same markers and requires the same permissions as the explained statement.
func (e *Engine) bindExplain(st *statement, s *parser.Explain) error {
	if c, ok := s.Statement.(*parser.Call); ok {
		return dberr.Invalidf("EXPLAIN is not supported for CALL: the cost depends on the procedure %s. Execute it and read "+
			"the custom payload %s", c.Procedure, chargePayload)
	}
	inner := &statement{text: st.text, keyspace: st.keyspace, parsed: s.Statement, markers: st.markers}
	if err := e.bind(inner); err != nil {
		return err
	}
	st.kind, st.explains = KindOther, inner
	st.variables, st.pkIndexes, st.tables = inner.variables, inner.pkIndexes, inner.tables
	st.requirements, st.computed = inner.requirements, inner.computed
	st.result, st.stable = explainMetadata, true
	return nil
}

func (s *Session) runExplain(ctx context.Context, c *Call, st *statement, began time.Time) Status {
	var price explain.Price
	var err error
	inner := st.explains
	known := len(c.Request.Values) > 0 || len(st.variables) == 0
	switch {
	case known && inner.read != nil:
		price, err = s.explainRead(ctx, c, inner, began)
	case known:
		price, err = s.explainWrite(ctx, c, inner, began)
	default:
		c.Result.Warnings = append(c.Result.Warnings, unknownPriceWarning)
		if price.Plan = "modification"; inner.read != nil {
			price.Plan, price.Index = inner.read.Summary(), inner.read.Index()
		}
	}
	c.Result.Charge = price.Cost
	if err != nil {
		return c.Result.Fail(err)
	}
	c.Result.fillPrice(&price, known)
	return Done
}

// explainRead returns the price of a SELECT.
func (s *Session) explainRead(ctx context.Context, c *Call, st *statement, began time.Time) (explain.Price, error) {
	x := s.newSelection(c, st, began)
	defer x.release()
	if err := x.begin(); err != nil {
		return explain.Price{}, err
	}
	x.options.Memory, x.options.Claimant = nil, s.claimantOf(c, st.tables) // EXPLAIN keeps no result in memory
	if st.computed {
		ctx = catalog.WithLocal(ctx, s.client.Local)
	}
	for {
		price, err := explain.Select(ctx, st.reader, s.engine.coordinator.Topology(), st.read, &x.bindings, x.options)
		if !errors.Is(err, coordinator.ErrRepeat) {
			return price, err
		}
		if err := x.restarts.wait(ctx, c.Request.Consistency); err != nil {
			return price, err
		}
	}
}

// explainWrite returns the price of a modification or a batch.
func (s *Session) explainWrite(ctx context.Context, c *Call, st *statement, began time.Time) (explain.Price, error) {
	m := s.newModification(ctx, c, st, st.kind, began)
	defer m.release()
	m.request.MaxCharge = 0 // EXPLAIN shows the price even if it exceeds the limit
	m.request.Claimant, m.request.Clear = s.claimantOf(c, st.tables), s.clear(st.tables)
	if err := m.checkGuardrails(); err != nil {
		return explain.Price{}, err
	}
	if err := st.bindings(&m.request.Bindings, &c.Request); err != nil {
		return explain.Price{}, err
	}
	if st.transaction != nil {
		price := explain.Price{Plan: st.transaction.Summary(), Partitions: 1}
		var err error
		price.Min, price.Cost, err = s.engine.transactions.Explain(ctx, st.transaction, &m.request)
		price.Expected, price.Max = price.Min, price.Min
		return price, err
	}
	co := s.engine.coordinator
	price, warnings, err := explain.Modify(ctx, co, s.engine.opts.writeOptions(co), st.tables,
		func(e *write.Executor, done write.Completion) {
			if st.batch != nil {
				e.ExecuteBatch(ctx, st.batch, &m.request, done)
			} else {
				e.Execute(ctx, st.write, &m.request, done)
			}
		})
	c.Result.Warnings = append(append(c.Result.Warnings, m.check.Warnings...), warnings...)
	return price, err
}

// fillPrice stores a price in the result. If the request has no values, known is false and the result contains only the
// plan.
func (r *Result) fillPrice(p *explain.Price, known bool) {
	r.Kind, r.Metadata, r.RowCount = Rows, explainMetadata, 1
	text := func(s string) {
		var v []byte
		if s != "" {
			v = []byte(s)
		}
		r.Cells = cqltype.AppendValue(r.Cells, v)
	}
	units := func(u ru.Units) {
		var v []byte
		if known && u != explain.Unknown {
			v = binary.BigEndian.AppendUint64(nil, math.Float64bits(u.Float()))
		}
		r.Cells = cqltype.AppendValue(r.Cells, v)
	}
	r.Cells = r.Cells[:0]
	text(p.Plan)
	text(p.Index)
	var partitions []byte
	if known {
		partitions = binary.BigEndian.AppendUint32(nil, uint32(p.Partitions))
	}
	r.Cells = cqltype.AppendValue(r.Cells, partitions)
	units(p.Min)
	units(p.Expected)
	units(p.Max)
}
