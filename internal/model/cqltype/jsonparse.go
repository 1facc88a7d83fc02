// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/document"
)

// JSONObject is a parsed JSON object. JSONObject holds its members in order and each name once. If a name has several
// values, the object contains the last value at the position of the first.
type JSONObject struct {
	Names  []string
	Values []any
}

// Get returns the value of a member. ok is false if the member is missing.
func (o *JSONObject) Get(name string) (v any, ok bool) {
	for i, n := range o.Names {
		if n == name {
			return o.Values[i], true
		}
	}
	return nil, false
}

// JSONError reports that a text is not JSON. The message, including the position, equals the message of Cassandra's
// parser. Class is the Java exception. Older is the message of Cassandra 4.0, or empty if the messages are the same.
type JSONError struct{ Class, Message, Older string }

func (e *JSONError) Error() string { return e.Message }

// Text returns the message, or the message of Cassandra 4.0 if old is true.
func (e *JSONError) Text(old bool) string { return jsonText(e.Message, e.Older, old) }

func jsonText(message, older string, old bool) string {
	if old && older != "" {
		return older
	}
	return message
}

// These are the Java exceptions of a JSONError.
const (
	jsonParse    = "com.fasterxml.jackson.core.JsonParseException"
	jsonEOF      = "com.fasterxml.jackson.core.io.JsonEOFException"
	jsonMismatch = "com.fasterxml.jackson.databind.exc.MismatchedInputException"
)

// jsonDepthMax is the maximum nesting depth of arrays and objects.
const jsonDepthMax = 500

// ParseJSON parses the JSON value at the start of a text. The result is nil, a bool, a string, a json.Number, a []any,
// or a *JSONObject. As in Cassandra, text after the value is ignored, and lone surrogates become question marks.
// Errors are of the type *JSONError.
func ParseJSON(text string) (any, error) {
	text = strings.ToValidUTF8(text, "\ufffd")
	p := jackson(text)
	if strings.Trim(text, " \t\r\n") == "" {
		return nil, &JSONError{Class: jsonMismatch,
			Message: "No content to map due to end-of-input" + p.at(len(text)-1)}
	}
	b := make(jsonBuilder, 1, 8)
	end, err := document.Decode(text, document.Decoding{Depth: jsonDepthMax, Number: digitsMax, Lone: '?', Visitor: &b})
	if bad, ok := errors.AsType[*document.SyntaxError](err); ok {
		return nil, p.error(bad)
	}
	v := b[0].list[0]
	if _, number := v.(json.Number); number && end < len(text) && !strings.ContainsRune(" \t\r\n", rune(text[end])) {
		return nil, p.unexpected(end, "Expected space separating root-level values")
	}
	return v, nil
}

// jsonBuilder builds the values of ParseJSON. It holds the arrays and objects around the next value. The first element
// holds the result.
type jsonBuilder []jsonContainer

// jsonContainer is an array, or an object with the indexes of its member names.
type jsonContainer struct {
	list   []any
	object *JSONObject
	index  map[string]int
	name   string
}

func (b *jsonBuilder) add(v any) {
	c := &(*b)[len(*b)-1]
	if c.object == nil {
		c.list = append(c.list, v)
		return
	}
	if i, ok := c.index[c.name]; ok {
		c.object.Values[i] = v
		return
	}
	c.index[c.name] = len(c.object.Names)
	c.object.Names, c.object.Values = append(c.object.Names, c.name), append(c.object.Values, v)
}

// Begin implements document.Visitor.
func (b *jsonBuilder) Begin(kind document.Kind) {
	c := jsonContainer{list: []any{}}
	if kind == document.Object {
		c = jsonContainer{object: &JSONObject{}, index: map[string]int{}}
	}
	*b = append(*b, c)
}

// End implements document.Visitor.
func (b *jsonBuilder) End() {
	last := len(*b) - 1
	c := (*b)[last]
	if *b = (*b)[:last]; c.object != nil {
		b.add(c.object)
	} else {
		b.add(c.list)
	}
}

// Name implements document.Visitor.
func (b *jsonBuilder) Name(name string) { (*b)[len(*b)-1].name = name }

// Scalar implements document.Visitor.
func (b *jsonBuilder) Scalar(kind document.Kind, text string) {
	switch kind {
	case document.Null:
		b.add(nil)
	case document.Boolean:
		b.add(text == "true")
	case document.Number:
		b.add(json.Number(text))
	default:
		b.add(text)
	}
}

// ParseJSONMap parses the object of INSERT .. JSON. It returns nil for JSON's null. Errors are of the type
// *dberr.Invalid. They have the texts of Cassandra 4.0 if old is true.
func ParseJSONMap(text string, old bool) (*JSONObject, error) {
	v, err := ParseJSON(text)
	if err == nil {
		shape, token := "String", "VALUE_STRING"
		switch v := v.(type) {
		case nil:
			return nil, nil
		case *JSONObject:
			return v, nil
		case []any:
			shape, token = "Array", "START_ARRAY"
		case bool:
			shape, token = "Boolean", "VALUE_"+strings.ToUpper(strconv.FormatBool(v))
		case json.Number:
			shape, token = "Integer", "VALUE_NUMBER_INT"
			if javaClass(v) == "Double" {
				shape, token = "Floating-point", "VALUE_NUMBER_FLOAT"
			}
		}
		p := jackson(text)
		err = &JSONError{
			Class: jsonMismatch,
			Message: "Cannot deserialize value of type `java.util.LinkedHashMap<java.lang.Object,java.lang.Object>` from " +
				shape + " value (token `JsonToken." + token + "`)" + p.at(0),
			Older: "Cannot deserialize instance of `java.util.LinkedHashMap` out of " + token + " token" + p.at(0),
		}
	}
	bad, ok := errors.AsType[*JSONError](err)
	if !ok {
		return nil, err
	}
	return nil, dberr.Invalidf("Could not decode JSON string as a map: %s: %s. (String was: %s)", bad.Class,
		bad.Text(old), text)
}

// JSONName returns the column or field that a member name identifies. A name in double quotes is used unchanged, and
// any other name is converted to lower case.
func JSONName(name string) string {
	if len(name) >= 2 && name[0] == '"' && name[len(name)-1] == '"' {
		return name[1 : len(name)-1]
	}
	return strings.ToLower(name)
}

// jackson is a JSON text. Its methods return the error messages of Jackson, Cassandra's JSON parser.
type jackson string

// at describes a position, counted from 0, in Jackson's format.
func (p jackson) at(pos int) string {
	line, column := 1, pos+1
	if pos > 0 {
		before := p[:min(pos, len(p))]
		line += strings.Count(string(before), "\n")
		column = pos - strings.LastIndexByte(string(before), '\n')
	}
	return fmt.Sprintf("\n at %s; line: %d, column: %d]", p.source(), line, column)
}

func (p jackson) source() string {
	const shown = 500
	if len(p) > shown {
		return fmt.Sprintf("[Source: (String)\"%s\"[truncated %d chars]", p[:shown], len(p)-shown)
	}
	return fmt.Sprintf("[Source: (String)\"%s\"", p)
}

// unexpected returns an error about the character at a position.
func (p jackson) unexpected(pos int, expecting string) error {
	r, n := utf8.DecodeRuneInString(string(p[pos:]))
	return jsonErrorAt("Unexpected character ('%c' (code %d)): %s%s", r, r, expecting, p.at(pos+n))
}

// jsonErrorAt returns a syntax error.
func jsonErrorAt(format string, args ...any) error {
	return &JSONError{Class: jsonParse, Message: fmt.Sprintf(format, args...)}
}

// eof returns an error about the end of the text. The Jackson version in Cassandra 4.0 counts the length of the text
// three times when it looks for more input.
func (p jackson) eof(where string) error {
	what := "Unexpected end-of-input" + where
	return &JSONError{Class: jsonEOF, Message: what + p.at(len(p)), Older: what + p.at(3*len(p))}
}

// error returns Jackson's error for a syntax error.
func (p jackson) error(e *document.SyntaxError) error {
	end := e.Offset == len(p)
	kind := "Array"
	if e.Start >= 0 && p[e.Start] == '{' {
		kind = "Object"
	}
	switch e.Fault {
	case document.NoDigit:
		if end {
			return p.eof(" in numeric value")
		}
		return p.unexpected(e.Offset, "in numeric value, a digit must follow")
	case document.LeadingZero:
		return jsonErrorAt("Invalid numeric value: Leading zeroes not allowed%s", p.at(e.Start+1))
	case document.NumberTooLong:
		return jsonErrorAt("Numeric value is too long%s", p.at(e.Start))
	case document.OpenString:
		return p.eof(" in VALUE_STRING")
	case document.ControlCharacter:
		return jsonErrorAt("Illegal unquoted character ((CTRL-CHAR, code %d)): has to be escaped using "+
			"backslash to be included in string value%s", p[e.Offset], p.at(e.Offset+1))
	case document.NoHexDigit:
		if e.Start+5 > len(p) {
			return p.eof(" in character escape sequence")
		}
		return p.unexpected(e.Start+1, "expected a hex-digit for character escape sequence")
	case document.UnknownEscape:
		if end {
			return p.eof(" in character escape sequence")
		}
		r, n := utf8.DecodeRuneInString(string(p[e.Offset:]))
		return jsonErrorAt("Unrecognized character escape '%c' (code %d)%s", r, r, p.at(e.Offset+n))
	case document.TooDeep:
		return jsonErrorAt("Values are nested too deep%s", p.at(e.Offset))
	}
	if end {
		return p.eof(fmt.Sprintf(": expected close marker for %s (start marker at %s)", kind,
			strings.TrimPrefix(p.at(e.Start), "\n at ")))
	}
	switch e.Fault {
	case document.NoComma:
		return p.unexpected(e.Offset, "was expecting comma to separate "+kind+" entries")
	case document.NoName:
		return p.unexpected(e.Offset, "was expecting double-quote to start field name")
	case document.NoColon:
		return p.unexpected(e.Offset, "was expecting a colon to separate field name and value")
	}
	return p.noValue(e.Offset)
}

// noValue returns an error about a character or word that is not a value.
func (p jackson) noValue(pos int) error {
	word := document.Word(string(p[pos:]))
	if word == "" {
		return p.unexpected(pos, "expected a valid value (number, String, array, object, 'true', 'false' or 'null')")
	}
	end := pos + len(word)
	older := p.at(end)
	if end == len(p) {
		older = p.at(2 * len(p))
	}
	return &JSONError{
		Class: jsonParse,
		Message: fmt.Sprintf("Unrecognized token '%s': was expecting (JSON String, Number, Array, Object or token "+
			"'null', 'true' or 'false')%s", word, p.at(end)),
		Older: fmt.Sprintf("Unrecognized token '%s': was expecting ('true', 'false' or 'null')%s", word, older),
	}
}
