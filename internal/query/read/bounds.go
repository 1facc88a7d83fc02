// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/expr"
)

// combinationsMax bounds how many keys or intervals the IN relations of a query may amount to.
const combinationsMax = 1 << 16

// evalKey evaluates a value that a key column is compared with: it may be neither null nor unset.
func evalKey(t expr.Term, c *schema.Column, b *expr.Bindings) ([]byte, error) {
	v, state, err := t.Eval(b)
	switch {
	case err != nil:
		return nil, err
	case state == expr.Null:
		return nil, nullKey(c)
	case state == expr.Unset:
		return nil, unsetKey(c)
	}
	return v, nil
}

func nullKey(c *schema.Column) error {
	return dberr.Invalidf("Invalid null value in condition for column %s", c.Name)
}

func unsetKey(c *schema.Column) error {
	return dberr.Invalidf("Invalid unset value for column %s", c.Name)
}

// eval appends the values of an operand, one per column.
func (o *operand) eval(dst [][]byte, columns []*schema.Column, b *expr.Bindings) ([][]byte, error) {
	if o.tuple == nil {
		for i, t := range o.terms {
			v, err := evalKey(t, columns[i], b)
			if err != nil {
				return dst, err
			}
			dst = append(dst, v)
		}
		return dst, nil
	}
	whole, err := evalKey(o.tuple, columns[0], b)
	if err != nil {
		return dst, err
	}
	return appendComponents(dst, whole, o.tuple.Type(), columns)
}

func appendComponents(dst [][]byte, whole []byte, t *cqltype.Type, columns []*schema.Column) ([][]byte, error) {
	for i, c := range columns {
		v := t.Element(whole, i)
		if v == nil {
			return dst, nullKey(c)
		}
		dst = append(dst, v)
	}
	return dst, nil
}

// tuples evaluates an equality or an IN: the tuples of values that the columns may have, each len(r.columns) long.
func (r *restriction) tuples(b *expr.Bindings) ([][][]byte, error) {
	if r.kind == equal {
		v, err := r.value.eval(nil, r.columns, b)
		return [][][]byte{v}, err
	}
	var out [][][]byte
	if r.list == nil {
		for i := range r.values {
			v, err := r.values[i].eval(nil, r.columns, b)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	}
	list, state, err := r.list.Eval(b)
	switch {
	case err != nil:
		return nil, err
	case state == expr.Null:
		return nil, dberr.Invalidf("Invalid null value for column %s", r.first().Name)
	case state == expr.Unset:
		return nil, unsetKey(r.first())
	}
	elem := r.list.Type().Elems[0]
	for _, v := range r.list.Type().Elements(list) {
		if v == nil {
			return nil, nullKey(r.first())
		}
		tuple := [][]byte{v}
		if r.multi {
			if tuple, err = appendComponents(nil, v, elem, r.columns); err != nil {
				return nil, err
			}
		}
		out = append(out, tuple)
	}
	return out, nil
}

// combinations bounds a product.
func combinations(a, b int) error {
	if a*b > combinationsMax {
		return dberr.Invalidf("The IN restrictions give %d combinations of values, more than the maximum of %d", a*b, combinationsMax)
	}
	return nil
}

// intervals evaluates the clustering restrictions. No intervals and all = true: every row; all = false: none.
func (w *where) intervals(b *expr.Bindings) (list []command.Slice, all bool, err error) {
	if len(w.sliced) == 0 {
		return nil, true, nil
	}
	prefixes, columns := [][]byte{nil}, 0
	for _, r := range w.sliced {
		if r.kind == slice {
			list, err = r.beyondAll(prefixes, b)
			return list, false, err
		}
		tuples, err := r.tuples(b)
		if err != nil {
			return nil, false, err
		}
		if err := combinations(len(prefixes), len(tuples)); err != nil {
			return nil, false, err
		}
		var next [][]byte
		for _, p := range prefixes {
			for _, t := range tuples {
				next = append(next, appendForms(bytes.Clone(p), r.columns, t))
			}
		}
		prefixes = next
		columns += len(r.columns)
	}
	for _, p := range prefixes {
		if columns == len(w.table.Clustering) {
			list = append(list, point(p))
		} else {
			list = append(list, rowsOf(p))
		}
	}
	return normalize(list), false, nil
}

func appendForms(dst []byte, columns []*schema.Column, values [][]byte) []byte {
	for i, v := range values {
		dst = columns[i].Type.AppendKey(dst, v, columns[i].Desc)
	}
	return dst
}

// beyondAll evaluates a slice under each of the prefixes.
func (r *restriction) beyondAll(prefixes [][]byte, b *expr.Bindings) ([]command.Slice, error) {
	var low, high [][]byte
	var err error
	if r.low != nil {
		if low, err = r.low.eval(nil, r.columns[:r.low.columns], b); err != nil {
			return nil, err
		}
	}
	if r.high != nil {
		if high, err = r.high.eval(nil, r.columns[:r.high.columns], b); err != nil {
			return nil, err
		}
	}
	var out []command.Slice
	for _, p := range prefixes {
		list := []command.Slice{rowsOf(p)}
		if r.low != nil {
			list = intersect(list, beyond(p, r.columns, low, true, r.low.inclusive))
		}
		if r.high != nil {
			list = intersect(list, beyond(p, r.columns, high, false, r.high.inclusive))
		}
		out = append(out, list...)
	}
	return normalize(out), nil
}

// oneRow reports whether the clustering restrictions leave one clustering key at most.
func (w *where) oneRow() bool {
	n := 0
	for _, r := range w.sliced {
		if r.kind != equal {
			return false
		}
		n += len(r.columns)
	}
	return n == len(w.table.Clustering)
}

// simple reports whether the clustering restrictions are equalities and at most one slice, each on one column or a written tuple,
// so that they give one interval.
func (w *where) simple() bool {
	for _, r := range w.sliced {
		switch {
		case r.kind == equal && r.value.tuple == nil:
		case r.kind == slice && len(r.columns) == 1:
			for _, b := range []*bound{r.low, r.high} {
				if b != nil && b.tuple != nil {
					return false
				}
			}
		default:
			return false
		}
	}
	return len(w.sliced) > 0
}

// simpleInterval is intervals for what simple reports true: it works in the given buffers and allocates nothing once they are
// large enough. none is true if no key can be in the interval.
func (w *where) simpleInterval(start, end []byte, b *expr.Bindings) (s, e []byte, none bool, err error) {
	start, end = start[:0], end[:0]
	columns := 0
	var last *restriction
	for _, r := range w.sliced {
		if r.kind == slice {
			last = r
			break
		}
		for i, t := range r.value.terms {
			v, err := evalKey(t, r.columns[i], b)
			if err != nil {
				return start, end, false, err
			}
			start = r.columns[i].Type.AppendKey(start, v, r.columns[i].Desc)
		}
		columns += len(r.columns)
	}
	end = append(end, start...)
	if last == nil {
		if columns == len(w.table.Clustering) {
			return start, append(end, 0), false, nil
		}
		return start, cqltype.AfterPrefix(end), false, nil
	}
	c := last.first()
	from, to := last.low, last.high
	if c.Desc {
		from, to = to, from
	}
	if from != nil {
		v, err := evalKey(from.terms[0], c, b)
		if err != nil {
			return start, end, false, err
		}
		start = c.Type.AppendKey(start, v, c.Desc)
		if !from.inclusive {
			if start = cqltype.AfterPrefix(start); start == nil {
				return start, end, true, nil
			}
		}
	}
	inclusive := true
	if to != nil {
		v, err := evalKey(to.terms[0], c, b)
		if err != nil {
			return start, end, false, err
		}
		end = c.Type.AppendKey(end, v, c.Desc)
		inclusive = to.inclusive
	}
	if inclusive {
		end = cqltype.AfterPrefix(end)
	}
	return start, end, end != nil && bytes.Compare(start, end) >= 0, nil
}
