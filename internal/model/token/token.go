// SPDX-License-Identifier: Apache-2.0

// Package token implements the token ring, which consists of Cassandra's Murmur3 partitioner and arithmetic on token
// ranges.
//
// Guarantees:
//
//   - (TK1) Hash returns Cassandra's token for every key.
//   - (TK2) Only Divide and String allocate.
//
// The package does not depend on tables or nodes. Start reading at Hash, and continue with Range.
package token

import (
	"cmp"
	"math"
	"strconv"
)

// Token is a position on Cassandra's ring. math.MinInt64 is never the hash of a non-empty key and precedes every other
// token.
type Token int64

// These are the ends of the ring. Min is the hash of only the empty key. Cassandra does not store the empty key.
const (
	Min Token = math.MinInt64
	Max Token = math.MaxInt64
)

// Position returns the position of the token as an unsigned number in ring order. The position of Min is 0.
func (t Token) Position() uint64 { return uint64(t) ^ 1<<63 }

// AtPosition is the inverse of Token.Position.
func AtPosition(p uint64) Token { return Token(p ^ 1<<63) }

// Compare returns -1, 0, or 1.
func (t Token) Compare(o Token) int { return cmp.Compare(t, o) }

// String returns the token in decimal, in the format of system.local.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// Parse parses a token in decimal.
func Parse(s string) (Token, error) {
	v, err := strconv.ParseInt(s, 10, 64)
	return Token(v), err
}
