// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// storedTables returns the tables with rows in the store, by ID.
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

// sortedTables returns tables in the order of their IDs.
func sortedTables(s *schema.Schema) []*schema.Table {
	return slices.SortedFunc(maps.Values(storedTables(s)), func(a, b *schema.Table) int {
		return cmp.Compare(a.ID, b.ID)
	})
}

// tableChange is a stored table before and after a schema change. The field was is nil for a new table. The field is is
// nil for a dropped table.
type tableChange struct{ was, is *schema.Table }

// tableChanges returns the stored tables that differ, in order of their IDs. It skips objects that both schemas share,
// so that a change of a single table is cheap.
func tableChanges(old, next *schema.Schema) []tableChange {
	var out []tableChange
	add := func(was, is *schema.Table) {
		if was != nil && was.Virtual {
			was = nil
		}
		if is != nil && is.Virtual {
			is = nil
		}
		switch {
		case was == is:
		case was != nil && is != nil && was.ID != is.ID: // another table has replaced a table with the same name
			out = append(out, tableChange{was: was}, tableChange{is: is})
		default:
			out = append(out, tableChange{was, is})
		}
	}
	for ks := range next.All() {
		before := old.Keyspaces[ks.Name]
		if before == ks {
			continue
		}
		if before == nil {
			before = &schema.Keyspace{}
		}
		for name, is := range ks.Tables {
			if was := before.Tables[name]; was != is {
				add(was, is)
			}
		}
	}
	for ks := range old.All() {
		after := next.Keyspaces[ks.Name]
		if after == ks {
			continue
		}
		for name, was := range ks.Tables {
			if after == nil || after.Tables[name] == nil {
				add(was, nil)
			}
		}
	}
	slices.SortFunc(out, func(a, b tableChange) int { return cmp.Compare(a.id(), b.id()) })
	return out
}

func (c tableChange) id() uint32 {
	if c.is != nil {
		return c.is.ID
	}
	return c.was.ID
}

// indexIDs returns the IDs of all indexes in a schema.
func indexIDs(s *schema.Schema) map[uint32]bool {
	out := map[uint32]bool{}
	for _, t := range storedTables(s) {
		for _, ix := range t.Indexes {
			out[ix.ID] = true
		}
	}
	return out
}

// newIndexes returns the indexes that a change has added to existing tables and the indexes whose policy has changed.
func newIndexes(changes []tableChange) []*schema.Index {
	var out []*schema.Index
	for _, c := range changes {
		if c.was == nil || c.is == nil {
			continue
		}
		before := map[uint32]*schema.Index{}
		for _, ix := range c.was.Indexes {
			before[ix.ID] = ix
		}
		for _, ix := range c.is.SortedIndexes() {
			if old := before[ix.ID]; old == nil || old.Policy() != ix.Policy() {
				out = append(out, ix)
			}
		}
	}
	return out
}

// idsOf returns the IDs of a table's indexes. It returns no IDs if t is nil.
func idsOf(t *schema.Table) map[uint32]bool {
	if t == nil || len(t.Indexes) == 0 {
		return nil
	}
	out := map[uint32]bool{}
	for _, ix := range t.Indexes {
		out[ix.ID] = true
	}
	return out
}

// withoutRestores returns a state in which dropped tables are not being restored. If restores is false, created tables
// are not being restored either, because a client has created these tables.
func withoutRestores(s *meta.State, tables []tableChange, restores bool) *meta.State {
	for _, t := range tables {
		of := t.was
		if of == nil && !restores {
			of = t.is
		}
		if of == nil || t.was != nil && t.is != nil {
			continue
		}
		if name := meta.RestoreSetting(of.Keyspace, of.Name); s.Settings[name] != "" {
			s = s.WithSetting(name, "")
		}
	}
	return s
}
