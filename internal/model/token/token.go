// SPDX-License-Identifier: Apache-2.0

// Package token is the ring: Cassandra's Murmur3 partitioner and arithmetic on ranges of tokens.
package token

// Token is a place on Cassandra's ring. math.MinInt64 is never the hash of a key: it stands before every token.
type Token int64
