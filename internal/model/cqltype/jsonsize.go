// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"strings"
	"unicode/utf8"
)

// These are the maximum sizes in bytes of a fixed-size value in JSON, including quotes. The sizes apply to numbers,
// and to other values such as timestamps, UUIDs, and long durations.
const (
	jsonNumber = 32
	jsonOther  = 64
)

// JSONSize returns an upper bound for the number of bytes that AppendJSON appends. It is exact for texts. JSONSize
// stops counting when the result exceeds most.
func (t *Type) JSONSize(wire []byte, most int) int {
	if len(wire) == 0 && t.Kind != UDT && t.Kind != Tuple {
		return 4
	}
	switch t.Kind {
	case List, Set, Tuple, Vector:
		size := 2
		for i, v := range t.Elements(wire) {
			if size += 2 + t.elemType(i).JSONSize(v, most-size); size > most {
				return size
			}
		}
		if t.Kind == Tuple {
			size += 6 * len(t.Elems)
		}
		return size
	case Map:
		size := 2
		for k, v := range t.Entries(wire) {
			key := t.Elems[0].JSONSize(k, most-size)
			if !t.Elems[0].Kind.jsonString() {
				key = 2*key + 2 // a text within a text has escaped quotes
			}
			if size += 4 + key; size <= most {
				size += t.Elems[1].JSONSize(v, most-size)
			}
			if size > most {
				return size
			}
		}
		return size
	case UDT:
		size := 2
		c := t.walk(wire)
		for i, name := range t.Fields {
			v, _ := c.next()
			if size += 6 + 2*len(name) + 4 + t.Elems[i].JSONSize(v, most-size); size > most {
				return size
			}
		}
		return size
	case Text, Ascii:
		return jsonStringSize(wire)
	case Boolean, Tinyint, Smallint, Int, Bigint, Counter, Float, Double:
		return jsonNumber
	case Varint, Decimal:
		return jsonNumber + 5*len(wire)/2
	case Blob, Custom:
		return 4 + 2*len(wire)
	}
	return jsonOther + 2*len(wire)
}

// jsonString reports whether all values of the type are strings in JSON.
func (k Kind) jsonString() bool {
	switch k {
	case List, Set, Tuple, Vector, Map, UDT, Boolean, Tinyint, Smallint, Int, Bigint, Counter, Float, Double, Varint,
		Decimal:
		return false
	}
	return true
}

// jsonStringSize returns the number of bytes that AppendJSONString appends.
func jsonStringSize(text []byte) int {
	size := 2 + len(text)
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(text[i:])
			if size += utf8.RuneLen(r) - n; n == 0 {
				n = 1
			}
			i += n
			continue
		case c == '"' || c == '\\':
			size++
		case c < 0x20 && strings.IndexByte("\b\t\n\f\r", c) >= 0:
			size++
		case c < 0x20:
			size += 5
		}
		i++
	}
	return size
}
