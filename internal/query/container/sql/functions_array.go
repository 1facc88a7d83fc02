// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/document"
)

// arrayFunctions contains the array functions. The functions return Undefined if an argument that must be an array is
// not an array.
var arrayFunctions = map[string]builtin{
	"ARRAY_CONCAT": {f: func(e *env, a []document.Value) document.Value {
		if !all(a, document.Array) {
			return undefined
		}
		out := list{e: e}
		for _, v := range a {
			if !out.addAll(v) {
				return undefined
			}
		}
		return out.array()
	}, min: 2, max: -1},
	"ARRAY_CONTAINS": {f: func(e *env, a []document.Value) document.Value {
		if a[0].Kind() != document.Array || !a[1].IsDefined() {
			return undefined
		}
		partial := len(a) == 3 && a[2].IsTrue()
		for v := range a[0].Elements() {
			if !e.comparing(v, a[1]) {
				return undefined
			}
			if document.Equal(v, a[1]) || partial && e.contains(v, a[1]) {
				return e.unless(yes)
			}
		}
		return no
	}, min: 2, max: 3},
	"ARRAY_CONTAINS_ALL": containsMany(true),
	"ARRAY_CONTAINS_ANY": containsMany(false),
	"ARRAY_LENGTH": pure(1, 1, func(a []document.Value) document.Value {
		if a[0].Kind() != document.Array {
			return undefined
		}
		return document.NumberValue(float64(a[0].Len()))
	}),
	"ARRAY_SLICE": {f: func(e *env, a []document.Value) document.Value {
		start, ok := integer(a[1])
		if a[0].Kind() != document.Array || !ok {
			return undefined
		}
		all := list{e: e}
		if !all.addAll(a[0]) {
			return undefined
		}
		elements := all.elements
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
	}, min: 2, max: 3},
	"CHOOSE": pure(2, -1, func(a []document.Value) document.Value {
		i, ok := integer(a[0])
		if !ok || i < 1 || i >= len(a) {
			return undefined
		}
		return a[i]
	}),
	vectorDistanceName: {min: 2, max: 4}, // see binder.vectorDistance
	"SETINTERSECT":     setFunction(func(in bool) bool { return in }),
	"SETDIFFERENCE":    setFunction(func(in bool) bool { return !in }),
	"SETUNION": {f: func(e *env, a []document.Value) document.Value {
		if !all(a, document.Array) {
			return undefined
		}
		out := distinct{list: list{e: e}}
		if !out.addAll(a[0]) || !out.addAll(a[1]) {
			return undefined
		}
		return out.array()
	}, min: 2, max: 2},
	"SETEQUAL": {f: func(e *env, a []document.Value) document.Value {
		if !all(a, document.Array) {
			return undefined
		}
		left, right := e.valueSet(a[0]), e.valueSet(a[1])
		if e.err != nil || len(left) != len(right) {
			return e.unless(no)
		}
		for key := range left {
			if _, ok := right[key]; !ok {
				return no
			}
		}
		return yes
	}, min: 2, max: 2},
	"OBJECTTOARRAY": {f: func(e *env, a []document.Value) document.Value {
		if a[0].Kind() != document.Object || !all(a[1:], document.String) {
			return undefined
		}
		names := [2]string{"k", "v"}
		for i, v := range a[1:] {
			names[i] = v.Str()
		}
		out := list{e: e}
		for name, v := range a[0].Members() {
			if !e.alloc(4 * memberBytes) {
				return undefined
			}
			if !out.add(document.ObjectValue([]document.Member{{Name: names[0], Value: document.StringValue(name)},
				{Name: names[1], Value: v}})) {
				return undefined
			}
		}
		return out.array()
	}, min: 1, max: 3},
}

// contains reports whether v is an object with all members of part, compared recursively.
func (e *env) contains(v, part document.Value) bool {
	if part.Kind() != document.Object || v.Kind() != document.Object {
		return e.comparing(v, part) && document.Equal(v, part)
	}
	for name, p := range part.Members() {
		if !e.work(1 + v.TextSize()/pathBytes) {
			return false
		}
		if m := v.Get(name); !m.IsDefined() || !e.contains(m, p) {
			return false
		}
	}
	return true
}

// containsMany returns a function f(array, values..) that reports whether the array contains all or any of the values.
// If no value is decisive and at least one value is undefined, the result is undefined, as with AND and OR.
func containsMany(every bool) builtin {
	return builtin{min: 2, max: -1, f: func(e *env, a []document.Value) document.Value {
		if a[0].Kind() != document.Array {
			return undefined
		}
		set, known := e.valueSet(a[0]), true
		for _, v := range a[1:] {
			switch {
			case !v.IsDefined():
				known = false
			case set.has(v) != every:
				return e.unless(document.BooleanValue(!every))
			}
		}
		if !known {
			return undefined
		}
		return e.unless(document.BooleanValue(every))
	}}
}

// valueSet is a set of values, represented by their setKey texts.
type valueSet map[string]struct{}

// add reports whether the set has grown. key is a buffer for the key of v.
func (s valueSet) add(key *[]byte, v document.Value) bool {
	*key = appendKey((*key)[:0], v)
	if _, known := s[string(*key)]; known {
		return false
	}
	s[string(*key)] = struct{}{}
	return true
}

// setEntryBytes is the memory of a valueSet entry in bytes. It includes the growth of the map but excludes the text.
// setEntrySteps is the work of creating an entry in steps.
const (
	setEntryBytes = 96
	setEntrySteps = 10
)

// valueSet returns the set of an array's elements. The set is incomplete if the evaluation must end.
func (e *env) valueSet(array document.Value) valueSet {
	s := valueSet{}
	for v := range array.Elements() {
		if !e.setEntry(v) {
			break
		}
		s[setKey(v)] = struct{}{}
	}
	return s
}

// setEntry counts the memory and the work of an entry.
func (e *env) setEntry(v document.Value) bool {
	n := v.TextSize()
	return e.work(setEntrySteps+keySteps(v)) && e.alloc(setEntryBytes+2*n)
}

// unless returns v, or Undefined if the evaluation must end.
func (e *env) unless(v document.Value) document.Value {
	if e.err != nil {
		return undefined
	}
	return v
}

func (s valueSet) has(v document.Value) bool {
	_, ok := s[setKey(v)]
	return ok
}

// setKey returns a text that is equal for two values if and only if the values are equal.
func setKey(v document.Value) string { return string(appendKey(nil, v)) }

// appendKey appends the setKey of a value. The key is the canonical text with sorted object members. Undefined also
// has a key.
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

// distinct is a list without duplicates.
type distinct struct {
	list
	set valueSet
}

// add appends a value if the list does not contain it. add returns false if the evaluation must end.
func (d *distinct) add(v document.Value) bool {
	if !d.e.setEntry(v) {
		return false
	}
	key := setKey(v)
	if _, ok := d.set[key]; ok {
		return true
	}
	if d.set == nil {
		d.set = valueSet{}
	}
	d.set[key] = struct{}{}
	return d.list.add(v)
}

func (d *distinct) addAll(array document.Value) bool {
	for v := range array.Elements() {
		if !d.add(v) {
			return false
		}
	}
	return true
}

// setFunction returns a function f(a, b) that yields the distinct elements of a that keep accepts. For each element of
// a, keep receives whether b contains the element and returns whether to include it.
func setFunction(keep func(in bool) bool) builtin {
	return builtin{min: 2, max: 2, f: func(e *env, a []document.Value) document.Value {
		if !all(a, document.Array) {
			return undefined
		}
		other := e.valueSet(a[1])
		out := distinct{list: list{e: e}}
		for v := range a[0].Elements() {
			if e.err != nil || keep(other.has(v)) && !out.add(v) {
				return undefined
			}
		}
		return out.array()
	}}
}
