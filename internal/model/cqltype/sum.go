// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"encoding/binary"
	"math"
	"math/big"
)

// ScaleGapMax is the maximum difference between the scales of two decimals that are converted to the same scale.
// Without the limit, a short number could expand to gigabytes.
const ScaleGapMax = 20_000

// Sums reports whether Sum supports the type. It supports texts and all numbers except counters.
func (k Kind) Sums() bool {
	switch k {
	case Tinyint, Smallint, Int, Bigint, Varint, Float, Double, Decimal, Text, Ascii:
		return true
	}
	return false
}

// Sum adds two numbers of the kind, or concatenates two texts. Integers wrap around at their width. An empty number is
// treated as null, and its sum with any number is nil. ok is false if the sum would be too long for the kind or if the
// kind is not supported.
func (k Kind) Sum(a, b []byte) (sum []byte, ok bool) {
	switch k {
	case Text, Ascii:
		return append(append([]byte{}, a...), b...), true
	case Varint:
		x, y := DecodeVarint(a), DecodeVarint(b)
		if x == nil || y == nil {
			return nil, true
		}
		return sumFits(new(big.Int).Add(x, y), EncodeVarint)
	case Decimal:
		x, okX := DecodeDecimal(a)
		y, okY := DecodeDecimal(b)
		if !okX || !okY {
			return nil, true
		}
		u, v, scale, ok := AlignDecimals(x, y)
		if !ok {
			return nil, false
		}
		return sumFits(u.Add(u, v), func(n *big.Int) []byte { return EncodeDecimal(DecimalValue{n, scale}) })
	case Float, Double:
		x, okX := k.Float64(a)
		y, okY := k.Float64(b)
		if !okX || !okY {
			return nil, true
		}
		if k == Float {
			return binary.BigEndian.AppendUint32(nil, math.Float32bits(float32(x)+float32(y))), true
		}
		return binary.BigEndian.AppendUint64(nil, math.Float64bits(x+y)), true
	case Tinyint, Smallint, Int, Bigint:
		x, okX := k.Int64(a)
		y, okY := k.Int64(b)
		if !okX || !okY {
			return nil, true
		}
		wire := binary.BigEndian.AppendUint64(nil, uint64(x+y))
		return wire[8-len(a):], true
	}
	return nil, false
}

// sumFits encodes a number unless it is too long.
func sumFits(n *big.Int, encode func(*big.Int) []byte) ([]byte, bool) {
	if n.BitLen()/8 >= NumberBytesMax {
		return nil, false
	}
	return encode(n), true
}

// AlignDecimals converts two decimals to the larger of their scales. a and b are the unscaled values, which the caller
// may modify. ok is false if the scales differ by more than ScaleGapMax.
func AlignDecimals(x, y DecimalValue) (a, b *big.Int, scale int32, ok bool) {
	if gap := int64(x.Scale) - int64(y.Scale); gap > ScaleGapMax || gap < -ScaleGapMax {
		return nil, nil, 0, false
	}
	scale = max(x.Scale, y.Scale)
	return rescaled(x, scale), rescaled(y, scale), scale, true
}

// rescaled returns the unscaled value of a decimal at a larger or equal scale.
func rescaled(d DecimalValue, scale int32) *big.Int {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale-d.Scale)), nil)
	return power.Mul(power, d.Unscaled)
}
