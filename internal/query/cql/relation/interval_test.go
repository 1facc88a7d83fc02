// SPDX-License-Identifier: Apache-2.0

package relation

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/command"
)

func contains(list []command.Slice, key []byte) bool {
	return slices.ContainsFunc(list, func(s command.Slice) bool {
		return bytes.Compare(s.Start, key) <= 0 && (s.End == nil || bytes.Compare(key, s.End) < 0)
	})
}

// TestIntervalArithmetic compares the results of Normalize, intersect, and After with operations on sets of one-byte
// keys.
func TestIntervalArithmetic(t *testing.T) {
	draw := func(t *rapid.T, name string) []command.Slice {
		var list []command.Slice
		for range rapid.IntRange(0, 5).Draw(t, name) {
			s := command.Slice{Start: []byte{byte(rapid.IntRange(0, 20).Draw(t, "start"))}}
			if n := rapid.IntRange(0, 21).Draw(t, "end"); n < 21 {
				s.End = []byte{byte(n)}
			}
			list = append(list, s)
		}
		return list
	}
	has := func(list []command.Slice, k byte) bool { return len(list) > 0 && contains(list, []byte{k}) }
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "a"), draw(t, "b")
		na, nb := Normalize(slices.Clone(a)), Normalize(slices.Clone(b))
		both := intersect(na, nb)
		at := byte(rapid.IntRange(0, 20).Draw(t, "at"))
		var forward, back []command.Slice
		if len(na) > 0 {
			forward, back = After(na, []byte{at}, false), After(na, []byte{at}, true)
		}
		for k := byte(0); k < 22; k++ {
			if has(na, k) != has(a, k) {
				t.Fatalf("Normalize changes %d", k)
			}
			if has(both, k) != (has(a, k) && has(b, k)) {
				t.Fatalf("intersect is wrong about %d", k)
			}
			if has(forward, k) != (has(a, k) && k > at) || has(back, k) != (has(a, k) && k < at) {
				t.Fatalf("Behind %d is wrong about %d", at, k)
			}
		}
		for i := 1; i < len(na); i++ {
			if na[i-1].End == nil || string(na[i-1].End) >= string(na[i].Start) {
				t.Fatalf("not disjoint and ascending: %v", na)
			}
		}
	})
}
