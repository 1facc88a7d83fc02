// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/vector"
)

// IsFloatVector reports whether the values of a column can be searched for by nearness.
func (c *Column) IsFloatVector() bool {
	return c.Type.Kind == cqltype.Vector && c.Type.Elems[0].Kind == cqltype.Float
}

// Near reports whether an index of a column is one by which vectors that are near to another are found.
func (ix *Index) Near(c *Column) bool { return c != nil && ix.Attached() && c.IsFloatVector() }

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

// Lists are the lists of an index of vectors.
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

// HasLists reports whether an index of vectors has lists.
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

// ListsOf are the lists of an index of a column of vectors: those that entries are made for, the newest first; at the
// end those of Lists.None, while all rows are looked at. There are none at all where rows are not found by entries:
// their vectors are static, or in their keys.
func (ix *Index) ListsOf(c *Column) Lists {
	switch {
	case !ix.Near(c) || c.Kind != Regular:
		return nil
	case len(ix.Lists) > 0:
		return ix.Lists
	}
	return Lists{vector.NewLists(ix.Nearness(), c.Type.Dimension)}
}

// SetLists gives an index of vectors other lists: it is no statement. Where the newest are newer than before it has to
// be built again, and those before stay until it is.
type SetLists struct {
	Stamp
	// Index is the id of the index, Before the generation that its newest lists had.
	Index  uint32
	Before uint32
	Lists  Lists
}

func (c *SetLists) apply(s *Schema) (*Schema, []Event, error) {
	t, ix := s.IndexByID(c.Index)
	if ix == nil {
		return nil, nil, dberr.Invalidf("The index of vectors was dropped")
	}
	if old := ix.ListsOf(t.ByName[ix.Column]); len(old) == 0 || old[0].Generation != c.Before || len(c.Lists) == 0 {
		return nil, nil, dberr.Invalidf("The index '%s' has other lists", ix.Name)
	}
	index := *ix
	index.Lists = c.Lists
	changed := t.clone()
	changed.Indexes[ix.Name] = &index
	return s.withKeyspace(s.Keyspaces[t.Keyspace].withTable(changed)),
		[]Event{{Change: Updated, Target: TargetTable, Keyspace: t.Keyspace, Name: t.Name}}, nil
}
