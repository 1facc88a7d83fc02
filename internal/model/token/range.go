// SPDX-License-Identifier: Apache-2.0

package token

import (
	"math/bits"
	"strconv"
)

// Range is a half-open interval of positions [Begin, Limit) in unsigned ring order (Token.Position). Range never wraps
// around. A Limit of 0 is the end of the ring, and the zero Range is the whole ring. A Range is never empty.
type Range struct {
	Begin, Limit uint64
}

// Full is the whole ring.
var Full = Range{}

// Between returns the range of all tokens from begin through last.
func Between(begin, last Token) Range {
	return Range{Begin: begin.Position(), Limit: last.Position() + 1}
}

// last returns the greatest position in the range.
func (r Range) last() uint64 { return r.Limit - 1 }

// Valid reports whether the range contains at least one position.
func (r Range) Valid() bool { return r.Limit == 0 || r.Begin < r.Limit }

// First returns the smallest token of the range.
func (r Range) First() Token { return AtPosition(r.Begin) }

// Last returns the greatest token of the range.
func (r Range) Last() Token { return AtPosition(r.last()) }

// Contains reports whether the token is in the range.
func (r Range) Contains(t Token) bool {
	p := t.Position()
	return p >= r.Begin && p <= r.last()
}

// Covers reports whether r contains all of o.
func (r Range) Covers(o Range) bool { return o.Begin >= r.Begin && o.last() <= r.last() }

// Intersect returns the intersection of the ranges. ok is false if the intersection is empty.
func (r Range) Intersect(o Range) (common Range, ok bool) {
	if r.Begin > o.last() || o.Begin > r.last() {
		return Range{}, false
	}
	return Range{Begin: max(r.Begin, o.Begin), Limit: min(r.last(), o.last()) + 1}, true
}

// Divide divides the range into n pieces whose sizes differ by at most one position. If the range has fewer than n
// positions, Divide returns fewer pieces. For n < 2, it returns the range itself.
func (r Range) Divide(n int) []Range {
	span := r.last() - r.Begin // one less than the number of positions, which may not fit in 64 bits
	if n > 1 && uint64(n-1) > span {
		n = int(span) + 1
	}
	if n < 2 {
		return []Range{r}
	}
	pieces := make([]Range, n)
	begin := r.Begin
	for i := range pieces {
		limit := r.Limit
		if i < n-1 {
			limit = r.Begin + share(span, uint64(i+1), uint64(n))
		}
		pieces[i] = Range{begin, limit}
		begin = limit
	}
	return pieces
}

// share returns (span+1) * i / n without overflow, for i < n.
func share(span, i, n uint64) uint64 {
	hi, lo := bits.Mul64(span, i)
	lo, carry := bits.Add64(lo, i, 0)
	q, _ := bits.Div64(hi+carry, lo, n)
	return q
}

// String returns the first token and the last token.
func (r Range) String() string {
	b := append(make([]byte, 0, 48), '[')
	b = strconv.AppendInt(b, int64(r.First()), 10)
	b = append(b, ", "...)
	b = strconv.AppendInt(b, int64(r.Last()), 10)
	return string(append(b, ']'))
}
