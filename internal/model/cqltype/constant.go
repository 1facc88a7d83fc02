// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Constant is the kind of a literal in CQL text.
type Constant uint8

// These are the kinds of constants.
const (
	StringConst Constant = iota + 1
	IntegerConst
	FloatConst // numbers with a decimal point or exponent, NaN, Infinity, and their negatives
	BooleanConst
	UUIDConst
	HexConst // the text includes the leading 0x
	DurationConst
)

var constantNames = [...]string{"UNKNOWN", "STRING", "INTEGER", "FLOAT", "BOOLEAN", "UUID", "HEX", "DURATION"}

// String returns the name of the kind in error texts, such as STRING or INTEGER.
func (c Constant) String() string {
	if int(c) < len(constantNames) {
		return constantNames[c]
	}
	return constantNames[0]
}

// Preferred returns the type of a constant in a context that does not require a type. It is the smallest type that can
// represent the constant.
func (c Constant) Preferred(text string) *Type {
	switch c {
	case StringConst:
		for i := range len(text) {
			if text[i] >= 0x80 {
				return Native(Text)
			}
		}
		return Native(Ascii)
	case IntegerConst:
		switch v, err := strconv.ParseInt(text, 10, 64); {
		case err != nil:
			return Native(Varint)
		case v == int64(int32(v)):
			return Native(Int)
		}
		return Native(Bigint)
	case FloatConst:
		v, ok := parseJavaFloat(floatText(text), 64)
		if d, decimal := ParseDecimal(text); ok && decimal {
			back, finite := ParseDecimal(string(appendJavaFloat(nil, v, 64)))
			if !finite || compareDecimals(EncodeDecimal(back), EncodeDecimal(d)) != 0 {
				return Native(Decimal)
			}
		}
		return Native(Double)
	case BooleanConst:
		return Native(Boolean)
	case UUIDConst:
		return Native(UUID)
	case HexConst:
		return Native(Blob)
	case DurationConst:
		return Native(Duration)
	}
	return Native(Empty)
}

// Fit is the degree to which a constant matches a type.
type Fit uint8

// These are the values of Fit, from the worst match to the best match.
const (
	NoFit    Fit = iota
	WeakFit      // the constant can be converted
	ExactFit     // the type is the constant's preferred type
)

// takes lists the kinds to which a constant can be converted.
var takes = map[Constant][]Kind{
	StringConst: {Ascii, Text, Inet, Date, Time, Timestamp},
	IntegerConst: {Bigint, Counter, Date, Decimal, Double, Duration, Float, Int, Smallint, Time, Timestamp, Tinyint,
		Varint},
	FloatConst:    {Decimal, Double, Float},
	BooleanConst:  {Boolean},
	UUIDConst:     {UUID, Timeuuid},
	HexConst:      {Blob},
	DurationConst: {Duration},
}

// Fits reports how well the constant matches the type. As in Cassandra, a tuple or custom type accepts constants and
// parses their texts, but not hexadecimal constants, which are values instead of texts.
func (t *Type) Fits(c Constant, text string) Fit {
	if (t.Kind == Tuple || t.Kind == Custom) && c != HexConst {
		return WeakFit
	}
	for _, k := range takes[c] {
		if k == t.Kind {
			if c.Preferred(text).Kind == k {
				return ExactFit
			}
			return WeakFit
		}
	}
	return NoFit
}

// ConstantError reports that a constant does not match a type. The planner adds the receiver, as in: Invalid STRING
// constant (abc) for "k" of type int.
type ConstantError struct {
	Constant Constant
	Text     string
	Type     *Type
}

func (e *ConstantError) Error() string {
	return fmt.Sprintf("invalid %s constant (%s) for type %s", e.Constant, e.Text, e.Type)
}

// For returns the error for the client. The error includes the receiver's name.
func (e *ConstantError) For(receiver string) error {
	return dberr.Invalidf("Invalid %s constant (%s) for \"%s\" of type %s", e.Constant, e.Text, receiver, e.Type)
}

// FromConstant returns the wire form of a constant. If the constant's kind does not match the type, FromConstant
// returns a *ConstantError. If the value is invalid, it returns a *dberr.Invalid with Cassandra's text.
func (t *Type) FromConstant(c Constant, text string) ([]byte, error) {
	if t.Fits(c, text) == NoFit {
		return nil, &ConstantError{c, text, t}
	}
	switch c {
	case FloatConst:
		text = floatText(text)
	case HexConst:
		text = text[min(2, len(text)):]
	}
	return t.FromText(text)
}

// floatText converts the special floating-point values, which CQL accepts in any case, to Java's spelling. NaN has no
// sign.
func floatText(text string) string {
	bare, negative := strings.CutPrefix(text, "-")
	switch {
	case strings.EqualFold(bare, "nan"):
		return "NaN"
	case strings.EqualFold(bare, "infinity") && negative:
		return "-Infinity"
	case strings.EqualFold(bare, "infinity"):
		return "Infinity"
	}
	return text
}

// FromText parses the text of a literal or of a JSON string. It accepts any native type and the colon-separated form of
// tuples. An empty text is the empty value, except for types without an empty value. Errors are of the type
// *dberr.Invalid.
func (t *Type) FromText(text string) ([]byte, error) {
	if text == "" {
		switch t.Kind {
		case Boolean:
			return []byte{0}, nil
		case Date, Time, Tinyint, Smallint, Duration, List, Set, Map, Tuple, UDT, Vector: // handled after the switch
		default:
			return []byte{}, nil
		}
	}
	switch t.Kind {
	case Ascii:
		for i := range len(text) {
			if text[i] >= 0x80 {
				return nil, dberr.Invalidf("Invalid ASCII character in string literal: " +
					"java.nio.charset.UnmappableCharacterException: Input length = 1")
			}
		}
		return []byte(text), nil
	case Text:
		if !utf8.ValidString(text) && !validJavaUTF8([]byte(text)) {
			return nil, dberr.Invalidf("String didn't validate.")
		}
		return []byte(text), nil
	case Blob, Custom:
		b, err := hex.DecodeString(text)
		if err != nil {
			return nil, dberr.Invalidf("cannot parse '%s' as hex bytes", text)
		}
		return b, nil
	case Boolean:
		switch {
		case strings.EqualFold(text, "true"):
			return []byte{1}, nil
		case strings.EqualFold(text, "false"):
			return []byte{0}, nil
		}
		return nil, dberr.Invalidf("Unable to make boolean from '%s'", text)
	case Tinyint, Smallint, Int, Bigint, Counter:
		return t.Kind.integerFromText(text)
	case Float, Double, Decimal, Varint:
		return numberFromText(t, text)
	case Inet:
		if b, ok := parseInet(text); ok {
			return b, nil
		}
		return nil, dberr.Invalidf("Unable to make inet address from '%s'", text)
	case UUID, Timeuuid:
		return t.Kind.uuidFromText(text)
	case Date, Time, Timestamp, Duration:
		return t.Kind.temporalFromText(text)
	case Tuple:
		return tupleFromText(t, text)
	}
	return nil, dberr.Invalidf("cannot parse '%s' as hex bytes", text)
}

func (k Kind) integerFromText(text string) ([]byte, error) {
	v, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		if wire, ok := k.FromInt64(v); ok {
			return wire, nil
		}
	}
	name := map[Kind]string{Tinyint: "byte", Smallint: "short", Int: "int", Bigint: "long", Counter: "long"}[k]
	return nil, dberr.Invalidf("Unable to make %s from '%s'", name, text)
}

func numberFromText(t *Type, text string) ([]byte, error) {
	switch t.Kind {
	case Decimal:
		if d, ok := ParseDecimal(text); ok {
			return EncodeDecimal(d), nil
		}
		return nil, dberr.Invalidf("unable to make BigDecimal from '%s'", text)
	case Varint:
		if len(text) <= digitsMax && isDigits(strings.TrimPrefix(strings.TrimPrefix(text, "+"), "-")) {
			if v, ok := new(big.Int).SetString(text, 10); ok {
				return EncodeVarint(v), nil
			}
		}
		return nil, dberr.Invalidf("unable to make int from '%s'", text)
	}
	bits := 64
	if t.Kind == Float {
		bits = 32
	}
	v, ok := parseJavaFloat(text, bits)
	if !ok {
		return nil, dberr.Invalidf("Unable to make %s from '%s'", t, text)
	}
	return t.Kind.FromFloat64(v), nil
}

func (k Kind) uuidFromText(text string) ([]byte, error) {
	u, ok := ParseUUID(text)
	switch {
	case !ok && k == UUID:
		return nil, dberr.Invalidf("Unable to make UUID from '%s'", text)
	case !ok:
		return nil, dberr.Invalidf("Unknown timeuuid representation: %s", text)
	case k == Timeuuid && u[6]>>4 != 1:
		return nil, dberr.Invalidf("TimeUUID supports only version 1 UUIDs")
	}
	return u[:], nil
}

func (k Kind) temporalFromText(text string) ([]byte, error) {
	switch k {
	case Date:
		v, err := parseDate(text)
		if err != nil {
			return nil, err
		}
		return binary.BigEndian.AppendUint32(nil, v), nil
	case Duration:
		d, err := ParseDuration(text)
		if err != nil {
			return nil, err
		}
		return EncodeDuration(d), nil
	}
	parse := ParseTimestamp
	if k == Time {
		parse = parseTime
	}
	v, err := parse(text)
	if err != nil {
		return nil, err
	}
	return binary.BigEndian.AppendUint64(nil, uint64(v)), nil
}

// tupleFromText parses components separated by colons. In a component, the sequence \: represents a colon, and @
// represents null.
func tupleFromText(t *Type, text string) ([]byte, error) {
	var parts []string
	part := ""
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == ':' || text[i+1] == '@'):
			part += text[i : i+2]
			i++
		case text[i] == ':':
			parts, part = append(parts, part), ""
		default:
			part += text[i : i+1]
		}
	}
	parts = append(parts, part)
	if len(parts) > len(t.Elems) {
		return nil, dberr.Invalidf("Invalid tuple literal: too many elements. Type %s expects %d but got %d", t,
			len(t.Elems), len(parts))
	}
	values := make([][]byte, len(parts))
	unescape := strings.NewReplacer(`\:`, ":", `\@`, "@")
	for i, p := range parts {
		if p == "@" {
			continue
		}
		v, err := t.Elems[i].FromText(unescape.Replace(p))
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return t.AppendTuple(nil, values...), nil
}
