// SPDX-License-Identifier: Apache-2.0

// Package token is the ring: Cassandra's Murmur3 partitioner and arithmetic on ranges of tokens.
//
// Guarantees: (TK1) Hash gives Cassandra's token for every key; (TK2) nothing here allocates but Divide and String. It
// knows nothing of tables or nodes. Start at Hash, then Range.
package token

import (
	"cmp"
	"math"
	"strconv"
)

// Token is a place on Cassandra's ring. math.MinInt64 is never the hash of a key: it stands before every token.
type Token int64

// The ends of the ring. Min is never the hash of a key, but for the empty key's, which Cassandra does not store.
const (
	Min Token = math.MinInt64
	Max Token = math.MaxInt64
)

// Position is a place as an unsigned number in ring order: Min is 0.
func (t Token) Position() uint64 { return uint64(t) ^ 1<<63 }

// AtPosition is the inverse of Token.Position.
func AtPosition(p uint64) Token { return Token(p ^ 1<<63) }

// Compare is -1, 0 or 1.
func (t Token) Compare(o Token) int { return cmp.Compare(t, o) }

// String is the decimal text, as system.local shows it.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// Parse reads a decimal text.
func Parse(s string) (Token, error) {
	v, err := strconv.ParseInt(s, 10, 64)
	return Token(v), err
}
