// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/meter"
)

// State says what an evaluation gave.
type State uint8

// The states. The bytes are nil unless the state is Value.
const (
	Null State = iota
	Unset
	Value
)

// Term is a bound expression.
type Term interface {
	// Type is the type of the value; never nil.
	Type() *cqltype.Type
	// Eval computes the value. The bytes may be a view over the request, a part of the term itself or of Bindings.Row:
	// they are not to be changed, and to be copied by whoever keeps them longer than the request.
	Eval(b *Bindings) ([]byte, State, error)
}

// Bindings is what an execution adds to a bound statement. It belongs to one goroutine.
type Bindings struct {
	// Values are the bound values in the order of the markers, as views over the request; nil is null. Unset is nil if
	// no value is unset, else parallel to Values.
	Values [][]byte
	Unset  []bool
	// Now is the statement's instant, which currentTimestamp() and its like return.
	Now time.Time
	// UUIDs makes the results of now(); each call gives another.
	UUIDs *cqltype.TimeUUIDs
	// Row holds, for terms made by BindSelector, the values of the slots that the Scope gave out; nil is null.
	Row [][]byte
	// References holds the values of the slots that References gave out; nil is null.
	References [][]byte
	// Aggregates holds, for terms made by BindSelector, the results of Env.Aggregates.
	Aggregates [][]byte
	// Meter bounds what evaluation takes; nil bounds nothing.
	Meter *meter.Meter
}

// charge counts the memory and the work of making a value of so many bytes, before it is made.
func (b *Bindings) charge(bytes int) error {
	if err := b.Meter.Alloc(valueBytes + bytes); err != nil {
		return err
	}
	return b.Meter.Step(1 + bytes/stepBytes)
}

// A value takes valueBytes of memory beside its own, and one step of work for each stepBytes.
const (
	valueBytes = 24
	stepBytes  = 16
)

// CheckCount refuses a number of values that is not the number of markers.
func (b *Bindings) CheckCount(markers int) error {
	if len(b.Values) != markers {
		return dberr.Invalidf("there were %d markers(?) in CQL but %d bound variables", markers, len(b.Values))
	}
	return nil
}

// constant is a term whose value is known.
type constant struct {
	typ   *cqltype.Type
	value []byte // nil is null
}

func (c *constant) Type() *cqltype.Type { return c.typ }

func (c *constant) Eval(*Bindings) ([]byte, State, error) { return c.value, stateOf(c.value), nil }

// constantValue returns the value of a term that needs no Bindings; ok is false for the others. A null constant gives
// nil, true.
func constantValue(t Term) (value []byte, ok bool) {
	if c, is := t.(*constant); is {
		return c.value, true
	}
	return nil, false
}

// marker is a bind marker.
type marker struct {
	typ   *cqltype.Type
	index int
	// canonical is true if values may need reordering: there is a set or map in the type.
	canonical bool
	// nullElements allows nulls in a list.
	nullElements bool
}

func newMarker(index int, t *cqltype.Type) *marker {
	return &marker{typ: t, index: index, canonical: needsCanonical(t)}
}

func (m *marker) Type() *cqltype.Type { return m.typ }

func (m *marker) Eval(b *Bindings) ([]byte, State, error) {
	if m.index >= len(b.Values) {
		return nil, Null, b.CheckCount(m.index + 1)
	}
	if b.Unset != nil && b.Unset[m.index] {
		return nil, Unset, nil
	}
	v := b.Values[m.index]
	if v == nil {
		return nil, Null, nil
	}
	if err := m.typ.Validate(v); err != nil && !(m.nullElements && validBesidesNulls(m.typ, v)) {
		return nil, Null, err
	}
	if m.canonical {
		v = m.typ.Canonical(v)
	}
	return v, Value, nil
}

// validBesidesNulls reports whether all that is wrong with a list is that it holds nulls.
func validBesidesNulls(t *cqltype.Type, list []byte) bool {
	n, size := 0, 4
	for _, e := range t.Elements(list) {
		if e != nil && t.Elems[0].Validate(e) != nil {
			return false
		}
		n++
		size += 4 + len(e)
	}
	return n == t.Count(list) && size == len(list)
}

// needsCanonical reports whether a bound value of the type may have to be reordered.
func needsCanonical(t *cqltype.Type) bool {
	if t.Kind == cqltype.Set || t.Kind == cqltype.Map {
		return true
	}
	for _, e := range t.Elems {
		if needsCanonical(e) {
			return true
		}
	}
	return false
}

func stateOf(v []byte) State {
	if v == nil {
		return Null
	}
	return Value
}
