// SPDX-License-Identifier: Apache-2.0

package relation

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// Kind is the kind of a restriction.
type Kind uint8

// These are the kinds of restrictions: one value, one of several values, an interval, and the contents of a collection.
const (
	Equal Kind = iota
	In
	Slice
	Contains
)

// Restriction is a restriction of one column or a tuple of columns. A Restriction may represent several merged
// relations on the same columns.
type Restriction struct {
	Columns []*schema.Column
	Kind    Kind
	// Multi reports whether the relation is a tuple relation.
	Multi bool

	Value  Operand   // for Equal
	values []Operand // for In with a list
	list   expr.Term // for In with a marker
	// Low and High are the bounds of a Slice in value order, which may differ from clustering order. For a missing
	// bound, the field is nil.
	Low, High *Bound
	// Elements, Keys, and Entries are the required contents of a collection for Contains.
	Elements, Keys []expr.Term
	Entries        []Entry

	// Text is the source text of the relation or the merged relations.
	Text string
}

// Operand is the right side of a relation. It consists of a term for each column or one marker for the whole tuple.
type Operand struct {
	Terms []expr.Term
	Tuple expr.Term
}

// Bound is a bound of a slice. The operand may have fewer columns than the restriction.
type Bound struct {
	Operand
	Inclusive bool
	columns   int
}

// Entry is a relation of the form m[key] = value.
type Entry struct{ Key, Value expr.Term }

// EqualTo returns the restriction of a column to the value of a term.
func EqualTo(c *schema.Column, value expr.Term) *Restriction {
	return &Restriction{Columns: []*schema.Column{c}, Value: Operand{Terms: []expr.Term{value}}}
}

// First returns the first restricted column.
func (r *Restriction) First() *schema.Column { return r.Columns[0] }

// Last returns the last restricted column.
func (r *Restriction) Last() *schema.Column { return r.Columns[len(r.Columns)-1] }

func (r *Restriction) setBound(op parser.Operator, v Operand) {
	b := &Bound{Operand: v, columns: len(r.Columns), Inclusive: op == parser.LessEqual || op == parser.GreaterEqual}
	if op == parser.Less || op == parser.LessEqual {
		r.High = b
	} else {
		r.Low = b
	}
}

// simplifyIn converts an IN with one value into an equality.
func (r *Restriction) simplifyIn() {
	r.Kind = In
	if len(r.values) == 1 {
		r.Kind, r.Value, r.values = Equal, r.values[0], nil
	}
}

// merge combines two restrictions that share columns.
func (r *Restriction) merge(o *Restriction) (*Restriction, error) {
	switch r.Kind {
	case Equal:
		return nil, dberr.Invalidf("%s cannot be restricted by more than one relation if it includes an Equal",
			inCommon(r, o))
	case In:
		return nil, dberr.Invalidf("%s cannot be restricted by more than one relation if it includes a IN",
			inCommon(r, o))
	case Contains:
		return r.mergeContains(o)
	}
	if o.Kind != Slice {
		return nil, dberr.Invalidf("Column \"%s\" cannot be restricted by both an equality and an inequality relation",
			inCommon(r, o))
	}
	if r.First() != o.First() {
		c := r.First()
		if o.First().Position > c.Position {
			c = o.First()
		}
		return nil, dberr.Invalidf("Column \"%s\" cannot be restricted by two inequalities not starting with the same column", c.Name)
	}
	if r.Low != nil && o.Low != nil {
		return nil, dberr.Invalidf("More than one restriction was found for the start bound on %s", inCommon(r, o))
	}
	if r.High != nil && o.High != nil {
		return nil, dberr.Invalidf("More than one restriction was found for the end bound on %s", inCommon(r, o))
	}
	out := *r
	if len(o.Columns) > len(r.Columns) {
		out.Columns = o.Columns
	}
	out.Multi = r.Multi || o.Multi
	if o.Low != nil {
		out.Low = o.Low
	}
	if o.High != nil {
		out.High = o.High
	}
	out.Text += " AND " + o.Text
	return &out, nil
}

func (r *Restriction) mergeContains(o *Restriction) (*Restriction, error) {
	if o.Kind != Contains {
		return nil, dberr.Invalidf("Collection column %s can only be restricted by CONTAINS, CONTAINS KEY, or "+
			"map-entry equality", r.First().Name)
	}
	out := *r
	out.Elements = slices.Concat(r.Elements, o.Elements)
	out.Keys = slices.Concat(r.Keys, o.Keys)
	out.Entries = slices.Concat(r.Entries, o.Entries)
	out.Text += " AND " + o.Text
	return &out, nil
}

// inCommon returns the names of the columns that two restrictions share.
func inCommon(r, o *Restriction) string {
	var names []string
	for _, c := range r.Columns {
		if slices.Contains(o.Columns, c) {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, " ,")
}
