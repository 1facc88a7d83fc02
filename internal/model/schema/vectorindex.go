// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/vector"
)

// IsFloatVector reports whether vector search supports the values of a column.
func (c *Column) IsFloatVector() bool {
	return c.Type.Kind == cqltype.Vector && c.Type.Elems[0].Kind == cqltype.Float
}

// SupportsANN reports whether an index on a column supports vector search.
func (ix *Index) SupportsANN(c *Column) bool { return c != nil && ix.Attached() && c.IsFloatVector() }

// Similarity returns the similarity function of a vector index.
func (ix *Index) Similarity() vector.Similarity {
	s, _ := vector.Parse(ix.Options[similarityOption]) // the default is cosine similarity
	return s
}

// ANNIndex returns the index for vector search on a column, or nil if the column has no such index.
func (t *Table) ANNIndex(c *Column) *Index {
	for _, ix := range t.SortedIndexes() {
		if ix.Column == c.Name && ix.SupportsANN(c) {
			return ix
		}
	}
	return nil
}

// Lists holds the lists of a vector index.
type Lists []*vector.Lists

// MarshalJSON implements json.Marshaler.
func (l Lists) MarshalJSON() ([]byte, error) {
	out := make([][]byte, len(l))
	for i := range l {
		out[i] = l[i].Append(nil)
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Lists) UnmarshalJSON(b []byte) error {
	var in [][]byte
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*l = make(Lists, len(in))
	for i := range in {
		var err error
		if (*l)[i], err = vector.DecodeLists(in[i]); err != nil {
			return err
		}
	}
	return nil
}

// HasLists reports whether a vector index of the schema has lists.
func (s *Schema) HasLists() bool {
	for ks := range s.All() {
		for _, t := range ks.Tables {
			for _, ix := range t.Indexes {
				if len(ix.Lists) > 0 {
					return true
				}
			}
		}
	}
	return false
}

// ListsOf returns the lists of a vector index for which entries are written. The newest lists come first. While
// searches examine all rows, the last element contains no lists (see vector.Lists.None). If the vectors are in a
// static column or a key column, searches do not use entries, and ListsOf returns no lists.
func (ix *Index) ListsOf(c *Column) Lists {
	switch {
	case !ix.SupportsANN(c) || c.Kind != Regular:
		return nil
	case len(ix.Lists) > 0:
		return ix.Lists
	}
	return Lists{vector.NewLists(ix.Similarity(), c.Type.Dimension)}
}

// SetLists replaces the lists of a vector index. No statement causes a SetLists change. If the newest lists have a new
// generation, the index must be rebuilt. The previous lists remain until the index has been rebuilt.
type SetLists struct {
	Stamp
	// Index is the ID of the index. Before is the previous generation of the newest lists of the index.
	Index  uint32
	Before uint32
	Lists  Lists
}

func (c *SetLists) apply(s *Schema) (*Schema, []Event, error) {
	t, ix := s.IndexByID(c.Index)
	if ix == nil {
		return nil, nil, dberr.Invalidf("The vector index was dropped")
	}
	if old := ix.ListsOf(t.ByName[ix.Column]); len(old) == 0 || old[0].Generation != c.Before || len(c.Lists) == 0 {
		return nil, nil, dberr.Invalidf("The lists of index '%s' have changed", ix.Name)
	}
	index := *ix
	index.Lists = c.Lists
	changed := t.clone()
	changed.Indexes[ix.Name] = &index
	return s.withKeyspace(s.Keyspaces[t.Keyspace].withTable(changed)),
		[]Event{{Change: Updated, Target: TargetTable, Keyspace: t.Keyspace, Name: t.Name}}, nil
}
