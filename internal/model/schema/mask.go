// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Mask is the function that hides the values of a column from whoever may not see them. Its first argument is the
// value; those after it are constants.
type Mask struct {
	// Keyspace is that of the function, system for native ones.
	Keyspace string `json:"keyspace"`
	Function string `json:"function"`
	// Types are the types of the constants, and Values their bytes on the wire; nil is null.
	Types  []*TypeSpec `json:"types,omitempty"`
	Values [][]byte    `json:"values,omitempty"`
}

// MaskSpec is MASKED WITH as a change brings it along: the mask, and the type of column that it was bound for.
type MaskSpec struct {
	Mask
	Column *TypeSpec
	// Secret is 32 random bytes; they become Table.Secret if the table has none.
	Secret []byte
}

// Equal reports whether two masks, which may be nil, hide alike.
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

// Masked reports whether any column of the table has a mask.
func (t *Table) Masked() bool {
	return slices.ContainsFunc(t.PartitionKey, (*Column).masked) || t.maskedBesides()
}

func (t *Table) maskedBesides() bool {
	return slices.ContainsFunc(t.Clustering, (*Column).masked) || slices.ContainsFunc(t.Statics, (*Column).masked) ||
		slices.ContainsFunc(t.Regulars, (*Column).masked)
}

func (c *Column) masked() bool { return c.Mask != nil }

// MaskedKey reports whether a column of the partition key has a mask, so that the names of logical partitions are not
// to be shown.
func (t *Table) MaskedKey() bool { return slices.ContainsFunc(t.PartitionKey, (*Column).masked) }

// SealsPages reports whether paging states of the table, which hold primary keys, are to be sealed with its secret.
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

// mask puts a mask on a column of the table, which is not shared yet.
func (t *Table) mask(c *Column, m *MaskSpec) error {
	if m == nil {
		return nil
	}
	if was := SpecOf(c.Type); m.Column.String() != was.String() {
		return dberr.Invalidf("The type of column %s has changed from %s to %s meanwhile: repeat the statement", c.Name,
			m.Column, was)
	}
	c.Mask = &m.Mask
	if t.Secret == nil {
		t.Secret = m.Secret
	}
	return nil
}

// remask is ALTER .. MASKED WITH, or with no mask ALTER .. DROP MASKED.
func (c *AlterTable) remask(t *Table) error {
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
	if err := t.mask(&col, c.Mask); err != nil {
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
