// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"encoding/hex"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// String returns the canonical text of the UUID.
func (u UUID) String() string {
	var b [36]byte
	hex.Encode(b[:8], u[:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:], u[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// ParseUUID parses the canonical text.
func ParseUUID(s string) (u UUID, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return u, false
	}
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != len(u) {
		return u, false
	}
	return UUID(b), true
}

// MarshalText returns the canonical text of the UUID. JSON encoding uses this method.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText parses the canonical text.
func (u *UUID) UnmarshalText(b []byte) error {
	v, ok := ParseUUID(string(b))
	if !ok {
		return errBadUUID
	}
	*u = v
	return nil
}

// Keyspace returns the keyspace with a name, or nil if none exists.
func (s *Schema) Keyspace(name string) *Keyspace { return s.Keyspaces[name] }

// Table returns a table by name, or nil if none exists.
func (s *Schema) Table(keyspace, name string) *Table {
	if ks := s.Keyspaces[keyspace]; ks != nil {
		return ks.Tables[name]
	}
	return nil
}

// TableByID returns the table with an ID, or nil if none exists. TableByID searches all tables, so callers on a hot
// path should keep the *Table.
func (s *Schema) TableByID(id uint32) *Table {
	for _, ks := range s.Keyspaces {
		for _, t := range ks.Tables {
			if t.ID == id {
				return t
			}
		}
	}
	return nil
}

// IndexByID returns the index with an ID and its table, or nil if none exists. IndexByID searches all tables, like
// TableByID.
func (s *Schema) IndexByID(id uint32) (*Table, *Index) {
	for _, ks := range s.Keyspaces {
		for _, t := range ks.Tables {
			for _, ix := range t.Indexes {
				if ix.ID == id {
					return t, ix
				}
			}
		}
	}
	return nil, nil
}

// Type returns the unfrozen form of a user-defined type, or nil if none exists.
func (s *Schema) Type(keyspace, name string) *cqltype.Type {
	if ks := s.Keyspaces[keyspace]; ks != nil {
		return ks.Types[name]
	}
	return nil
}

// All yields the keyspaces in the order of their names.
func (s *Schema) All() iter.Seq[*Keyspace] {
	return func(yield func(*Keyspace) bool) {
		for _, name := range slices.Sorted(maps.Keys(s.Keyspaces)) {
			if !yield(s.Keyspaces[name]) {
				return
			}
		}
	}
}

// SortedTables returns the tables, sorted by name.
func (k *Keyspace) SortedTables() []*Table {
	tables := slices.Collect(maps.Values(k.Tables))
	slices.SortFunc(tables, func(a, b *Table) int { return strings.Compare(a.Name, b.Name) })
	return tables
}

// SortedTypes returns the types, sorted by name.
func (k *Keyspace) SortedTypes() []*cqltype.Type {
	types := slices.Collect(maps.Values(k.Types))
	slices.SortFunc(types, func(a, b *cqltype.Type) int { return strings.Compare(a.Name, b.Name) })
	return types
}

// Index returns an index on any table of the keyspace, and the table. Index returns nil if the index does not exist.
func (k *Keyspace) Index(name string) (*Table, *Index) {
	for _, t := range k.Tables {
		if i := t.Indexes[name]; i != nil && i.Kind != ViewKind {
			return t, i
		}
	}
	return nil, nil
}

// Column returns the column with a name, or nil if none exists.
func (t *Table) Column(name string) *Column { return t.ByName[name] }

// ColumnByID returns the column with an ID, or nil if it does not exist or has been dropped.
func (t *Table) ColumnByID(id uint32) *Column {
	for c := range t.Columns() {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// Columns yields all columns in the order of SELECT *, which is partition key, clustering, static, and regular
// columns.
func (t *Table) Columns() iter.Seq[*Column] {
	return func(yield func(*Column) bool) {
		for _, part := range [...][]*Column{t.PartitionKey, t.Clustering, t.Statics, t.Regulars} {
			for _, c := range part {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// SortedIndexes returns the indexes, sorted by name.
func (t *Table) SortedIndexes() []*Index {
	indexes := slices.Collect(maps.Values(t.Indexes))
	slices.SortFunc(indexes, func(a, b *Index) int { return strings.Compare(a.Name, b.Name) })
	return indexes
}

// IndexesOn returns the indexes on a column, sorted by name.
func (t *Table) IndexesOn(column string) []*Index {
	return slices.DeleteFunc(t.SortedIndexes(), func(i *Index) bool { return i.Column != column })
}

// Hidden returns the dropped columns' cells that readers do not see, in ascending order of columns. The result is nil
// for most tables. If a column was dropped up to a timestamp and added again, its later cells are visible.
func (t *Table) Hidden() []cqltype.Dropped {
	return t.droppedCells(func(d *DroppedColumn) bool { return t.ColumnByID(d.ID) != nil })
}

// Removed returns the dropped columns' cells that sweeps remove, in ascending order of columns. The later cells of a
// column that was dropped up to a timestamp are kept, because the column can be added again.
func (t *Table) Removed() []cqltype.Dropped {
	return t.droppedCells(func(*DroppedColumn) bool { return true })
}

// droppedCells returns the dropped columns. If by returns true for a column that was dropped up to a timestamp, the
// result contains this timestamp.
func (t *Table) droppedCells(by func(d *DroppedColumn) bool) (out []cqltype.Dropped) {
	for i := range t.Dropped {
		d := cqltype.Dropped{Column: t.Dropped[i].ID, Upto: cqltype.AllDropped}
		if t.Dropped[i].ByTime && by(&t.Dropped[i]) {
			d.Upto = t.Dropped[i].DroppedAt
		}
		at, again := slices.BinarySearchFunc(out, d.Column, func(d cqltype.Dropped, c uint32) int {
			return cmp.Compare(d.Column, c)
		})
		if again {
			out[at] = d // the most recent record of a column applies
		} else {
			out = slices.Insert(out, at, d)
		}
	}
	return out
}

// LastDropped returns the most recent dropped column with a name, or nil if none exists.
func (t *Table) LastDropped(name string) *DroppedColumn {
	for i := len(t.Dropped) - 1; i >= 0; i-- {
		if t.Dropped[i].Name == name {
			return &t.Dropped[i]
		}
	}
	return nil
}

// String returns the table name in the form keyspace.table, as in Cassandra's messages.
func (t *Table) String() string { return t.Keyspace + "." + t.Name }

// String returns the kind of the column as in system_schema.columns.
func (k ColumnKind) String() string {
	switch k {
	case PartitionKey:
		return "partition_key"
	case Clustering:
		return "clustering"
	case Static:
		return "static"
	}
	return "regular"
}

// IsKey reports whether a column of this kind is part of the primary key.
func (k ColumnKind) IsKey() bool { return k == PartitionKey || k == Clustering }

// String returns the keyword of the target in CREATE INDEX, or an empty string if the target has no keyword.
func (t IndexTarget) String() string {
	return [...]string{"", "values", "keys", "entries", "full"}[min(t, IndexFull)]
}

// TargetText returns the target, such as values(c), in the form of CREATE INDEX and system_schema.indexes.
func (i *Index) TargetText() string {
	column := cqltype.QuoteName(i.Column)
	if i.Target == IndexValue {
		return column
	}
	return i.Target.String() + "(" + column + ")"
}

// OwnKeyspace is the virtual keyspace that does not exist in Cassandra.
const OwnKeyspace = "ilion"

// These keyspaces exist in every cluster and cannot be created or dropped. Local keyspaces hold data about a node
// itself. Virtual keyspaces have no tables in system_schema.
var (
	localKeyspaces      = []string{"system", "system_schema"}
	virtualKeyspaces    = []string{"system_views", "system_virtual_schema", OwnKeyspace}
	replicatedKeyspaces = []string{"system_auth", "system_distributed", "system_traces"}
)

// IsLocalSystem reports whether the keyspace is system or system_schema.
func IsLocalSystem(keyspace string) bool { return slices.Contains(localKeyspaces, keyspace) }

// IsVirtualSystem reports whether the keyspace is system_views, system_virtual_schema, or ilion.
func IsVirtualSystem(keyspace string) bool { return slices.Contains(virtualKeyspaces, keyspace) }

// IsReplicatedSystem reports whether the keyspace is system_auth, system_distributed, or system_traces.
func IsReplicatedSystem(keyspace string) bool { return slices.Contains(replicatedKeyspaces, keyspace) }

// IsSystem reports whether the keyspace exists in every cluster.
func IsSystem(keyspace string) bool {
	return IsLocalSystem(keyspace) || IsVirtualSystem(keyspace) || IsReplicatedSystem(keyspace)
}

// HasFunctions reports whether the schema contains user-defined functions.
func (s *Schema) HasFunctions() bool {
	for _, ks := range s.Keyspaces {
		if len(ks.Functions) > 0 {
			return true
		}
	}
	return false
}

// HasVectors reports whether a column or a user-defined type of the schema contains vectors.
func (s *Schema) HasVectors() bool {
	for _, ks := range s.Keyspaces {
		for _, t := range ks.Types {
			if t.Contains(cqltype.Vector) {
				return true
			}
		}
		for _, t := range ks.Tables {
			for _, c := range t.ByName {
				if c.Type.Contains(cqltype.Vector) {
					return true
				}
			}
		}
	}
	return false
}

// HasAttached reports whether any table has a storage-attached index.
func (s *Schema) HasAttached() bool {
	for _, ks := range s.Keyspaces {
		for _, t := range ks.Tables {
			for _, ix := range t.Indexes {
				if ix.Attached() {
					return true
				}
			}
		}
	}
	return false
}
