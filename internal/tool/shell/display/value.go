// SPDX-License-Identifier: Apache-2.0

package display

import (
	"encoding/binary"
	"math"
	"net/netip"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// These are the numbers of significant digits of floating-point numbers, as in cqlsh.
const (
	floatDigits  = 5
	doubleDigits = 12
)

// Value formats a value in the same way as cqlsh. Native values have no quotes. Strings in collections, tuples, and
// user-defined types are quoted. Control characters are escaped. The format is intended for people.
// cqltype.Type.Format returns text that can be parsed.
func Value(t *cqltype.Type, wire []byte) string { return string(appendValue(nil, t, wire, false)) }

// appendValue appends a value. within is set if the value is part of another value.
func appendValue(dst []byte, t *cqltype.Type, wire []byte, within bool) []byte {
	if wire == nil {
		return append(dst, "null"...)
	}
	switch t.Kind {
	case cqltype.List, cqltype.Set, cqltype.Map, cqltype.Tuple, cqltype.UDT, cqltype.Vector:
		return appendParts(dst, t, wire)
	case cqltype.Ascii, cqltype.Text:
		return appendText(dst, string(wire), within)
	case cqltype.Date, cqltype.Time, cqltype.Inet, cqltype.Timestamp:
		text := t.Text(wire)
		if addr, ok := netip.AddrFromSlice(wire); ok && t.Kind == cqltype.Inet {
			text = addr.String()
		} else if t.Kind == cqltype.Timestamp {
			text = timestamp(wire, text)
		}
		if within {
			text = "'" + text + "'"
		}
		return append(dst, text...)
	case cqltype.Boolean:
		if len(wire) == 1 && wire[0] != 0 {
			return append(dst, "True"...)
		} else if len(wire) == 1 {
			return append(dst, "False"...)
		}
	case cqltype.Float:
		if len(wire) == 4 {
			return appendFloat(dst, float64(math.Float32frombits(binary.BigEndian.Uint32(wire))), floatDigits)
		}
	case cqltype.Double:
		if len(wire) == 8 {
			return appendFloat(dst, math.Float64frombits(binary.BigEndian.Uint64(wire)), doubleDigits)
		}
	case cqltype.Custom:
		return append(dst, t.Format(wire)...)
	}
	if len(wire) == 0 && t.Kind != cqltype.Blob {
		return append(dst, "''"...)
	}
	return append(dst, t.Text(wire)...)
}

// appendParts appends a value that consists of other values.
func appendParts(dst []byte, t *cqltype.Type, wire []byte) []byte {
	brackets := map[cqltype.Kind]string{cqltype.List: "[]", cqltype.Set: "{}", cqltype.Map: "{}", cqltype.Tuple: "()",
		cqltype.UDT: "{}", cqltype.Vector: "[]"}[t.Kind]
	dst = append(dst, brackets[0])
	for i, v := range t.Elements(wire) {
		elem := t.Elems[0]
		switch t.Kind {
		case cqltype.Map:
			elem = t.Elems[i%2]
		case cqltype.Tuple, cqltype.UDT:
			elem = t.Elems[i]
		}
		switch {
		case t.Kind == cqltype.Map && i%2 == 1:
			dst = append(dst, ": "...)
		case i > 0:
			dst = append(dst, ", "...)
		}
		if t.Kind == cqltype.UDT {
			dst = append(append(dst, t.Fields[i]...), ": "...)
		}
		dst = appendValue(dst, elem, v, true)
	}
	return append(dst, brackets[1])
}

// appendText appends a string and escapes control characters and backslashes. The string then stays in its cell, and
// the terminal does not interpret control characters.
func appendText(dst []byte, s string, within bool) []byte {
	if within {
		dst = append(dst, '\'')
	}
	for _, r := range s {
		switch {
		case r == '\\':
			dst = append(dst, `\\`...)
		case r == '\'' && within:
			dst = append(dst, "''"...)
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r < ' ' || r >= 0x7f && r <= 0xa0:
			dst = append(dst, `\x`...)
			dst = append(dst, "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
		default:
			dst = append(dst, string(r)...)
		}
	}
	if within {
		dst = append(dst, '\'')
	}
	return dst
}

// timestamp returns a timestamp with microseconds in UTC. It returns text if the year does not have four digits.
func timestamp(wire []byte, text string) string {
	if len(wire) != 8 {
		return text
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(wire))).UTC()
	if at.Year() < 1 || at.Year() > 9999 {
		return text
	}
	return at.Format("2006-01-02 15:04:05.000000-0700")
}

// appendFloat appends a number with a fixed number of significant digits, as in cqlsh.
func appendFloat(dst []byte, v float64, digits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, "NaN"...)
	case math.IsInf(v, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(v, -1):
		return append(dst, "-Infinity"...)
	}
	const epsilon = 0x1p-52
	if math.Abs(v) > epsilon {
		if exponent := int(math.Log10(math.Abs(v))); exponent >= -4 && exponent < digits {
			digits += exponent + 1
		}
	}
	return strconv.AppendFloat(dst, v, 'g', digits, 64)
}
