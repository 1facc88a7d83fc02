// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/binary"
	"math"
)

// FormBytesMax is how many bytes of a string its form has.
const FormBytesMax = 128

// AppendForm appends the form of a value by which an index orders: of two values whose forms differ, the one with the
// smaller form, as bytes, is the smaller one by Compare. Different values have one form where they are arrays, where
// they are objects, and strings whose first FormBytesMax bytes are the same; see IsExact. Undefined has none.
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

// appendNumberForm appends the bits of a double so that they compare as it does. Zeros at the end say nothing.
func appendNumberForm(dst []byte, f float64) []byte {
	if f == 0 {
		f = 0 // of the two zeros
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

// IsExact reports whether all values of a form that AppendForm made are equal.
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

// AppendStep appends a segment of a path as IndexPath.String has it.
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
