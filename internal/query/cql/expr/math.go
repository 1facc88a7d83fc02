// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"math"
	"math/big"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// mathFunctions returns abs, exp, log (the natural logarithm), log10, and round for every numeric type. The result has
// the type of the argument. For integer types, the result is truncated and then converted to the type's width in the
// same way as in Java.
func mathFunctions() []*function {
	var fs []*function
	add := func(name string, of func(float64) float64, big func(cqltype.DecimalValue) (cqltype.DecimalValue, error)) {
		for _, t := range types(tTinyint, tSmallint, tInt, tBigint, tFloat, tDouble, tDecimal, tVarint, tCounter) {
			fs = append(fs, scalar(true, t, types(t), func(_ *Bindings, args [][]byte) ([]byte, error) {
				return calculate(t, args[0], of, big)
			}, name)...)
		}
	}
	add("exp", doubleExp, decimalExp)
	add("log", doubleLog, decimalLog)
	add("log10", doubleLog10, decimalLog10)
	for _, t := range types(tTinyint, tSmallint, tInt, tBigint, tFloat, tDouble, tDecimal, tVarint, tCounter) {
		fs = append(fs, scalar(true, t, types(t), func(_ *Bindings, args [][]byte) ([]byte, error) {
			return absolute(t, args[0])
		}, "abs")...)
		fs = append(fs, scalar(true, t, types(t), func(_ *Bindings, args [][]byte) ([]byte, error) {
			return rounded(t, args[0])
		}, "round")...)
	}
	return fs
}

// calculate applies a function to a number. For varints and decimals, it uses 32 significant digits.
func calculate(t *cqltype.Type, v []byte, of func(float64) float64,
	big func(cqltype.DecimalValue) (cqltype.DecimalValue, error)) ([]byte, error) {
	switch t.Kind {
	case cqltype.Varint, cqltype.Decimal:
		d, ok, err := toDecimal(t, v)
		if err != nil || !ok {
			return nil, err
		}
		if d, err = big(d); err != nil {
			return nil, err
		}
		if t.Kind == cqltype.Decimal {
			return cqltype.EncodeDecimal(d), nil
		}
		i, ok := truncated(d)
		if !ok {
			return nil, errRange
		}
		return cqltype.EncodeVarint(i), checkLength(i)
	}
	f, ok := toFloat64(t, v)
	if !ok {
		return nil, nil
	}
	if f = of(f); f != f {
		f = javaNaN
	}
	switch t.Kind {
	case cqltype.Float:
		return fromFloat32(float32(f)), nil
	case cqltype.Double:
		return fromFloat64(f), nil
	case cqltype.Bigint, cqltype.Counter:
		return wrap(t, saturate(f, math.MinInt64, math.MaxInt64)), nil
	}
	return wrap(t, saturate(f, math.MinInt32, math.MaxInt32)), nil // narrower types use the low bits of the int
}

// absolute implements abs. As in Java, the absolute value of the minimum integer of a type is the minimum integer.
func absolute(t *cqltype.Type, v []byte) ([]byte, error) {
	if t.Kind == cqltype.Float || t.Kind == cqltype.Double {
		f, ok := t.Kind.Float64(v)
		if !ok {
			return nil, nil
		}
		return t.Kind.FromFloat64(math.Abs(f)), nil
	}
	d, ok, err := toDecimal(t, v)
	if err != nil || !ok {
		return nil, err
	}
	if d.Unscaled.Sign() < 0 {
		return negate(t, v)
	}
	return v, nil
}

// rounded implements round. It rounds to the nearest integer. It rounds halves up, but rounds decimal halves away from
// zero.
func rounded(t *cqltype.Type, v []byte) ([]byte, error) {
	switch t.Kind {
	case cqltype.Float, cqltype.Double:
		f, ok := t.Kind.Float64(v)
		if !ok {
			return nil, nil
		}
		low, high := int64(math.MinInt64), int64(math.MaxInt64)
		if t.Kind == cqltype.Float {
			low, high = math.MinInt32, math.MaxInt32
		}
		return t.Kind.FromFloat64(float64(saturate(math.Floor(f+0.5), low, high))), nil
	case cqltype.Decimal:
		d, ok := cqltype.DecodeDecimal(v)
		if !ok {
			return nil, nil
		}
		d, err := quotient(d, cqltype.DecimalValue{Unscaled: bigOne}, 0, false)
		if err != nil {
			return nil, err
		}
		return cqltype.EncodeDecimal(d), checkLength(d.Unscaled)
	}
	if len(v) == 0 {
		return nil, nil
	}
	return v, nil
}

const (
	// calculateBits is the precision of intermediate results that are rounded to 32 digits.
	calculateBits = 256
	// exponentMax is the maximum decimal exponent of an operand.
	exponentMax = 20_000
)

// javaNaN is the NaN that Java functions return.
var javaNaN = math.Float64frombits(0x7ff8 << 48)

var errRange = dberr.Invalidf("the number is out of range")

// toBigFloat converts a decimal with a limited exponent.
func toBigFloat(d cqltype.DecimalValue) (*big.Float, error) {
	if e := digits(d.Unscaled) - int64(d.Scale); e > exponentMax || e < -exponentMax {
		return nil, errRange
	}
	x := new(big.Float).SetPrec(calculateBits).SetInt(d.Unscaled)
	switch power := new(big.Float).SetPrec(calculateBits); {
	case d.Scale > 0:
		x.Quo(x, power.SetInt(pow10(int(d.Scale))))
	case d.Scale < 0:
		x.Mul(x, power.SetInt(pow10(int(-d.Scale))))
	}
	return x, nil
}

// fromBigFloat rounds to 32 significant digits.
func fromBigFloat(x *big.Float) (cqltype.DecimalValue, error) {
	if x.Sign() == 0 {
		return cqltype.DecimalValue{Unscaled: new(big.Int)}, nil
	}
	d, ok := cqltype.ParseDecimal(x.Text('e', decimalDigits-1))
	if !ok {
		return d, errRange
	}
	return d, nil
}

func newBig(i int64) *big.Float { return new(big.Float).SetPrec(calculateBits).SetInt64(i) }

// artanh2 returns 2 artanh(z) = ln((1 + z) / (1 - z)) for |z| <= 1/3. It uses the power series.
func artanh2(z *big.Float) *big.Float {
	square := newBig(0).Mul(z, z)
	sum, power := newBig(0).Set(z), newBig(0).Set(z)
	for n := int64(3); n < calculateBits; n += 2 {
		power.Mul(power, square)
		sum.Add(sum, newBig(0).Quo(power, newBig(n)))
	}
	return sum.Mul(sum, newBig(2))
}

var (
	ln2  = artanh2(newBig(0).Quo(newBig(1), newBig(3)))
	ln10 = naturalLog(newBig(10))
)

// naturalLog returns the natural logarithm of a positive number.
func naturalLog(x *big.Float) *big.Float {
	mantissa := newBig(0)
	exponent := x.MantExp(mantissa) // the mantissa is between 0.5 and 1
	z := newBig(0).Quo(newBig(0).Sub(mantissa, newBig(1)), newBig(0).Add(mantissa, newBig(1)))
	return z.Add(artanh2(z), newBig(0).Mul(newBig(int64(exponent)), ln2))
}

func decimalLog(d cqltype.DecimalValue) (cqltype.DecimalValue, error) {
	return logarithm(d, "Natural log", newBig(1))
}

func decimalLog10(d cqltype.DecimalValue) (cqltype.DecimalValue, error) {
	return logarithm(d, "Log10", ln10)
}

func logarithm(d cqltype.DecimalValue, what string, of *big.Float) (cqltype.DecimalValue, error) {
	if d.Unscaled.Sign() <= 0 {
		return d, dberr.Invalidf("%s of number zero or less", what)
	}
	x, err := toBigFloat(d)
	if err != nil {
		return d, err
	}
	return fromBigFloat(x.Quo(naturalLog(x), of))
}

// decimalExp returns e^d. It extracts powers of two, halves the rest eight times, and squares the sum of the series
// eight times.
func decimalExp(d cqltype.DecimalValue) (cqltype.DecimalValue, error) {
	if d.Unscaled.Sign() == 0 {
		return cqltype.DecimalValue{Unscaled: big.NewInt(1)}, nil
	}
	x, err := toBigFloat(d)
	if err != nil {
		return d, err
	}
	if limit := newBig(2 * exponentMax); newBig(0).Abs(x).Cmp(limit) > 0 {
		return d, errRange
	}
	twos, _ := newBig(0).Quo(x, ln2).Int64()
	x.Sub(x, newBig(0).Mul(newBig(twos), ln2))
	const halvings = 8
	x.SetMantExp(x, -halvings)
	sum, power := newBig(1), newBig(1)
	for n := int64(1); n < 48; n++ {
		power.Quo(power.Mul(power, x), newBig(n))
		sum.Add(sum, power)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return fromBigFloat(sum.SetMantExp(sum, int(twos)))
}
