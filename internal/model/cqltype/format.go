// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
)

// Format returns the CQL literal of a value, which FromConstant or the parser can parse. Examples are 'it”s', 0xcafe,
// [1, 2], {'a': 1}, (1, null), and {street: 'x'}. The literal of null is null. Format returns the empty string for an
// empty value of a type whose text is never empty, and a blob for invalid bytes.
func (t *Type) Format(wire []byte) string { return string(appendLiteral(nil, t, wire)) }

// Text returns the text that a CAST to text returns for a value. A native value has no quotes. Other values have the
// format of Format.
func (t *Type) Text(wire []byte) string {
	if !t.Kind.IsNative() {
		return t.Format(wire)
	}
	return string(t.Kind.appendText(nil, wire))
}

// quoted reports whether the literal of a native type has quotes.
func (k Kind) quoted() bool {
	switch k {
	case Ascii, Text, Inet, Date, Time, Timestamp:
		return true
	}
	return false
}

func appendLiteral(dst []byte, t *Type, wire []byte) []byte {
	switch {
	case wire == nil:
		return append(dst, "null"...)
	case t.Kind == Custom:
		return hex.AppendEncode(append(dst, "0x"...), wire)
	case t.IsCollection() || t.Kind == Tuple || t.Kind == UDT || t.Kind == Vector:
		return appendComposed(dst, t, wire)
	case t.Kind == Timestamp && len(wire) == 8 && !plainYear(signExtend(wire)):
		return strconv.AppendInt(dst, signExtend(wire), 10)
	case t.Kind.quoted() || len(wire) == 0 && t.Kind != Blob:
		dst = append(dst, '\'')
		dst = append(dst, strings.ReplaceAll(string(t.Kind.appendText(nil, wire)), "'", "''")...)
		return append(dst, '\'')
	}
	return t.Kind.appendText(dst, wire)
}

func appendComposed(dst []byte, t *Type, wire []byte) []byte {
	brackets := map[Kind]string{List: "[]", Set: "{}", Map: "{}", Tuple: "()", UDT: "{}",
		Vector: "[]"}[t.Kind]
	dst = append(dst, brackets[0])
	for i, v := range t.Elements(wire) {
		switch {
		case t.Kind == Map && i%2 == 1:
			dst = append(dst, ": "...)
		case i > 0:
			dst = append(dst, ", "...)
		}
		if t.Kind == UDT {
			dst = append(append(dst, QuoteName(t.Fields[i])...), ": "...)
		}
		dst = appendLiteral(dst, t.elemType(i), v)
	}
	return append(dst, brackets[1])
}

// appendText appends a native value without quotes. For null and empty values, it appends nothing.
func (k Kind) appendText(dst, wire []byte) []byte {
	if len(wire) == 0 && k != Blob {
		return dst
	}
	if !k.wellFormed(wire) {
		return hex.AppendEncode(append(dst, "0x"...), wire)
	}
	switch k {
	case Ascii, Text:
		return append(dst, wire...)
	case Boolean:
		return strconv.AppendBool(dst, wire[0] != 0)
	case Tinyint, Smallint, Int, Bigint, Counter:
		return strconv.AppendInt(dst, signExtend(wire), 10)
	case Float:
		return appendJavaFloat(dst, float64(math.Float32frombits(binary.BigEndian.Uint32(wire))), 32)
	case Double:
		return appendJavaFloat(dst, math.Float64frombits(binary.BigEndian.Uint64(wire)), 64)
	case Varint:
		return DecodeVarint(wire).Append(dst, 10)
	case Decimal:
		d, _ := DecodeDecimal(wire)
		return append(dst, d.String()...)
	case Date:
		return appendDate(dst, int64(binary.BigEndian.Uint32(wire))-dateEpoch)
	case Time:
		return appendTime(dst, signExtend(wire))
	case Timestamp:
		return appendTimestamp(dst, signExtend(wire), 'T', "Z")
	case UUID, Timeuuid:
		return appendUUIDText(dst, wire)
	case Inet:
		if len(wire) == 4 || len(wire) == 16 {
			return appendInet(dst, wire)
		}
	case Duration:
		if d, ok := DecodeDuration(wire); ok {
			return append(dst, d.String()...)
		}
	}
	return hex.AppendEncode(append(dst, "0x"...), wire)
}
