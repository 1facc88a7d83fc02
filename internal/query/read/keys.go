// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/expr"
)

// keyBytesMax is the longest partition key, and the longest value that an index can be asked for.
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

// partitionKey is a partition to be read.
type partitionKey struct {
	bytes []byte
	token token.Token
	// order is the key form of the components, by which partitions of an IN are sorted.
	order []byte
}

// keys evaluates the restrictions on the partition key: the keys in the order of their values, each once.
func (w *where) keys(b *expr.Bindings) ([]partitionKey, error) {
	type tuple struct {
		values [][]byte
		order  []byte
	}
	all := []tuple{{}}
	for _, r := range w.pk.list {
		values, err := r.tuples(b)
		if err != nil {
			return nil, err
		}
		if err := combinations(len(all), len(values)); err != nil {
			return nil, err
		}
		var next []tuple
		for _, t := range all {
			for _, v := range values {
				next = append(next, tuple{append(slices.Clip(t.values), v[0]), appendForms(bytes.Clone(t.order), r.columns, v)})
			}
		}
		all = next
	}
	slices.SortStableFunc(all, func(a, b tuple) int { return bytes.Compare(a.order, b.order) })
	all = slices.CompactFunc(all, func(a, b tuple) bool { return bytes.Equal(a.order, b.order) })
	out := make([]partitionKey, 0, len(all))
	for _, t := range all {
		key, err := appendPartitionKey(nil, t.values)
		if err != nil {
			return nil, err
		}
		out = append(out, partitionKey{key, token.Hash(key), t.order})
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

// tokens evaluates the restriction on the token; none is true if no token can meet it. As in Cassandra the minimum token as
// an end means that there is no end.
func (w *where) tokens(b *expr.Bindings) (r token.Range, none bool, err error) {
	if w.token == nil {
		return token.Full, false, nil
	}
	low, high := token.Min, token.Min
	lowIn, highIn := true, true
	if t := w.token.low; t != nil {
		if low, err = evalToken(t.value, b); err != nil {
			return r, false, err
		}
		lowIn = t.inclusive
	}
	if t := w.token.high; t != nil {
		if high, err = evalToken(t.value, b); err != nil {
			return r, false, err
		}
		highIn = t.inclusive
	}
	if low != token.Min && high != token.Min && (low > high || low == high && !(lowIn && highIn)) {
		return r, true, nil
	}
	if low != token.Min && !lowIn {
		if low == token.Max {
			return r, true, nil
		}
		low++
	}
	switch {
	case high == token.Min:
		high = token.Max
	case !highIn:
		high--
	}
	if low > high {
		return r, true, nil
	}
	return token.Between(low, high), false, nil
}

func evalToken(t expr.Term, b *expr.Bindings) (token.Token, error) {
	v, state, err := t.Eval(b)
	switch {
	case err != nil:
		return 0, err
	case state == expr.Unset:
		return 0, dberr.Invalidf("Invalid unset value for column partition key token")
	case len(v) != 8:
		return 0, dberr.Invalidf("Invalid null token value")
	}
	return token.Token(binary.BigEndian.Uint64(v)), nil
}
