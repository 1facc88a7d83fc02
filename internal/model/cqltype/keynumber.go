// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"encoding/binary"
	"math"
)

// varintShort is the maximum length of a varint with a one-byte header. In keys, a varint consists of a header and
// two's complement bytes. The header orders numbers by sign and length. The number has at least one byte and no
// redundant bytes.
//
//	80+n              n bytes of a number >= 0, n <= 6F
//	F0+k  length      the length in k bytes
//	7F-n              n bytes of a negative number: longer numbers are smaller
//	0F-k  ^length
const varintShort = 0x6f

func appendVarintKey(dst, v []byte) []byte {
	var flip byte
	if v[0] >= 0x80 {
		flip = 0xff
	}
	n := len(v)
	if n <= varintShort {
		dst = append(dst, byte(0x80+n)^flip)
		return append(dst, v...)
	}
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(n))
	digits := trimZeros(length[:])
	dst = append(dst, byte(0xf0+len(digits))^flip)
	for _, b := range digits {
		dst = append(dst, b^flip)
	}
	return append(dst, v...)
}

func trimZeros(b []byte) []byte {
	for len(b) > 1 && b[0] == 0 {
		b = b[1:]
	}
	return b
}

// varintKeyLength reads the header.
func varintKeyLength(r *keyReader) (n int, ok bool) {
	h, ok := r.byte()
	if !ok {
		return 0, false
	}
	var flip byte
	if h < 0x80 {
		flip = 0xff
	}
	h ^= flip
	if h <= 0x80+varintShort {
		return int(h - 0x80), h > 0x80
	}
	k := int(h - 0xf0)
	if k < 1 || k > 4 {
		return 0, false
	}
	for range k {
		b, ok := r.byte()
		if !ok {
			return 0, false
		}
		n = n<<8 | int(b^flip)
	}
	return n, n > varintShort && n <= len(r.src)
}

func readVarintKey(r *keyReader, dst []byte) ([]byte, bool) {
	n, ok := varintKeyLength(r)
	if !ok {
		return dst, false
	}
	return r.copy(dst, n)
}

func skipVarintKey(r *keyReader) bool {
	n, ok := varintKeyLength(r)
	if !ok || len(r.src) < n {
		return false
	}
	r.src = r.src[n:]
	return true
}

// These bytes are the signs of decimals in keys. A decimal is 0.ddd multiplied by a power of 10. The first and the
// last digit are not zero. A decimal is encoded as a sign, the exponent as a varint key, and the digits in pairs. Each
// pair is a number from 1 to 100, and 0 ends the digits. For a negative number, all bytes after the sign are
// complemented.
const (
	signNegative = 0x10
	signZero     = 0x20
	signPositive = 0x30
)

func appendDecimalKey(dst []byte, d normal) []byte {
	switch d.sign {
	case 0:
		return append(dst, signZero)
	case -1:
		dst = append(dst, signNegative)
	default:
		dst = append(dst, signPositive)
	}
	start := len(dst)
	var exponent [8]byte
	binary.BigEndian.PutUint64(exponent[:], uint64(d.exponent))
	dst = appendVarintKey(dst, trimVarint(exponent[:]))
	for i := 0; i < len(d.digits); i += 2 {
		pair := (d.digits[i] - '0') * 10
		if i+1 < len(d.digits) {
			pair += d.digits[i+1] - '0'
		}
		dst = append(dst, pair+1)
	}
	dst = append(dst, 0)
	if d.sign < 0 {
		for i := start; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	return dst
}

func readDecimalKey(r *keyReader, dst []byte) ([]byte, bool) {
	d, ok := readNormal(r)
	if !ok {
		return dst, false
	}
	v, ok := d.value()
	if !ok {
		return dst, false
	}
	return appendDecimal(dst, v), true
}

func readNormal(r *keyReader) (d normal, ok bool) {
	sign, ok := r.byte()
	if !ok {
		return d, false
	}
	outer := r.mask
	defer func() { r.mask = outer }()
	switch sign {
	case signZero:
		return d, true
	case signPositive:
		d.sign = 1
	case signNegative:
		d.sign = -1
		r.mask ^= 0xff
	default:
		return d, false
	}
	var exponent [8]byte
	v, ok := readVarintKey(r, exponent[:0])
	if !ok || len(v) > 8 {
		return d, false
	}
	d.exponent = signExtend(v)
	for {
		b, ok := r.byte()
		switch {
		case !ok || b > 100:
			return d, false
		case b == 0:
			if n := len(d.digits); n > 0 && d.digits[n-1] == '0' {
				d.digits = d.digits[:n-1]
			}
			return d, len(d.digits) > 0
		}
		d.digits = append(d.digits, '0'+(b-1)/10, '0'+(b-1)%10)
	}
}

func skipDecimalKey(r *keyReader) bool {
	_, ok := readNormal(r)
	return ok
}

// plainZerosMax is the maximum number of zeros before the decimal point of a normalized value. Larger values have a
// negative scale.
const plainZerosMax = 64

// value returns the number with a scale of at least 0. ok is false if that form is too long.
func (d normal) value() (DecimalValue, bool) {
	if d.sign == 0 {
		return DecimalValue{Unscaled: newInt(0)}, true
	}
	scale := int64(len(d.digits)) - d.exponent
	digits := d.digits
	pad := int64(0)
	if scale < 0 && scale >= -plainZerosMax {
		pad = -scale
	}
	if scale < math.MinInt32 {
		pad = math.MinInt32 - scale
	}
	if pad > digitsMax || scale > math.MaxInt32 {
		return DecimalValue{}, false
	}
	for range pad {
		digits = append(digits, '0')
	}
	unscaled, ok := newInt(0).SetString(string(digits), 10)
	if !ok {
		return DecimalValue{}, false
	}
	if d.sign < 0 {
		unscaled.Neg(unscaled)
	}
	return DecimalValue{Unscaled: unscaled, Scale: int32(scale + pad)}, true
}
