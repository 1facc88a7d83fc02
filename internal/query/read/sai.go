// SPDX-License-Identifier: Apache-2.0

package read

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/relation"
)

// term is a condition that a storage-attached index serves: the rows that have a value, or one of a range.
type saiTerm struct {
	index *schema.Index
	form  expr.IndexForm
	// whole says that entries stand for whole logical partitions.
	whole bool
	// key and value are what is looked up, value alone unless it is an entry of a map. Where the columns of a tuple are
	// compared with one marker it is component of tuple.
	key, value expr.Term
	tuple      *relation.Restriction
	component  int
	// low and high are the ends of a range, nil where it is open; ranged says that it is one.
	low, high *relation.Bound
	ranged    bool
}

// attachedSupports reports whether a storage-attached index on a column answers a restriction.
func saiSupports(i *schema.Index, c *schema.Column, r *relation.Restriction) bool {
	if i.Near(c) || i.Indexed(c)[0].Kind == cqltype.Vector {
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

// attached is a storage-attached index that answers a restriction, nil if there is none.
func (w *where) saiIndex(r *relation.Restriction) *schema.Index {
	for _, i := range w.table.SortedIndexes() {
		for _, c := range r.Columns {
			if i.Attached() && i.Column == c.Name && saiSupports(i, c, r) {
				return i
			}
		}
	}
	return nil
}

// allAttached reports whether storage-attached indexes answer all that is filtered by, and there is something.
func (w *where) allSAI() bool {
	n := 0
	for _, set := range w.checked {
		for _, r := range set.List {
			if w.saiIndex(r) == nil {
				return false
			}
			n++
		}
	}
	return n > 0
}

// analysisOf is what the index that answers a restriction does to texts of a column before it compares them.
func (w *where) analysisOf(r *relation.Restriction, c *schema.Column, target schema.IndexTarget) schema.Analysis {
	for _, i := range w.table.SortedIndexes() {
		if i.Attached() && i.Column == c.Name && i.Target == target && saiSupports(i, c, r) {
			return i.Analysis()
		}
	}
	return schema.Analysis{}
}

// chooseTerms collects what storage-attached indexes serve of what rows are filtered by. In one logical partition that
// is equal values of rows: ranges, and what all rows of it have, its rows tell faster.
func (w *where) chooseTerms() {
	for _, r := range w.filtered {
		for _, i := range w.table.SortedIndexes() {
			for n, c := range r.Columns {
				if i.Attached() && i.Column == c.Name && saiSupports(i, c, r) {
					w.terms = append(w.terms, w.termsOf(i, n, c, r)...)
				}
			}
		}
	}
	if !w.keyRange {
		w.terms = slices.DeleteFunc(w.terms, func(t saiTerm) bool { return t.ranged || t.whole })
	}
	slices.SortStableFunc(w.terms, func(a, b saiTerm) int { return a.rank() - b.rank() })
}

// rank puts first what is likely to leave few rows.
func (t *saiTerm) rank() int {
	switch {
	case t.ranged:
		return 2
	case t.whole:
		return 1
	}
	return 0
}

func (w *where) termsOf(i *schema.Index, n int, c *schema.Column, r *relation.Restriction) (out []saiTerm) {
	base := saiTerm{index: i, form: expr.FormOf(c, i), whole: len(w.table.Clustering) > 0 &&
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

// lookupTerms evaluates what is looked up in storage-attached indexes.
func (s *scan) lookupTerms() error {
	s.terms = s.terms[:0]
	for i := range s.plan.where.terms {
		t := &s.plan.where.terms[i]
		if err := s.available(t.index); err != nil {
			return err
		}
		c, err := t.eval(&s.bind)
		if err != nil {
			return err
		}
		s.terms = append(s.terms, c)
	}
	s.index = command.IndexLookup{Index: s.terms[0].Index, All: s.terms}
	s.cmd.Index = &s.index
	return nil
}

// building reports whether an index is not complete.
func (s *scan) building(ix *schema.Index) bool {
	return s.options.Building != nil && s.options.Building(ix)
}

// available refuses to read by an index that is not complete.
func (s *scan) available(ix *schema.Index) error {
	if !s.building(ix) {
		return nil
	}
	return &dberr.ReadFailure{
		Level: s.options.Level, BlockFor: 1, Failures: 1,
		Message: "The secondary index '" + ix.Name + "' is not yet available",
	}
}

// eval evaluates a term. The filters have refused nulls.
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

// interval are the forms that a range has. Those of long values are cut off: what may be in it is.
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

// indexNames are the names of the indexes that are read, each once.
func (w *where) indexNames() string {
	if len(w.terms) == 0 {
		return w.index.Name
	}
	var names []string
	for i := range w.terms {
		if n := w.terms[i].index.Name; !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}
