// SPDX-License-Identifier: Apache-2.0

package relation

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// Bind binds a relation on one or several columns to a restriction. Errors are *dberr.Invalid.
func Bind(r *parser.Relation, env *expr.Env) (*Restriction, error) {
	b := binder{env}
	if r.Kind == parser.MultiColumn {
		return b.multiColumn(r)
	}
	return b.singleColumn(r)
}

// binder binds the relations of one WHERE clause.
type binder struct{ env *expr.Env }

func (b binder) singleColumn(r *parser.Relation) (*Restriction, error) {
	if r.Op == parser.NotEqual {
		return nil, Unsupported(r)
	}
	c, err := expr.FindColumn(b.env.Table, r.Columns[0])
	if err != nil {
		return nil, err
	}
	if IsSlice(r.Op) {
		if err := checkDuration(c); err != nil {
			return nil, err
		}
	}
	if err := checkColumn(r, c, b.env.Release); err != nil {
		return nil, err
	}
	receiver := expr.ForColumn(c)
	out := &Restriction{Columns: []*schema.Column{c}, Text: Text(r)}
	switch r.Op {
	case parser.Equal:
		if r.Key != nil {
			return out, b.mapEntry(out, r, receiver)
		}
		out.Kind = Equal
		out.Value, err = b.single(r.Value, receiver)
	case parser.In:
		err = b.singleIn(out, r, receiver)
	case parser.Contains:
		out.Kind = Contains
		err = b.element(&out.Elements, r.Value, receiver.Element())
	case parser.ContainsKey:
		out.Kind = Contains
		err = b.element(&out.Keys, r.Value, receiver.Key())
	case parser.Like:
		if _, err = expr.Bind(r.Value, receiver, b.env); err == nil {
			err = dberr.Invalidf("LIKE restriction is only supported on properly indexed columns. %s is not valid.",
				Text(r))
		}
	default:
		out.Kind = Slice
		var value Operand
		value, err = b.single(r.Value, receiver)
		out.setBound(r.Op, value)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (b binder) mapEntry(out *Restriction, r *parser.Relation, receiver expr.Receiver) error {
	key, err := expr.Bind(r.Key, receiver.Key(), b.env)
	if err != nil {
		return err
	}
	value, err := expr.Bind(r.Value, receiver.Element(), b.env)
	if err != nil {
		return err
	}
	out.Kind, out.Entries = Contains, []Entry{{key, value}}
	return nil
}

func (b binder) element(list *[]expr.Term, t parser.Term, receiver expr.Receiver) error {
	v, err := expr.Bind(t, receiver, b.env)
	*list = append(*list, v)
	return err
}

func (b binder) single(t parser.Term, receiver expr.Receiver) (Operand, error) {
	v, err := expr.Bind(t, receiver, b.env)
	return Operand{Terms: []expr.Term{v}}, err
}

func (b binder) singleIn(out *Restriction, r *parser.Relation, receiver expr.Receiver) error {
	if r.Values == nil {
		list, err := expr.Bind(r.Value, receiver.Values(), b.env)
		out.Kind, out.list = In, list
		return err
	}
	for _, t := range r.Values {
		v, err := b.single(t, receiver)
		if err != nil {
			return err
		}
		out.values = append(out.values, v)
	}
	out.simplifyIn()
	return nil
}

// checkColumn rejects operators that the column's type does not support.
func checkColumn(r *parser.Relation, c *schema.Column, rel *compat.Release) error {
	key := c.Kind == schema.PartitionKey || c.Kind == schema.Clustering
	switch {
	case r.Op == parser.In && !key && len(r.Values) != 1 && rel.RejectsIn:
		return dberr.Invalidf("IN predicates on non-primary-key columns (%s) is not yet supported", c.Name)
	case r.Op == parser.ContainsKey && c.Type.Kind != cqltype.Map:
		return dberr.Invalidf("Cannot use CONTAINS KEY on non-map column %s", c.Name)
	case r.Op == parser.Contains && !c.Type.IsCollection():
		return dberr.Invalidf("Cannot use CONTAINS on non-collection column %s", c.Name)
	}
	if r.Key != nil {
		switch {
		case r.Op == parser.Like:
			return dberr.Invalidf("%s can't be used with collections.", r.Op)
		case c.Type.Kind == cqltype.List && !rel.NoEntryLists:
			return dberr.Invalidf("Indexes on list entries (%s[index] = value) are not currently supported.", c.Name)
		case c.Type.Kind != cqltype.Map:
			return dberr.Invalidf("Column %s cannot be used as a map", c.Name)
		case !c.Type.MultiCell():
			return dberr.Invalidf("Map-entry equality predicates on frozen map column %s are not supported", c.Name)
		case r.Op != parser.Equal:
			return dberr.Invalidf("Only EQ relations are supported on map entries")
		}
		return nil
	}
	if !c.Type.MultiCell() || r.Op == parser.Contains || r.Op == parser.ContainsKey {
		return nil
	}
	if c.Type.Kind == cqltype.UDT {
		return dberr.Invalidf("Non-frozen UDT column '%s' (%s) cannot be restricted by any relation", c.Name, c.Type)
	}
	return dberr.Invalidf("Collection column '%s' (%s) cannot be restricted by a '%s' relation", c.Name, c.Type, r.Op)
}

func checkDuration(c *schema.Column) error {
	if !c.Type.Contains(cqltype.Duration) {
		return nil
	}
	switch {
	case c.Type.IsCollection():
		return dberr.Invalidf("Slice restrictions are not supported on collections containing durations")
	case c.Type.Kind == cqltype.Tuple:
		return dberr.Invalidf("Slice restrictions are not supported on tuples containing durations")
	case c.Type.Kind == cqltype.UDT:
		return dberr.Invalidf("Slice restrictions are not supported on UDTs containing durations")
	}
	return dberr.Invalidf("Slice restrictions are not supported on duration columns")
}

func (b binder) multiColumn(r *parser.Relation) (*Restriction, error) {
	columns, err := b.tupleColumns(r)
	if err != nil {
		return nil, err
	}
	out := &Restriction{Columns: columns, Multi: true, Text: Text(r)}
	switch r.Op {
	case parser.Equal:
		out.Kind = Equal
		out.Value, err = b.tuple(r.Value, columns)
	case parser.In:
		err = b.multiIn(out, r, columns)
	case parser.Less, parser.LessEqual, parser.Greater, parser.GreaterEqual:
		for _, c := range columns {
			if err := checkDuration(c); err != nil {
				return nil, err
			}
		}
		out.Kind = Slice
		var value Operand
		value, err = b.tuple(r.Value, columns)
		out.setBound(r.Op, value)
	case parser.NotEqual:
		return nil, Unsupported(r)
	default:
		return nil, dberr.Invalidf("%s cannot be used for multi-column relations", r.Op)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (b binder) multiIn(out *Restriction, r *parser.Relation, columns []*schema.Column) error {
	if r.Values == nil {
		receiver := tupleReceiver(columns)
		list := receiver.Values()
		list.Name = "in" + receiver.Name
		var err error
		out.Kind = In
		out.list, err = expr.Bind(r.Value, list, b.env)
		return err
	}
	for _, t := range r.Values {
		v, err := b.tuple(t, columns)
		if err != nil {
			return err
		}
		out.values = append(out.values, v)
	}
	out.simplifyIn()
	return nil
}

func (b binder) tupleColumns(r *parser.Relation) ([]*schema.Column, error) {
	var columns []*schema.Column
	for _, name := range r.Columns {
		c, err := expr.FindColumn(b.env.Table, name)
		if err != nil {
			return nil, err
		}
		if c.Kind != schema.Clustering {
			return nil, dberr.Invalidf("Multi-column relations can only be applied to clustering columns but was applied to: %s", c.Name)
		}
		for _, o := range columns {
			if o == c {
				return nil, dberr.Invalidf("Column \"%s\" appeared twice in a relation: %s", c.Name, Text(r))
			}
		}
		if n := len(columns); n > 0 && columns[n-1].Position+1 != c.Position {
			return nil, dberr.Invalidf("Clustering columns must appear in the PRIMARY KEY order in multi-column relations: %s", Text(r))
		}
		columns = append(columns, c)
	}
	return columns, nil
}

// tupleReceiver returns the receiver of a tuple of columns. The name of the receiver has the form (a,b).
func tupleReceiver(columns []*schema.Column) expr.Receiver {
	names := make([]string, len(columns))
	types := make([]*cqltype.Type, len(columns))
	for i, c := range columns {
		names[i], types[i] = c.Name, c.Type
	}
	return expr.Receiver{Name: "(" + strings.Join(names, ",") + ")", Type: cqltype.TupleOf(types...)}
}

func (b binder) tuple(t parser.Term, columns []*schema.Column) (Operand, error) {
	literal, ok := t.(*parser.TupleLiteral)
	if !ok {
		whole, err := expr.Bind(t, tupleReceiver(columns), b.env)
		return Operand{Tuple: whole}, err
	}
	if len(literal.Elems) != len(columns) {
		return Operand{}, dberr.Invalidf("Expected %d elements in value tuple, but got %d: %s", len(columns),
			len(literal.Elems), expr.Text(t))
	}
	var out Operand
	for i, e := range literal.Elems {
		v, err := expr.Bind(e, expr.ForColumn(columns[i]), b.env)
		if err != nil {
			return out, err
		}
		out.Terms = append(out.Terms, v)
	}
	return out, nil
}

// IsSlice reports whether an operator is one of <, <=, >, and >=.
func IsSlice(op parser.Operator) bool {
	return op == parser.Less || op == parser.LessEqual || op == parser.Greater || op == parser.GreaterEqual
}

// Unsupported returns the error for a relation with an operator that no column supports.
func Unsupported(r *parser.Relation) error {
	return dberr.Invalidf("Unsupported \"%s\" relation: %s", r.Op, Text(r))
}

// Text returns a relation in Cassandra's format.
func Text(r *parser.Relation) string {
	var b strings.Builder
	names := make([]string, len(r.Columns))
	for i, c := range r.Columns {
		names[i] = cqltype.QuoteName(c.Name)
	}
	switch r.Kind {
	case parser.MultiColumn:
		b.WriteString("(" + strings.Join(names, ", ") + ")")
	case parser.TokenRelation:
		b.WriteString("token(" + strings.Join(names, ", ") + ")")
	case parser.ChangeFeedRelation:
		b.WriteString(names[0] + "()")
	default:
		b.WriteString(names[0])
		if r.Key != nil {
			b.WriteString("[" + expr.Text(r.Key) + "]")
		}
	}
	return b.String() + " " + OperatorText(r)
}

// OperatorText returns the operator and the right side of a relation.
func OperatorText(r *parser.Relation) string {
	var b strings.Builder
	b.WriteString(r.Op.String())
	switch {
	case r.Op == parser.IsNotNull:
	case r.Value != nil:
		b.WriteString(" " + expr.Text(r.Value))
	default:
		values := make([]string, len(r.Values))
		for i, v := range r.Values {
			values[i] = expr.Text(v)
		}
		b.WriteString(" (" + strings.Join(values, ", ") + ")")
	}
	return b.String()
}
