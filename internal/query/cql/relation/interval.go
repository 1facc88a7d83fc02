// SPDX-License-Identifier: Apache-2.0

package relation

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// The functions in this file compute intervals of clustering keys. A clustering key is a concatenation of
// order-preserving forms. Therefore, restrictions on clustering columns select a union of half-open byte intervals. If
// End is nil, the interval has no upper bound.

// afterPrefix returns the smallest key that is greater than all keys with a prefix, or nil if such a key does not
// exist. It does not modify the prefix.
func afterPrefix(prefix []byte) []byte {
	return cqltype.AfterPrefix(bytes.Clone(prefix))
}

// PrefixInterval returns the interval of all keys with a prefix.
func PrefixInterval(prefix []byte) command.Slice {
	return command.Slice{Start: prefix, End: afterPrefix(prefix)}
}

// Point returns the interval that contains a single complete clustering key.
func Point(key []byte) command.Slice {
	return command.Slice{Start: key, End: append(key[:len(key):len(key)], 0)}
}

// tupleIntervals returns the intervals of keys that have a prefix and whose next columns are compared with values as a
// tuple. If above is true, the columns must be greater than values. Otherwise, they must be less than values. If
// inclusive is true, equal keys are included. If the columns have different directions, the result contains one
// interval for each column.
func tupleIntervals(prefix []byte, columns []*schema.Column, values [][]byte, above, inclusive bool) []command.Slice {
	var out []command.Slice
	equal := prefix
	for i, v := range values {
		c := columns[i]
		whole := PrefixInterval(equal)
		equal = c.Type.AppendKey(equal[:len(equal):len(equal)], v, c.Desc)
		if above != c.Desc {
			whole.Start = afterPrefix(equal)
			if whole.Start == nil {
				continue
			}
		} else {
			whole.End = equal
		}
		out = append(out, whole)
	}
	if inclusive {
		out = append(out, PrefixInterval(equal))
	}
	return Normalize(out)
}

// Normalize sorts intervals, merges adjacent intervals, and removes empty intervals.
func Normalize(list []command.Slice) []command.Slice {
	list = slices.DeleteFunc(list, func(s command.Slice) bool { return emptyInterval(s) })
	slices.SortFunc(list, func(a, b command.Slice) int { return bytes.Compare(a.Start, b.Start) })
	out := list[:0]
	for _, s := range list {
		if n := len(out); n > 0 && (out[n-1].End == nil || bytes.Compare(s.Start, out[n-1].End) <= 0) {
			if out[n-1].End != nil && (s.End == nil || bytes.Compare(s.End, out[n-1].End) > 0) {
				out[n-1].End = s.End
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

func emptyInterval(s command.Slice) bool {
	return s.End != nil && bytes.Compare(s.Start, s.End) >= 0
}

// intersect returns the intersection of two normalized lists.
func intersect(a, b []command.Slice) []command.Slice {
	var out []command.Slice
	for i, j := 0, 0; i < len(a) && j < len(b); {
		s := a[i]
		if bytes.Compare(b[j].Start, s.Start) > 0 {
			s.Start = b[j].Start
		}
		firstEnds := a[i].End != nil && (b[j].End == nil || bytes.Compare(a[i].End, b[j].End) <= 0)
		if !firstEnds {
			s.End = b[j].End
		}
		if !emptyInterval(s) {
			out = append(out, s)
		}
		if firstEnds {
			i++
		} else {
			j++
		}
	}
	return out
}

// After returns the part of the intervals that has not been read. This is the part after the key, or the part before
// the key in a reverse read.
func After(list []command.Slice, key []byte, reversed bool) []command.Slice {
	if len(list) == 0 {
		list = []command.Slice{{}}
	}
	rest := command.Slice{Start: append(key[:len(key):len(key)], 0)}
	if reversed {
		rest = command.Slice{End: key}
	}
	return intersect(list, []command.Slice{rest})
}

// AppendForms appends the order-preserving forms of the values of the first columns.
func AppendForms(dst []byte, columns []*schema.Column, values [][]byte) []byte {
	for i, v := range values {
		dst = columns[i].Type.AppendKey(dst, v, columns[i].Desc)
	}
	return dst
}

// EvalSlices evaluates a slice for each prefix.
func (r *Restriction) EvalSlices(prefixes [][]byte, b *expr.Bindings) ([]command.Slice, error) {
	low, err := r.Low.eval(r.Columns, b)
	if err != nil {
		return nil, err
	}
	high, err := r.High.eval(r.Columns, b)
	if err != nil {
		return nil, err
	}
	var out []command.Slice
	for _, p := range prefixes {
		list := []command.Slice{PrefixInterval(p)}
		if r.Low != nil {
			list = intersect(list, tupleIntervals(p, r.Columns, low, true, r.Low.Inclusive))
		}
		if r.High != nil {
			list = intersect(list, tupleIntervals(p, r.Columns, high, false, r.High.Inclusive))
		}
		out = append(out, list...)
	}
	return Normalize(out), nil
}

// eval evaluates a bound of a slice. For a missing bound, it returns nil.
func (b *Bound) eval(columns []*schema.Column, at *expr.Bindings) ([][]byte, error) {
	if b == nil {
		return nil, nil
	}
	return b.Eval(nil, columns[:b.columns], at)
}
