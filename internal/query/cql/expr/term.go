// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/meter"
)

// State is the kind of an evaluation's result.
type State uint8

// These are the states. Unless the state is Value, Eval returns nil bytes.
const (
	Null State = iota
	Unset
	Value
)

// Term is a bound expression.
type Term interface {
	// Type returns the type of the value. The result is never nil.
	Type() *cqltype.Type
	// Eval computes the value. The bytes may refer to the request, the term, or Bindings.Row. The caller must not
	// modify the bytes. The caller must copy bytes that it retains after the request.
	Eval(b *Bindings) ([]byte, State, error)
}

// Bindings holds the state of one execution of a bound statement. It is not safe for concurrent use.
type Bindings struct {
	// Values holds the bound values in the order of the markers. The values refer to the memory of the request. A nil
	// value represents null. Unset contains an element for each value, or is nil if no value is unset.
	Values [][]byte
	Unset  []bool
	// Now is the time of the statement, which currentTimestamp() and similar functions return.
	Now time.Time
	// UUIDs generates the results of now(). Each call returns a different value.
	UUIDs *cqltype.TimeUUIDs
	// Row holds the values of the slots that the Scope has assigned. Terms of BindSelector use these values. A nil
	// value represents null.
	Row [][]byte
	// References holds the values of the slots that References has assigned. A nil value represents null.
	References [][]byte
	// Aggregates holds the results of Env.Aggregates. Terms of BindSelector use these results.
	Aggregates [][]byte
	// Meter limits the evaluation. If Meter is nil, the evaluation is not limited.
	Meter *meter.Meter
}

// charge adds the memory and the work of creating a value to the meter. It must be called before the value is created.
func (b *Bindings) charge(bytes int) error {
	if err := b.Meter.Alloc(valueBytes + bytes); err != nil {
		return err
	}
	return b.Meter.Step(1 + bytes/stepBytes)
}

// These constants define the cost of a value. A value requires valueBytes of memory in addition to its size, and one
// step per stepBytes.
const (
	valueBytes = 24
	stepBytes  = 16
)

// CheckCount returns an error if the number of values differs from the number of markers.
func (b *Bindings) CheckCount(markers int) error {
	if len(b.Values) != markers {
		return dberr.Invalidf("there were %d markers(?) in CQL but %d bound variables", markers, len(b.Values))
	}
	return nil
}

// constant is a term with a known value.
type constant struct {
	typ   *cqltype.Type
	value []byte // nil represents null
}

func (c *constant) Type() *cqltype.Type { return c.typ }

func (c *constant) Eval(*Bindings) ([]byte, State, error) { return c.value, stateOf(c.value), nil }

// constantValue returns the value of a term that needs no Bindings. For other terms, ok is false. For a null constant,
// value is nil and ok is true.
func constantValue(t Term) (value []byte, ok bool) {
	if c, is := t.(*constant); is {
		return c.value, true
	}
	return nil, false
}

// marker is a bound marker.
type marker struct {
	typ   *cqltype.Type
	index int
	// canonical reports whether values may require reordering because the type contains a set or a map.
	canonical bool
	// nullElements reports whether a list may contain nulls.
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

// validBesidesNulls reports whether all non-null elements of a list are valid.
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

// needsCanonical reports whether bound values of the type may require reordering.
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
