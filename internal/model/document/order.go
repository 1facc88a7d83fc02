// SPDX-License-Identifier: Apache-2.0

package document

import (
	"cmp"
	"slices"
	"strings"
)

// Compare orders any two values: by kind first (Undefined, null, booleans, numbers, strings, arrays, objects), then
// false before true, numbers as doubles, strings by their bytes, arrays by their elements, objects by their members in
// the order of names. It returns a number below, at or above 0, and 0 only for values that Equal.
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

// Equal reports whether two values are the same: of one kind, and alike in depth. The order of members means nothing.
func Equal(a, b Value) bool {
	if a.kind != b.kind {
		return false
	}
	if a.kind == String {
		return a.Str() == b.Str()
	}
	return Compare(a, b) == 0
}
