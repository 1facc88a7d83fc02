// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// intervals evaluates the clustering restrictions. If all is true, every row matches. If all is false and the list is
// empty, no row matches.
func (w *where) intervals(b *expr.Bindings) (list []command.Slice, all bool, err error) {
	if len(w.sliced) == 0 {
		return nil, true, nil
	}
	points, last := w.sliced, (*relation.Restriction)(nil)
	if n := len(points); points[n-1].Kind == relation.Slice {
		points, last = points[:n-1], points[n-1]
	}
	tuples, err := relation.Product(points, b)
	if err != nil {
		return nil, false, err
	}
	prefixes := make([][]byte, len(tuples))
	for i, values := range tuples {
		prefixes[i] = relation.AppendForms(nil, w.table.Clustering, values)
	}
	if last != nil {
		list, err = last.EvalSlices(prefixes, b)
		return list, false, err
	}
	for i, p := range prefixes {
		if len(tuples[i]) == len(w.table.Clustering) {
			list = append(list, relation.Point(p))
		} else {
			list = append(list, relation.PrefixInterval(p))
		}
	}
	return relation.Normalize(list), false, nil
}

// oneRow reports whether the clustering restrictions select at most one clustering key.
func (w *where) oneRow() bool {
	n := 0
	for _, r := range w.sliced {
		if r.Kind != relation.Equal {
			return false
		}
		n += len(r.Columns)
	}
	return n == len(w.table.Clustering)
}

// simple reports whether the clustering restrictions consist of equalities and at most one slice. Each restriction must
// apply to a single column or a literal tuple. Simple restrictions always result in a single interval.
func (w *where) simple() bool {
	for _, r := range w.sliced {
		switch {
		case r.Kind == relation.Equal && r.Value.Tuple == nil:
		case r.Kind == relation.Slice && len(r.Columns) == 1:
			for _, b := range []*relation.Bound{r.Low, r.High} {
				if b != nil && b.Tuple != nil {
					return false
				}
			}
		default:
			return false
		}
	}
	return len(w.sliced) > 0
}

// simpleInterval returns the interval of simple restrictions. It stores the interval in the buffers start and end, and
// allocates no memory if the buffers are large enough. If the interval is empty, none is true.
func (w *where) simpleInterval(start, end []byte, b *expr.Bindings) (s, e []byte, none bool, err error) {
	start, end = start[:0], end[:0]
	columns := 0
	var last *relation.Restriction
	for _, r := range w.sliced {
		if r.Kind == relation.Slice {
			last = r
			break
		}
		for i, t := range r.Value.Terms {
			v, err := relation.EvalKey(t, r.Columns[i], b)
			if err != nil {
				return start, end, false, err
			}
			start = r.Columns[i].Type.AppendKey(start, v, r.Columns[i].Desc)
		}
		columns += len(r.Columns)
	}
	end = append(end, start...)
	if last == nil {
		if columns == len(w.table.Clustering) {
			return start, append(end, 0), false, nil
		}
		return start, cqltype.AfterPrefix(end), false, nil
	}
	c := last.First()
	from, to := last.Low, last.High
	if c.Desc {
		from, to = to, from
	}
	if from != nil {
		v, err := relation.EvalKey(from.Terms[0], c, b)
		if err != nil {
			return start, end, false, err
		}
		start = c.Type.AppendKey(start, v, c.Desc)
		if !from.Inclusive {
			if start = cqltype.AfterPrefix(start); start == nil {
				return start, end, true, nil
			}
		}
	}
	inclusive := true
	if to != nil {
		v, err := relation.EvalKey(to.Terms[0], c, b)
		if err != nil {
			return start, end, false, err
		}
		end = c.Type.AppendKey(end, v, c.Desc)
		inclusive = to.Inclusive
	}
	if inclusive {
		end = cqltype.AfterPrefix(end)
	}
	return start, end, end != nil && bytes.Compare(start, end) >= 0, nil
}
