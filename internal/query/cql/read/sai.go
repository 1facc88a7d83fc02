// SPDX-License-Identifier: Apache-2.0

package read

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// saiTerm is a condition that a storage-attached index (SAI) serves. The condition is an equality or a range.
type saiTerm struct {
	index *schema.Index
	form  expr.IndexForm
	// whole reports whether an index entry refers to a whole logical partition.
	whole bool
	// key and value are the parts of the lookup. If the lookup is not a map entry, key is nil. If a tuple of columns is
	// compared with one marker, value is one component of the tuple.
	key, value expr.Term
	tuple      *relation.Restriction
	component  int
	// low and high are the bounds of a range. An open bound is nil. ranged reports whether the term is a range.
	low, high *relation.Bound
	ranged    bool
}

// saiSupports reports whether a storage-attached index on a column serves a restriction.
func saiSupports(i *schema.Index, c *schema.Column, r *relation.Restriction) bool {
	if i.SupportsANN(c) || i.Indexed(c)[0].Kind == cqltype.Vector {
		return false
	}
	if c.Type.IsCollection() && c.Type.MultiCell() {
		if r.Kind != relation.Contains {
			return false
		}
		switch i.Target {
		case schema.IndexKeys:
			return len(r.Keys) > 0
		case schema.IndexValues:
			return len(r.Elements) > 0
		}
		return len(r.Entries) > 0
	}
	switch r.Kind {
	case relation.Equal:
		return true
	case relation.Slice:
		switch c.Type.Kind {
		case cqltype.Text, cqltype.Ascii, cqltype.Boolean, cqltype.UUID, cqltype.List, cqltype.Set, cqltype.Map,
			cqltype.Tuple, cqltype.UDT:
			return false
		}
		return true
	}
	return false
}

// saiIndex returns a storage-attached index that serves a restriction, or nil.
func (l *indexLookup) saiIndex(r *relation.Restriction) *schema.Index {
	for _, i := range l.table.SortedIndexes() {
		for _, c := range r.Columns {
			if i.Attached() && i.Column == c.Name && saiSupports(i, c, r) {
				return i
			}
		}
	}
	return nil
}

// allColumnsSAI reports whether a storage-attached index serves each column of a restriction.
func (l *indexLookup) allColumnsSAI(r *relation.Restriction) bool {
	for _, c := range r.Columns {
		if !slices.ContainsFunc(l.table.SortedIndexes(), func(i *schema.Index) bool {
			return i.Attached() && i.Column == c.Name && saiSupports(i, c, r)
		}) {
			return false
		}
	}
	return true
}

// allSAI reports whether the query has filters and storage-attached indexes serve all filters.
func (w *where) allSAI() bool {
	n := 0
	for _, set := range w.checked {
		for _, r := range set.List {
			if !w.lookup.allColumnsSAI(r) {
				return false
			}
			n++
		}
	}
	return n > 0
}

// analysisOf returns the analysis that the index for a restriction applies to the texts of a column.
func (l *indexLookup) analysisOf(r *relation.Restriction, c *schema.Column, target schema.IndexTarget) schema.Analysis {
	for _, i := range l.table.SortedIndexes() {
		if i.Attached() && i.Column == c.Name && i.Target == target && saiSupports(i, c, r) {
			return i.Analysis()
		}
	}
	return schema.Analysis{}
}

// chooseTerms collects the filters that storage-attached indexes serve. For a single logical partition, it collects
// only equality filters on row values. For other filters, reading the partition is faster than using an index.
func (l *indexLookup) chooseTerms(filtered []*relation.Restriction, keyRange bool) {
	for _, r := range filtered {
		for _, i := range l.table.SortedIndexes() {
			for n, c := range r.Columns {
				if i.Attached() && i.Column == c.Name && saiSupports(i, c, r) {
					l.terms = append(l.terms, l.termsOf(i, n, c, r)...)
				}
			}
		}
	}
	if !keyRange {
		l.terms = slices.DeleteFunc(l.terms, func(t saiTerm) bool { return t.ranged || t.whole })
	}
	slices.SortStableFunc(l.terms, func(a, b saiTerm) int { return a.rank() - b.rank() })
}

// rank returns the order of a term. Terms with fewer expected rows have lower ranks.
func (t *saiTerm) rank() int {
	switch {
	case t.ranged:
		return 2
	case t.whole:
		return 1
	}
	return 0
}

func (l *indexLookup) termsOf(i *schema.Index, n int, c *schema.Column, r *relation.Restriction) (out []saiTerm) {
	base := saiTerm{index: i, form: expr.FormOf(c, i), whole: len(l.table.Clustering) > 0 &&
		(c.Kind == schema.Static || c.Kind == schema.PartitionKey)}
	add := func(key, value expr.Term) {
		t := base
		t.key, t.value = key, value
		out = append(out, t)
	}
	switch {
	case r.Kind == relation.Slice && len(r.Columns) > 1:
	case r.Kind == relation.Slice:
		base.low, base.high, base.ranged = r.Low, r.High, true
		out = append(out, base)
	case r.Kind == relation.Equal && r.Value.Tuple != nil:
		base.tuple, base.component = r, n
		out = append(out, base)
	case r.Kind == relation.Equal:
		add(nil, r.Value.Terms[n])
	case i.Target == schema.IndexKeys:
		for _, k := range r.Keys {
			add(nil, k)
		}
	case i.Target == schema.IndexValues:
		for _, e := range r.Elements {
			add(nil, e)
		}
	default:
		for _, e := range r.Entries {
			add(e.Key, e.Value)
		}
	}
	return out
}

// eval evaluates a term. The filters have already rejected nulls.
func (t *saiTerm) eval(b *expr.Bindings) (command.IndexTerm, error) {
	out := command.IndexTerm{Index: t.index.ID, Whole: t.whole}
	var err error
	switch {
	case t.ranged:
		out.Value, out.End, err = t.interval(b)
	case t.tuple != nil:
		var values [][]byte
		if values, err = t.tuple.Value.Eval(nil, t.tuple.Columns, b); err == nil {
			out.Value = t.form.Append(nil, values[t.component])
		}
	default:
		var key, value []byte
		if value, _, err = t.value.Eval(b); err == nil && t.key != nil {
			key, _, err = t.key.Eval(b)
		}
		switch {
		case err != nil:
		case t.key != nil:
			out.Value = t.form.AppendEntry(nil, key, value)
		default:
			out.Value = t.form.Append(nil, value)
		}
	}
	return out, err
}

// interval returns the index forms of a range. The index forms of long values are truncated, so the interval may
// contain additional values.
func (t *saiTerm) interval(b *expr.Bindings) (from, to []byte, err error) {
	from, to = []byte{}, []byte{0xff}
	for _, end := range []*relation.Bound{t.low, t.high} {
		if end == nil {
			continue
		}
		v, _, err := end.Terms[0].Eval(b)
		if err != nil {
			return nil, nil, err
		}
		form := t.form.Append(nil, v)
		behind := append(slices.Clip(form), 0)
		exact := !t.form.Cut(form)
		switch {
		case end == t.low && !end.Inclusive && exact:
			from = behind
		case end == t.low:
			from = form
		case end.Inclusive || !exact:
			to = behind
		default:
			to = form
		}
	}
	return from, to, nil
}

// names returns the distinct names of the indexes that are read.
func (l *indexLookup) names() string {
	if len(l.terms) == 0 {
		return l.index.Name
	}
	var names []string
	for i := range l.terms {
		if n := l.terms[i].index.Name; !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}
