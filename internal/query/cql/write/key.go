// SPDX-License-Identifier: Apache-2.0

package write

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// keyBytesMax is the maximum length of a partition key in bytes. keyBytesMax is also the maximum total length of the
// values in a clustering key.
const keyBytesMax = 65535

func checkPartitionKey(key []byte) error {
	if len(key) == 0 {
		return dberr.Invalidf("Key may not be empty")
	}
	return checkKeyLength(len(key))
}

func checkKeyLength(n int) error {
	if n > keyBytesMax {
		return dberr.Invalidf("Key length of %d is longer than maximum of %d", n, keyBytesMax)
	}
	return nil
}

// checkClusteringValue rejects an empty value if the cells of a compact table would have an empty name.
func checkClusteringValue(t *schema.Table, c *schema.Column, v []byte) error {
	if t.CompactStorage && len(t.Clustering) == 1 && len(v) == 0 {
		return dberr.Invalidf("Invalid empty or null value for column %s", c.Name)
	}
	return nil
}

// appendSimpleKey appends the partition key of a simple WHERE clause.
func (w *where) appendSimpleKey(dst []byte, b *expr.Bindings) ([]byte, error) {
	begin := len(dst)
	for _, r := range w.partition.List {
		v, err := relation.EvalKey(r.Value.Terms[0], r.First(), b)
		if err != nil {
			return dst, err
		}
		if len(w.partition.List) == 1 {
			dst = append(dst, v...)
			break
		}
		if err := checkKeyLength(len(v)); err != nil {
			return dst, err
		}
		dst = token.AppendComponent(dst, v)
	}
	return dst, checkPartitionKey(dst[begin:])
}

// appendSimpleClustering appends the clustering key or clustering prefix of a simple WHERE clause.
func (w *where) appendSimpleClustering(dst []byte, t *schema.Table, b *expr.Bindings) ([]byte, error) {
	size := 0
	for _, r := range w.clustering.List {
		c := r.First()
		v, err := relation.EvalKey(r.Value.Terms[0], c, b)
		if err != nil {
			return dst, err
		}
		if err := checkClusteringValue(t, c, v); err != nil {
			return dst, err
		}
		size += len(v)
		dst = c.Type.AppendKey(dst, v, c.Desc)
	}
	return w.appendAbsent(dst), checkKeyLength(size)
}

// appendAbsent appends the key forms of the null clustering columns.
func (w *where) appendAbsent(dst []byte) []byte {
	for _, c := range w.absent {
		dst = c.Type.AppendKey(dst, nil, c.Desc)
	}
	return dst
}

// keys evaluates the partition keys. It returns distinct keys in the order of their values.
func (w *where) keys(b *expr.Bindings) ([][]byte, error) {
	tuples, err := relation.Product(w.partition.List, b)
	if err != nil {
		return nil, err
	}
	var keys [][]byte
	for _, values := range tuples {
		if len(values) > 1 {
			total := 0
			for _, v := range values {
				total += len(v) + 3
			}
			if err := checkKeyLength(total); err != nil {
				return nil, err
			}
		}
		key := token.AppendKey(nil, values...)
		if err := checkPartitionKey(key); err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return distinct(keys), nil
}

// prefixes evaluates the equality and IN relations on clustering columns. It returns clustering keys or clustering
// prefixes.
func (w *where) prefixes(t *schema.Table, b *expr.Bindings) ([][]byte, error) {
	points := w.clustering.List
	if n := len(points); n > 0 && points[n-1].Kind == relation.Slice {
		points = points[:n-1]
	}
	tuples, err := relation.Product(points, b)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, values := range tuples {
		size := 0
		for i, v := range values {
			if err := checkClusteringValue(t, t.Clustering[i], v); err != nil {
				return nil, err
			}
			size += len(v)
		}
		if err := checkKeyLength(size); err != nil {
			return nil, err
		}
		out = append(out, w.appendAbsent(relation.AppendForms([]byte{}, t.Clustering, values)))
	}
	return distinct(out), nil
}

// distinct sorts keys and removes duplicates.
func distinct(keys [][]byte) [][]byte {
	slices.SortFunc(keys, bytes.Compare)
	return slices.CompactFunc(keys, bytes.Equal)
}

// intervals returns the clustering intervals that a range DELETE removes.
func (w *where) intervals(t *schema.Table, b *expr.Bindings) ([]command.Slice, error) {
	prefixes, err := w.prefixes(t, b)
	if err != nil {
		return nil, err
	}
	if last := w.clustering.List[len(w.clustering.List)-1]; last.Kind == relation.Slice {
		return last.EvalSlices(prefixes, b)
	}
	out := make([]command.Slice, len(prefixes))
	for i, prefix := range prefixes {
		out[i] = relation.PrefixInterval(prefix)
	}
	return out, nil
}
