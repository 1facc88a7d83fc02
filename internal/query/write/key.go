// SPDX-License-Identifier: Apache-2.0

package write

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/expr"
)

const (
	// keyBytesMax is the longest partition key, and the most that the values of a clustering key may have together.
	keyBytesMax = 65535
	// combinationsMax bounds how many keys and rows the IN relations of a statement may amount to.
	combinationsMax = 1 << 16
)

// evalKey evaluates a value of a key column: it may be neither null nor unset.
func evalKey(t expr.Term, c *schema.Column, b *expr.Bindings) ([]byte, error) {
	v, state, err := t.Eval(b)
	switch {
	case err != nil:
		return nil, err
	case state == expr.Null:
		return nil, dberr.Invalidf("Invalid null value in condition for column %s", c.Name)
	case state == expr.Unset:
		return nil, dberr.Invalidf("Invalid unset value for column %s", c.Name)
	}
	return v, nil
}

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

// checkClusteringValue refuses the empty value where a compact table's cells would have no name.
func checkClusteringValue(t *schema.Table, c *schema.Column, v []byte) error {
	if t.CompactStorage && len(t.Clustering) == 1 && len(v) == 0 {
		return dberr.Invalidf("Invalid empty or null value for column %s", c.Name)
	}
	return nil
}

// appendSimpleKey appends the partition key of a simple WHERE clause.
func (w *where) appendSimpleKey(dst []byte, b *expr.Bindings) ([]byte, error) {
	begin := len(dst)
	for _, r := range w.partition {
		v, err := evalKey(r.values[0].terms[0], r.columns[0], b)
		if err != nil {
			return dst, err
		}
		if len(w.partition) == 1 {
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

// appendSimpleClustering appends the clustering key, or prefix of it, of a simple WHERE clause.
func (w *where) appendSimpleClustering(dst []byte, t *schema.Table, b *expr.Bindings) ([]byte, error) {
	size := 0
	for _, r := range w.clustering {
		c := r.columns[0]
		v, err := evalKey(r.values[0].terms[0], c, b)
		if err != nil {
			return dst, err
		}
		if err := checkClusteringValue(t, c, v); err != nil {
			return dst, err
		}
		size += len(v)
		dst = c.Type.AppendKey(dst, v, c.Desc)
	}
	return dst, checkKeyLength(size)
}

// keys evaluates the partition keys, each once, in the order of their values.
func (w *where) keys(b *expr.Bindings) ([][]byte, error) {
	tuples, err := product(w.partition, b)
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

// prefixes evaluates what the equalities and INs on clustering columns amount to: clustering keys, or prefixes of them.
func (w *where) prefixes(t *schema.Table, b *expr.Bindings) ([][]byte, error) {
	points := w.clustering
	if n := len(points); n > 0 && points[n-1].form == slice {
		points = points[:n-1]
	}
	tuples, err := product(points, b)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, values := range tuples {
		form, size := []byte{}, 0
		for i, v := range values {
			c := t.Clustering[i]
			if err := checkClusteringValue(t, c, v); err != nil {
				return nil, err
			}
			size += len(v)
			form = c.Type.AppendKey(form, v, c.Desc)
		}
		if err := checkKeyLength(size); err != nil {
			return nil, err
		}
		out = append(out, form)
	}
	return distinct(out), nil
}

// distinct sorts and drops duplicates.
func distinct(keys [][]byte) [][]byte {
	slices.SortFunc(keys, bytes.Compare)
	return slices.CompactFunc(keys, bytes.Equal)
}

// product is every combination of the values of restrictions. Without restrictions it is the one empty tuple.
func product(restrictions []*restriction, b *expr.Bindings) ([][][]byte, error) {
	out := [][][]byte{nil}
	for _, r := range restrictions {
		alternatives, err := r.alternatives(b)
		if err != nil {
			return nil, err
		}
		if n := len(out) * len(alternatives); n > combinationsMax {
			return nil, dberr.Invalidf("The IN restrictions give %d combinations of values, more than the maximum of %d", n, combinationsMax)
		}
		next := make([][][]byte, 0, len(out)*len(alternatives))
		for _, head := range out {
			for _, tail := range alternatives {
				next = append(next, slices.Concat(head, tail))
			}
		}
		out = next
	}
	return out, nil
}

// alternatives evaluates an equality or IN.
func (r *restriction) alternatives(b *expr.Bindings) ([][][]byte, error) {
	var out [][][]byte
	for i := range r.values {
		v, err := r.values[i].eval(r.columns, b)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	if r.list == nil {
		return out, nil
	}
	list, state, err := r.list.Eval(b)
	switch {
	case err != nil:
		return nil, err
	case state == expr.Null:
		return nil, dberr.Invalidf("Invalid null value for column %s", r.columns[0].Name)
	case state == expr.Unset:
		return nil, dberr.Invalidf("Invalid unset value for column %s", r.columns[0].Name)
	}
	t := r.list.Type()
	for _, v := range t.Elements(list) {
		tuple := [][]byte{v}
		if v == nil {
			return nil, dberr.Invalidf("Invalid null value in condition for column %s", r.columns[0].Name)
		}
		if r.multi {
			if tuple, err = components(v, t.Elems[0], r.columns); err != nil {
				return nil, err
			}
		}
		out = append(out, tuple)
	}
	return out, nil
}

// eval evaluates one value per column.
func (o *operand) eval(columns []*schema.Column, b *expr.Bindings) ([][]byte, error) {
	if o.tuple != nil {
		v, err := evalKey(o.tuple, columns[0], b)
		if err != nil {
			return nil, err
		}
		return components(v, o.tuple.Type(), columns)
	}
	values := make([][]byte, len(o.terms))
	for i, t := range o.terms {
		v, err := evalKey(t, columns[i], b)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

func components(tuple []byte, t *cqltype.Type, columns []*schema.Column) ([][]byte, error) {
	values := make([][]byte, len(columns))
	for i, c := range columns {
		if values[i] = t.Element(tuple, i); values[i] == nil {
			return nil, dberr.Invalidf("Invalid null value in condition for column %s", c.Name)
		}
	}
	return values, nil
}

// intervals are the clustering keys that a DELETE of a range means.
func (w *where) intervals(t *schema.Table, b *expr.Bindings) ([]command.Slice, error) {
	prefixes, err := w.prefixes(t, b)
	if err != nil {
		return nil, err
	}
	var r *restriction
	if n := len(w.clustering); n > 0 && w.clustering[n-1].form == slice {
		r = w.clustering[n-1]
	}
	var out []command.Slice
	for _, prefix := range prefixes {
		list := []command.Slice{rowsOf(prefix)}
		if r != nil {
			for _, end := range []*bound{r.low, r.high} {
				if end == nil {
					continue
				}
				values, err := end.eval(r.columns, b)
				if err != nil {
					return nil, err
				}
				list = intersect(list, beyond(prefix, r.columns, values, end == r.low, end.inclusive))
			}
		}
		out = append(out, list...)
	}
	return out, nil
}

// rowsOf is the interval of all keys with a prefix.
func rowsOf(prefix []byte) command.Slice {
	return command.Slice{Start: prefix, End: cqltype.AfterPrefix(bytes.Clone(prefix))}
}

// beyond gives the intervals of the keys below prefix whose columns, compared as a tuple, lie above the values (or below), or are
// equal if inclusive. Where columns have different orders these are several intervals: one for each column, with equal values
// before it.
func beyond(prefix []byte, columns []*schema.Column, values [][]byte, above, inclusive bool) []command.Slice {
	var out []command.Slice
	same := prefix
	for i, c := range columns {
		s := rowsOf(same)
		same = c.Type.AppendKey(same[:len(same):len(same)], values[i], c.Desc)
		if above != c.Desc {
			if s.Start = cqltype.AfterPrefix(bytes.Clone(same)); s.Start == nil {
				continue
			}
		} else {
			s.End = same
		}
		out = append(out, s)
	}
	if inclusive {
		out = append(out, rowsOf(same))
	}
	return out
}

// intersect gives what the one interval of each list have in common, for every pair.
func intersect(a, b []command.Slice) []command.Slice {
	var out []command.Slice
	for _, x := range a {
		for _, y := range b {
			s := x
			if bytes.Compare(y.Start, s.Start) > 0 {
				s.Start = y.Start
			}
			if s.End == nil || y.End != nil && bytes.Compare(y.End, s.End) < 0 {
				s.End = y.End
			}
			if s.End == nil || bytes.Compare(s.Start, s.End) < 0 {
				out = append(out, s)
			}
		}
	}
	return out
}
