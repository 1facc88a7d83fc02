// SPDX-License-Identifier: Apache-2.0

package read

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/parser"
)

type restrictionKind uint8

const (
	equal restrictionKind = iota
	in
	slice
	contains
)

// restriction is what the WHERE clause says of a column, or of several that stand together in a tuple. Relations on the same
// columns are merged into one.
type restriction struct {
	columns []*schema.Column
	kind    restrictionKind
	// multi is true if a tuple was written.
	multi bool

	value  operand   // equal
	values []operand // in with a list
	list   expr.Term // in with a marker
	// low and high are the bounds of a slice, in the order of values (not of clustering); nil = none.
	low, high *bound
	// elements, keys and entries are what the collection has to contain.
	elements, keys []expr.Term
	entries        []entry

	// text is the relation, or the relations, as written.
	text string
}

// operand is the right side of a relation: a term per column, or one marker for the whole tuple.
type operand struct {
	terms []expr.Term
	tuple expr.Term
}

// bound is an end of a slice. Its operand may be for fewer columns than its restriction has.
type bound struct {
	operand
	columns   int
	inclusive bool
}

// entry is m[key] = value.
type entry struct{ key, value expr.Term }

func (r *restriction) first() *schema.Column { return r.columns[0] }
func (r *restriction) last() *schema.Column  { return r.columns[len(r.columns)-1] }

func (r *restriction) setBound(op parser.Operator, v operand) {
	b := &bound{operand: v, columns: len(r.columns), inclusive: op == parser.LessEqual || op == parser.GreaterEqual}
	if op == parser.Less || op == parser.LessEqual {
		r.high = b
	} else {
		r.low = b
	}
}

// settleIn makes IN with one value the equality it is.
func (r *restriction) settleIn() {
	r.kind = in
	if len(r.values) == 1 {
		r.kind, r.value, r.values = equal, r.values[0], nil
	}
}

// containsCount is the number of things a collection has to contain.
func (r *restriction) containsCount() int { return len(r.elements) + len(r.keys) + len(r.entries) }

// merge adds a further restriction on (some of) the same columns, in place of both.
func (r *restriction) merge(o *restriction) (*restriction, error) {
	switch r.kind {
	case equal:
		return nil, dberr.Invalidf("%s cannot be restricted by more than one relation if it includes an Equal", inCommon(r, o))
	case in:
		return nil, dberr.Invalidf("%s cannot be restricted by more than one relation if it includes a IN", inCommon(r, o))
	case contains:
		return r.mergeContains(o)
	}
	if o.kind != slice {
		return nil, dberr.Invalidf("Column \"%s\" cannot be restricted by both an equality and an inequality relation", inCommon(r, o))
	}
	if r.first() != o.first() {
		c := r.first()
		if o.first().Position > c.Position {
			c = o.first()
		}
		return nil, dberr.Invalidf("Column \"%s\" cannot be restricted by two inequalities not starting with the same column", c.Name)
	}
	if r.low != nil && o.low != nil {
		return nil, dberr.Invalidf("More than one restriction was found for the start bound on %s", inCommon(r, o))
	}
	if r.high != nil && o.high != nil {
		return nil, dberr.Invalidf("More than one restriction was found for the end bound on %s", inCommon(r, o))
	}
	out := *r
	if len(o.columns) > len(r.columns) {
		out.columns = o.columns
	}
	out.multi = r.multi || o.multi
	if o.low != nil {
		out.low = o.low
	}
	if o.high != nil {
		out.high = o.high
	}
	out.text += " AND " + o.text
	return &out, nil
}

func (r *restriction) mergeContains(o *restriction) (*restriction, error) {
	if o.kind != contains {
		return nil, dberr.Invalidf("Collection column %s can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality", r.first().Name)
	}
	out := *r
	out.elements = slices.Concat(r.elements, o.elements)
	out.keys = slices.Concat(r.keys, o.keys)
	out.entries = slices.Concat(r.entries, o.entries)
	out.text += " AND " + o.text
	return &out, nil
}

// inCommon names the columns that two restrictions share.
func inCommon(r, o *restriction) string {
	var names []string
	for _, c := range r.columns {
		if slices.Contains(o.columns, c) {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, " ,")
}

// restrictions is the set of restrictions on columns of one kind.
type restrictions struct {
	// list is in the order of the columns: by position, then by name; each restriction once.
	list []*restriction
}

func (s *restrictions) of(c *schema.Column) *restriction {
	for _, r := range s.list {
		if slices.Contains(r.columns, c) {
			return r
		}
	}
	return nil
}

// add merges a restriction into the set.
func (s *restrictions) add(r *restriction) error {
	merged := r
	var rest []*restriction
	for _, existing := range s.list {
		if !slices.ContainsFunc(existing.columns, func(c *schema.Column) bool { return slices.Contains(r.columns, c) }) {
			rest = append(rest, existing)
			continue
		}
		m, err := existing.merge(merged)
		if err != nil {
			return err
		}
		merged = m
	}
	s.list = append(rest, merged)
	slices.SortStableFunc(s.list, func(a, b *restriction) int {
		if d := a.first().Position - b.first().Position; d != 0 {
			return d
		}
		return strings.Compare(a.first().Name, b.first().Name)
	})
	return nil
}

func (s *restrictions) empty() bool { return len(s.list) == 0 }

// size is the number of restricted columns.
func (s *restrictions) size() int {
	n := 0
	for _, r := range s.list {
		n += len(r.columns)
	}
	return n
}

func (s *restrictions) has(k restrictionKind) bool {
	return slices.ContainsFunc(s.list, func(r *restriction) bool { return r.kind == k })
}

// multipleContains reports whether collections have to contain more than one thing.
func (s *restrictions) multipleContains() bool {
	n := 0
	for _, r := range s.list {
		n += r.containsCount()
	}
	return n > 1
}
