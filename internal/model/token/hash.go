// SPDX-License-Identifier: Apache-2.0

package token

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// These are the multipliers of MurmurHash3 x64 128.
const (
	c1 = 0x87c37b91114253d5
	c2 = 0x4cf5ad432745937f
)

// Hash is the hash function of Cassandra's Murmur3Partitioner. It is the first half of MurmurHash3 x64 128 with seed 0,
// with two differences. Bytes of the tail are sign-extended, as in Java, and MinInt64 becomes MaxInt64. The empty key
// hashes to Min.
func Hash(key []byte) Token {
	if len(key) == 0 {
		return Min
	}
	var h1, h2 uint64
	tail := key
	for len(tail) >= 16 {
		k1 := binary.LittleEndian.Uint64(tail)
		k2 := binary.LittleEndian.Uint64(tail[8:16])
		tail = tail[16:]

		h1 ^= bits.RotateLeft64(k1*c1, 31) * c2
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= bits.RotateLeft64(k2*c2, 33) * c1
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	if len(tail) > 8 {
		h2 ^= bits.RotateLeft64(signed(tail[8:])*c2, 33) * c1
		tail = tail[:8]
	}
	if len(tail) > 0 {
		h1 ^= bits.RotateLeft64(signed(tail)*c1, 31) * c2
	}
	h1 ^= uint64(len(key))
	h2 ^= uint64(len(key))
	h1 += h2
	h2 += h1
	h1 = mix(h1)
	h2 = mix(h2)
	h1 += h2
	if int64(h1) == math.MinInt64 {
		return Max
	}
	return Token(h1)
}

// signed combines up to 8 bytes in little-endian order. It sign-extends each byte before it shifts the byte into
// place.
func signed(tail []byte) uint64 {
	var k uint64
	for i, b := range tail {
		k ^= uint64(int64(int8(b))) << (8 * i)
	}
	return k
}

func mix(k uint64) uint64 {
	k ^= k >> 33
	k *= 0xff51afd7ed558ccd
	k ^= k >> 33
	k *= 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}

// AppendComponent appends one component of a composite partition key. A key with a single column consists only of the
// value of the column (see AppendKey). A component must not exceed 65535 bytes.
func AppendComponent(dst, component []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(component)))
	dst = append(dst, component...)
	return append(dst, 0)
}

// AppendKey appends the serialized partition key. A single component is appended unchanged. Several components are
// appended with their lengths.
func AppendKey(dst []byte, components ...[]byte) []byte {
	if len(components) == 1 {
		return append(dst, components[0]...)
	}
	for _, c := range components {
		dst = AppendComponent(dst, c)
	}
	return dst
}

// SplitComponent splits off the first component of a composite key. ok is false if key is not a composite key.
func SplitComponent(key []byte) (component, rest []byte, ok bool) {
	if len(key) < 3 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(key))
	if len(key) < 2+n+1 || key[2+n] != 0 {
		return nil, nil, false
	}
	return key[2 : 2+n : 2+n], key[2+n+1:], true
}
