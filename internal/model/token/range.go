// SPDX-License-Identifier: Apache-2.0

package token

import "math"

// The ends of the ring. No key hashes to Min, so Range{Min, Max} holds every key.
const (
	Min Token = math.MinInt64
	Max Token = math.MaxInt64
)

// Range is the interval (Begin, End] of tokens, Begin <= End; it never wraps. Begin == End is empty.
type Range struct{ Begin, End Token }

// Full is the whole ring.
var Full = Range{Min, Max}

// Contains reports whether a key with this token lies in the range.
func (r Range) Contains(t Token) bool { return r.Begin < t && t <= r.End }
