// SPDX-License-Identifier: Apache-2.0

package token

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// drawRange draws a range. It prefers the ends of the ring, where arithmetic can overflow.
func drawRange(t *rapid.T, name string) Range {
	position := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 3),
		rapid.Uint64Range(math.MaxUint64-3, math.MaxUint64))
	begin, limit := position.Draw(t, name+" begin"), position.Draw(t, name+" limit")
	r := Range{min(begin, limit), max(begin, limit)}
	if rapid.Bool().Draw(t, name+" to the end") || r.Begin == r.Limit {
		r.Limit = 0
	}
	return r
}

// TestDivide checks that the pieces of a range tile the range in order, and that their sizes differ by at most one
// position.
func TestDivide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRange(t, "range")
		n := rapid.IntRange(0, 300).Draw(t, "n")
		pieces := r.Divide(n)
		least, most := uint64(math.MaxUint64), uint64(0)
		for i, p := range pieces {
			if !p.Valid() || !r.Covers(p) {
				t.Fatalf("piece %v of %v", p, r)
			}
			if i > 0 && pieces[i-1].Limit != p.Begin {
				t.Fatalf("%v is not followed by %v", pieces[i-1], p)
			}
			least, most = min(least, p.last()-p.Begin), max(most, p.last()-p.Begin)
		}
		if pieces[0].Begin != r.Begin || pieces[len(pieces)-1].Limit != r.Limit {
			t.Fatalf("%v do not reach the ends of %v", pieces, r)
		}
		if most-least > 1 {
			t.Fatalf("sizes from %d to %d", least, most)
		}
		if span := r.last() - r.Begin; uint64(max(n, 1)-1) <= span && len(pieces) != max(n, 1) {
			t.Fatalf("%d pieces instead of %d", len(pieces), n)
		}
	})
}

// TestRangeInvariants compares the set operations with their definition for a single token.
func TestRangeInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawRange(t, "a"), drawRange(t, "b")
		at := AtPosition(rapid.SampledFrom([]uint64{a.Begin, a.last(), a.Limit, b.Begin, b.last(), b.Limit, 0,
			math.MaxUint64}).Draw(t, "at"))
		common, ok := a.Intersect(b)
		if ok && !common.Valid() {
			t.Fatalf("%v and %v: %v %v", a, b, common, ok)
		}
		if both := a.Contains(at) && b.Contains(at); both != (ok && common.Contains(at)) {
			t.Fatalf("%v in %v and %v: %v", at, a, b, both)
		}
		if a.Covers(b) && b.Contains(at) && !a.Contains(at) {
			t.Fatalf("%v covers %v but not %v", a, b, at)
		}
	})
}

func TestRangeEnds(t *testing.T) {
	if Full.First() != Min || Full.Last() != Max || !Full.Contains(Min) || !Full.Contains(Max) {
		t.Errorf("the whole ring is %v", Full)
	}
	r := Between(-5, Max)
	if r.Limit != 0 || r.Contains(-6) || !r.Contains(-5) || !r.Contains(Max) {
		t.Errorf("Between(-5, Max) = %v", r)
	}
	if got := Between(0, 9).Divide(3); len(got) != 3 || got[0] != Between(0, 2) || got[1] != Between(3, 5) ||
		got[2] != Between(6, 9) {
		t.Errorf("0..9 in three: %v", got)
	}
}

func TestTokenText(t *testing.T) {
	for _, v := range []Token{Min, -1, 0, Max} {
		if got, err := Parse(v.String()); err != nil || got != v {
			t.Errorf("%v: %v, %v", v, got, err)
		}
	}
	if _, err := Parse("9223372036854775808"); err == nil {
		t.Error("a token beyond the ring is accepted")
	}
}
