// SPDX-License-Identifier: Apache-2.0

package read

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

func (w *where) hasIndex(set *relation.Set) bool { return slices.ContainsFunc(set.List, w.hasIndexFor) }

func (w *where) hasIndexFor(r *relation.Restriction) bool { return w.supporting(r) != nil }

// supporting returns the first index by name that serves a restriction.
func (w *where) supporting(r *relation.Restriction) *schema.Index {
	if i := w.legacy(r); i != nil {
		return i
	}
	return w.saiIndex(r)
}

// legacy returns the first index by name that serves a restriction and is not storage-attached.
func (w *where) legacy(r *relation.Restriction) *schema.Index {
	for _, i := range w.table.SortedIndexes() {
		for _, c := range r.Columns {
			if !i.Attached() && c.Name == i.Column && supports(i, c, r) {
				return i
			}
		}
	}
	return nil
}

func supports(i *schema.Index, c *schema.Column, r *relation.Restriction) bool {
	switch i.Target {
	case schema.IndexValue, schema.IndexFull:
		return r.Kind == relation.Equal
	case schema.IndexValues:
		return r.Kind == relation.Contains && len(r.Elements) > 0
	case schema.IndexKeys:
		return r.Kind == relation.Contains && (len(r.Keys) > 0 || c.Type.Kind == cqltype.Set && len(r.Elements) > 0)
	case schema.IndexEntries:
		return r.Kind == relation.Contains && len(r.Entries) > 0
	}
	return false
}

// chooseIndex chooses the index to read. An index on a regular column is preferred over one on a clustering column,
// then a static column, then a partition key column.
func (w *where) chooseIndex() {
	if w.chooseTerms(); len(w.terms) > 0 {
		w.index = w.terms[0].index
		return
	}
	var best *relation.Restriction
	rank := func(r *relation.Restriction) int {
		switch r.First().Kind {
		case schema.Regular:
			return 0
		case schema.Clustering:
			return 1
		case schema.Static:
			return 2
		}
		return 3
	}
	for _, r := range w.filtered {
		if i := w.legacy(r); i != nil && (best == nil || rank(r) < rank(best)) {
			best, w.index = r, i
		}
	}
	if best == nil {
		return // the index is on a column whose value is already fixed
	}
	switch w.index.Target {
	case schema.IndexValues:
		w.lookup = best.Elements[0]
	case schema.IndexKeys:
		if len(best.Keys) > 0 {
			w.lookup = best.Keys[0]
		} else {
			w.lookup = best.Elements[0]
		}
	case schema.IndexEntries:
		w.lookup, w.lookupEntry = best.Entries[0].Key, best.Entries[0].Value
	default:
		for i, c := range best.Columns {
			if c.Name != w.index.Column {
				continue
			}
			if best.Value.Tuple != nil {
				w.index = nil // a scan returns the same result
				return
			}
			w.lookup = best.Value.Terms[i]
		}
	}
}
