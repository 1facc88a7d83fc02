// SPDX-License-Identifier: Apache-2.0

package document

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// parseNumber returns the double nearest to the text of a number.
func parseNumber(s string) float64 {
	// Integers of up to 15 digits are exact and are the most common numbers.
	if len(s) <= 16 {
		digits, sign := s, 1.0
		if digits != "" && digits[0] == '-' {
			digits, sign = digits[1:], -1
		}
		var n int64
		for i := range len(digits) {
			d := digits[i] - '0'
			if d > 9 {
				n = -1
				break
			}
			n = n*10 + int64(d)
		}
		if n >= 0 && len(digits) <= 15 {
			return sign * float64(n)
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return f
}

// AppendNumber appends a number in JavaScript's format.
func AppendNumber(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0')
	}
	format := byte('f')
	if abs := math.Abs(f); abs < 1e-6 || abs >= 1e21 {
		format = 'e'
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if format == 'e' {
		// A two-digit exponent with a leading zero is shortened to one digit, as in JavaScript.
		if n := len(dst); n-start >= 4 && dst[n-4] == 'e' && dst[n-2] == '0' {
			dst[n-2] = dst[n-1]
			dst = dst[:n-1]
		}
	}
	return dst
}

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string. It uses only the escapes that JSON requires.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, s[start:]...), '"')
}

// unescape decodes the text between the quotes of a JSON string. A lone surrogate becomes U+FFFD.
func unescape(s string) string { return unescapeWith(s, utf8.RuneError) }

// unescapeWith works like unescape, but replaces lone surrogates with lone.
func unescapeWith(s string, lone rune) string {
	at := strings.IndexByte(s, '\\')
	if at < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for at >= 0 {
		out = append(out, s[:at]...)
		if at+1 >= len(s) {
			return string(out)
		}
		n := 2
		switch c := s[at+1]; c {
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'u':
			var r rune
			if r, n = unescapeRune(s[at:]); r < 0 {
				r = lone
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
		}
		s = s[at+n:]
		at = strings.IndexByte(s, '\\')
	}
	return string(append(out, s...))
}

// unescapeRune decodes a \u escape of four hexadecimal digits, or a pair of such escapes, at the start of s. It
// returns the rune and the length of the decoded input. The rune is negative for a lone surrogate.
func unescapeRune(s string) (rune, int) {
	r, ok := hexRune(s)
	if !ok {
		return -1, min(6, len(s))
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if low, ok := hexRune(s[6:]); ok {
		if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
			return both, 12
		}
	}
	return -1, 6
}

func hexRune(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 32)
	return rune(n), err == nil
}

// Append appends the JSON text of the value. The text is the unchanged parsed text, or the text of a computed value
// without white space. For Undefined, Append appends nothing.
func (v Value) Append(dst []byte) []byte {
	if v.form != plain {
		return append(dst, v.text...)
	}
	switch v.kind {
	case Null:
		return append(dst, "null"...)
	case Boolean:
		return strconv.AppendBool(dst, v.num != 0)
	case Number:
		return AppendNumber(dst, v.num)
	case String:
		return AppendString(dst, v.text)
	case Array, Object:
		return v.appendTree(dst, Value.Append)
	}
	return dst
}

// Text returns the JSON text of the value. If the value was found in a text, the result shares the memory of that
// text.
func (v Value) Text() string {
	switch {
	case v.form != plain:
		return v.text
	case v.kind == Null:
		return "null"
	case v.kind == Boolean:
		return strconv.FormatBool(v.num != 0)
	}
	return viewText(v.Append(nil))
}

// JSON returns Text as bytes, which must not be modified.
func (v Value) JSON() []byte {
	if v.form == plain {
		return v.Append(nil)
	}
	return unsafe.Slice(unsafe.StringData(v.text), len(v.text))
}

// AppendCanonical appends the JSON text of the value in canonical form. This form has no white space, has numbers in
// JavaScript's format, and has no unnecessary escapes. Equal values have the same canonical form, except for the order
// of members.
func (v Value) AppendCanonical(dst []byte) []byte {
	switch v.kind {
	case Number:
		return AppendNumber(dst, v.Float())
	case String:
		return AppendString(dst, v.Str())
	case Array, Object:
		return v.appendTree(dst, Value.AppendCanonical)
	}
	return v.Append(dst)
}

func (v Value) appendTree(dst []byte, write func(Value, []byte) []byte) []byte {
	if v.kind == Array {
		dst = append(dst, '[')
		n := 0
		for e := range v.Elements() {
			if !e.IsDefined() {
				continue
			}
			if n++; n > 1 {
				dst = append(dst, ',')
			}
			dst = write(e, dst)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	n := 0
	for name, e := range v.Members() {
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, name), ':')
		dst = write(e, dst)
	}
	return append(dst, '}')
}

// String returns the JSON text of the value, or "undefined" for Undefined.
func (v Value) String() string {
	if v.kind == Undefined {
		return "undefined"
	}
	return string(v.Append(nil))
}
