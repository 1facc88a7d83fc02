// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
	"strings"
)

func newInt(v int64) *big.Int { return big.NewInt(v) }

// signExtend decodes up to 8 bytes of a two's complement number.
func signExtend(v []byte) int64 {
	if len(v) == 0 {
		return 0
	}
	n := int64(int8(v[0]))
	for _, b := range v[1:] {
		n = n<<8 | int64(b)
	}
	return n
}

// Int64 decodes a tinyint, smallint, int, bigint, counter, timestamp (milliseconds), time (nanoseconds), or date (days
// since 1970-01-01). ok is false for null, the empty value, and other types.
func (k Kind) Int64(wire []byte) (v int64, ok bool) {
	if len(wire) == 0 || !k.wellFormed(wire) {
		return 0, false
	}
	switch k {
	case Tinyint, Smallint, Int, Bigint, Counter, Timestamp, Time:
		return signExtend(wire), true
	case Date:
		return int64(binary.BigEndian.Uint32(wire)) - dateEpoch, true
	}
	return 0, false
}

// FromInt64 is the inverse of Int64. ok is false if v is out of range for the type.
func (k Kind) FromInt64(v int64) (wire []byte, ok bool) {
	switch k {
	case Tinyint:
		return []byte{byte(v)}, v == int64(int8(v))
	case Smallint:
		return binary.BigEndian.AppendUint16(nil, uint16(v)), v == int64(int16(v))
	case Int:
		return binary.BigEndian.AppendUint32(nil, uint32(v)), v == int64(int32(v))
	case Bigint, Counter, Timestamp:
		return binary.BigEndian.AppendUint64(nil, uint64(v)), true
	case Time:
		return binary.BigEndian.AppendUint64(nil, uint64(v)), v >= 0 && v < nanosPerDay
	case Date:
		return binary.BigEndian.AppendUint32(nil, uint32(v+dateEpoch)), v >= -dateEpoch && v < dateEpoch
	}
	return nil, false
}

// Float64 decodes a float or double. ok is false for null, the empty value, and other types.
func (k Kind) Float64(wire []byte) (v float64, ok bool) {
	switch {
	case k == Float && len(wire) == 4:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(wire))), true
	case k == Double && len(wire) == 8:
		return math.Float64frombits(binary.BigEndian.Uint64(wire)), true
	}
	return 0, false
}

// FromFloat64 encodes a double, or a float after it has rounded v. Every NaN becomes Java's NaN.
func (k Kind) FromFloat64(v float64) []byte {
	if k == Float {
		if v != v {
			return []byte{0x7f, 0xc0, 0, 0}
		}
		return binary.BigEndian.AppendUint32(nil, math.Float32bits(float32(v)))
	}
	if v != v {
		return []byte{0x7f, 0xf8, 0, 0, 0, 0, 0, 0}
	}
	return binary.BigEndian.AppendUint64(nil, math.Float64bits(v))
}

// EncodeBoolean encodes a boolean.
func EncodeBoolean(v bool) []byte { return []byte{byte(btoi(v))} }

// DecodeVarint decodes a varint. DecodeVarint returns nil for null and for the empty value.
func DecodeVarint(wire []byte) *big.Int {
	if len(wire) == 0 {
		return nil
	}
	v := new(big.Int).SetBytes(wire)
	if wire[0] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(len(wire))*8))
	}
	return v
}

// EncodeVarint encodes a varint in the minimum number of bytes. The result has at least one byte.
func EncodeVarint(v *big.Int) []byte { return appendVarint(nil, v) }

func appendVarint(dst []byte, v *big.Int) []byte {
	if v.IsInt64() {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(v.Int64()))
		return append(dst, trimVarint(b[:])...)
	}
	n := v.BitLen()/8 + 1
	if v.Sign() > 0 {
		start := len(dst)
		dst = append(dst, make([]byte, n)...)
		v.FillBytes(dst[start:])
		return dst
	}
	complement := new(big.Int).Add(v, new(big.Int).Lsh(big.NewInt(1), uint(n)*8))
	b := complement.FillBytes(make([]byte, n))
	return append(dst, trimVarint(b)...)
}

// DecimalValue is the number Unscaled * 10^-Scale.
type DecimalValue struct {
	Unscaled *big.Int
	Scale    int32
}

// DecodeDecimal decodes a decimal. ok is false for null, the empty value, and invalid bytes.
func DecodeDecimal(wire []byte) (d DecimalValue, ok bool) {
	if len(wire) <= 4 {
		return DecimalValue{}, false
	}
	return DecimalValue{DecodeVarint(wire[4:]), int32(binary.BigEndian.Uint32(wire))}, true
}

// EncodeDecimal encodes a decimal.
func EncodeDecimal(d DecimalValue) []byte { return appendDecimal(nil, d) }

func appendDecimal(dst []byte, d DecimalValue) []byte {
	return appendVarint(binary.BigEndian.AppendUint32(dst, uint32(d.Scale)), d.Unscaled)
}

const (
	// NumberBytesMax is the maximum size of a varint, and of the digits of a decimal, in bytes. The time needed to
	// convert a number to text and back grows faster than the number's length. At this limit, the conversion takes
	// milliseconds. A number of 4 MB takes a minute.
	NumberBytesMax = 16 << 10
	// digitsMax is the maximum number of digits in the text of a number, as a literal or in JSON. A number with
	// digitsMax digits fits into NumberBytesMax.
	digitsMax = 39_456
)

// ParseDecimal parses the text of a decimal, such as 1.10, -.5, or 1E+30, in the same way as java.math.BigDecimal.
func ParseDecimal(s string) (d DecimalValue, ok bool) {
	mantissa, exponent := s, int64(0)
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.ParseInt(s[i+1:], 10, 40)
		if err != nil {
			return d, false
		}
		mantissa, exponent = s[:i], e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	bare := strings.TrimLeft(digits, "+-")
	if len(digits)-len(bare) > 1 || bare == "" || len(bare) > digitsMax || strings.ContainsAny(fraction, "+-") ||
		!isDigits(bare) {
		return d, false
	}
	scale := int64(len(fraction)) - exponent
	if scale != int64(int32(scale)) {
		return d, false
	}
	unscaled, ok := new(big.Int).SetString(digits, 10)
	return DecimalValue{unscaled, int32(scale)}, ok
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// String formats the number in the same way as java.math.BigDecimal. The text has an exponent if the scale is negative
// or the number is small.
func (d DecimalValue) String() string {
	digits := d.Unscaled.String()
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	if d.Scale == 0 {
		return sign + digits
	}
	adjusted := int64(len(digits)) - 1 - int64(d.Scale)
	if d.Scale >= 0 && adjusted >= -6 {
		point := len(digits) - int(d.Scale)
		if point <= 0 {
			return sign + "0." + strings.Repeat("0", -point) + digits
		}
		return sign + digits[:point] + "." + digits[point:]
	}
	if len(digits) > 1 {
		digits = digits[:1] + "." + digits[1:]
	}
	if adjusted == 0 {
		return sign + digits
	}
	if adjusted > 0 {
		return sign + digits + "E+" + strconv.FormatInt(adjusted, 10)
	}
	return sign + digits + "E" + strconv.FormatInt(adjusted, 10)
}

// normal is a decimal in the form 0.digits * 10^exponent. The digits have no leading or trailing zeros. For zero, all
// fields are zero.
type normal struct {
	sign     int
	exponent int64
	digits   []byte
}

// decimalOf decodes a well-formed wire value.
func decimalOf(wire []byte) normal {
	unscaled := DecodeVarint(wire[4:])
	if unscaled.Sign() == 0 {
		return normal{}
	}
	scale := int64(int32(binary.BigEndian.Uint32(wire)))
	digits := unscaled.Append(nil, 10)
	if digits[0] == '-' {
		digits = digits[1:]
	}
	d := normal{sign: unscaled.Sign(), exponent: int64(len(digits)) - scale}
	for digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	d.digits = digits
	return d
}

func (d normal) compare(o normal) int {
	if d.sign != o.sign || d.sign == 0 {
		return cmp.Compare(d.sign, o.sign)
	}
	c := cmp.Compare(d.exponent, o.exponent)
	if c == 0 {
		c = strings.Compare(string(d.digits), string(o.digits))
	}
	return c * d.sign
}

// appendJavaFloat formats a floating-point number in the same way as Java's Double.toString (if bits is 64) or
// Float.toString (if bits is 32). The text has at least one digit on each side of the decimal point. It has an exponent
// if the number is outside [1e-3, 1e7).
func appendJavaFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case v != v:
		return append(dst, "NaN"...)
	case math.IsInf(v, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(v, -1):
		return append(dst, "-Infinity"...)
	}
	start := len(dst)
	if abs := math.Abs(v); v == 0 || abs >= 1e-3 && abs < 1e7 {
		dst = strconv.AppendFloat(dst, v, 'f', -1, bits)
		if strings.IndexByte(string(dst[start:]), '.') < 0 {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	text := string(strconv.AppendFloat(nil, v, 'E', -1, bits))
	mantissa, exponent, _ := strings.Cut(text, "E")
	dst = append(dst, mantissa...)
	if !strings.Contains(mantissa, ".") {
		dst = append(dst, ".0"...)
	}
	e, _ := strconv.Atoi(exponent)
	return strconv.AppendInt(append(dst, 'E'), int64(e), 10)
}

// parseJavaFloat parses the same texts as Java's parseDouble, except hexadecimal numbers.
func parseJavaFloat(s string, bits int) (float64, bool) {
	s = strings.TrimSpace(s)
	switch s {
	case "NaN", "+NaN", "-NaN":
		return math.NaN(), true
	case "Infinity", "+Infinity":
		return math.Inf(1), true
	case "-Infinity":
		return math.Inf(-1), true
	}
	if s == "" || strings.ContainsAny(s, "_xXnNpP") {
		return 0, false
	}
	if last := s[len(s)-1]; last == 'f' || last == 'F' || last == 'd' || last == 'D' {
		s = s[:len(s)-1]
	}
	v, err := strconv.ParseFloat(s, bits)
	if err != nil && !math.IsInf(v, 0) {
		return 0, false
	}
	return v, true
}
