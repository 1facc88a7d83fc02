// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// operators holds the overloads of each operator. The operators + - * / % accept any two numeric types. The operators +
// and - also accept durations. The key 'n' represents negation.
var operators = func() map[byte][]*function {
	numeric := []*cqltype.Type{tTinyint, tSmallint, tInt, tBigint, tFloat, tDouble, tDecimal, tVarint, tCounter}
	all := map[byte][]*function{}
	for _, op := range []byte("+-*/%") {
		for _, l := range numeric {
			for _, r := range numeric {
				all[op] = append(all[op], operation(op, l, r, promote(l, r)))
			}
		}
	}
	for _, op := range []byte("+-") {
		for _, t := range []*cqltype.Type{tTimestamp, tDate} {
			all[op] = append(all[op], operation(op, t, tDuration, t))
		}
	}
	for _, l := range types(tAscii, tText) {
		for _, r := range types(tAscii, tText) {
			all['+'] = append(all['+'], concatenation(l, r))
		}
	}
	for _, t := range numeric {
		f := &function{name: "-", args: types(t), result: t, pure: true}
		f.call = func(_ *Bindings, args [][]byte) ([]byte, error) { return negate(t, args[0]) }
		all['n'] = append(all['n'], f)
	}
	return all
}()

// concatenation returns the operator + for two texts. The result has the type ascii only if both operands have this
// type.
func concatenation(l, r *cqltype.Type) *function {
	result := tAscii
	if l == tText || r == tText {
		result = tText
	}
	return &function{name: "+", args: types(l, r), result: result, pure: true,
		call: func(_ *Bindings, args [][]byte) ([]byte, error) {
			return append(slices.Clip(args[0]), args[1]...), nil // for two empty texts, the result must not be nil
		}}
}

// promote returns the result type of an operation on two numeric types. The result type is the wider of the two types.
// If one type is a floating-point type, the result type is a floating-point type.
func promote(l, r *cqltype.Type) *cqltype.Type {
	size := max(width(l), width(r))
	if isFloating(l) || isFloating(r) {
		switch size {
		case 4:
			return tFloat
		case 8:
			return tDouble
		}
		if size < 4 {
			return tFloat
		}
		return tDecimal
	}
	switch size {
	case 1:
		return tTinyint
	case 2:
		return tSmallint
	case 4:
		return tInt
	case 8:
		return tBigint
	}
	return tVarint
}

func isFloating(t *cqltype.Type) bool {
	return t.Kind == cqltype.Float || t.Kind == cqltype.Double || t.Kind == cqltype.Decimal
}

func width(t *cqltype.Type) int {
	switch t.Kind {
	case cqltype.Tinyint:
		return 1
	case cqltype.Smallint:
		return 2
	case cqltype.Int, cqltype.Float:
		return 4
	case cqltype.Bigint, cqltype.Counter, cqltype.Double:
		return 8
	}
	return math.MaxInt
}

func operation(op byte, l, r, result *cqltype.Type) *function {
	f := &function{name: string(op), args: types(l, r), result: result, pure: true}
	f.call = func(_ *Bindings, args [][]byte) ([]byte, error) {
		v, err := operate(op, l, r, result, args[0], args[1])
		if err != nil {
			return nil, &dberr.FunctionFailure{
				Keyspace: "system", Function: string(op), ArgTypes: []string{l.String(), r.String()},
				Message: "the operation '" + l.String() + " " + string(op) + " " + r.String() + "' failed: " +
					err.Error(),
			}
		}
		return v, nil
	}
	return f
}

func operate(op byte, l, r, result *cqltype.Type, x, y []byte) ([]byte, error) {
	switch result.Kind {
	case cqltype.Tinyint, cqltype.Smallint, cqltype.Int, cqltype.Bigint:
		a, okA := l.Kind.Int64(x)
		b, okB := r.Kind.Int64(y)
		if !okA || !okB {
			return nil, nil
		}
		v, err := integerOp(op, a, b)
		return wrap(result, v), err
	case cqltype.Float:
		a, okA := toFloat64(l, x)
		b, okB := toFloat64(r, y)
		if !okA || !okB {
			return nil, nil
		}
		return fromFloat32(floatOp(op, float32(a), float32(b))), nil
	case cqltype.Double:
		a, okA := toFloat64(l, x)
		b, okB := toFloat64(r, y)
		if !okA || !okB {
			return nil, nil
		}
		return fromFloat64(floatOp(op, a, b)), nil
	case cqltype.Varint:
		a, b := toBig(l, x), toBig(r, y)
		if a == nil || b == nil {
			return nil, nil
		}
		v, err := bigOp(op, a, b)
		if err != nil {
			return nil, err
		}
		return cqltype.EncodeVarint(v), nil
	case cqltype.Decimal:
		return decimalOp(op, l, r, x, y)
	}
	return shiftTime(op, result, x, y)
}

func integerOp(op byte, a, b int64) (int64, error) {
	if (op == '/' || op == '%') && b == 0 {
		return 0, dberr.Invalidf("/ by zero")
	}
	switch op {
	case '+':
		return a + b, nil
	case '-':
		return a - b, nil
	case '*':
		return a * b, nil
	case '/':
		return a / b, nil
	}
	return a % b, nil
}

func floatOp[F float32 | float64](op byte, a, b F) F {
	switch op {
	case '+':
		return a + b
	case '-':
		return a - b
	case '*':
		return a * b
	case '/':
		return a / b
	}
	if v := math.Mod(float64(a), float64(b)); !math.IsNaN(v) {
		return F(v)
	}
	return undefinedRemainder(a, b)
}

// undefinedRemainder returns the NaN result of a remainder. The bits of the NaN are visible in keys. The bits follow
// the rules of the processor for other operators. If an operand is NaN, the result has the operand's bits. Otherwise,
// the bits are fixed.
func undefinedRemainder[F float32 | float64](a, b F) F {
	switch {
	case a != a || b != b:
		return a + b
	case math.IsInf(float64(a), 0):
		return a - a
	}
	return b / b
}

func bigOp(op byte, a, b *big.Int) (*big.Int, error) {
	if (op == '/' || op == '%') && b.Sign() == 0 {
		return nil, dberr.Invalidf("BigInteger divide by zero")
	}
	v := new(big.Int)
	switch op {
	case '+':
		v.Add(a, b)
	case '-':
		v.Sub(a, b)
	case '*':
		v.Mul(a, b)
	case '/':
		v.Quo(a, b)
	default:
		v.Rem(a, b)
	}
	return v, checkLength(v)
}

func decimalOp(op byte, l, r *cqltype.Type, x, y []byte) ([]byte, error) {
	a, okA, err := toOperand(l, x)
	if err != nil {
		return nil, err
	}
	b, okB, err := toOperand(r, y)
	if err != nil || !okA || !okB {
		return nil, err
	}
	d, err := decimalResult(op, a, b)
	if err != nil {
		return nil, err
	}
	return cqltype.EncodeDecimal(d), nil
}

func decimalResult(op byte, a, b cqltype.DecimalValue) (cqltype.DecimalValue, error) {
	if (op == '/' || op == '%') && b.Unscaled.Sign() == 0 {
		return a, dberr.Invalidf("BigInteger divide by zero")
	}
	switch op {
	case '*':
		scale := int64(a.Scale) + int64(b.Scale)
		if scale > math.MaxInt32 || scale < math.MinInt32 {
			return a, dberr.Invalidf("the scale of the product is out of range")
		}
		v := new(big.Int).Mul(a.Unscaled, b.Unscaled)
		return cqltype.DecimalValue{Unscaled: v, Scale: int32(scale)}, checkLength(v)
	case '/':
		return divideDecimal(a, b)
	}
	x, y, scale, err := align(a, b)
	if err != nil {
		return a, err
	}
	v := new(big.Int)
	switch op {
	case '+':
		v.Add(x, y)
	case '-':
		v.Sub(x, y)
	default:
		return remainder(a, b, x, y, scale)
	}
	return cqltype.DecimalValue{Unscaled: v, Scale: scale}, checkLength(v)
}

// remainder returns the remainder of a and b. x and y are the values of a and b at the common scale. The result has the
// same scale as BigDecimal.remainder: the scale of a - q*b, where q is the integer quotient without trailing zeros. The
// scale is at least the scale of a.
func remainder(a, b cqltype.DecimalValue, x, y *big.Int, scale int32) (cqltype.DecimalValue, error) {
	q, r := new(big.Int).QuoRem(x, y, new(big.Int))
	places := a.Scale
	if q.Sign() != 0 && a.Scale < b.Scale {
		digits := q.String()
		zeros := len(digits) - len(strings.TrimRight(digits, "0"))
		places = int32(max(int64(a.Scale), int64(b.Scale)-int64(zeros)))
	}
	if places < scale { // the removed digits are zeros
		r.Quo(r, pow10(int(scale)-int(places)))
	}
	return cqltype.DecimalValue{Unscaled: r, Scale: places}, checkLength(r)
}

func negate(t *cqltype.Type, x []byte) ([]byte, error) {
	switch {
	case isInteger(t.Kind):
		if v, ok := t.Kind.Int64(x); ok {
			return wrap(t, -v), nil
		}
	case t.Kind == cqltype.Float:
		if v, ok := t.Kind.Float64(x); ok {
			return fromFloat32(-float32(v)), nil
		}
	case t.Kind == cqltype.Double:
		if v, ok := t.Kind.Float64(x); ok {
			return fromFloat64(-v), nil
		}
	case t.Kind == cqltype.Varint:
		if v := cqltype.DecodeVarint(x); v != nil {
			return cqltype.EncodeVarint(new(big.Int).Neg(v)), nil
		}
	case t.Kind == cqltype.Decimal:
		if d, ok := cqltype.DecodeDecimal(x); ok {
			return cqltype.EncodeDecimal(cqltype.DecimalValue{Unscaled: new(big.Int).Neg(d.Unscaled), Scale: d.Scale}),
				nil
		}
	}
	return nil, nil
}

// shiftTime adds a duration to a timestamp or date, or subtracts a duration from a timestamp or date.
func shiftTime(op byte, t *cqltype.Type, x, y []byte) ([]byte, error) {
	v, okV := t.Kind.Int64(x)
	d, okD := cqltype.DecodeDuration(y)
	if !okV || !okD {
		return nil, nil
	}
	months, days, nanos := int64(d.Months), int64(d.Days), d.Nanos
	if op == '-' {
		months, days, nanos = -months, -days, -nanos
	}
	if t.Kind == cqltype.Timestamp {
		if nanos%int64(time.Millisecond) != 0 {
			return nil, dberr.Invalidf("The duration must have a millisecond precision. Was: %s", d)
		}
		w, _ := t.Kind.FromInt64(addMonths(v, months) + days*dayMillis + nanos/int64(time.Millisecond))
		return w, nil
	}
	if nanos != 0 {
		return nil, dberr.Invalidf("The duration must have a day precision. Was: %s", d)
	}
	w, ok := t.Kind.FromInt64(floorDiv(addMonths(v*dayMillis, months), dayMillis) + days)
	if !ok {
		return nil, dberr.Invalidf("the date is out of range")
	}
	return w, nil
}

// addMonths adds months to a time in milliseconds. If the resulting month does not contain the day, the result is the
// last day of the month.
func addMonths(ms, months int64) int64 {
	if months == 0 {
		return ms
	}
	t := time.UnixMilli(ms).UTC()
	first := time.Date(t.Year(), t.Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
	last := time.Date(first.Year(), first.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	day := time.Date(first.Year(), first.Month(), min(t.Day(), last), 0, 0, 0, 0, time.UTC)
	return day.UnixMilli() + ms - floorDiv(ms, dayMillis)*dayMillis
}
