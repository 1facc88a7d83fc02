// SPDX-License-Identifier: Apache-2.0

package read

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

type filterOp uint8

const (
	filterEqual filterOp = iota
	filterIn
	filterLess
	filterLessEqual
	filterGreater
	filterGreaterEqual
	filterContains
	filterContainsKey
	filterEntry
)

// filter is one condition on a row. The operands are evaluated.
type filter struct {
	op   filterOp
	slot int
	typ  *cqltype.Type
	// value is the operand. filterEntry also uses key. filterIn uses values instead.
	value, key []byte
	values     [][]byte
	// analysis is the index analysis that is applied to text values before the comparison.
	analysis schema.Analysis
}

// filters evaluates the filters. Filters on partition key and static columns precede filters on clustering and regular
// columns.
func (w *where) filters(b *expr.Bindings) (partition, rows []filter, err error) {
	for _, r := range w.filtered {
		list, err := w.newFilters(r, b)
		if err != nil {
			return nil, nil, err
		}
		if k := r.First().Kind; k == schema.PartitionKey || k == schema.Static {
			partition = append(partition, list...)
		} else {
			rows = append(rows, list...)
		}
	}
	return partition, rows, nil
}

func (w *where) newFilters(r *relation.Restriction, b *expr.Bindings) ([]filter, error) {
	switch r.Kind {
	case relation.Equal:
		return w.equalFilters(r, b)
	case relation.In:
		if len(r.Columns) > 1 {
			return nil, dberr.Invalidf("Multicolumn IN filters are not supported")
		}
		f := w.newFilter(filterIn, r.First())
		if k := r.First().Kind; k == schema.Regular || k == schema.Static {
			var err error
			f.values, err = r.InValues(b)
			return []filter{f}, err
		}
		tuples, err := r.Tuples(b)
		if err != nil {
			return nil, err
		}
		for _, t := range tuples {
			f.values = append(f.values, t[0])
		}
		return []filter{f}, nil
	case relation.Contains:
		return w.containsFilters(r, b)
	}
	if len(r.Columns) > 1 || r.Multi {
		return nil, dberr.Invalidf("Multi-column slice restrictions cannot be used for filtering.")
	}
	var out []filter
	for _, end := range []struct {
		bound             *relation.Bound
		strict, inclusive filterOp
	}{{r.Low, filterGreater, filterGreaterEqual}, {r.High, filterLess, filterLessEqual}} {
		if end.bound == nil {
			continue
		}
		f := w.newFilter(end.strict, r.First())
		if end.bound.Inclusive {
			f.op = end.inclusive
		}
		var err error
		if f.value, err = evalFilter(end.bound.Terms[0], b, "value", r.First()); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func (w *where) newFilter(op filterOp, c *schema.Column) filter {
	return filter{op: op, slot: w.filterSlots[c], typ: c.Type}
}

func (w *where) equalFilters(r *relation.Restriction, b *expr.Bindings) (
	[]filter, error) {
	var out []filter
	var values [][]byte
	if r.Value.Tuple != nil {
		var err error
		if values, err = r.Value.Eval(nil, r.Columns, b); err != nil {
			return nil, err
		}
	}
	for i, c := range r.Columns {
		f := w.newFilter(filterEqual, c)
		if isText(c.Type) {
			f.analysis = w.lookup.analysisOf(r, c, schema.IndexValue)
		}
		if values != nil {
			f.value = values[i]
		} else {
			var err error
			if f.value, err = evalFilter(r.Value.Terms[i], b, "value", c); err != nil {
				return nil, err
			}
		}
		out = append(out, f)
	}
	return out, nil
}

func (w *where) containsFilters(r *relation.Restriction, b *expr.Bindings) (
	[]filter, error) {
	var out []filter
	c := r.First()
	add := func(op filterOp, t expr.Term) error {
		f := w.newFilter(op, c)
		var err error
		f.value, err = evalFilter(t, b, "value", c)
		switch {
		case op == filterContains && isText(c.Type.Elems[len(c.Type.Elems)-1]):
			f.analysis = w.lookup.analysisOf(r, c, schema.IndexValues)
		case op == filterContainsKey && isText(c.Type.Elems[0]):
			f.analysis = w.lookup.analysisOf(r, c, schema.IndexKeys)
		}
		out = append(out, f)
		return err
	}
	for _, t := range r.Elements {
		if err := add(filterContains, t); err != nil {
			return nil, err
		}
	}
	for _, t := range r.Keys {
		if err := add(filterContainsKey, t); err != nil {
			return nil, err
		}
	}
	for _, e := range r.Entries {
		f := w.newFilter(filterEntry, c)
		var err error
		if f.key, err = evalFilter(e.Key, b, "map key", c); err != nil {
			return nil, err
		}
		if f.value, err = evalFilter(e.Value, b, "map value", c); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func isText(t *cqltype.Type) bool { return t.Kind == cqltype.Text || t.Kind == cqltype.Ascii }

// evalFilter evaluates the operand of a filter. Error messages contain noun.
func evalFilter(t expr.Term, b *expr.Bindings, noun string, c *schema.Column) ([]byte, error) {
	v, state, err := t.Eval(b)
	switch {
	case err != nil:
		return nil, err
	case state == expr.Null:
		return nil, dberr.Invalidf("Unsupported null %s for column %s", noun, c.Name)
	case state == expr.Unset:
		return nil, dberr.Invalidf("Unsupported unset %s for column %s", noun, c.Name)
	}
	return v, nil
}

// matches reports whether a value satisfies the filter. A null value never satisfies a filter.
func (f *filter) matches(v []byte) bool {
	if v == nil {
		return false
	}
	if f.analysis.Any() {
		return f.matchesAnalyzed(v)
	}
	switch f.op {
	case filterIn:
		for _, o := range f.values {
			if f.typ.Compare(v, o) == 0 {
				return true
			}
		}
		return false
	case filterContains:
		return f.contains(v)
	case filterContainsKey:
		_, ok := f.typ.Lookup(v, f.value)
		return ok
	case filterEntry:
		found, ok := f.typ.Lookup(v, f.key)
		return ok && found != nil && f.typ.Elems[1].Compare(found, f.value) == 0
	}
	c := f.typ.Compare(v, f.value)
	switch f.op {
	case filterLess:
		return c < 0
	case filterLessEqual:
		return c <= 0
	case filterGreater:
		return c > 0
	case filterGreaterEqual:
		return c >= 0
	}
	return c == 0
}

func (f *filter) contains(v []byte) bool {
	elem := f.typ.Elems[len(f.typ.Elems)-1]
	if f.typ.Kind == cqltype.Map {
		for _, value := range f.typ.Entries(v) {
			if elem.Compare(value, f.value) == 0 {
				return true
			}
		}
		return false
	}
	for _, value := range f.typ.Elements(v) {
		if elem.Compare(value, f.value) == 0 {
			return true
		}
	}
	return false
}

// matchesAnalyzed reports whether a text value satisfies the filter after index analysis.
func (f *filter) matchesAnalyzed(v []byte) bool {
	equal := func(text []byte) bool { return expr.AnalyzedEqual(f.analysis, text, f.value) }
	switch {
	case f.op == filterEqual:
		return equal(v)
	case f.typ.Kind == cqltype.Map:
		for key, value := range f.typ.Entries(v) {
			if f.op == filterContainsKey && equal(key) || f.op == filterContains && equal(value) {
				return true
			}
		}
		return false
	}
	for _, element := range f.typ.Elements(v) {
		if equal(element) {
			return true
		}
	}
	return false
}

// filterBytes is the number of value bytes that the meter counts as one step.
const filterBytes = 8

// passes reports whether the current row satisfies all filters.
func (s *scan) passes(filters []filter) (bool, error) {
	for i := range filters {
		f := &filters[i]
		v := s.slots.values[f.slot]
		if err := s.bind.Meter.Step(1 + len(f.values) + len(v)/filterBytes); err != nil {
			return false, err
		}
		if f.analysis.Any() {
			if err := s.bind.Meter.Alloc(2 * len(v)); err != nil {
				return false, err
			}
		}
		if !f.matches(v) {
			return false, nil
		}
	}
	return true, nil
}
