// SPDX-License-Identifier: Apache-2.0

package relation

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// combinationsMax limits the number of keys or intervals that result from the IN relations of a statement.
const combinationsMax = 1 << 16

// EvalKey evaluates a value that is compared with a key column. The value must be neither null nor unset.
func EvalKey(t expr.Term, c *schema.Column, b *expr.Bindings) ([]byte, error) {
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

// Eval appends the values of an operand. It appends one value for each column.
func (o *Operand) Eval(dst [][]byte, columns []*schema.Column, b *expr.Bindings) ([][]byte, error) {
	if o.Tuple == nil {
		for i, t := range o.Terms {
			v, err := EvalKey(t, columns[i], b)
			if err != nil {
				return dst, err
			}
			dst = append(dst, v)
		}
		return dst, nil
	}
	whole, err := EvalKey(o.Tuple, columns[0], b)
	if err != nil {
		return dst, err
	}
	return appendComponents(dst, whole, o.Tuple.Type(), columns)
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

// Tuples evaluates an equality or an IN. It returns the permitted tuples. Each tuple has len(r.Columns) values.
func (r *Restriction) Tuples(b *expr.Bindings) ([][][]byte, error) {
	if r.Kind == Equal {
		v, err := r.Value.Eval(nil, r.Columns, b)
		return [][][]byte{v}, err
	}
	var out [][][]byte
	if r.list == nil {
		for i := range r.values {
			v, err := r.values[i].Eval(nil, r.Columns, b)
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
		return nil, dberr.Invalidf("Invalid null value for column %s", r.First().Name)
	case state == expr.Unset:
		return nil, unsetKey(r.First())
	}
	elem := r.list.Type().Elems[0]
	for _, v := range r.list.Type().Elements(list) {
		if v == nil {
			return nil, nullKey(r.First())
		}
		tuple := [][]byte{v}
		if r.Multi {
			if tuple, err = appendComponents(nil, v, elem, r.Columns); err != nil {
				return nil, err
			}
		}
		out = append(out, tuple)
	}
	return out, nil
}

// InValues evaluates an IN relation that is used as a filter. It ignores null and unset values in a list, because no
// row contains such values.
func (r *Restriction) InValues(b *expr.Bindings) ([][]byte, error) {
	var out [][]byte
	if r.list == nil {
		for i := range r.values {
			v, state, err := r.values[i].Terms[0].Eval(b)
			if err != nil {
				return nil, err
			}
			if state == expr.Value {
				out = append(out, v)
			}
		}
		return out, nil
	}
	tuples, err := r.Tuples(b)
	for _, t := range tuples {
		out = append(out, t[0])
	}
	return out, err
}

// CountCombinations returns the number of combinations of values in equality and IN restrictions. It ignores slices.
func CountCombinations(list []*Restriction, b *expr.Bindings) (int, error) {
	n := 1
	for _, r := range list {
		if r.Kind != In {
			continue
		}
		tuples, err := r.Tuples(b)
		if err != nil {
			return 0, err
		}
		if err := CheckCombinations(n, len(tuples)); err != nil {
			return 0, err
		}
		n *= len(tuples)
	}
	return n, nil
}

// CheckCombinations returns an error if the product of a and b exceeds the limit.
func CheckCombinations(a, b int) error {
	if a*b > combinationsMax {
		return dberr.Invalidf("The IN restrictions produce %d combinations of values; the maximum is %d", a*b,
			combinationsMax)
	}
	return nil
}

// Product evaluates equality and IN restrictions. It returns every combination of the values. Each combination has one
// value for each column. If list is empty, Product returns one empty tuple.
func Product(list []*Restriction, b *expr.Bindings) ([][][]byte, error) {
	out := [][][]byte{nil}
	for _, r := range list {
		tuples, err := r.Tuples(b)
		if err != nil {
			return nil, err
		}
		if err := CheckCombinations(len(out), len(tuples)); err != nil {
			return nil, err
		}
		next := make([][][]byte, 0, len(out)*len(tuples))
		for _, head := range out {
			for _, tail := range tuples {
				next = append(next, slices.Concat(head, tail))
			}
		}
		out = next
	}
	return out, nil
}
