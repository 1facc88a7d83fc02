// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/binary"
	"math"
)

// FormBytesMax is the maximum number of bytes of a string that its form contains.
const FormBytesMax = 128

// AppendForm appends the order-preserving form of a value that an index uses. If the forms of two values differ, the
// forms compare as bytes in the order of Compare. Different values have the same form if they are both arrays, both
// objects, or strings with the same first FormBytesMax bytes (see IsExact). Undefined has no form.
func AppendForm(dst []byte, v Value) []byte {
	switch v.kind {
	case Undefined:
		return dst
	case Boolean:
		return append(dst, byte(Boolean), byte(v.num))
	case Number:
		return appendNumberForm(append(dst, byte(Number)), v.Float())
	case String:
		s := v.Str()
		return append(append(dst, byte(String)), s[:min(len(s), FormBytesMax)]...)
	}
	return append(dst, byte(v.kind))
}

// appendNumberForm appends the bits of a double in order-preserving form, without trailing zeros.
func appendNumberForm(dst []byte, f float64) []byte {
	if f == 0 {
		f = 0 // replace negative zero
	}
	bits := math.Float64bits(f)
	if bits>>63 != 0 {
		bits = ^bits
	} else {
		bits |= 1 << 63
	}
	dst = binary.BigEndian.AppendUint64(dst, bits)
	for dst[len(dst)-1] == 0 {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// IsExact reports whether all values with the given form are equal.
func IsExact(form []byte) bool {
	if len(form) == 0 {
		return false
	}
	switch Kind(form[0]) {
	case String:
		return len(form) < 1+FormBytesMax
	case Array, Object:
		return false
	}
	return true
}

// AppendStep appends a segment of a path in the format of IndexPath.String.
func AppendStep(dst []byte, s Step) []byte {
	dst = append(dst, '/')
	switch {
	case s.Elements:
		return append(dst, "[]"...)
	case isName(s.Name):
		return append(dst, s.Name...)
	}
	return AppendString(dst, s.Name)
}
