// SPDX-License-Identifier: Apache-2.0

package document

import (
	"cmp"
	"slices"
	"strings"
)

// Compare compares any two values. Values of different kinds are ordered by kind (Undefined, null, booleans, numbers,
// strings, arrays, objects). Within a kind, false precedes true, and numbers compare as doubles. Strings compare by
// their bytes, and arrays by their elements. Objects compare by their members in the order of the names. The result is
// negative, 0, or positive. The result is 0 only for equal values.
func Compare(a, b Value) int {
	if c := cmp.Compare(a.kind, b.kind); c != 0 {
		return c
	}
	switch a.kind {
	case Boolean:
		return cmp.Compare(a.num, b.num)
	case Number:
		return cmp.Compare(a.Float(), b.Float())
	case String:
		return strings.Compare(a.Str(), b.Str())
	case Array:
		return compareElements(a, b)
	case Object:
		return compareAll(sortedMembers(a), sortedMembers(b), func(x, y Member) int {
			if c := strings.Compare(x.Name, y.Name); c != 0 {
				return c
			}
			return Compare(x.Value, y.Value)
		})
	}
	return 0
}

func compareAll[T any](a, b []T, compare func(T, T) int) int {
	for i := range min(len(a), len(b)) {
		if c := compare(a[i], b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// compareElements compares two arrays element by element. It does not collect the elements, because an element may be
// as large as an item.
func compareElements(a, b Value) int {
	x, y := elementsOf(a), elementsOf(b)
	for {
		v, more := x.next()
		w, also := y.next()
		switch {
		case more && also:
		case more:
			return 1
		case also:
			return -1
		default:
			return 0
		}
		if c := Compare(v, w); c != 0 {
			return c
		}
	}
}

// elements iterates over the elements of an array.
type elements struct {
	v  Value
	at int // position in the text, or index of an element of a computed array
}

func elementsOf(v Value) elements {
	if v.form == plain {
		return elements{v: v}
	}
	return elements{v: v, at: skipSpace(v.text, 1)}
}

func (e *elements) next() (Value, bool) {
	if e.v.form == plain {
		if e.at >= len(e.v.tree.elements) {
			return Value{}, false
		}
		e.at++
		return e.v.tree.elements[e.at-1], true
	}
	s := e.v.text
	if e.at >= len(s) || s[e.at] == ']' {
		return Value{}, false
	}
	v, end := valueAt(s, e.at)
	e.at = nextItem(s, end)
	return v, v.IsDefined()
}

// fewMembers is the maximum size in bytes of an object's text up to which members are not counted first.
const fewMembers = 1 << 10

func sortedMembers(v Value) []Member {
	n := 8
	if v.TextSize() > fewMembers {
		n = v.Len()
	}
	out := make([]Member, 0, n)
	for name, e := range v.Members() {
		out = append(out, Member{name, e})
	}
	slices.SortFunc(out, func(x, y Member) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// Equal reports whether two values have the same kind and content. The order of members does not matter.
func Equal(a, b Value) bool {
	if a.kind != b.kind {
		return false
	}
	if a.kind == String {
		return a.Str() == b.Str()
	}
	return Compare(a, b) == 0
}
