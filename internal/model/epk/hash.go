// SPDX-License-Identifier: Apache-2.0

package epk

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"unicode/utf16"
)

// These bytes start the values in the hash input.
const (
	markNone   = 0x00
	markNull   = 0x01
	markFalse  = 0x02
	markTrue   = 0x03
	markNumber = 0x05
	markString = 0x08
)

// append appends the hash input of a value. end terminates a string in the hash input.
func (v Value) append(dst []byte, end byte) []byte {
	switch v.Kind {
	case None:
		return append(dst, markNone)
	case Null:
		return append(dst, markNull)
	case False:
		return append(dst, markFalse)
	case True:
		return append(dst, markTrue)
	case Number:
		return binary.LittleEndian.AppendUint64(append(dst, markNumber), math.Float64bits(v.Number+0)) // -0 becomes 0
	}
	return append(append(append(dst, markString), v.Text...), end)
}

// hash returns the version 2 effective partition key of one value.
func (v Value) hash() (h [hashLen]byte) {
	var room [256]byte
	h1, h2 := murmur128(v.append(room[:0], 0xff))
	binary.BigEndian.PutUint64(h[:], h2) // the bytes in reverse order
	binary.BigEndian.PutUint64(h[8:], h1)
	h[0] &= 1<<(8-v2Unset) - 1
	return h
}

// stringMaxV1 is the maximum number of bytes or characters of a string that version 1 hashes.
const stringMaxV1 = 100

// hashV1 returns the version 1 hash of the first value. It uses the first stringMaxV1 bytes of a string, although SDKs
// use the same number of characters. The hash cannot be changed, because it determines where items are stored.
func hashV1(k Key) uint32 {
	v := k[0]
	v.Text = v.Text[:min(len(v.Text), stringMaxV1)]
	var room [128]byte
	return murmur32(v.append(room[:0], 0))
}

// prefixV1 returns the prefix of effective partition keys with a version 1 hash.
func prefixV1(h uint32) []byte { return appendNumberV1(nil, float64(h)) }

// appendV1 appends the effective partition key of version 1. The key consists of the hash and the value in an
// order-preserving form.
func appendV1(dst []byte, k Key) []byte {
	if len(k) == 0 {
		return dst
	}
	dst = append(dst, prefixV1(hashV1(k))...)
	switch v := k[0]; v.Kind {
	case Number:
		return appendNumberV1(dst, v.Number)
	case String:
		dst = append(dst, markString)
		text := firstUnits(v.Text, stringMaxV1)
		for _, c := range []byte(text[:min(len(text), stringMaxV1+1)]) {
			if c < 0xff {
				c++
			}
			dst = append(dst, c)
		}
		if len(text) <= stringMaxV1 {
			dst = append(dst, 0)
		}
		return dst
	default:
		return v.append(dst, 0)
	}
}

// firstUnits returns a prefix of a text with up to the given number of UTF-16 units. SDKs count characters in UTF-16
// units. The prefix is one unit shorter if the last unit would be half of a character.
func firstUnits(text string, most int) string {
	if len(text) <= most {
		return text
	}
	units := 0
	for i, c := range text {
		if units += utf16.RuneLen(c); units > most {
			return text[:i]
		}
	}
	return text
}

// appendNumberV1 appends a number in an order-preserving form. The form starts with 8 bits, followed by groups of 7
// bits. Each group is followed by a bit that indicates whether another group follows.
func appendNumberV1(dst []byte, f float64) []byte {
	dst = append(dst, markNumber)
	b := math.Float64bits(f)
	if b>>63 == 0 {
		b ^= 1 << 63
	} else {
		b = ^b + 1
	}
	dst = append(dst, byte(b>>56))
	for b <<= 8; ; {
		next := byte(b>>56) | 1
		if b <<= 7; b == 0 {
			return append(dst, next&^1)
		}
		dst = append(dst, next)
	}
}

// murmur128 is MurmurHash3 x64 128 with seed 0. Unlike Cassandra's variant (token.Hash), it treats bytes as unsigned.
func murmur128(b []byte) (h1, h2 uint64) {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	size := uint64(len(b))
	for ; len(b) >= 16; b = b[16:] {
		h1 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(b)*c1, 31) * c2
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(b[8:])*c2, 33) * c1
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	var tail [16]byte
	copy(tail[:], b)
	h2 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(tail[8:])*c2, 33) * c1
	h1 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(tail[:])*c1, 31) * c2
	h1, h2 = h1^size, h2^size
	h1 += h2
	h2 += h1
	h1, h2 = mix64(h1), mix64(h2)
	h1 += h2
	return h1, h2 + h1
}

func mix64(k uint64) uint64 {
	k = (k ^ k>>33) * 0xff51afd7ed558ccd
	k = (k ^ k>>33) * 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}

// murmur32 is MurmurHash3 x86 32 with seed 0.
func murmur32(b []byte) (h uint32) {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	size := uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		h ^= bits.RotateLeft32(binary.LittleEndian.Uint32(b)*c1, 15) * c2
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	tail := slices.Concat(b, make([]byte, 4-len(b)))
	h ^= bits.RotateLeft32(binary.LittleEndian.Uint32(tail)*c1, 15) * c2
	h ^= size
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}
