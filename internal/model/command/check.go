// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
)

// Check reports whether all conditions of c hold. found is parallel to c.Rows and holds nil for a row that does not
// exist. Errors are of the type *dberr.Invalid with Cassandra's texts, or wrap row.ErrCorrupt. Check evaluates the
// conditions in order and stops at the first condition that does not hold.
func Check(c *Conditional, found []*row.Row) (bool, error) {
	for i := range c.Conditions {
		k := &c.Conditions[i]
		if k.Row < 0 || k.Row >= len(found) {
			return false, fmt.Errorf("condition on row %d of %d: %w", k.Row, len(found), ErrMalformed)
		}
		ok, err := k.holds(found[k.Row])
		if !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (k *Condition) holds(r *row.Row) (bool, error) {
	switch k.Operator {
	case Exists:
		return r != nil, nil
	case NotExists:
		return r == nil, nil
	}
	var cells []row.Cell
	if r != nil {
		cells = r.Column(k.Column)
	}
	if k.Operator == Contains || k.Operator == ContainsKey {
		return k.contains(cells)
	}
	t, have, err := k.subject(cells)
	if err != nil {
		return false, err
	}
	op := k.Operator
	if op == In {
		op = Equal
	}
	for _, want := range k.Values {
		ok, err := satisfies(op, t, have, want)
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// subject returns the type and the value that the condition compares. The value is nil for null. A non-frozen list,
// set, or map without elements equals an empty collection. As in Cassandra 5.0, it is neither less nor greater than
// any value. The function satisfies uses isCollection to recognize these types.
func (k *Condition) subject(cells []row.Cell) (*cqltype.Type, []byte, error) {
	if k.Element != nil {
		return k.element(cells)
	}
	if len(cells) == 0 {
		return k.Type, nil, nil
	}
	if !row.MultiCell(k.Type) {
		return k.Type, cells[0].Value, nil
	}
	have, err := row.AppendValue(make([]byte, 0, 64), k.Type, cells)
	return k.Type, have, err
}

// element returns the type and value of the element that the condition selects.
func (k *Condition) element(cells []row.Cell) (*cqltype.Type, []byte, error) {
	t := k.Type
	switch t.Kind {
	case cqltype.List:
		i, err := listIndex(k.Element)
		if err != nil {
			return nil, nil, err
		}
		if i < 0 {
			return nil, nil, dberr.Invalidf("Invalid negative list index %d", i)
		}
		if row.MultiCell(t) {
			if i >= len(cells) {
				return t.Elems[0], nil, nil
			}
			return t.Elems[0], cells[i].Value, nil
		}
		if len(cells) == 0 || i >= t.Count(cells[0].Value) {
			return t.Elems[0], nil, nil
		}
		return t.Elems[0], t.Element(cells[0].Value, i), nil
	case cqltype.Map:
		if row.MultiCell(t) {
			return t.Elems[1], valueAt(cells, t.Elems[0].AppendKey(nil, k.Element, false)), nil
		}
		if len(cells) == 0 {
			return t.Elems[1], nil, nil
		}
		v, _ := t.Lookup(cells[0].Value, k.Element)
		return t.Elems[1], v, nil
	case cqltype.UDT:
		if len(k.Element) != 2 {
			return nil, nil, fmt.Errorf("field of a user type: %w", ErrMalformed)
		}
		i := int(binary.BigEndian.Uint16(k.Element))
		if i >= len(t.Elems) {
			return nil, nil, fmt.Errorf("field %d of %d: %w", i, len(t.Elems), ErrMalformed)
		}
		if row.MultiCell(t) {
			return t.Elems[i], valueAt(cells, row.FieldPath(i)), nil
		}
		if len(cells) == 0 {
			return t.Elems[i], nil, nil
		}
		return t.Elems[i], t.Element(cells[0].Value, i), nil
	}
	return nil, nil, fmt.Errorf("element of a type without elements: %w", ErrMalformed)
}

func valueAt(cells []row.Cell, path []byte) []byte {
	for i := range cells {
		if bytes.Equal(cells[i].Path, path) {
			return cells[i].Value
		}
	}
	return nil
}

// listIndex decodes a list index, which is an int. listIndex rejects null, as Cassandra does.
func listIndex(wire []byte) (int, error) {
	if len(wire) != 4 {
		return 0, dberr.Invalidf("Invalid null value for list index")
	}
	return int(int32(binary.BigEndian.Uint32(wire))), nil
}

// isCollection reports whether a missing value of type t equals the empty value.
func isCollection(t *cqltype.Type) bool { return row.MultiCell(t) && t.Kind != cqltype.UDT }

func satisfies(op Operator, t *cqltype.Type, have, want []byte) (bool, error) {
	switch {
	case want == nil:
		switch op {
		case Equal:
			return have == nil, nil
		case NotEqual:
			return have != nil, nil
		}
		return false, dberr.Invalidf("Invalid comparison with null for operator %q", op.String())
	case have == nil && isCollection(t) && (op == Equal || op == NotEqual):
		have = t.AppendCollection(nil)
	case have == nil:
		return op == NotEqual, nil
	}
	c := t.Compare(have, want)
	switch op {
	case Equal:
		return c == 0, nil
	case NotEqual:
		return c != 0, nil
	case Less:
		return c < 0, nil
	case LessOrEqual:
		return c <= 0, nil
	case Greater:
		return c > 0, nil
	case GreaterOrEqual:
		return c >= 0, nil
	}
	return false, fmt.Errorf("operator %d: %w", op, ErrMalformed)
}

// contains evaluates CONTAINS and CONTAINS KEY.
func (k *Condition) contains(cells []row.Cell) (bool, error) {
	t := k.Type
	byKey := k.Operator == ContainsKey
	if byKey && t.Kind != cqltype.Map || t.Kind != cqltype.List && t.Kind != cqltype.Set && t.Kind != cqltype.Map {
		return false, fmt.Errorf("%s on another type: %w", k.Operator, ErrMalformed)
	}
	for _, want := range k.Values {
		if want == nil {
			return false, dberr.Invalidf("Invalid comparison with null for operator %q", k.Operator.String())
		}
		if containsValue(t, cells, want, byKey) {
			return true, nil
		}
	}
	return false, nil
}

func containsValue(t *cqltype.Type, cells []row.Cell, want []byte, byKey bool) bool {
	if row.MultiCell(t) {
		var path []byte
		if byKey || t.Kind == cqltype.Set {
			path = t.Elems[0].AppendKey(nil, want, false)
		}
		elem := t.Elems[len(t.Elems)-1]
		for i := range cells {
			if path != nil && bytes.Equal(cells[i].Path, path) || path == nil &&
				elem.Compare(cells[i].Value, want) == 0 {
				return true
			}
		}
		return false
	}
	if len(cells) == 0 {
		return false
	}
	wire := cells[0].Value
	if t.Kind == cqltype.Map {
		for key, value := range t.Entries(wire) {
			if byKey && t.Elems[0].Compare(key, want) == 0 || !byKey && t.Elems[1].Compare(value, want) == 0 {
				return true
			}
		}
		return false
	}
	for _, e := range t.Elements(wire) {
		if t.Elems[0].Compare(e, want) == 0 {
			return true
		}
	}
	return false
}

var operatorNames = [...]string{"EXISTS", "NOT EXISTS", "=", "!=", "<", "<=", ">", ">=", "IN", "CONTAINS",
	"CONTAINS KEY"}

// String returns the operator in CQL notation.
func (o Operator) String() string {
	if int(o) < len(operatorNames) {
		return operatorNames[o]
	}
	return fmt.Sprintf("operator %d", uint8(o))
}
