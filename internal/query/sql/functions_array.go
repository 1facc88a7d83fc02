// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/document"
)

// arrayFunctions are undefined for what are not arrays where arrays are asked for.
var arrayFunctions = map[string]builtin{
	"ARRAY_CONCAT": pure(2, -1, func(a []document.Value) document.Value {
		if !all(a, document.Array) {
			return undefined
		}
		var out []document.Value
		for _, v := range a {
			out = slices.AppendSeq(out, v.Elements())
		}
		return document.ArrayValue(out)
	}),
	"ARRAY_CONTAINS": pure(2, 3, func(a []document.Value) document.Value {
		if a[0].Kind() != document.Array || !a[1].IsDefined() {
			return undefined
		}
		partial := len(a) == 3 && a[2].IsTrue()
		for v := range a[0].Elements() {
			if document.Equal(v, a[1]) || partial && contains(v, a[1]) {
				return yes
			}
		}
		return no
	}),
	"ARRAY_CONTAINS_ALL": containsMany(true),
	"ARRAY_CONTAINS_ANY": containsMany(false),
	"ARRAY_LENGTH": pure(1, 1, func(a []document.Value) document.Value {
		if a[0].Kind() != document.Array {
			return undefined
		}
		return document.NumberValue(float64(a[0].Len()))
	}),
	"ARRAY_SLICE": pure(2, 3, func(a []document.Value) document.Value {
		start, ok := integer(a[1])
		if a[0].Kind() != document.Array || !ok {
			return undefined
		}
		elements := slices.Collect(a[0].Elements())
		if start < 0 {
			start = max(0, start+len(elements))
		}
		start = min(start, len(elements))
		n := len(elements) - start
		if len(a) == 3 {
			length, ok := integer(a[2])
			if !ok {
				return undefined
			}
			n = min(n, max(length, 0))
		}
		return document.ArrayValue(elements[start : start+n])
	}),
	"CHOOSE": pure(2, -1, func(a []document.Value) document.Value {
		i, ok := integer(a[0])
		if !ok || i < 1 || i >= len(a) {
			return undefined
		}
		return a[i]
	}),
	"SETINTERSECT":  setFunction(func(in bool) bool { return in }),
	"SETDIFFERENCE": setFunction(func(in bool) bool { return !in }),
	"SETUNION": pure(2, 2, func(a []document.Value) document.Value {
		if !all(a, document.Array) {
			return undefined
		}
		return distinct(slices.AppendSeq(slices.Collect(a[0].Elements()), a[1].Elements()))
	}),
	"SETEQUAL": pure(2, 2, func(a []document.Value) document.Value {
		if !all(a, document.Array) {
			return undefined
		}
		x, y := distinct(slices.Collect(a[0].Elements())), distinct(slices.Collect(a[1].Elements()))
		left, right := newValueSet(x), newValueSet(y)
		return document.BooleanValue(len(left) == len(right) && left.hasAll(y))
	}),
	"OBJECTTOARRAY": pure(1, 3, func(a []document.Value) document.Value {
		if a[0].Kind() != document.Object || !all(a[1:], document.String) {
			return undefined
		}
		names := [2]string{"k", "v"}
		for i, v := range a[1:] {
			names[i] = v.Str()
		}
		var out []document.Value
		for name, v := range a[0].Members() {
			out = append(out, document.ObjectValue([]document.Member{{Name: names[0],
				Value: document.StringValue(name)},
				{Name: names[1], Value: v}}))
		}
		return document.ArrayValue(out)
	}),
}

// contains reports whether v is an object that has all that part has, in depth.
func contains(v, part document.Value) bool {
	if part.Kind() != document.Object || v.Kind() != document.Object {
		return document.Equal(v, part)
	}
	for name, p := range part.Members() {
		if m := v.Get(name); !m.IsDefined() || !contains(m, p) {
			return false
		}
	}
	return true
}

// containsMany makes f(array, values..): all of them, or any.
func containsMany(every bool) builtin {
	return pure(2, -1, func(a []document.Value) document.Value {
		if a[0].Kind() != document.Array {
			return undefined
		}
		set := newValueSet(a[0])
		for _, v := range a[1:] {
			if v.IsDefined() && set.has(v) != every {
				return document.BooleanValue(!every)
			}
		}
		return document.BooleanValue(every)
	})
}

// valueSet has values by the text that equal ones have in common.
type valueSet map[string]struct{}

func newValueSet(array document.Value) valueSet {
	s := valueSet{}
	for v := range array.Elements() {
		s[setKey(v)] = struct{}{}
	}
	return s
}

func (s valueSet) has(v document.Value) bool {
	_, ok := s[setKey(v)]
	return ok
}

func (s valueSet) hasAll(array document.Value) bool {
	for v := range array.Elements() {
		if !s.has(v) {
			return false
		}
	}
	return true
}

// setKey is a text that two values have in common if and only if they are equal.
func setKey(v document.Value) string { return string(appendKey(nil, v)) }

// appendKey appends the setKey: the canonical text, with the members of objects in order. Undefined has one, too.
func appendKey(b []byte, v document.Value) []byte {
	switch v.Kind() {
	case document.Undefined:
		return append(b, '?')
	case document.Array:
		b = append(b, '[')
		for e := range v.Elements() {
			b = append(appendKey(b, e), ',')
		}
		return append(b, ']')
	case document.Object:
		members := make([]document.Member, 0, 8)
		for name, m := range v.Members() {
			members = append(members, document.Member{Name: name, Value: m})
		}
		slices.SortFunc(members, func(x, y document.Member) int {
			return compareText(x.Name, y.Name)
		})
		b = append(b, '{')
		for _, m := range members {
			b = append(document.AppendString(b, m.Name), ':')
			b = append(appendKey(b, m.Value), ',')
		}
		return append(b, '}')
	}
	return v.AppendCanonical(b)
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func distinct(values []document.Value) document.Value {
	set := valueSet{}
	var out []document.Value
	for _, v := range values {
		if key := setKey(v); !set.has(v) {
			set[key] = struct{}{}
			out = append(out, v)
		}
	}
	return document.ArrayValue(out)
}

// setFunction makes f(a, b): the different elements of a of which keep says whether they stay by their being in b.
func setFunction(keep func(in bool) bool) builtin {
	return pure(2, 2, func(a []document.Value) document.Value {
		if !all(a, document.Array) {
			return undefined
		}
		other := newValueSet(a[1])
		var out []document.Value
		for v := range a[0].Elements() {
			if keep(other.has(v)) {
				out = append(out, v)
			}
		}
		return distinct(out)
	})
}
