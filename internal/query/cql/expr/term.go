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

// The states. The bytes are nil unless the state is Value.
const (
	Null State = iota
	Unset
	Value
)

// Term is a bound expression.
type Term interface {
	// Type returns the type of the value, which is never nil.
	Type() *cqltype.Type
	// Eval computes the value. The bytes may refer to the request, the term or Bindings.Row. The caller must not modify
	// the bytes, and must copy them to keep them beyond the request.
	Eval(b *Bindings) ([]byte, State, error)
}

// Bindings is the state of an execution of a bound statement. Bindings must be used by one goroutine.
type Bindings struct {
	// Values are the bound values in the order of the markers. The values refer to the request. A nil value is null.
	// Unset is parallel to Values, or nil if no value is unset.
	Values [][]byte
	Unset  []bool
	// Now is the time of the statement, which currentTimestamp() and similar functions return.
	Now time.Time
	// UUIDs generates the results of now(). Each call returns a different value.
	UUIDs *cqltype.TimeUUIDs
	// Row holds the values of the slots that the Scope has assigned, for terms of BindSelector. A nil value is null.
	Row [][]byte
	// References holds the values of the slots that References has assigned. A nil value is null.
	References [][]byte
	// Aggregates holds the results of Env.Aggregates for terms of BindSelector.
	Aggregates [][]byte
	// Meter limits the evaluation. Nil means no limit.
	Meter *meter.Meter
}

// charge counts the memory and the work of creating a value of the given size before the value is created.
func (b *Bindings) charge(bytes int) error {
	if err := b.Meter.Alloc(valueBytes + bytes); err != nil {
		return err
	}
	return b.Meter.Step(1 + bytes/stepBytes)
}

// The cost of a value: valueBytes of memory in addition to its size, and one step of work per stepBytes.
const (
	valueBytes = 24
	stepBytes  = 16
)

// CheckCount rejects a number of values that differs from the number of markers.
func (b *Bindings) CheckCount(markers int) error {
	if len(b.Values) != markers {
		return dberr.Invalidf("there were %d markers(?) in CQL but %d bound variables", markers, len(b.Values))
	}
	return nil
}

// constant is a term with a known value.
type constant struct {
	typ   *cqltype.Type
	value []byte // nil is null
}

func (c *constant) Type() *cqltype.Type { return c.typ }

func (c *constant) Eval(*Bindings) ([]byte, State, error) { return c.value, stateOf(c.value), nil }

// constantValue returns the value of a term that needs no Bindings. ok is false for other terms. A null constant
// returns nil and true.
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
	// canonical reports whether values may need reordering because the type contains a set or map.
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

// validBesidesNulls reports whether all elements of a list that are not null are valid.
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

// needsCanonical reports whether a bound value of the type may need reordering.
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
