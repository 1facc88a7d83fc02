// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"math"
	"math/big"

	"pgregory.net/rapid"
)

// drawNative draws a native type that is allowed in a key.
func drawNative(t *rapid.T) *Type {
	return Native(Kind(rapid.IntRange(int(Ascii), int(Varint)).Draw(t, "kind")))
}

// drawType draws any type, including composed types up to the given depth.
func drawType(t *rapid.T, depth int) *Type {
	if depth == 0 || rapid.Bool().Draw(t, "native") {
		return drawNative(t)
	}
	part := func() *Type { return drawType(t, depth-1) }
	switch rapid.IntRange(0, 5).Draw(t, "composed") {
	case 0:
		return ListOf(part()).Freeze()
	case 1:
		return SetOf(part()).Freeze()
	case 2:
		return MapOf(part(), part()).Freeze()
	case 3:
		return TupleOf(part(), part())
	case 4:
		return VectorOf(part(), rapid.IntRange(1, 3).Draw(t, "dimension"))
	}
	return UDTOf("ks", "u", []string{"a", "B c", "d"}, []*Type{part(), part(), part()}).Freeze()
}

// drawValue draws a valid value. It prefers small numbers, and short texts with few distinct letters. The tests
// therefore often compare equal and similar values.
func drawValue(t *rapid.T, typ *Type) []byte {
	switch typ.Kind {
	case List, Set, Map, Tuple, UDT:
		return drawComposed(t, typ)
	case Vector:
		return drawVector(t, typ)
	case Date, Time, Tinyint, Smallint, Duration:
	default:
		if rapid.IntRange(0, 15).Draw(t, "empty") == 0 {
			return []byte{}
		}
	}
	number := rapid.OneOf(rapid.Int64Range(-3, 3), rapid.Int64(),
		rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 1 << 31, -1 << 31, 255, 256, -256, -257}))
	switch typ.Kind {
	case Ascii:
		return []byte(rapid.StringOfN(rapid.RuneFrom([]rune("ab\x00\x01\x7f")), 0, 4, -1).Draw(t, "ascii"))
	case Text:
		return []byte(rapid.StringOfN(rapid.RuneFrom([]rune("ab\x00\x01'\"\\é\u0800日🙂")), 0, 4, -1).Draw(t, "text"))
	case Blob:
		return rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte{0, 1, 0xfe, 0xff})), 0, 5).Draw(t,
			"blob")
	case Boolean:
		return []byte{rapid.SampledFrom([]byte{0, 1, 2, 0xff}).Draw(t, "boolean")}
	case Inet:
		n := rapid.SampledFrom([]int{4, 16}).Draw(t, "inet")
		return rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xff}), n, n).Draw(t, "address")
	case UUID, Timeuuid:
		u := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7f, 0x80, 0xff}), 16, 16).Draw(t, "uuid")
		version := byte(1)
		if typ.Kind == UUID {
			version = rapid.SampledFrom([]byte{0, 1, 4, 15}).Draw(t, "version")
		}
		u[6] = u[6]&0xf | version<<4
		return u
	case Varint:
		return drawVarint(t)
	case Decimal:
		scale := rapid.OneOf(rapid.Int32Range(-3, 3), rapid.Int32()).Draw(t, "scale")
		return append([]byte{byte(scale >> 24), byte(scale >> 16), byte(scale >> 8), byte(scale)}, drawVarint(t)...)
	case Duration:
		d := DurationValue{rapid.Int32Range(0, math.MaxInt32).Draw(t, "months"), rapid.Int32Range(0, 9).Draw(t, "days"),
			rapid.Int64Range(0, math.MaxInt64).Draw(t, "nanos")}
		if rapid.Bool().Draw(t, "negative") {
			d = DurationValue{-d.Months, -d.Days, -d.Nanos}
		}
		return EncodeDuration(d)
	case Float, Double:
		v := rapid.OneOf(rapid.Float64(),
			rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, -1, 1.5, math.Inf(1), math.Inf(-1), math.NaN(),
				math.MaxFloat32, math.SmallestNonzeroFloat64})).Draw(t, "float")
		return typ.Kind.FromFloat64(v)
	case Time:
		v, _ := typ.Kind.FromInt64(rapid.Int64Range(0, nanosPerDay-1).Draw(t, "time"))
		return v
	case Date:
		v, _ := typ.Kind.FromInt64(int64(rapid.OneOf(rapid.Int32Range(-3, 3), rapid.Int32()).Draw(t, "date")))
		return v
	}
	v, _ := typ.Kind.FromInt64(number.Draw(t, "number")) // a number out of range wraps around, which is equally useful
	return v
}

func drawVarint(t *rapid.T) []byte {
	v := big.NewInt(rapid.OneOf(rapid.Int64Range(-300, 300), rapid.Int64()).Draw(t, "varint"))
	if rapid.IntRange(0, 3).Draw(t, "long") == 0 {
		v.Lsh(v, uint(rapid.IntRange(0, 1100).Draw(t, "shift")))
	}
	wire := EncodeVarint(v)
	if rapid.IntRange(0, 7).Draw(t, "needless") == 0 {
		wire = append([]byte{byte(int8(wire[0]) >> 7)}, wire...)
	}
	return wire
}

func drawComposed(t *rapid.T, typ *Type) []byte {
	n := len(typ.Elems)
	if typ.IsCollection() {
		n = rapid.IntRange(0, 3).Draw(t, "count")
		if typ.Kind == Map {
			n *= 2
		}
	}
	values := make([][]byte, n)
	for i := range values {
		if !typ.IsCollection() && rapid.IntRange(0, 3).Draw(t, "null") == 0 {
			continue
		}
		values[i] = drawValue(t, typ.elemType(i))
	}
	switch typ.Kind {
	case Set:
		return typ.SortedSet(values)
	case Map:
		return typ.SortedMap(values)
	case List:
		return typ.AppendCollection(nil, values...)
	}
	return typ.AppendTuple(nil, values[:rapid.IntRange(0, n).Draw(t, "present")]...)
}

// drawVector draws the elements of a vector. Elements of a fixed-width type have that width.
func drawVector(t *rapid.T, typ *Type) []byte {
	values, width := make([][]byte, typ.Dimension), typ.Elems[0].fixedWidth()
	for i := range values {
		if values[i] = drawValue(t, typ.Elems[0]); width > 0 && len(values[i]) != width {
			values[i] = make([]byte, width)
			if typ.Elems[0].Kind == Timeuuid {
				values[i][6] = 0x10
			}
		}
	}
	return typ.AppendVector(nil, values...)
}
