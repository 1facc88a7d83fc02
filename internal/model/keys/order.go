// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"encoding/binary"
)

// ComparerName is stored in every store. It changes if the key order or Split changes.
const ComparerName = "ilion.keys.v1"

// Split returns the length of the prefix that bloom filters contain. In a table, the prefix is the partition. In an
// index, it is the value. For system keys and tables with WholeKey, it is the whole key. An incomplete key is its own
// prefix.
func Split(key []byte) int {
	if len(key) < idLen {
		return len(key)
	}
	id := binary.BigEndian.Uint32(key)
	end := 0
	switch {
	case id&IndexSpace != 0:
		end = valueLen(key)
	case id&WholeKey != 0 || id&^WideRing < FirstTable:
	default:
		end = sizedEnd(key, idLen+positionLen(id))
	}
	if end == 0 {
		return len(key)
	}
	return end
}

// Abbreviate returns the first eight bytes as a number. This number suffices for most comparisons.
func Abbreviate(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var v uint64
	for i, b := range key {
		v |= uint64(b) << (56 - 8*i)
	}
	return v
}

// Separator appends a short key k such that a <= k < b.
func Separator(dst, a, b []byte) []byte {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	if n >= len(a) || n >= len(b) || a[n] > b[n] {
		return append(dst, a...) // a is a prefix of b
	}
	if n+1 < len(b) || a[n]+1 < b[n] { // the differing byte of a, plus one, is less than the byte of b
		return grown(dst, a, n)
	}
	for i := n + 1; i < len(a); i++ {
		if a[i] != 0xff {
			return grown(dst, a, i)
		}
	}
	return append(dst, a...)
}

// grown appends the bytes of a up to index i and increments the last of these bytes.
func grown(dst, a []byte, i int) []byte {
	return append(append(dst, a[:i]...), a[i]+1)
}

// Successor appends a short key k such that a <= k.
func Successor(dst, a []byte) []byte {
	for i := range a {
		if a[i] != 0xff {
			return grown(dst, a, i)
		}
	}
	return append(dst, a...)
}

// SplitOrdered splits the key of an ordered index's entry into the value and the rest. The rest contains the position
// and the keys of the row. The value must not contain zero bytes. ok is false for any other bytes.
func SplitOrdered(key []byte) (value, place []byte, ok bool) {
	n := bytes.IndexByte(key[min(idLen, len(key)):], 0) + idLen
	if n < idLen || n+1 >= len(key) || key[n+1] != valueEnd {
		return nil, nil, false
	}
	return key[idLen:n:n], key[n+2:], true
}

// RingOf returns the ring position at the start of place. place must contain at least 8 bytes.
func RingOf(place []byte) uint64 { return binary.BigEndian.Uint64(place) }
