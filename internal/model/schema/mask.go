// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// NativeMasks is the keyspace of the mask functions that are not user-defined.
const NativeMasks = "system"

// Mask is the function that hides the values of a column from users without permission to see the values. Its first
// argument is the value. The other arguments are constants.
type Mask struct {
	// Keyspace is the keyspace of the function. The keyspace is "system" for native functions, and otherwise the
	// keyspace of the table.
	Keyspace string `json:"keyspace"`
	Function string `json:"function"`
	// Types holds the types of the constants. Values holds their wire forms, in which nil represents null.
	Types  []*TypeSpec `json:"types,omitempty"`
	Values [][]byte    `json:"values,omitempty"`
}

// MaskSpec is the MASKED WITH clause of a change. It holds the mask and the column type for which the mask was bound.
type MaskSpec struct {
	Mask
	Column *TypeSpec
	// Secret holds 32 random bytes, which become Table.Secret if the table has no secret.
	Secret []byte
}

// Equal reports whether two masks, which may be nil, are the same.
func (m *Mask) Equal(o *Mask) bool {
	if m == nil || o == nil {
		return m == o
	}
	return m.Keyspace == o.Keyspace && m.Function == o.Function &&
		slices.EqualFunc(m.Types, o.Types, func(a, b *TypeSpec) bool { return a.String() == b.String() }) &&
		slices.EqualFunc(m.Values, o.Values, func(a, b []byte) bool {
			return (a == nil) == (b == nil) && bytes.Equal(a, b)
		})
}

// MaskFunction returns the user-defined function of a mask on a column of type t. The function takes the value and the
// constants, and returns the column's type. MaskFunction returns nil if no such function exists.
func (k *Keyspace) MaskFunction(m *Mask, column *cqltype.Type) *Function {
	constants, err := bindAll(k, m.Types)
	if err != nil || m.Keyspace != k.Name {
		return nil
	}
	f := k.Function(m.Function, append([]*cqltype.Type{column}, constants...))
	if f == nil || f.Aggregate != nil || !f.Returns.Freeze().Equal(column.Freeze()) {
		return nil
	}
	return f
}

// maskedBy returns the tables with a column that a function masks, in the form of Cassandra's messages. The tables are
// sorted by name. Views are omitted, because they have the masks of their base tables.
func (k *Keyspace) maskedBy(f *Function) string {
	var names []string
	for _, t := range k.SortedTables() {
		for c := range t.Columns() {
			if t.View == nil && c.Mask != nil && k.MaskFunction(c.Mask, c.Type) == f {
				names = append(names, t.Name)
				break
			}
		}
	}
	return strings.Join(names, ", ")
}

// Masked reports whether any column of the table has a mask.
func (t *Table) Masked() bool {
	return t.SealsPages() || slices.ContainsFunc(t.Statics, (*Column).masked) ||
		slices.ContainsFunc(t.Regulars, (*Column).masked)
}

func (c *Column) masked() bool { return c.Mask != nil }

// MaskedKey reports whether a partition key column has a mask. In that case, the keys of logical partitions must not
// be shown.
func (t *Table) MaskedKey() bool { return slices.ContainsFunc(t.PartitionKey, (*Column).masked) }

// SealsPages reports whether the table's paging states must be encrypted with its secret. Paging states contain
// primary keys.
func (t *Table) SealsPages() bool {
	return t.MaskedKey() || slices.ContainsFunc(t.Clustering, (*Column).masked)
}

// HasMasks reports whether any column of the schema has a mask.
func (s *Schema) HasMasks() bool {
	for _, ks := range s.Keyspaces {
		for _, t := range ks.Tables {
			if t.Masked() {
				return true
			}
		}
	}
	return false
}

// mask sets the mask of a column. The table must not be shared.
func (t *Table) mask(ks *Keyspace, c *Column, m *MaskSpec) error {
	if m == nil {
		return nil
	}
	if was := SpecOf(c.Type); m.Column.String() != was.String() {
		return dberr.Invalidf("The type of column %s has changed from %s to %s in the meantime. Retry the statement", c.Name,
			m.Column, was)
	}
	if m.Keyspace != NativeMasks && ks.MaskFunction(&m.Mask, c.Type) == nil {
		return dberr.Invalidf("The function %s.%s has changed in the meantime. Retry the statement", m.Keyspace, m.Function)
	}
	c.Mask = &m.Mask
	if t.Secret == nil {
		t.Secret = m.Secret
	}
	return nil
}

// remask sets the mask that an ALTER TABLE statement specifies, or removes the mask if the statement specifies none.
func (c *AlterTable) remask(ks *Keyspace, t *Table) error {
	old := t.ByName[c.Column]
	if old == nil {
		if c.IfColumn {
			return nil
		}
		return dberr.Invalidf("Column with name '%s' doesn't exist on table '%s'", c.Column, c.Name)
	}
	if c.Mask == nil && old.Mask == nil || c.Mask != nil && c.Mask.Equal(old.Mask) {
		return nil
	}
	col := *old
	col.Mask = nil
	if err := t.mask(ks, &col, c.Mask); err != nil {
		return err
	}
	for _, part := range [][]*Column{t.PartitionKey, t.Clustering, t.Statics, t.Regulars} {
		if i := slices.Index(part, old); i >= 0 {
			part[i] = &col
		}
	}
	t.reindex()
	return nil
}
