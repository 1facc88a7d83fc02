// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// storedTables lists the tables that have rows in the store, by id.
func storedTables(s *schema.Schema) map[uint32]*schema.Table {
	out := map[uint32]*schema.Table{}
	for ks := range s.All() {
		for _, t := range ks.Tables {
			if !t.Virtual {
				out[t.ID] = t
			}
		}
	}
	return out
}

// sortedTables lists them in order of their ids.
func sortedTables(s *schema.Schema) []*schema.Table {
	return slices.SortedFunc(maps.Values(storedTables(s)), func(a, b *schema.Table) int { return cmp.Compare(a.ID, b.ID) })
}

// tableChanges lists the stored tables that a change added and removed.
func tableChanges(old, next *schema.Schema) (created, dropped []*schema.Table) {
	before, after := storedTables(old), storedTables(next)
	for id, t := range after {
		if before[id] == nil {
			created = append(created, t)
		}
	}
	for id, t := range before {
		if after[id] == nil {
			dropped = append(dropped, t)
		}
	}
	return created, dropped
}

// storedTable is what the store has to know of a table.
func storedTable(t *schema.Table) storage.Table {
	st := storage.Table{ID: t.ID, Clustering: len(t.Clustering), GCGrace: int64(t.Options.GCGrace), Dropped: t.DroppedIDs()}
	for _, ix := range t.SortedIndexes() {
		st.Indexes = append(st.Indexes, storage.Index{ID: ix.ID, Holds: indexHolds(t, ix)})
	}
	return st
}

func indexIDs(s *schema.Schema) map[uint32]bool {
	out := map[uint32]bool{}
	for _, t := range storedTables(s) {
		for _, ix := range t.Indexes {
			out[ix.ID] = true
		}
	}
	return out
}

// tableIndex is an index and its table.
type tableIndex struct {
	table *schema.Table
	index *schema.Index
}

// newIndexes lists the indexes that a change added to tables that existed before.
func newIndexes(old, next *schema.Schema) []tableIndex {
	before := indexIDs(old)
	tables := storedTables(old)
	var out []tableIndex
	for _, t := range sortedTables(next) {
		for _, ix := range t.SortedIndexes() {
			if !before[ix.ID] && tables[t.ID] != nil {
				out = append(out, tableIndex{t, ix})
			}
		}
	}
	return out
}
