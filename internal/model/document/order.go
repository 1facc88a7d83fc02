// SPDX-License-Identifier: Apache-2.0

package document

import (
	"cmp"
	"slices"
	"strings"
)

// Compare compares any two values: first by kind (Undefined, null, booleans, numbers, strings, arrays, objects). Then
// false precedes true, numbers compare as doubles, strings by their bytes, arrays by their elements, and objects by
// their members in order of their names. It returns a negative number, 0, or a positive number. It returns 0 only for
// equal values.
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
		return compareAll(slices.Collect(a.Elements()), slices.Collect(b.Elements()), Compare)
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

func sortedMembers(v Value) []Member {
	out := make([]Member, 0, 8)
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
