// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// JSONObject is a parsed JSON object. It holds its members in order, each name once. Of several values for the same
// name, the last value is stored at the position of the first.
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

// JSONError reports that a text is not JSON. Its message, including the position, equals the message of Cassandra's
// parser. Class is the Java exception. Older is the message of Cassandra 4.0, or empty if it is the same.
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

// ParseJSON parses the JSON value at the start of a text. The result is nil, bool, string, json.Number, []any, or
// *JSONObject. As in Cassandra, text after the value is ignored. Errors are of the type *JSONError.
func ParseJSON(text string) (any, error) {
	p := jsonParser{text: text}
	p.space()
	if p.pos == len(text) {
		return nil, &JSONError{Class: jsonMismatch,
			Message: "No content to map due to end-of-input" + p.at(len(text)-1)}
	}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if _, number := v.(json.Number); number && p.pos < len(text) &&
		!strings.ContainsRune(" \t\r\n", rune(text[p.pos])) {
		return nil, p.unexpected("Expected space separating root-level values")
	}
	return v, nil
}

// ParseJSONMap parses the JSON object of an INSERT JSON statement. It returns nil for JSON's null. Errors are of the
// type *dberr.Invalid, with the texts of Cassandra 4.0 if old is true.
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
		p := jsonParser{text: text}
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

type jsonParser struct {
	text string
	pos  int
}

// at returns the description of a position, counted from 0, in Jackson's format.
func (p *jsonParser) at(pos int) string {
	line, column := 1, pos+1
	if pos > 0 {
		before := p.text[:min(pos, len(p.text))]
		line += strings.Count(before, "\n")
		column = pos - strings.LastIndexByte(before, '\n')
	}
	return fmt.Sprintf("\n at %s; line: %d, column: %d]", p.source(), line, column)
}

func (p *jsonParser) source() string {
	const shown = 500
	if len(p.text) > shown {
		return fmt.Sprintf("[Source: (String)\"%s\"[truncated %d chars]", p.text[:shown], len(p.text)-shown)
	}
	return fmt.Sprintf("[Source: (String)\"%s\"", p.text)
}

func (p *jsonParser) space() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
}

func (p *jsonParser) peek() byte {
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

// unexpected returns an error about the character at the current position.
func (p *jsonParser) unexpected(expecting string) error {
	r, n := utf8.DecodeRuneInString(p.text[p.pos:])
	return jsonErrorAt("Unexpected character ('%c' (code %d)): %s%s", r, r, expecting, p.at(p.pos+n))
}

// jsonErrorAt returns a syntax error.
func jsonErrorAt(format string, args ...any) error {
	return &JSONError{Class: jsonParse, Message: fmt.Sprintf(format, args...)}
}

// eof returns an error about the end of the text. Cassandra 4.0's Jackson version counts the text three times after it
// has tried to read more input.
func (p *jsonParser) eof(where string) error {
	what := "Unexpected end-of-input" + where
	return &JSONError{Class: jsonEOF, Message: what + p.at(len(p.text)), Older: what + p.at(3*len(p.text))}
}

func (p *jsonParser) eofInside(kind string, start int) error {
	marker := strings.TrimPrefix(p.at(start), "\n at ")
	return p.eof(fmt.Sprintf(": expected close marker for %s (start marker at %s)", kind, marker))
}

func (p *jsonParser) value(depth int) (any, error) {
	if depth > jsonDepthMax {
		return nil, jsonErrorAt("Values are nested too deep%s", p.at(p.pos))
	}
	switch c := p.peek(); {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		return p.string()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	return p.word()
}

// word parses true, false, or null.
func (p *jsonParser) word() (any, error) {
	end := p.pos
	for i, r := range p.text[p.pos:] {
		if r != '_' && r != '$' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			break
		}
		end = p.pos + i + utf8.RuneLen(r)
	}
	word := p.text[p.pos:end]
	if word == "" {
		return nil, p.unexpected("expected a valid value (number, String, array, object, 'true', 'false' or 'null')")
	}
	switch word {
	case "true", "false", "null":
		p.pos = end
		if word == "null" {
			return nil, nil
		}
		return word == "true", nil
	}
	older := p.at(end)
	if end == len(p.text) {
		older = p.at(2 * len(p.text))
	}
	return nil, &JSONError{
		Class: jsonParse,
		Message: fmt.Sprintf("Unrecognized token '%s': was expecting (JSON String, Number, Array, Object or token "+
			"'null', 'true' or 'false')%s", word, p.at(end)),
		Older: fmt.Sprintf("Unrecognized token '%s': was expecting ('true', 'false' or 'null')%s", word, older),
	}
}

func (p *jsonParser) number() (any, error) {
	start := p.pos
	digits := func() bool {
		from := p.pos
		for p.peek() >= '0' && p.peek() <= '9' {
			p.pos++
		}
		return p.pos > from
	}
	if p.peek() == '-' {
		p.pos++
	}
	leading := p.pos
	ok := digits()
	if ok && p.text[leading] == '0' && p.pos > leading+1 {
		return nil, jsonErrorAt("Invalid numeric value: Leading zeroes not allowed%s", p.at(leading+1))
	}
	if ok && p.peek() == '.' {
		p.pos++
		ok = digits()
	}
	if ok && (p.peek() == 'e' || p.peek() == 'E') {
		p.pos++
		if p.peek() == '+' || p.peek() == '-' {
			p.pos++
		}
		ok = digits()
	}
	if !ok {
		if p.pos == len(p.text) {
			return nil, p.eof(" in numeric value")
		}
		return nil, p.unexpected("in numeric value, a digit must follow")
	}
	if p.pos-start > digitsMax {
		return nil, jsonErrorAt("Numeric value is too long%s", p.at(start))
	}
	return json.Number(p.text[start:p.pos]), nil
}

func (p *jsonParser) array(depth int) (any, error) {
	start := p.pos
	p.pos++
	list := []any{}
	for {
		p.space()
		switch {
		case p.pos == len(p.text):
			return nil, p.eofInside("Array", start)
		case p.peek() == ']' && len(list) == 0:
			p.pos++
			return list, nil
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		p.space()
		switch {
		case p.pos == len(p.text):
			return nil, p.eofInside("Array", start)
		case p.peek() == ']':
			p.pos++
			return list, nil
		case p.peek() != ',':
			return nil, p.unexpected("was expecting comma to separate Array entries")
		}
		p.pos++
	}
}

func (p *jsonParser) object(depth int) (any, error) {
	start := p.pos
	p.pos++
	o := &JSONObject{}
	index := map[string]int{}
	for {
		p.space()
		switch {
		case p.pos == len(p.text):
			return nil, p.eofInside("Object", start)
		case p.peek() == '}' && len(o.Names) == 0:
			p.pos++
			return o, nil
		case p.peek() != '"':
			return nil, p.unexpected("was expecting double-quote to start field name")
		}
		name, err := p.string()
		if err != nil {
			return nil, err
		}
		p.space()
		switch {
		case p.pos == len(p.text):
			return nil, p.eofInside("Object", start)
		case p.peek() != ':':
			return nil, p.unexpected("was expecting a colon to separate field name and value")
		}
		p.pos++
		p.space()
		if p.pos == len(p.text) {
			return nil, p.eofInside("Object", start)
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if i, again := index[name]; again {
			o.Values[i] = v
		} else {
			index[name] = len(o.Names)
			o.Names, o.Values = append(o.Names, name), append(o.Values, v)
		}
		p.space()
		switch {
		case p.pos == len(p.text):
			return nil, p.eofInside("Object", start)
		case p.peek() == '}':
			p.pos++
			return o, nil
		case p.peek() != ',':
			return nil, p.unexpected("was expecting comma to separate Object entries")
		}
		p.pos++
	}
}

// string parses a string. A lone surrogate becomes a question mark, as in Java's UTF-8 encoder.
func (p *jsonParser) string() (string, error) {
	p.pos++
	var b strings.Builder
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		switch {
		case c == '"':
			p.pos++
			return b.String(), nil
		case c < 0x20:
			return "", jsonErrorAt("Illegal unquoted character ((CTRL-CHAR, code %d)): has to be escaped using "+
				"backslash to be included in string value%s", c, p.at(p.pos+1))
		case c != '\\':
			from := p.pos
			for p.pos < len(p.text) && p.text[p.pos] != '"' && p.text[p.pos] != '\\' && p.text[p.pos] >= 0x20 {
				p.pos++
			}
			b.WriteString(strings.ToValidUTF8(p.text[from:p.pos], "\ufffd"))
			continue
		}
		p.pos++
		if p.pos == len(p.text) {
			return "", p.eof(" in character escape sequence")
		}
		i := strings.IndexByte(`"\/bfnrtu`, p.text[p.pos])
		switch {
		case i < 0:
			r, n := utf8.DecodeRuneInString(p.text[p.pos:])
			return "", jsonErrorAt("Unrecognized character escape '%c' (code %d)%s", r, r, p.at(p.pos+n))
		case i < 8:
			b.WriteByte("\"\\/\b\f\n\r\t"[i])
			p.pos++
			continue
		}
		r, err := p.unicode()
		if err != nil {
			return "", err
		}
		if utf16.IsSurrogate(r) {
			low := rune(0)
			if mark := p.pos; strings.HasPrefix(p.text[p.pos:], `\u`) {
				p.pos++
				if low, err = p.unicode(); err != nil {
					return "", err
				}
				if utf16.DecodeRune(r, low) == unicode.ReplacementChar {
					p.pos = mark
				}
			}
			if r = utf16.DecodeRune(r, low); r == unicode.ReplacementChar {
				r = '?'
			}
		}
		b.WriteRune(r)
	}
	return "", p.eof(" in VALUE_STRING")
}

// unicode parses the letter u and the four digits of an escape sequence.
func (p *jsonParser) unicode() (rune, error) {
	if p.pos+5 > len(p.text) {
		return 0, p.eof(" in character escape sequence")
	}
	v, err := strconv.ParseUint(p.text[p.pos+1:p.pos+5], 16, 16)
	if err != nil {
		p.pos++
		return 0, p.unexpected("expected a hex-digit for character escape sequence")
	}
	p.pos += 5
	return rune(v), nil
}
