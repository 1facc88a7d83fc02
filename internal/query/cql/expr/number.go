// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// These constants limit varint and decimal arithmetic, because a short statement must not create a number with
// gigabytes of digits. Operations that exceed a limit are rejected. The size of a result does not exceed
// cqltype.NumberBytesMax.
const (
	maxScaleGap    = cqltype.ScaleGapMax
	decimalDigits  = 32   // significant digits and scale of a quotient
	maxQuotientLen = 1000 // maximum scale of a quotient
)

var (
	bigTen  = big.NewInt(10)
	bigOne  = big.NewInt(1)
	bigZero = new(big.Int)
)

// isInteger reports whether Int64 decodes the values of a kind.
func isInteger(k cqltype.Kind) bool {
	return k == cqltype.Tinyint || k == cqltype.Smallint || k == cqltype.Int || k == cqltype.Bigint ||
		k == cqltype.Counter
}

// wrap encodes the low bits of an integer in the width of the type. Java's narrowing conversions have the same result.
func wrap(t *cqltype.Type, v int64) []byte {
	switch t.Kind {
	case cqltype.Tinyint:
		return []byte{byte(v)}
	case cqltype.Smallint:
		return binary.BigEndian.AppendUint16(nil, uint16(v))
	case cqltype.Int:
		return binary.BigEndian.AppendUint32(nil, uint32(v))
	}
	return binary.BigEndian.AppendUint64(nil, uint64(v))
}

func fromFloat32(v float32) []byte { return binary.BigEndian.AppendUint32(nil, math.Float32bits(v)) }

func fromFloat64(v float64) []byte { return binary.BigEndian.AppendUint64(nil, math.Float64bits(v)) }

// toFloat64 decodes an integer, float, or double. For an empty value, ok is false.
func toFloat64(t *cqltype.Type, v []byte) (f float64, ok bool) {
	if isInteger(t.Kind) {
		i, ok := t.Kind.Int64(v)
		return float64(i), ok
	}
	return t.Kind.Float64(v)
}

// toBig decodes an integer or varint. For an empty value, it returns nil.
func toBig(t *cqltype.Type, v []byte) *big.Int {
	if t.Kind == cqltype.Varint {
		return cqltype.DecodeVarint(v)
	}
	if i, ok := t.Kind.Int64(v); ok {
		return big.NewInt(i)
	}
	return nil
}

// toDecimal converts a number to a decimal. Integers have the scale 0, and floats have the scale of their shortest
// text. For an empty value, ok is false. NaN and infinities result in errors.
func toDecimal(t *cqltype.Type, v []byte) (d cqltype.DecimalValue, ok bool, err error) {
	switch t.Kind {
	case cqltype.Decimal:
		d, ok = cqltype.DecodeDecimal(v)
		return d, ok, nil
	case cqltype.Float, cqltype.Double:
		f, ok := t.Kind.Float64(v)
		if !ok {
			return d, false, nil
		}
		d, err = decimalOfFloat(f)
		return d, true, err
	}
	if b := toBig(t, v); b != nil {
		return cqltype.DecimalValue{Unscaled: b}, true, nil
	}
	return d, false, nil
}

// toOperand converts an operand to a decimal. Like Cassandra, it first converts all integers except varints to doubles,
// so 2 has scale 1.
func toOperand(t *cqltype.Type, v []byte) (d cqltype.DecimalValue, ok bool, err error) {
	if !isInteger(t.Kind) {
		return toDecimal(t, v)
	}
	f, ok := toFloat64(t, v)
	if !ok {
		return d, false, nil
	}
	d, err = decimalOfFloat(f)
	return d, true, err
}

// decimalOfFloat implements BigDecimal.valueOf. It converts the text of the double, so 1.0 has scale 1.
func decimalOfFloat(f float64) (cqltype.DecimalValue, error) {
	switch {
	case math.IsNaN(f):
		return cqltype.DecimalValue{}, dberr.Invalidf("A NaN cannot be converted into a decimal")
	case math.IsInf(f, 0):
		return cqltype.DecimalValue{}, dberr.Invalidf("An infinite number cannot be converted into a decimal")
	}
	d, ok := cqltype.ParseDecimal(tDouble.Text(fromFloat64(f)))
	if !ok {
		return d, dberr.Invalidf("%v cannot be converted into a decimal", f)
	}
	return d, nil
}

func pow10(n int) *big.Int { return new(big.Int).Exp(bigTen, big.NewInt(int64(n)), nil) }

// align converts two decimals to a common scale.
func align(x, y cqltype.DecimalValue) (a, b *big.Int, scale int32, err error) {
	a, b, scale, ok := cqltype.AlignDecimals(x, y)
	if !ok {
		err = dberr.Invalidf("decimals with scales %d and %d are too far apart", x.Scale, y.Scale)
	}
	return a, b, scale, err
}

// checkLength rejects a number that exceeds the maximum size of a value.
func checkLength(v *big.Int) error {
	if v.BitLen()/8 >= cqltype.NumberBytesMax {
		return dberr.Invalidf("the numbers have too many digits")
	}
	return nil
}

func digits(v *big.Int) int64 {
	if v.Sign() == 0 {
		return 1
	}
	return int64(len(new(big.Int).Abs(v).String()))
}

// strip removes trailing zeros like BigDecimal.stripTrailingZeros.
func strip(d cqltype.DecimalValue) cqltype.DecimalValue {
	if d.Unscaled.Sign() == 0 {
		return cqltype.DecimalValue{Unscaled: new(big.Int)}
	}
	s := d.Unscaled.String()
	zeros := len(s) - len(strings.TrimRight(s, "0"))
	if zeros == 0 || int64(d.Scale)-int64(zeros) < math.MinInt32 {
		return d
	}
	u, _ := new(big.Int).SetString(s[:len(s)-zeros], 10)
	return cqltype.DecimalValue{Unscaled: u, Scale: d.Scale - int32(zeros)}
}

// quotient returns the quotient with the given scale. If halfEven is true, it rounds halves to even. Otherwise, it
// rounds halves away from zero.
func quotient(x, y cqltype.DecimalValue, scale int32, halfEven bool) (cqltype.DecimalValue, error) {
	shift := int64(scale) - int64(x.Scale) + int64(y.Scale)
	if shift > maxScaleGap || shift < -maxScaleGap {
		return x, dberr.Invalidf("decimals with scales %d and %d are too far apart", x.Scale, y.Scale)
	}
	num, den := x.Unscaled, y.Unscaled
	if shift >= 0 {
		num = new(big.Int).Mul(num, pow10(int(shift)))
	} else {
		den = new(big.Int).Mul(den, pow10(int(-shift)))
	}
	return cqltype.DecimalValue{Unscaled: divRound(num, den, halfEven), Scale: scale}, nil
}

// divRound divides num by den and rounds the quotient to the nearest integer.
func divRound(num, den *big.Int, halfEven bool) *big.Int {
	q, r := new(big.Int).QuoRem(num, den, new(big.Int))
	twice := new(big.Int).Lsh(r.Abs(r), 1)
	cmp := twice.Cmp(new(big.Int).Abs(den))
	if cmp > 0 || cmp == 0 && (!halfEven || q.Bit(0) == 1) {
		if num.Sign()*den.Sign() < 0 {
			return q.Sub(q, bigOne)
		}
		return q.Add(q, bigOne)
	}
	return q
}

// divideDecimal implements Cassandra's DecimalType.divide. The quotient has the scale that is required for 32
// significant digits.
func divideDecimal(x, y cqltype.DecimalValue) (cqltype.DecimalValue, error) {
	first := (digits(x.Unscaled) - int64(x.Scale)) - (digits(y.Unscaled) - int64(y.Scale))
	scale := max(decimalDigits-first, int64(x.Scale), int64(y.Scale), decimalDigits)
	q, err := quotient(x, y, int32(min(scale, maxQuotientLen)), false)
	if err != nil {
		return q, err
	}
	return strip(q), nil
}

// float64OfDecimal rounds a decimal to the nearest double.
func float64OfDecimal(d cqltype.DecimalValue) float64 {
	f, _ := strconv.ParseFloat(d.Unscaled.String()+"e"+strconv.FormatInt(-int64(d.Scale), 10), 64)
	return f
}

// truncated returns the integer part of a decimal. If the integer part is too long, ok is false.
func truncated(d cqltype.DecimalValue) (v *big.Int, ok bool) {
	switch {
	case d.Scale == 0:
		return d.Unscaled, true
	case d.Scale > 0 && int64(d.Scale) > digits(d.Unscaled):
		return bigZero, true
	case d.Scale > 0:
		return new(big.Int).Quo(d.Unscaled, pow10(int(d.Scale))), true
	case d.Scale < -maxScaleGap:
		return nil, false
	}
	return new(big.Int).Mul(d.Unscaled, pow10(int(-d.Scale))), true
}

// lowBits implements BigInteger.longValue. It returns the lowest 64 bits in two's complement.
func lowBits(v *big.Int) int64 {
	low := new(big.Int).And(v, new(big.Int).SetUint64(math.MaxUint64)) // And uses two's complement
	return int64(low.Uint64())
}
