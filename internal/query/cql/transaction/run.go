// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/read"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// run is one execution of a plan on the leader. It implements partition.Program.
type run struct {
	programs *Programs
	plan     *Plan
	bind     expr.Bindings
	guard    *guardrail.Check
	options  read.Options
	// found reports whether each let has found a row.
	found  []bool
	result programResult
}

// evaluationBytes limits the memory for evaluating the values of a transaction.
const evaluationBytes = 32 << 20

// Run implements partition.Program.
func (x *run) Run(ctx context.Context, t *partition.Txn) ([]byte, error) {
	x.options.ResultBytesMax = t.ResultBytesMax()
	x.bind.Meter = meter.New(ctx, meter.Limits{Bytes: evaluationBytes})
	if err := x.readLets(ctx, t); err != nil {
		return nil, err
	}
	if err := x.fill(ctx, t); err != nil {
		return nil, err
	}
	if err := x.change(ctx, t); err != nil {
		return nil, err
	}
	if x.guard.On() {
		x.result.warnings = append(x.result.warnings, x.guard.Warnings...)
	}
	return x.result.append(nil), nil
}

// readLets reads the rows of all lets and stores the referenced values.
func (x *run) readLets(ctx context.Context, t *partition.Txn) error {
	p := x.plan
	x.found = make([]bool, len(p.lets))
	x.bind.References = make([][]byte, len(p.slots))
	for i := range p.lets {
		var page read.Page
		if err := p.lets[i].plan.Execute(ctx, t, &x.bind, x.options, &page); err != nil {
			return err
		}
		if page.Rows > 1 {
			return dberr.Invalidf("LET %s must read at most one row, but it read %d", p.lets[i].name, page.Rows)
		}
		if x.found[i] = page.Rows == 1; !x.found[i] {
			continue
		}
		values := cells(page.Cells)
		for n, s := range p.slots {
			if s.let == i {
				x.bind.References[n] = values[s.column]
			}
		}
	}
	return nil
}

// cells splits the encoded values of one row.
func cells(b []byte) (out [][]byte) {
	for len(b) >= 4 {
		n := int32(binary.BigEndian.Uint32(b))
		if b = b[4:]; n < 0 {
			out = append(out, nil)
			continue
		}
		out, b = append(out, b[:n:n]), b[n:]
	}
	return out
}

// fill sets the result.
func (x *run) fill(ctx context.Context, t *partition.Txn) error {
	p := x.plan
	if p.result != nil {
		var page read.Page
		if err := p.result.Execute(ctx, t, &x.bind, x.options, &page); err != nil {
			return err
		}
		x.result.rows, x.result.cells, x.result.warnings = page.Rows, page.Cells, page.Warnings
		return nil
	}
	if len(p.returns) == 0 {
		return nil
	}
	x.result.rows = 1
	for _, term := range p.returns {
		v, _, err := term.Eval(&x.bind)
		if err != nil {
			return err
		}
		x.result.cells = cqltype.AppendValue(x.result.cells, v)
	}
	return nil
}

// change stages the changes of the steps whose conditions are satisfied.
func (x *run) change(ctx context.Context, t *partition.Txn) error {
	staging := x.programs.writes.NewStaging(x.guard)
	for i := range x.plan.steps {
		s := &x.plan.steps[i]
		ok, err := x.holds(s.conditions)
		if err != nil {
			return err
		}
		for _, plan := range s.plans {
			if !ok {
				break
			}
			if err := staging.Add(plan, &x.bind); err != nil {
				return err
			}
		}
	}
	c, warnings, err := staging.Conditional()
	x.result.warnings = append(x.result.warnings, warnings...)
	if err != nil || c == nil {
		return err
	}
	return t.Stage(ctx, c)
}

// holds reports whether all conditions are satisfied. A comparison with null is never satisfied.
func (x *run) holds(list []condition) (bool, error) {
	for i := range list {
		c := &list[i]
		if c.let >= 0 {
			if x.found[c.let] == (c.operator == parser.IsNull) {
				return false, nil
			}
			continue
		}
		l, state, err := c.left.Eval(&x.bind)
		if err != nil {
			return false, err
		}
		if c.right == nil {
			if (state == expr.Null) != (c.operator == parser.IsNull) {
				return false, nil
			}
			continue
		}
		r, other, err := c.right.Eval(&x.bind)
		if err != nil {
			return false, err
		}
		if state == expr.Unset || other == expr.Unset {
			return false, dberr.Invalidf("Invalid 'unset' value in condition")
		}
		if state == expr.Null || other == expr.Null || !compares(c.operator, c.left.Type().Compare(l, r)) {
			return false, nil
		}
	}
	return true, nil
}

// compares reports whether an operator is satisfied by the result of a comparison.
func compares(o parser.Operator, order int) bool {
	switch o {
	case parser.Equal:
		return order == 0
	case parser.NotEqual:
		return order != 0
	case parser.Less:
		return order < 0
	case parser.LessEqual:
		return order <= 0
	case parser.Greater:
		return order > 0
	}
	return order >= 0
}
