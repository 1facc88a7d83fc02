// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"math"
	"strings"
	"unicode/utf8"
)

// AppendJSON appends the JSON form of a value, which SELECT JSON returns. Null, NaN, the infinities, and an empty
// boolean become JSON's null. Other empty values become empty strings.
func (t *Type) AppendJSON(dst, wire []byte) []byte {
	switch {
	case wire == nil || len(wire) == 0 && t.Kind == Boolean:
		return append(dst, "null"...)
	case t.Hollow(wire):
		return append(dst, `""`...)
	}
	switch t.Kind {
	case List, Set, Tuple, Vector:
		return appendJSONArray(dst, t, wire)
	case Map:
		return appendJSONMap(dst, t, wire)
	case UDT:
		return appendJSONFields(dst, t, wire)
	case Text, Ascii:
		return AppendJSONString(dst, string(wire))
	case Boolean, Tinyint, Smallint, Int, Bigint, Counter, Varint, Decimal, Float, Double:
		v, _ := t.Kind.Float64(wire)
		if !t.Kind.wellFormed(wire) || v != v || math.IsInf(v, 0) {
			return append(dst, "null"...)
		}
		return t.Kind.appendText(dst, wire)
	}
	dst = append(dst, '"')
	switch {
	case t.Kind == Blob || t.Kind == Custom:
		dst = Native(Blob).Kind.appendText(dst, wire)
	case t.Kind == Timestamp && len(wire) == 8:
		dst = appendTimestamp(dst, signExtend(wire), ' ', "Z")
	default:
		dst = t.Kind.appendText(dst, wire)
	}
	return append(dst, '"')
}

func appendJSONArray(dst []byte, t *Type, wire []byte) []byte {
	dst = append(dst, '[')
	for i, v := range t.Elements(wire) {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = t.elemType(i).AppendJSON(dst, v)
	}
	if t.Kind == Tuple {
		for i := t.Count(wire); i < len(t.Elems); i++ {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(dst, "null"...)
		}
	}
	return append(dst, ']')
}

// appendJSONMap encodes the entries of a map. A key whose JSON form is not a string becomes a string that contains the
// JSON form.
func appendJSONMap(dst []byte, t *Type, wire []byte) []byte {
	dst = append(dst, '{')
	first := true
	for key, value := range t.Entries(wire) {
		if !first {
			dst = append(dst, ", "...)
		}
		first = false
		start := len(dst)
		dst = t.Elems[0].AppendJSON(dst, key)
		if dst[start] != '"' {
			name := string(dst[start:])
			dst = AppendJSONString(dst[:start], name)
		}
		dst = append(dst, ": "...)
		dst = t.Elems[1].AppendJSON(dst, value)
	}
	return append(dst, '}')
}

func appendJSONFields(dst []byte, t *Type, wire []byte) []byte {
	dst = append(dst, '{')
	c := t.walk(wire)
	for i, name := range t.Fields {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendJSONName(dst, name)
		dst = append(dst, ": "...)
		v, _ := c.next()
		dst = t.Elems[i].AppendJSON(dst, v)
	}
	return append(dst, '}')
}

// appendJSONName appends the name of a column or field as a member name. A name with uppercase letters keeps its
// double quotes.
func appendJSONName(dst []byte, name string) []byte {
	if name != strings.ToLower(name) {
		name = `"` + name + `"`
	}
	return AppendJSONString(dst, name)
}

const upperHex = "0123456789ABCDEF"

// Hollow reports whether a value is empty although its type has no empty value. An example is blob_as_int(0x).
// Cassandra 5.0 calls such values empty.
func (t *Type) Hollow(wire []byte) bool {
	return wire != nil && len(wire) == 0 && t.Kind != Text && t.Kind != Ascii && t.Kind != Blob && t.Kind != Tuple &&
		t.Kind != UDT
}

// AppendJSONString appends a quoted string with Cassandra's escapes. It escapes only quotes, backslashes, and control
// characters. Invalid UTF-8 becomes U+FFFD.
func AppendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		}
		i++
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= 0x20:
			dst = append(dst, c)
		default:
			if e := strings.IndexByte("\b\t\n\f\r", c); e >= 0 {
				dst = append(dst, '\\', "btnfr"[e])
			} else {
				dst = append(dst, '\\', 'u', '0', '0', upperHex[c>>4], upperHex[c&15])
			}
		}
	}
	return append(dst, '"')
}
