// SPDX-License-Identifier: Apache-2.0

package read

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
)

func (w *where) hasIndex(set *restrictions) bool {
	for _, r := range set.list {
		if w.supporting(r) != nil {
			return true
		}
	}
	return false
}

// supporting finds an index that answers a restriction, the first by name.
func (w *where) supporting(r *restriction) *schema.Index {
	for _, i := range w.table.SortedIndexes() {
		for _, c := range r.columns {
			if c.Name == i.Column && supports(i, c, r) {
				return i
			}
		}
	}
	return nil
}

func supports(i *schema.Index, c *schema.Column, r *restriction) bool {
	switch i.Target {
	case schema.IndexValue, schema.IndexFull:
		return r.kind == equal
	case schema.IndexValues:
		return r.kind == contains && len(r.elements) > 0
	case schema.IndexKeys:
		return r.kind == contains && (len(r.keys) > 0 || c.Type.Kind == cqltype.Set && len(r.elements) > 0)
	case schema.IndexEntries:
		return r.kind == contains && len(r.entries) > 0
	}
	return false
}

// chooseIndex picks the index to read through: of a regular column before that of a static one, of those before keys.
func (w *where) chooseIndex() {
	var best *restriction
	rank := func(r *restriction) int {
		switch r.first().Kind {
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
		if i := w.supporting(r); i != nil && (best == nil || rank(r) < rank(best)) {
			best, w.index = r, i
		}
	}
	if best == nil {
		return // the index is on a column whose value is known anyhow
	}
	switch w.index.Target {
	case schema.IndexValues:
		w.lookup = best.elements[0]
	case schema.IndexKeys:
		if len(best.keys) > 0 {
			w.lookup = best.keys[0]
		} else {
			w.lookup = best.elements[0]
		}
	case schema.IndexEntries:
		w.lookup, w.lookupEntry = best.entries[0].key, best.entries[0].value
	default:
		for i, c := range best.columns {
			if c.Name != w.index.Column {
				continue
			}
			if best.value.tuple != nil {
				w.index = nil // a scan answers it as well
				return
			}
			w.lookup = best.value.terms[i]
		}
	}
}
