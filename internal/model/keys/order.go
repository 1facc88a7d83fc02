// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"encoding/binary"
)

// ComparerName is stored with every store; it changes when the order or Split does.
const ComparerName = "ilion.keys.v1"

// Split returns the length of the prefix that bloom filters hold: the partition for a table, the value for an index,
// the whole key for system keys and tables with WholeKey. Bytes that are no complete key are their own prefix.
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

// Abbreviate returns the first eight bytes as a number, so that most comparisons need no more.
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

// Separator appends a short k with a <= k < b.
func Separator(dst, a, b []byte) []byte {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	if n >= len(a) || n >= len(b) || a[n] > b[n] {
		return append(dst, a...) // a is the beginning of b
	}
	if n+1 < len(b) || a[n]+1 < b[n] { // the differing byte of a can grow and stay before b
		return grown(dst, a, n)
	}
	for i := n + 1; i < len(a); i++ {
		if a[i] != 0xff {
			return grown(dst, a, i)
		}
	}
	return append(dst, a...)
}

// grown appends a up to its byte i, and that byte plus one.
func grown(dst, a []byte, i int) []byte {
	return append(append(dst, a[:i]...), a[i]+1)
}

// Successor appends a short k with a <= k.
func Successor(dst, a []byte) []byte {
	for i := range a {
		if a[i] != 0xff {
			return grown(dst, a, i)
		}
	}
	return append(dst, a...)
}

// SplitOrdered parts the key of an entry of an ordered index whose values have no zero bytes: its value, and the place
// of its row. ok is false for any other bytes.
func SplitOrdered(key []byte) (value, place []byte, ok bool) {
	n := bytes.IndexByte(key[min(idLen, len(key)):], 0) + idLen
	if n < idLen || n+1 >= len(key) || key[n+1] != valueEnd {
		return nil, nil, false
	}
	return key[idLen:n:n], key[n+2:], true
}

// RingOf is where on the ring the row of a place stands, of at least 8 bytes.
func RingOf(place []byte) uint64 { return binary.BigEndian.Uint64(place) }
