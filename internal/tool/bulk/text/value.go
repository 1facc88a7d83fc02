// SPDX-License-Identifier: Apache-2.0

package text

import (
	"bytes"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// Style is the quoting style of values within other values.
type Style uint8

// These are the quoting styles. Parse accepts both.
const (
	// CQL is the style of CQL literals and of COPY in cqlsh, with strings in single quotes and sets in braces.
	CQL Style = iota
	// JSON is the style of JSON values.
	JSON
)

// Content appends a non-null value as the contents of a CSV field, without the quotes of the field. It appends native
// values without quotes, and other values as CQL literals.
func Content(dst []byte, t *cqltype.Type, wire []byte) []byte {
	if composed(t) {
		return Append(dst, t, wire, CQL)
	}
	return appendBare(dst, t, wire)
}

// Append appends a value as part of another value, or as the value of a member of a JSON object.
func Append(dst []byte, t *cqltype.Type, wire []byte, style Style) []byte {
	if wire == nil {
		return append(dst, "null"...)
	}
	switch t.Kind {
	case cqltype.List, cqltype.Set, cqltype.Vector, cqltype.Tuple:
		return appendSequence(dst, t, wire, style)
	case cqltype.Map:
		return appendMap(dst, t, wire, style)
	case cqltype.UDT:
		return appendFields(dst, t, wire, style)
	}
	if !quoted(t, wire, style) {
		return appendBare(dst, t, wire)
	}
	return appendQuoted(dst, string(appendBare(nil, t, wire)), style)
}

func composed(t *cqltype.Type) bool {
	return t.IsCollection() || t.Kind == cqltype.Tuple || t.Kind == cqltype.UDT || t.Kind == cqltype.Vector
}

// quoted reports whether a native value is quoted. The empty value is always quoted.
func quoted(t *cqltype.Type, wire []byte, style Style) bool {
	switch t.Kind {
	case cqltype.Ascii, cqltype.Text, cqltype.Inet, cqltype.Date, cqltype.Time, cqltype.Timestamp:
		return true
	case cqltype.Boolean, cqltype.Tinyint, cqltype.Smallint, cqltype.Int, cqltype.Bigint, cqltype.Counter,
		cqltype.Varint, cqltype.Decimal:
		return len(wire) == 0
	case cqltype.Float, cqltype.Double:
		v, ok := t.Kind.Float64(wire)
		return len(wire) == 0 || style == JSON && (!ok || v-v != 0) // JSON cannot represent NaN or infinities
	}
	return style == JSON || len(wire) == 0 && t.Kind != cqltype.Blob
}

// appendBare appends a native value without quotes.
func appendBare(dst []byte, t *cqltype.Type, wire []byte) []byte {
	switch {
	case len(wire) == 0:
		if t.Kind == cqltype.Blob || t.Kind == cqltype.Custom {
			dst = append(dst, "0x"...)
		}
		return dst
	case t.Kind == cqltype.Text || t.Kind == cqltype.Ascii:
		return append(dst, wire...)
	case t.Kind == cqltype.Duration && t.Text(wire) == "":
		return append(dst, "0s"...)
	case t.Kind == cqltype.Timestamp:
		return appendTimestamp(dst, t, wire)
	}
	return append(dst, t.Text(wire)...)
}

// appendTimestamp appends a timestamp that CQL can parse. If the year does not have four digits, it appends
// milliseconds.
func appendTimestamp(dst []byte, t *cqltype.Type, wire []byte) []byte {
	literal := t.Format(wire)
	return append(dst, strings.Trim(literal, "'")...)
}

func appendQuoted(dst []byte, s string, style Style) []byte {
	if style == JSON {
		return cqltype.AppendJSONString(dst, s)
	}
	dst = append(dst, '\'')
	dst = append(dst, strings.ReplaceAll(s, "'", "''")...)
	return append(dst, '\'')
}

func appendSequence(dst []byte, t *cqltype.Type, wire []byte, style Style) []byte {
	brackets := "[]"
	switch {
	case style == JSON:
	case t.Kind == cqltype.Set:
		brackets = "{}"
	case t.Kind == cqltype.Tuple:
		brackets = "()"
	}
	dst = append(dst, brackets[0])
	for i, v := range t.Elements(wire) {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		elem := t.Elems[0]
		if t.Kind == cqltype.Tuple {
			elem = t.Elems[i]
		}
		dst = Append(dst, elem, v, style)
	}
	return append(dst, brackets[1])
}

// appendMap converts the keys to strings in the JSON style, because all JSON keys are strings.
func appendMap(dst []byte, t *cqltype.Type, wire []byte, style Style) []byte {
	dst = append(dst, '{')
	first := true
	for key, value := range t.Entries(wire) {
		if !first {
			dst = append(dst, ", "...)
		}
		first = false
		from := len(dst)
		if dst = Append(dst, t.Elems[0], key, style); style == JSON && dst[from] != '"' {
			name := string(dst[from:])
			dst = cqltype.AppendJSONString(dst[:from], name)
		}
		dst = Append(append(dst, ": "...), t.Elems[1], value, style)
	}
	return append(dst, '}')
}

func appendFields(dst []byte, t *cqltype.Type, wire []byte, style Style) []byte {
	dst = append(dst, '{')
	for i, v := range t.Elements(wire) {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		switch name := t.Fields[i]; {
		case style == JSON:
			dst = appendName(dst, name)
		case cqltype.QuoteName(name) == name:
			dst = append(dst, name...)
		default: // valid in CQL, except for a quote within the name; Parse must distinguish the quotes of both styles
			dst = cqltype.AppendJSONString(dst, name)
		}
		dst = Append(append(dst, ": "...), t.Elems[i], v, style)
	}
	return append(dst, '}')
}

// appendName appends the name of a column or field as the name of a JSON member, in the same way as SELECT JSON. A
// name with capital letters includes its double quotes.
func appendName(dst []byte, name string) []byte {
	if bytes.ContainsFunc([]byte(name), func(r rune) bool { return r >= 'A' && r <= 'Z' }) {
		name = `"` + name + `"`
	}
	return cqltype.AppendJSONString(dst, name)
}

// Object appends a row as a JSON object and omits nulls.
func Object(dst []byte, names []string, types []*cqltype.Type, row [][]byte) []byte {
	dst = append(dst, '{')
	first := true
	for i, v := range row {
		if v == nil {
			continue
		}
		if !first {
			dst = append(dst, ", "...)
		}
		first = false
		dst = Append(append(appendName(dst, names[i]), ": "...), types[i], v, JSON)
	}
	return append(dst, '}')
}
