// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// keyBytesMax is the maximum length of a partition key and of an index lookup value.
const keyBytesMax = 65535

// appendPartitionKey appends the serialized form of a partition key.
func appendPartitionKey(dst []byte, values [][]byte) ([]byte, error) {
	if len(values) == 1 {
		if len(values[0]) == 0 {
			return dst, dberr.Invalidf("Key may not be empty")
		}
		if len(values[0]) > keyBytesMax {
			return dst, keyTooLong(len(values[0]))
		}
		return append(dst, values[0]...), nil
	}
	size := 0
	for _, v := range values {
		size += len(v) + 3
	}
	if size > keyBytesMax {
		return dst, keyTooLong(size)
	}
	return token.AppendKey(dst, values...), nil
}

func keyTooLong(n int) error {
	return dberr.Invalidf("Key length of %d is longer than maximum of %d", n, keyBytesMax)
}

type partitionKey struct {
	bytes []byte
	token token.Token
	// order is the key form of the components. The partitions of an IN are sorted by order.
	order []byte
}

// keys evaluates the restrictions on the partition key. It returns the distinct keys in the order of their values.
func (w *where) keys(b *expr.Bindings) ([]partitionKey, error) {
	tuples, err := relation.Product(w.pk.List, b)
	if err != nil {
		return nil, err
	}
	out := make([]partitionKey, len(tuples))
	for i, values := range tuples {
		if out[i].bytes, err = appendPartitionKey(nil, values); err != nil {
			return nil, err
		}
		out[i].order = relation.AppendForms(nil, w.table.PartitionKey, values)
	}
	slices.SortFunc(out, func(a, b partitionKey) int { return bytes.Compare(a.order, b.order) })
	out = slices.CompactFunc(out, func(a, b partitionKey) bool { return bytes.Equal(a.order, b.order) })
	for i := range out {
		out[i].token = w.table.Token(out[i].bytes)
	}
	if w.token == nil {
		return out, nil
	}
	r, none, err := w.tokens(b)
	if none || err != nil {
		return nil, err
	}
	return slices.DeleteFunc(out, func(k partitionKey) bool { return !r.Contains(k.token) }), nil
}
