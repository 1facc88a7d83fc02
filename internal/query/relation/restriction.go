// SPDX-License-Identifier: Apache-2.0

package relation

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/parser"
)

// Kind is the form of a restriction.
type Kind uint8

// The forms: one value, any of several, an interval, and what a collection contains.
const (
	Equal Kind = iota
	In
	Slice
	Contains
)

// Restriction is what the WHERE clause says of a column, or of several that stand together in a tuple. Relations on the
// same columns are merged into one.
type Restriction struct {
	Columns []*schema.Column
	Kind    Kind
	// Multi is true if a tuple was written.
	Multi bool

	Value  Operand   // Equal
	values []Operand // In with a list
	list   expr.Term // In with a marker
	// Low and High are the bounds of a Slice, in the order of values (not of clustering); nil = none.
	Low, High *Bound
	// Elements, Keys and Entries are what the collection Contains.
	Elements, Keys []expr.Term
	Entries        []Entry

	// Text is the relation, or the relations, as written.
	Text string
}

// Operand is the right side of a relation: a term per column, or one marker for the whole tuple.
type Operand struct {
	Terms []expr.Term
	Tuple expr.Term
}

// Bound is an end of a slice. Its operand may be for fewer columns than its restriction has.
type Bound struct {
	Operand
	Inclusive bool
	columns   int
}

// Entry is m[key] = value.
type Entry struct{ Key, Value expr.Term }

// EqualTo restricts one column to the value of a term.
func EqualTo(c *schema.Column, value expr.Term) *Restriction {
	return &Restriction{Columns: []*schema.Column{c}, Value: Operand{Terms: []expr.Term{value}}}
}

// First is the first column that is restricted.
func (r *Restriction) First() *schema.Column { return r.Columns[0] }

// Last is the last column that is restricted.
func (r *Restriction) Last() *schema.Column { return r.Columns[len(r.Columns)-1] }

func (r *Restriction) setBound(op parser.Operator, v Operand) {
	b := &Bound{Operand: v, columns: len(r.Columns), Inclusive: op == parser.LessEqual || op == parser.GreaterEqual}
	if op == parser.Less || op == parser.LessEqual {
		r.High = b
	} else {
		r.Low = b
	}
}

// simplifyIn makes IN with one value the equality it is.
func (r *Restriction) simplifyIn() {
	r.Kind = In
	if len(r.values) == 1 {
		r.Kind, r.Value, r.values = Equal, r.values[0], nil
	}
}

// merge adds a further restriction on (some of) the same columns, in place of both.
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

// inCommon names the columns that two restrictions share.
func inCommon(r, o *Restriction) string {
	var names []string
	for _, c := range r.Columns {
		if slices.Contains(o.Columns, c) {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, " ,")
}
