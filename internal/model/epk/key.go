// SPDX-License-Identifier: Apache-2.0

// Package epk implements the effective partition keys of containers. An effective partition key is a hexadecimal hash.
// Azure Cosmos DB uses it to place partition key values on its ring. The package also maps effective partition keys to
// the tokens of a table.
//
// Guarantees:
//
//   - (EP1) The hashes equal the hashes of Cosmos DB for every kind of value, for versions 1 and 2, and for
//     hierarchical keys.
//   - (EP2) Equal values have equal keys, bytes, and hashes, regardless of their notation (1, 1.0, or 1e0).
//   - (EP3) Tokens are in the order of effective partition keys.
//
// The package does not depend on items. Start reading at Key and Scheme.
package epk

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Kind is the kind of a partition key value.
type Kind uint8

// These are the kinds. None represents a path that the item does not have, or a path whose value is an object or an
// array.
const (
	None Kind = iota
	Null
	False
	True
	Number
	String
)

// Value is the value of one partition key path.
type Value struct {
	Kind   Kind
	Number float64
	Text   string
}

// Key holds the values of the partition key paths in order. A key with fewer values than the container has partition
// key paths is a prefix.
type Key []Value

// These are the limits of a key.
const (
	// PathsMax is the maximum number of levels of a hierarchical key.
	PathsMax = 3
	// ValueBytesMax is the maximum length of the text of one value, in bytes.
	ValueBytesMax = 2048
)

// Text returns the Value of a string.
func Text(s string) Value { return Value{Kind: String, Text: s} }

// Float returns the Value of a number.
func Float(f float64) Value { return Value{Kind: Number, Number: f} }

// Bool returns the Value of a boolean.
func Bool(b bool) Value {
	if b {
		return Value{Kind: True}
	}
	return Value{Kind: False}
}

// Equal reports whether two keys are the same.
func (k Key) Equal(o Key) bool { return slices.Equal(k, o) }

// HasPrefix reports whether k begins with p.
func (k Key) HasPrefix(p Key) bool { return len(k) >= len(p) && slices.Equal(k[:len(p)], p) }

// Append appends the canonical JSON text of the value. The text of None is {}.
func (v Value) Append(dst []byte) []byte {
	switch v.Kind {
	case None:
		return append(dst, "{}"...)
	case Null:
		return append(dst, "null"...)
	case False:
		return append(dst, "false"...)
	case True:
		return append(dst, "true"...)
	case Number:
		return appendNumber(dst, v.Number)
	}
	return appendText(dst, v.Text)
}

// String returns the canonical JSON text of the value.
func (v Value) String() string { return string(v.Append(nil)) }

// String returns the key as a JSON array, which is the form that clients send.
func (k Key) String() string {
	b := []byte{'['}
	for i, v := range k {
		if i > 0 {
			b = append(b, ',')
		}
		b = v.Append(b)
	}
	return string(append(b, ']'))
}

// appendNumber formats a number in JavaScript's format. Integers up to 1e21 have neither a decimal point nor an
// exponent.
func appendNumber(dst []byte, f float64) []byte {
	switch {
	case f == 0: // this case includes negative zero
		return append(dst, '0')
	case math.Abs(f) < 1e21 && math.Abs(f) >= 1e-6:
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'e', -1, 64)
}

const hexDigits = "0123456789abcdef"

func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// errText is the error for bytes that are not the canonical text of a value.
var errText = errors.New("invalid partition key value: expected a JSON string, number, true, false, null, or {}")

// ParseValue parses the output of Append. Texts that are not canonical are rejected.
func ParseValue(text []byte) (Value, error) {
	switch string(text) {
	case "{}":
		return Value{}, nil
	case "null":
		return Value{Kind: Null}, nil
	case "false":
		return Value{Kind: False}, nil
	case "true":
		return Value{Kind: True}, nil
	case "":
		return Value{}, errText
	}
	var v Value
	if text[0] == '"' {
		s, ok := parseText(text)
		if !ok {
			return Value{}, errText
		}
		v = Text(s)
	} else {
		f, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return Value{}, errText
		}
		v = Float(f)
	}
	if string(v.Append(nil)) != string(text) {
		return Value{}, errText
	}
	return v, nil
}

func parseText(text []byte) (string, bool) {
	if len(text) < 2 || text[len(text)-1] != '"' || !utf8.Valid(text) {
		return "", false
	}
	text = text[1 : len(text)-1]
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			out = append(out, text[i])
			continue
		}
		if i++; i == len(text) {
			return "", false
		}
		if text[i] != 'u' {
			out = append(out, text[i])
			continue
		}
		if i+4 >= len(text) {
			return "", false
		}
		c, err := strconv.ParseUint(string(text[i+1:i+5]), 16, 8)
		if err != nil {
			return "", false
		}
		out = append(out, byte(c))
		i += 4
	}
	return string(out), true
}
