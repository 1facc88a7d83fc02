// SPDX-License-Identifier: Apache-2.0

package read

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// indexLookup chooses the index that a read uses and holds the values to look up.
type indexLookup struct {
	table *schema.Table
	// index is the index, or nil. value is the value to look up in the index. For an index on map entries, value is the
	// key of the entry and entry is the value of the entry.
	index        *schema.Index
	value, entry expr.Term
	// terms holds the lookups in storage-attached indexes. If terms is not empty, index is the index of the first term.
	terms []saiTerm
}

func (l *indexLookup) hasIndex(set *relation.Set) bool {
	return slices.ContainsFunc(set.List, l.hasIndexFor)
}

func (l *indexLookup) hasIndexFor(r *relation.Restriction) bool { return l.supporting(r) != nil }

// supporting returns the index that serves a restriction. If several indexes serve the restriction, supporting returns
// the index with the lowest name.
func (l *indexLookup) supporting(r *relation.Restriction) *schema.Index {
	if i := l.legacy(r); i != nil {
		return i
	}
	return l.saiIndex(r)
}

// legacy returns the index that serves a restriction and is not storage-attached. If several indexes qualify, legacy
// returns the index with the lowest name.
func (l *indexLookup) legacy(r *relation.Restriction) *schema.Index {
	for _, i := range l.table.SortedIndexes() {
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

// choose chooses the index that serves one of the filters. keyRange reports whether the statement does not specify the
// partition keys. An index on a regular column is preferred, followed by indexes on a clustering column, a static
// column, and a partition key column.
func (l *indexLookup) choose(filtered []*relation.Restriction, keyRange bool) {
	if l.chooseTerms(filtered, keyRange); len(l.terms) > 0 {
		l.index = l.terms[0].index
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
	for _, r := range filtered {
		if i := l.legacy(r); i != nil && (best == nil || rank(r) < rank(best)) {
			best, l.index = r, i
		}
	}
	if best == nil {
		return // the value of the indexed column is already fixed
	}
	switch l.index.Target {
	case schema.IndexValues:
		l.value = best.Elements[0]
	case schema.IndexKeys:
		if len(best.Keys) > 0 {
			l.value = best.Keys[0]
		} else {
			l.value = best.Elements[0]
		}
	case schema.IndexEntries:
		l.value, l.entry = best.Entries[0].Key, best.Entries[0].Value
	default:
		for i, c := range best.Columns {
			if c.Name != l.index.Column {
				continue
			}
			if best.Value.Tuple != nil {
				l.index = nil // a scan returns the same result
				return
			}
			l.value = best.Value.Terms[i]
		}
	}
}
