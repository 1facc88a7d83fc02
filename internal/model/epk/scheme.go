// SPDX-License-Identifier: Apache-2.0

package epk

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/ilion-db/ilion/internal/model/token"
)

// Scheme is the method by which a container's keys are hashed.
type Scheme uint8

// These are the schemes. A scheme has one path with version 1 or 2, or up to three paths with version 2.
const (
	V1 Scheme = iota + 1
	V2
	MultiHash
)

// A V1 hash has 32 bits, which are the upper half of a token. A V2 hash has 126 bits, of which the first 64 are the
// token.
const (
	v1Bits  = 32
	v2Unset = 2 // number of leading bits that are always 0
	hashLen = 16
)

// Hash appends the effective partition key.
func (s Scheme) Hash(dst []byte, k Key) []byte {
	if s == V1 {
		return appendV1(dst, k)
	}
	for i := range k {
		h := k[i].hash()
		dst = append(dst, h[:]...)
	}
	return dst
}

// Hex returns the effective partition key as an uppercase hexadecimal number.
func (s Scheme) Hex(k Key) string { return strings.ToUpper(hex.EncodeToString(s.Hash(nil, k))) }

// Token returns the position of a key on the ring of its table. The token depends only on the first value, so all keys
// with the same first value are adjacent. The position of an empty key is the start of the ring.
func (s Scheme) Token(k Key) token.Token {
	switch {
	case len(k) == 0:
		return token.Min
	case s == V1:
		return token.AtPosition(uint64(hashV1(k)) << v1Bits)
	}
	h := k[0].hash()
	return token.AtPosition(ringPosition(h[:]))
}

// ringPosition returns the ring position of the effective partition key of a V2 hash, or of a prefix of such a key.
func ringPosition(b []byte) uint64 {
	var h [hashLen]byte
	copy(h[:], b)
	return binary.BigEndian.Uint64(h[:])<<v2Unset | uint64(h[8])>>(8-v2Unset)
}

// Boundary returns the effective partition key at a ring position (token.Token.Position). Keys before the position
// have lower effective partition keys. All other keys have equal or higher ones. At the start of the ring, which is 0,
// Boundary returns "".
func (s Scheme) Boundary(at uint64) string {
	var b []byte
	switch {
	case at == 0:
		return ""
	case s == V1:
		h := at >> v1Bits
		if at&(1<<v1Bits-1) != 0 {
			h++ // no key is between two adjacent hashes
		}
		if h > math.MaxUint32 {
			return End
		}
		b = prefixV1(uint32(h))
	default:
		b = binary.BigEndian.AppendUint64(nil, at>>v2Unset)
		b = append(b, byte(at<<(8-v2Unset)), 0, 0, 0, 0, 0, 0, 0)
	}
	return strings.ToUpper(hex.EncodeToString(b))
}

// End is the effective partition key after all other keys. It has the notation that clients use.
const End = "FF"

// Range is a byte range of effective partition keys. A nil Max is the end of the ring.
type Range struct{ Min, Max []byte }

// ParseRange parses a range that is given as two hexadecimal numbers. The first number is inclusive, and the second
// number is exclusive.
func ParseRange(low, high string) (r Range, err error) {
	if r.Min, err = hex.DecodeString(low); err != nil {
		return r, fmt.Errorf("%q is not an effective partition key: expected a hexadecimal number", low)
	}
	if high == End || high == "" {
		return r, nil
	}
	if r.Max, err = hex.DecodeString(high); err != nil {
		return r, fmt.Errorf("%q is not an effective partition key: expected a hexadecimal number", high)
	}
	return r, nil
}

// Holds reports whether an effective partition key is in the range.
func (r Range) Holds(epk []byte) bool {
	return bytes.Compare(r.Min, epk) <= 0 && (r.Max == nil || bytes.Compare(epk, r.Max) < 0)
}

// Prefix returns the range of the keys that start with k.
func (s Scheme) Prefix(k Key) Range {
	low := s.Hash(nil, k)
	return Range{Min: low, Max: append(bytes.Clone(low), 0xff)}
}

// Tokens returns the smallest token range that contains all keys of a range. ok is false if no key can be in the range.
func (s Scheme) Tokens(r Range) (tokens token.Range, ok bool) {
	if r.Max != nil && bytes.Compare(r.Min, r.Max) >= 0 {
		return tokens, false
	}
	begin, in := s.floor(r.Min)
	if !in {
		return tokens, false
	}
	tokens.Begin = begin
	if r.Max == nil {
		return tokens, true
	}
	last, in := s.floor(r.Max)
	if !in {
		return tokens, true
	}
	tokens.Limit = last + s.step() // keys that start with Max are not in the range, but may share its position
	return tokens, true
}

// step returns the distance between the positions of adjacent hashes.
func (s Scheme) step() uint64 {
	if s == V1 {
		return 1 << v1Bits
	}
	return 1
}

// floor returns the first position that may contain the given effective partition key or a higher one. in is false if
// the key is beyond the end of the ring.
func (s Scheme) floor(b []byte) (at uint64, in bool) {
	if s != V1 {
		return ringPosition(b), len(b) == 0 || b[0] < 1<<(8-v2Unset)
	}
	h := uint64(sort.Search(1<<v1Bits, func(h int) bool { return bytes.Compare(prefixV1(uint32(h)), b) >= 0 }))
	if h > 0 && bytes.HasPrefix(b, prefixV1(uint32(h-1))) {
		h--
	}
	return h << v1Bits, h < 1<<v1Bits
}

// AppendKey appends the table's partition key for a complete key. It consists of the canonical text of each value.
func AppendKey(dst []byte, k Key) []byte {
	if len(k) == 1 {
		return k[0].Append(dst)
	}
	var room [64]byte
	for _, v := range k {
		dst = token.AppendComponent(dst, v.Append(room[:0]))
	}
	return dst
}

// ParseKey parses the output of AppendKey for a key with the given number of values.
func ParseKey(b []byte, values int) (Key, error) {
	k := make(Key, 0, values)
	for range values {
		text := b
		if values > 1 {
			var ok bool
			if text, b, ok = token.SplitComponent(b); !ok {
				return nil, errText
			}
		}
		v, err := ParseValue(text)
		if err != nil {
			return nil, err
		}
		k = append(k, v)
	}
	if values > 1 && len(b) > 0 {
		return nil, errText
	}
	return k, nil
}

// KeyToken returns the Token of the key that AppendKey wrote. For invalid bytes, which no stored key has, KeyToken
// returns the start of the ring.
func (s Scheme) KeyToken(key []byte, values int) token.Token {
	k, err := ParseKey(key, values)
	if err != nil {
		return token.Min
	}
	return s.Token(k)
}
