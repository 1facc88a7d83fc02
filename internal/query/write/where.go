// SPDX-License-Identifier: Apache-2.0

package write

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/parser"
)

// where is the WHERE clause of a modification, or the key values of an INSERT.
type where struct {
	partition  []*restriction // one per column of the partition key, in order
	clustering []*restriction // by position; columns without a gap, a slice only at the end
	// token is true for token(..), others lists the restricted columns that are not part of the key: both are refused.
	token  bool
	others []string
	// simple is true if all restrictions are single equalities: then there is one key and one clustering prefix.
	simple bool
}

// form is the form of a restriction.
type form uint8

const (
	equal form = iota
	in
	slice
)

// restriction limits one column, or several at once that were written as a tuple.
type restriction struct {
	form    form
	columns []*schema.Column
	multi   bool
	// values are the alternatives: one for an equality, any number for IN; list is IN ?.
	values []operand
	list   expr.Term
	low    *bound
	high   *bound
}

type bound struct {
	operand
	inclusive bool
}

// operand is what columns are compared with: a term for each, or one term for them all.
type operand struct {
	terms []expr.Term
	tuple expr.Term
}

func (r *restriction) names() string {
	names := make([]string, len(r.columns))
	for i, c := range r.columns {
		names[i] = c.Name
	}
	return strings.Join(names, " ,")
}

// bindRelations binds the relations of UPDATE and DELETE.
func (w *where) bindRelations(relations []parser.Relation, env *expr.Env) error {
	for i := range relations {
		rel := &relations[i]
		if rel.Kind == parser.TokenRelation {
			w.token = true
			continue
		}
		r, err := bindRelation(rel, env)
		if err != nil {
			return err
		}
		if err := w.add(r); err != nil {
			return err
		}
	}
	return nil
}

func bindRelation(rel *parser.Relation, env *expr.Env) (*restriction, error) {
	r := &restriction{multi: rel.Kind == parser.MultiColumn}
	for _, name := range rel.Columns {
		c, err := column(env.Table, name)
		if err != nil {
			return nil, err
		}
		r.columns = append(r.columns, c)
	}
	receiver := expr.ForColumn(r.columns[0])
	if r.multi {
		if err := checkTuple(r.columns, rel); err != nil {
			return nil, err
		}
		receiver = tupleReceiver(r.columns)
	} else if err := checkOperator(r.columns[0], rel); err != nil {
		return nil, err
	}
	if r.columns[0].Kind > schema.Clustering {
		return r, nil // refused later, in its turn
	}
	var err error
	switch rel.Op {
	case parser.Equal:
		r.values = make([]operand, 1)
		r.values[0], err = bindOperand(rel.Value, r, receiver, env)
	case parser.In:
		err = r.bindIn(rel, receiver, env)
	default:
		r.form = slice
		b := &bound{inclusive: rel.Op == parser.LessEqual || rel.Op == parser.GreaterEqual}
		b.operand, err = bindOperand(rel.Value, r, receiver, env)
		if rel.Op == parser.Greater || rel.Op == parser.GreaterEqual {
			r.low = b
		} else {
			r.high = b
		}
	}
	return r, err
}

func (r *restriction) bindIn(rel *parser.Relation, receiver expr.Receiver, env *expr.Env) (err error) {
	r.form = in
	if rel.Values == nil {
		list := receiver.Values()
		if r.multi {
			list.Name = "in" + receiver.Name
		}
		r.list, err = expr.Bind(rel.Value, list, env)
		return err
	}
	r.values = make([]operand, len(rel.Values))
	for i, v := range rel.Values {
		if r.values[i], err = bindOperand(v, r, receiver, env); err != nil {
			return err
		}
	}
	return nil
}

// bindOperand binds a value for a restriction: for a tuple of columns, a tuple literal term by term.
func bindOperand(t parser.Term, r *restriction, receiver expr.Receiver, env *expr.Env) (o operand, err error) {
	literal, ok := t.(*parser.TupleLiteral)
	if !r.multi || !ok {
		v, err := expr.Bind(t, receiver, env)
		if r.multi {
			return operand{tuple: v}, err
		}
		return operand{terms: []expr.Term{v}}, err
	}
	if len(literal.Elems) != len(r.columns) {
		return o, dberr.Invalidf("Expected %d elements in value tuple, but got %d: %s", len(r.columns), len(literal.Elems), expr.Text(literal))
	}
	o.terms = make([]expr.Term, len(r.columns))
	for i, e := range literal.Elems {
		if o.terms[i], err = expr.Bind(e, expr.ForColumn(r.columns[i]), env); err != nil {
			return o, err
		}
	}
	return o, nil
}

// tupleReceiver is the receiver of a marker that stands for a tuple of columns: named (c,d).
func tupleReceiver(columns []*schema.Column) expr.Receiver {
	names := make([]string, len(columns))
	types := make([]*cqltype.Type, len(columns))
	for i, c := range columns {
		names[i], types[i] = c.Name, c.Type
	}
	return expr.Receiver{Name: "(" + strings.Join(names, ",") + ")", Type: cqltype.TupleOf(types...)}
}

// checkTuple refuses tuples of columns that are not consecutive clustering columns.
func checkTuple(columns []*schema.Column, rel *parser.Relation) error {
	for i, c := range columns {
		if c.Kind != schema.Clustering {
			return dberr.Invalidf("Multi-column relations can only be applied to clustering columns but was applied to: %s", c.Name)
		}
		if slices.Contains(columns[:i], c) {
			return dberr.Invalidf("Column \"%s\" appeared twice in a relation: %s", c.Name, rel)
		}
		if i > 0 && c.Position != columns[i-1].Position+1 {
			return dberr.Invalidf("Clustering columns must appear in the PRIMARY KEY order in multi-column relations: %s", rel)
		}
	}
	return nil
}

// checkOperator refuses operators that no key column has.
func checkOperator(c *schema.Column, rel *parser.Relation) error {
	switch {
	case rel.Op == parser.NotEqual:
		return dberr.Invalidf("Unsupported \"!=\" relation: %s", rel)
	case rel.Op == parser.IsNotNull:
		return dberr.Invalidf("Unsupported restriction: %s", rel)
	case rel.Op == parser.Contains && !c.Type.IsCollection():
		return dberr.Invalidf("Cannot use CONTAINS on non-collection column %s", c.Name)
	case rel.Op == parser.ContainsKey && c.Type.Kind != cqltype.Map:
		return dberr.Invalidf("Cannot use CONTAINS KEY on non-map column %s", c.Name)
	case c.Kind > schema.Clustering:
		return nil
	case rel.Key != nil:
		return dberr.Invalidf("Column \"%s\" cannot be used as a map", c.Name)
	case rel.Op == parser.Contains || rel.Op == parser.ContainsKey:
		if c.Kind == schema.PartitionKey {
			return dberr.Invalidf("Cannot restrict partition key columns by a CONTAINS relation without a secondary index")
		}
		return dberr.Invalidf("Cannot restrict clustering columns by a CONTAINS relation without a secondary index")
	case rel.Op == parser.Like:
		return dberr.Invalidf("LIKE restriction is only supported on properly indexed columns. %s is not valid.", rel)
	}
	return nil
}

// add takes in a restriction, joined with one on the same columns.
func (w *where) add(r *restriction) error {
	first := r.columns[0]
	if first.Kind > schema.Clustering {
		if !slices.Contains(w.others, first.Name) {
			w.others = append(w.others, first.Name)
		}
		return nil
	}
	list := &w.partition
	if first.Kind == schema.Clustering {
		list = &w.clustering
	}
	for _, have := range *list {
		if have.overlaps(r) {
			return have.join(r)
		}
	}
	if first.Kind == schema.Clustering {
		if err := w.checkOrder(r); err != nil {
			return err
		}
	}
	*list = append(*list, r)
	slices.SortStableFunc(*list, func(a, b *restriction) int { return a.columns[0].Position - b.columns[0].Position })
	return nil
}

func (r *restriction) overlaps(o *restriction) bool {
	return slices.ContainsFunc(r.columns, func(c *schema.Column) bool { return slices.Contains(o.columns, c) })
}

// join adds to a slice its other end; everything else excludes a second relation.
func (r *restriction) join(o *restriction) error {
	switch {
	case r.form == equal:
		return dberr.Invalidf("%s cannot be restricted by more than one relation if it includes an Equal", r.names())
	case r.form == in:
		return dberr.Invalidf("%s cannot be restricted by more than one relation if it includes a IN", r.names())
	case o.form != slice:
		return dberr.Invalidf("Column \"%s\" cannot be restricted by both an equality and an inequality relation", o.columns[0].Name)
	case !slices.Equal(r.columns, o.columns):
		return dberr.Invalidf("Column \"%s\" cannot be restricted by two inequalities not starting with the same column", o.columns[0].Name)
	case o.low != nil && r.low != nil:
		return dberr.Invalidf("More than one restriction was found for the start bound on %s", r.names())
	case o.high != nil && r.high != nil:
		return dberr.Invalidf("More than one restriction was found for the end bound on %s", r.names())
	}
	if o.low != nil {
		r.low = o.low
	} else {
		r.high = o.high
	}
	return nil
}

// checkOrder refuses a clustering column after a slice.
func (w *where) checkOrder(r *restriction) error {
	if len(w.clustering) == 0 {
		return nil
	}
	last := w.clustering[len(w.clustering)-1]
	a, b := last.columns[0], r.columns[0]
	if last.form == slice && b.Position > a.Position {
		return dberr.Invalidf("Clustering column \"%s\" cannot be restricted (preceding column \"%s\" is restricted by a non-EQ relation)", b.Name, a.Name)
	}
	if r.form == slice && b.Position < a.Position {
		return dberr.Invalidf("PRIMARY KEY column \"%s\" cannot be restricted (preceding column \"%s\" is restricted by a non-EQ relation)", a.Name, b.Name)
	}
	return nil
}

// check refuses what a modification cannot do with its WHERE clause, in Cassandra's order. static is true if nothing but static
// columns are concerned.
func (w *where) check(p *Plan, static bool) error {
	name := kindNames[p.kind]
	if w.token {
		return dberr.Invalidf("The token function cannot be used in WHERE clauses for %s statements", name)
	}
	if missing := unrestricted(p.table.PartitionKey, w.partition); len(missing) > 0 {
		return dberr.Invalidf("Some partition key parts are missing: %s", strings.Join(missing, ", "))
	}
	for _, r := range w.partition {
		if r.form == slice {
			return dberr.Invalidf("Only EQ and IN relation are supported on the partition key (unless you use the token() function) for %s statements", name)
		}
	}
	if static && len(w.clustering) > 0 && p.kind != insert {
		return dberr.Invalidf("Invalid restrictions on clustering columns since the %s statement modifies only static columns", name)
	}
	if err := w.checkClustering(p, static); err != nil {
		return err
	}
	if len(w.others) > 0 {
		return dberr.Invalidf("Non PRIMARY KEY columns found in where clause: %s ", strings.Join(w.others, ", "))
	}
	w.simple = true
	for _, r := range slices.Concat(w.partition, w.clustering) {
		w.simple = w.simple && r.form == equal && !r.multi
	}
	return nil
}

func (w *where) checkClustering(p *Plan, static bool) error {
	missing := unrestricted(p.table.Clustering, w.clustering)
	if p.kind != remove {
		for _, r := range w.clustering {
			if r.form == slice {
				return dberr.Invalidf("Slice restrictions are not supported on the clustering columns in %s statements", kindNames[p.kind])
			}
		}
		if !static && len(missing) > 0 {
			return dberr.Invalidf("Some clustering keys are missing: %s", strings.Join(missing, ", "))
		}
		return nil
	}
	next := 0
	for _, r := range w.clustering {
		if c := r.columns[0]; c.Position != next {
			return dberr.Invalidf("PRIMARY KEY column \"%s\" cannot be restricted as preceding column \"%s\" is not restricted", c.Name,
				p.table.Clustering[next].Name)
		}
		next += len(r.columns)
	}
	return nil
}

// unrestricted lists the columns that no restriction mentions.
func unrestricted(columns []*schema.Column, restrictions []*restriction) []string {
	var missing []string
	for _, c := range columns {
		if !slices.ContainsFunc(restrictions, func(r *restriction) bool { return slices.Contains(r.columns, c) }) {
			missing = append(missing, c.Name)
		}
	}
	return missing
}

// full reports whether all clustering columns are given by equality or IN: rows are meant, not ranges.
func (w *where) full(t *schema.Table) bool {
	n := 0
	for _, r := range w.clustering {
		if r.form == slice {
			return false
		}
		n += len(r.columns)
	}
	return n == len(t.Clustering)
}

// hasIn reports whether a restriction may have several values.
func hasIn(restrictions []*restriction) bool {
	return slices.ContainsFunc(restrictions, func(r *restriction) bool { return r.form == in })
}
