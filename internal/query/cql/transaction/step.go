// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"errors"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/write"
)

func (b *binder) step(s *parser.Step) error {
	var out step
	for i := range s.Conditions {
		c, err := b.condition(&s.Conditions[i])
		if err != nil {
			return err
		}
		out.conditions = append(out.conditions, c)
	}
	for _, stmt := range s.Statements {
		plan, err := b.modification(stmt)
		if err != nil {
			return err
		}
		out.plans = append(out.plans, plan)
	}
	b.p.steps = append(b.p.steps, out)
	return nil
}

// modification binds a statement that changes rows.
func (b *binder) modification(stmt parser.Statement) (*write.Plan, error) {
	env, err := b.bindTable(parser.ModifiedTable(stmt))
	if err != nil {
		return nil, err
	}
	if u, ok := stmt.(*parser.Update); ok {
		if stmt, err = b.rewriteSelfUpdates(u, env); err != nil {
			return nil, err
		}
	}
	plan, err := write.Bind(stmt, env)
	if e, ok := errors.AsType[*dberr.Invalid](err); ok {
		return nil, &dberr.Invalid{Message: strings.ReplaceAll(e.Message, ownRowName+".", "")}
	}
	if err != nil {
		return nil, err
	}
	b.setPKIndexes(plan.PKIndexes())
	b.p.writes = true
	return plan, nil
}

// rewriteSelfUpdates replaces c = c + value for a number c with c = row.c + value. row is a let of the updated row.
// rewriteSelfUpdates does not modify the original statement.
func (b *binder) rewriteSelfUpdates(u *parser.Update, env *expr.Env) (*parser.Update, error) {
	out := *u
	out.Assignments = append([]parser.Assignment(nil), u.Assignments...)
	var own *let
	for i := range out.Assignments {
		a := &out.Assignments[i]
		c := env.Table.ByName[a.Column.Name]
		if c != nil && (a.Kind == parser.SetColumn || a.Kind == parser.AddTo || a.Kind == parser.SubtractFrom) {
			a.Value = addTypeHints(a.Value, env)
		}
		if c == nil || a.Kind != parser.AddTo && a.Kind != parser.SubtractFrom || !isAddable(c.Type) {
			continue
		}
		if own == nil {
			own = &let{name: parser.Ident{Name: ownRowName, Quoted: true}}
		}
		op := byte('+')
		if a.Kind == parser.SubtractFrom {
			op = '-'
		}
		a.Kind = parser.SetColumn
		a.Value = &parser.Arithmetic{Op: op, Left: &parser.Field{Term: &parser.Column{Name: own.name}, Name: a.Column},
			Right: typeHint(a.Value, c.Type, c.Name)}
	}
	if own == nil {
		return &out, nil
	}
	return &out, b.bindOwnRow(own, &out, env.Table)
}

// ownRowName is the name of the let for the row of the current UPDATE. A statement cannot contain this name.
const ownRowName = "\x00"

// isAddable reports whether a type is a numeric type or a time type to which durations can be added.
func isAddable(t *cqltype.Type) bool {
	switch t.Kind {
	case cqltype.Tinyint, cqltype.Smallint, cqltype.Int, cqltype.Bigint, cqltype.Varint, cqltype.Float, cqltype.Double,
		cqltype.Decimal, cqltype.Date, cqltype.Timestamp:
		return true
	}
	return false
}

// bindOwnRow binds a let that reads the columns that an UPDATE changes relative to their current values.
func (b *binder) bindOwnRow(own *let, u *parser.Update, t *schema.Table) error {
	s := &parser.Select{Table: u.Table, Where: u.Where}
	static := true
	for _, a := range u.Assignments {
		if c := t.ByName[a.Column.Name]; c != nil && c.Kind > schema.Clustering {
			s.Selectors = append(s.Selectors, parser.Selector{Term: &parser.Column{Name: a.Column}})
			static = static && c.Kind == schema.Static
		}
	}
	if static {
		s.Limit = &parser.Constant{Kind: parser.IntegerConstant, Text: "1"}
	}
	plan, err := b.selection(s)
	if err != nil {
		return err
	}
	if own.plan = plan; !plan.OneRow() && !static {
		return dberr.Invalidf("An UPDATE in a transaction that refers to a column's current value must specify one row")
	}
	b.p.lets = append(b.p.lets, *own)
	return nil
}

// condition binds one condition of IF.
func (b *binder) condition(s *parser.Comparison) (c condition, err error) {
	c = condition{operator: s.Op, let: -1}
	if row, ok := s.Left.(*parser.Column); ok {
		if c.let = b.find(row.Name); c.let < 0 {
			return c, dberr.Invalidf("The transaction has no LET %s", row.Name)
		}
		return c, nil
	}
	if b.p.table == nil {
		return c, dberr.Invalidf("A transaction requires a LET before it can compare a reference")
	}
	env := b.env.For(b.p.ks, b.p.table)
	env.References = b
	if s.Right == nil {
		c.left, _, err = b.typed(s.Left, env)
		return c, err
	}
	left, right := addTypeHints(s.Left, env), addTypeHints(s.Right, env)
	r := expr.Receiver{Name: expr.Text(left), Type: expr.TypeOf(left, env)}
	if r.Type == nil {
		r = expr.Receiver{Name: expr.Text(right), Type: expr.TypeOf(right, env)}
	}
	if r.Type == nil {
		if _, _, err = b.typed(left, env); err == nil {
			_, _, err = b.typed(right, env)
		}
		return c, err
	}
	if r.Type.Contains(cqltype.Duration) && s.Op != parser.Equal && s.Op != parser.NotEqual {
		return c, dberr.Invalidf("Durations cannot be ordered: %s cannot be compared with %s", r.Name, s.Op)
	}
	if c.left, err = expr.Bind(left, r, env); err == nil {
		c.right, err = expr.Bind(right, r, env)
	}
	return c, err
}

// addTypeHints assigns the type of the other operand to a marker if this type is known. For example, the marker in x.a
// - ? has the type of x.a.
func addTypeHints(t parser.Term, env *expr.Env) parser.Term {
	a, ok := t.(*parser.Arithmetic)
	if !ok {
		return t
	}
	left, right := addTypeHints(a.Left, env), addTypeHints(a.Right, env)
	if _, ok := right.(*parser.Marker); ok {
		right = typeHint(right, expr.TypeOf(left, env), expr.Text(left))
	} else if _, ok := left.(*parser.Marker); ok {
		left = typeHint(left, expr.TypeOf(right, env), expr.Text(right))
	}
	return &parser.Arithmetic{Op: a.Op, Left: left, Right: right}
}

// typeHint assigns a numeric type to a marker, or the type duration if the marker is added to a time. The marker has
// the name of the other operand, because the name of a function argument would not be meaningful.
func typeHint(t parser.Term, typ *cqltype.Type, name string) parser.Term {
	m, ok := t.(*parser.Marker)
	if !ok || typ == nil || !isAddable(typ) {
		return t
	}
	if typ.Kind == cqltype.Date || typ.Kind == cqltype.Timestamp {
		typ = cqltype.Native(cqltype.Duration)
	}
	named := *m
	if named.Name == "" {
		named.Name = name
	}
	return &parser.TypeHint{Type: &parser.TypeName{Kind: parser.NativeType, Name: typ.String()}, Term: &named}
}
