// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
)

// Compare compares two values in the order of Cassandra's comparator for the type. Null sorts before the empty value,
// and the empty value sorts before all other values. Invalid values sort after valid values, by their bytes. Values
// with different bytes can be equal. Examples are decimals with different scales, varints with redundant leading
// bytes, NaNs, booleans other than 0 and 1, and tuples with trailing nulls.
func (t *Type) Compare(a, b []byte) int {
	if len(a) == 0 || len(b) == 0 {
		return compareEmpty(a, b)
	}
	switch t.Kind {
	case Ascii, Text, Blob, Inet, Duration, Custom, Empty:
		return bytes.Compare(a, b)
	case List, Set, Map, Vector:
		return compareSequences(t, a, b)
	case Tuple, UDT:
		return compareTuples(t, a, b)
	}
	if okA, okB := t.Kind.wellFormed(a), t.Kind.wellFormed(b); !okA || !okB {
		if okA != okB {
			return cmp.Compare(btoi(okB), btoi(okA))
		}
		return bytes.Compare(a, b)
	}
	switch t.Kind {
	case Boolean:
		return cmp.Compare(btoi(a[0] != 0), btoi(b[0] != 0))
	case Date, Time:
		return bytes.Compare(a, b)
	case Tinyint, Smallint, Int, Bigint, Counter, Timestamp:
		if c := cmp.Compare(int8(a[0]), int8(b[0])); c != 0 {
			return c
		}
		return bytes.Compare(a[1:], b[1:])
	case Float:
		return cmp.Compare(orderFloat(binary.BigEndian.Uint32(a)), orderFloat(binary.BigEndian.Uint32(b)))
	case Double:
		return cmp.Compare(orderDouble(binary.BigEndian.Uint64(a)), orderDouble(binary.BigEndian.Uint64(b)))
	case UUID:
		return comparePairs(uuidOrder, a, b)
	case Timeuuid:
		return comparePairs(timeuuidOrder, a, b)
	case Varint:
		return compareVarints(a, b)
	case Decimal:
		return compareDecimals(a, b)
	}
	return bytes.Compare(a, b)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compareEmpty compares two values if at least one value is null or empty.
func compareEmpty(a, b []byte) int {
	rank := func(v []byte) int {
		switch {
		case v == nil:
			return 0
		case len(v) == 0:
			return 1
		}
		return 2
	}
	return cmp.Compare(rank(a), rank(b))
}

// wellFormed reports whether a non-empty value of a native kind has the width that its decoder requires.
func (k Kind) wellFormed(v []byte) bool {
	if n := k.width(); n > 0 {
		return len(v) == n
	}
	return k != Decimal || len(v) > 4
}

// widths maps kinds to the lengths of their values (see width).
var widths = [256]uint8{
	Boolean: 1, Tinyint: 1, Smallint: 2, Int: 4, Float: 4, Date: 4, Bigint: 8, Counter: 8, Timestamp: 8, Time: 8,
	Double: 8, UUID: 16, Timeuuid: 16,
}

// width returns the length, in bytes, of every non-empty value of a fixed-length kind, or 0 for other kinds.
func (k Kind) width() int { return int(widths[k]) }

// orderFloat maps the bits of a float to a number in Java's order. In this order, -0.0 precedes 0.0. All NaNs are
// equal and come last.
func orderFloat(b uint32) uint32 {
	switch {
	case b&0x7fffffff > 0x7f800000:
		return 0x7fc00000 | 1<<31
	case b>>31 != 0:
		return ^b
	}
	return b | 1<<31
}

func unorderFloat(b uint32) uint32 {
	if b>>31 != 0 {
		return b &^ (1 << 31)
	}
	return ^b
}

// orderDouble is the equivalent of orderFloat for doubles.
func orderDouble(b uint64) uint64 {
	switch {
	case b&math.MaxInt64 > 0x7ff0000000000000:
		return 0x7ff8000000000000 | 1<<63
	case b>>63 != 0:
		return ^b
	}
	return b | 1<<63
}

func unorderDouble(b uint64) uint64 {
	if b>>63 != 0 {
		return b &^ (1 << 63)
	}
	return ^b
}

// signBytes flips the sign of each byte except the first byte, which is compared as part of a signed number. Cassandra
// compares the second half of timeuuids as signed bytes.
const signBytes = 0x8080808080808080

func comparePairs(order func([]byte) (hi, lo uint64), a, b []byte) int {
	aHi, aLo := order(a)
	bHi, bLo := order(b)
	if c := cmp.Compare(aHi, bHi); c != 0 {
		return c
	}
	return cmp.Compare(aLo, bLo)
}

func compareVarints(a, b []byte) int {
	a, b = trimVarint(a), trimVarint(b)
	negA, negB := a[0] >= 0x80, b[0] >= 0x80
	switch {
	case negA != negB:
		return cmp.Compare(btoi(negB), btoi(negA))
	case len(a) != len(b):
		if negA {
			return cmp.Compare(len(b), len(a))
		}
		return cmp.Compare(len(a), len(b))
	}
	return bytes.Compare(a, b)
}

// trimVarint removes redundant leading bytes.
func trimVarint(v []byte) []byte {
	for len(v) > 1 && (v[0] == 0 && v[1] < 0x80 || v[0] == 0xff && v[1] >= 0x80) {
		v = v[1:]
	}
	return v
}

func compareDecimals(a, b []byte) int {
	if [4]byte(a) == [4]byte(b) {
		return compareVarints(a[4:], b[4:])
	}
	return decimalOf(a).compare(decimalOf(b))
}

func compareSequences(t *Type, a, b []byte) int {
	ca, cb := t.walk(a), t.walk(b)
	for i := 0; ; i++ {
		va, moreA := ca.next()
		vb, moreB := cb.next()
		if !moreA || !moreB {
			return cmp.Compare(btoi(moreA), btoi(moreB))
		}
		if c := t.elemType(i).Compare(va, vb); c != 0 {
			return c
		}
	}
}

// compareTuples treats a missing component as null.
func compareTuples(t *Type, a, b []byte) int {
	ca, cb := t.walk(a), t.walk(b)
	for i := range t.Elems {
		va, _ := ca.next()
		vb, _ := cb.next()
		if c := t.elemType(i).Compare(va, vb); c != 0 {
			return c
		}
	}
	return 0
}

// reorderTime converts the first half of a version 1 UUID to the order time_hi_and_version, time_mid, time_low.
func reorderTime(hi uint64) uint64 { return hi<<48 | hi<<16&0xffff00000000 | hi>>32 }

func restoreTime(v uint64) uint64 { return v<<32 | v>>16&0xffff0000 | v>>48 }

// timeuuidOrder maps a timeuuid to two numbers in Cassandra's order. The time is compared first, and then the second
// half as signed bytes.
func timeuuidOrder(v []byte) (hi, lo uint64) {
	hi = reorderTime(binary.BigEndian.Uint64(v)) ^ 1<<63
	lo = binary.BigEndian.Uint64(v[8:]) ^ signBytes
	return hi, lo
}

func appendTimeuuid(dst []byte, hi, lo uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, restoreTime(hi^1<<63))
	return binary.BigEndian.AppendUint64(dst, lo^signBytes)
}

// uuidOrder maps a UUID to two numbers in Cassandra's order. The version is compared first, and then the time for
// version 1 or the bytes for other versions. The version moves to the top four bits, and the 48 bits above the version
// move down by four.
func uuidOrder(v []byte) (hi, lo uint64) {
	hi = binary.BigEndian.Uint64(v)
	lo = binary.BigEndian.Uint64(v[8:])
	if version := hi >> 12 & 0xf; version == 1 {
		return reorderTime(hi), lo // the version is in the top bits
	}
	return bits.RotateLeft64(hi&0xf000, 48) | hi>>4&^0xfff | hi&0xfff, lo
}

func appendUUID(dst []byte, hi, lo uint64) []byte {
	if hi>>60 == 1 {
		hi = restoreTime(hi)
	} else {
		hi = hi<<4&^0xffff | hi>>60<<12 | hi&0xfff
	}
	dst = binary.BigEndian.AppendUint64(dst, hi)
	return binary.BigEndian.AppendUint64(dst, lo)
}
