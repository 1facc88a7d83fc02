// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

// EntryValue returns the index value of a map entry.
func EntryValue(key, value []byte) []byte {
	return AppendEntryValue(make([]byte, 0, 4+len(key)+len(value)), key, value)
}

// AppendEntryValue appends the result of EntryValue to dst.
func AppendEntryValue(dst, key, value []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(key)))
	return append(append(dst, key...), value...)
}

// IndexValues returns the values of a row's index entries in the index's form. Indexes on collections of vectors
// contain no entries. key is the serialized partition key, clustering is the clustering key, and r is the row. For an
// index on a static column, clustering is empty and r is the static row. Index builds and the validation of index
// entries use IndexValues.
func IndexValues(t *schema.Table, ix *schema.Index, key, clustering []byte, r *row.Row) ([][]byte, error) {
	c := t.ByName[ix.Column]
	switch {
	case ix.SupportsANN(c):
		return vectorEntries(t, ix.ListsOf(c), c, key, r), nil
	case c == nil || t.OfVectors(ix):
		return nil, nil
	}
	form := FormOf(c, ix)
	var v []byte
	var err error
	switch {
	case c.Kind == schema.PartitionKey:
		v, err = PartitionKeyValue(t, key, c.Position)
	case c.Kind == schema.Clustering:
		v, err = ClusteringValue(t, clustering, c.Position)
	case c.Type.MultiCell():
		return indexedElements(c, ix, &form, r.Column(c.ID))
	default:
		if cell := r.Cell(c.ID); cell != nil {
			v = cell.Value
		}
	}
	if v == nil || err != nil {
		return nil, err
	}
	if form.Ordered() {
		v = form.Append(nil, v)
	}
	return [][]byte{v}, nil
}

// vectorEntries returns the index values of a row's vector. The result contains one value for each set of lists.
func vectorEntries(t *schema.Table, lists schema.Lists, c *schema.Column, key []byte, r *row.Row) (out [][]byte) {
	cell := r.Cell(c.ID)
	if len(lists) == 0 || cell == nil {
		return nil
	}
	v, ok := c.Type.Floats(nil, cell.Value)
	if !ok || lists[0].Similarity.Check(v) != nil {
		return nil // the vector was written before the index existed
	}
	for _, l := range lists {
		if l.None() {
			continue
		}
		out = append(out, l.AppendEntry(nil, v, t.Token(key).Position()))
	}
	return out
}

func indexedElements(c *schema.Column, ix *schema.Index, form *IndexForm, cells []row.Cell) (out [][]byte, err error) {
	for i := range cells {
		cell := &cells[i]
		v := cell.Value
		if ix.Target != schema.IndexValues && c.Type.Kind != cqltype.List || c.Type.Kind == cqltype.Set {
			if v, err = pathKey(c.Type, cell.Path); err != nil {
				return nil, err
			}
		}
		switch {
		case ix.Target == schema.IndexEntries:
			v = form.AppendEntry(nil, v, cell.Value)
		case form.Ordered():
			v = form.Append(nil, v)
		}
		out = append(out, v)
	}
	return out, nil
}

// IndexOps returns the operations that add a row to an index. See IndexValues for the arguments. While a vector index
// is being rebuilt with new lists, a row also has an entry for the old lists, which searches still use.
func IndexOps(t *schema.Table, ix *schema.Index, key, clustering []byte, r *row.Row) ([]command.Op, error) {
	values, err := IndexValues(t, ix, key, clustering, r)
	if err != nil {
		return nil, err
	}
	ops := make([]command.Op, len(values))
	for i, v := range values {
		ops[i] = command.Op{Kind: command.OpIndex, Clustering: clustering, Index: ix.ID, Value: v}
	}
	return ops, nil
}

// PartitionKeyValue extracts component i of a serialized partition key.
func PartitionKeyValue(t *schema.Table, key []byte, i int) ([]byte, error) {
	if len(t.PartitionKey) == 1 {
		return key, nil
	}
	for n := 0; ; n++ {
		v, rest, ok := token.SplitComponent(key)
		if !ok {
			return nil, dberr.Serverf("a partition key of table %s.%s has fewer components than columns", t.Keyspace,
				t.Name)
		}
		if n == i {
			return v, nil
		}
		key = rest
	}
}

// ClusteringValue extracts the value of clustering column i from a clustering key. If the key has fewer columns, it
// returns nil.
func ClusteringValue(t *schema.Table, clustering []byte, i int) ([]byte, error) {
	rest := clustering
	for n, c := range t.Clustering {
		if len(rest) == 0 {
			return nil, nil
		}
		if n == i {
			v, _, err := c.Type.ReadKey(nil, rest, c.Desc)
			return v, err
		}
		var err error
		if rest, err = c.Type.SkipKey(rest, c.Desc); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
