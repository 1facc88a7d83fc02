// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/vector"
)

// IsFloatVector reports whether the values of a column can be searched for by nearness.
func (c *Column) IsFloatVector() bool {
	return c.Type.Kind == cqltype.Vector && c.Type.Elems[0].Kind == cqltype.Float
}

// Near reports whether an index of a column is one by which vectors that are near to another are found.
func (ix *Index) Near(c *Column) bool { return c != nil && c.IsFloatVector() && ix.Attached() }

// Nearness is by what an index finds vectors that are near.
func (ix *Index) Nearness() vector.Similarity {
	s, _ := vector.Parse(ix.Options[similarityOption]) // cosine if there is none
	return s
}

// NearIndex is the index that finds vectors near to another in a column, nil if there is none.
func (t *Table) NearIndex(c *Column) *Index {
	for _, ix := range t.SortedIndexes() {
		if ix.Column == c.Name && ix.Near(c) {
			return ix
		}
	}
	return nil
}
