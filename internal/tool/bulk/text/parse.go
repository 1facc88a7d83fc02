// SPDX-License-Identifier: Apache-2.0

package text

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// depthMax is the maximum nesting depth of a value.
const depthMax = 64

// Parse parses the contents of a CSV field. It parses a native value as in a CQL string, and other values as CQL
// literals or as JSON. The errors are meant for users.
func Parse(t *cqltype.Type, s string) ([]byte, error) {
	if !composed(t) {
		return parseNative(t, s)
	}
	return parseWhole(t, s, 0)
}

// Member parses the value of a JSON member. For null, it returns nil.
func Member(t *cqltype.Type, s string) ([]byte, error) { return parseWhole(t, s, 0) }

func parseWhole(t *cqltype.Type, s string, depth int) ([]byte, error) {
	p := scanner{rest: s}
	wire, err := p.value(t, depth)
	if err == nil && p.space() != "" {
		err = fmt.Errorf("%s: %q follows the end of the value", t, clip(p.rest))
	}
	return wire, err
}

func parseNative(t *cqltype.Type, s string) ([]byte, error) {
	if t.Kind == cqltype.Blob || t.Kind == cqltype.Custom {
		digits, ok := strings.CutPrefix(s, "0x")
		if !ok {
			return nil, fmt.Errorf("%s: expected 0x at the start of %q", t, clip(s))
		}
		s = digits
	}
	if s == "" && t.Validate([]byte{}) == nil {
		return []byte{}, nil
	}
	switch { // some tools use these forms
	case t.Kind != cqltype.Float && t.Kind != cqltype.Double:
	case strings.EqualFold(s, "nan"):
		s = "NaN"
	case strings.EqualFold(s, "inf"), strings.EqualFold(s, "infinity"):
		s = "Infinity"
	case strings.EqualFold(s, "-inf"), strings.EqualFold(s, "-infinity"):
		s = "-Infinity"
	}
	wire, err := t.FromText(s)
	if bad, ok := errors.AsType[*dberr.Invalid](err); ok {
		return nil, fmt.Errorf("%s: %s", t, bad.Message)
	}
	return wire, err
}

func clip(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "..."
	}
	return s
}

// scanner parses CQL and JSON literals, which have the same structure.
type scanner struct{ rest string }

// space skips white space and returns the remaining text.
func (p *scanner) space() string {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	return p.rest
}

// take consumes a character if it is next.
func (p *scanner) take(c byte) bool {
	if s := p.space(); s == "" || s[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// word parses a quoted word, or an unquoted word that ends before one of the characters in ends.
func (p *scanner) word(ends string) (s string, quoted bool, err error) {
	if p.space() == "" {
		return "", false, errors.New("unexpected end of the value")
	}
	switch p.rest[0] {
	case '\'':
		s, err = p.single()
		return s, true, err
	case '"':
		s, err = p.double()
		return s, true, err
	}
	n := strings.IndexAny(p.rest, ends)
	if n < 0 {
		n = len(p.rest)
	}
	s, p.rest = strings.TrimRight(p.rest[:n], " \t\r\n"), p.rest[n:]
	if s == "" {
		return "", false, fmt.Errorf("expected a value before %q", clip(p.rest))
	}
	return s, false, nil
}

// single parses a string in single quotes, in which a doubled quote represents a quote.
func (p *scanner) single() (string, error) {
	var b strings.Builder
	for s := p.rest[1:]; ; {
		n := strings.IndexByte(s, '\'')
		if n < 0 {
			return "", errors.New("unterminated string: expected '")
		}
		b.WriteString(s[:n])
		if s = s[n+1:]; s == "" || s[0] != '\'' {
			p.rest = s
			return b.String(), nil
		}
		b.WriteByte('\'')
		s = s[1:]
	}
}

// double parses a JSON string.
func (p *scanner) double() (string, error) {
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '\\':
			i++
		case '"':
			raw := p.rest[:i+1]
			p.rest = p.rest[i+1:]
			if !strings.ContainsRune(raw, '\\') && utf8.ValidString(raw) {
				return raw[1 : len(raw)-1], nil
			}
			var s string
			if err := json.Unmarshal([]byte(raw), &s); err != nil {
				return "", fmt.Errorf("invalid JSON string %s: %w", clip(raw), err)
			}
			return s, nil
		}
	}
	return "", errors.New(`unterminated string: expected "`)
}

// value parses a value of a type. It returns nil for null.
func (p *scanner) value(t *cqltype.Type, depth int) ([]byte, error) {
	if depth > depthMax {
		return nil, fmt.Errorf("values are nested more than %d levels deep", depthMax)
	}
	if !composed(t) {
		s, quoted, err := p.word(",]})")
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", t, err)
		case !quoted && strings.EqualFold(s, "null"):
			return nil, nil
		}
		return parseNative(t, s)
	}
	switch s := p.space(); {
	case s != "" && s[0] == '"': // the key of a JSON object
		inner, err := p.double()
		if err != nil {
			return nil, err
		}
		return parseWhole(t, inner, depth+1)
	case len(s) >= 4 && strings.EqualFold(s[:4], "null"):
		p.rest = s[4:]
		return nil, nil
	}
	switch t.Kind {
	case cqltype.Map:
		return p.mapping(t, depth)
	case cqltype.UDT:
		return p.fields(t, depth)
	}
	return p.sequence(t, depth)
}

// sequence parses values that are separated by commas and enclosed in brackets of any kind.
func (p *scanner) sequence(t *cqltype.Type, depth int) ([]byte, error) {
	var closing byte
	for i := range len("[{(") {
		if p.take("[{("[i]) {
			closing = "]})"[i]
			break
		}
	}
	if closing == 0 {
		return nil, fmt.Errorf("%s: expected a bracket before %q", t, clip(p.rest))
	}
	var values [][]byte
	for !p.take(closing) {
		if len(values) > 0 && !p.take(',') {
			return nil, fmt.Errorf("%s: expected a comma before %q", t, clip(p.rest))
		}
		elem := t.Elems[0]
		if t.Kind == cqltype.Tuple {
			if len(values) == len(t.Elems) {
				return nil, fmt.Errorf("%s: there are more than %d components", t, len(t.Elems))
			}
			elem = t.Elems[len(values)]
		}
		v, err := p.value(elem, depth+1)
		if err != nil {
			return nil, err
		}
		if v == nil && t.Kind != cqltype.Tuple {
			return nil, fmt.Errorf("%s: an element is null", t)
		}
		values = append(values, v)
	}
	switch t.Kind {
	case cqltype.Set:
		return t.SortedSet(values), nil
	case cqltype.Tuple:
		return t.AppendTuple(nil, values...), nil
	case cqltype.Vector:
		if len(values) != t.Dimension {
			return nil, fmt.Errorf("%s: there are %d elements", t, len(values))
		}
		return t.AppendVector(nil, values...), nil
	}
	return t.AppendCollection(nil, values...), nil
}

func (p *scanner) mapping(t *cqltype.Type, depth int) ([]byte, error) {
	if !p.take('{') {
		return nil, fmt.Errorf("%s: expected { before %q", t, clip(p.rest))
	}
	var flat [][]byte
	for !p.take('}') {
		if len(flat) > 0 && !p.take(',') {
			return nil, fmt.Errorf("%s: expected a comma before %q", t, clip(p.rest))
		}
		key, err := p.key(t.Elems[0], depth+1)
		if err != nil {
			return nil, err
		}
		if !p.take(':') {
			return nil, fmt.Errorf("%s: expected a colon before %q", t, clip(p.rest))
		}
		value, err := p.value(t.Elems[1], depth+1)
		if err != nil {
			return nil, err
		}
		if key == nil || value == nil {
			return nil, fmt.Errorf("%s: a key or a value is null", t)
		}
		flat = append(flat, key, value)
	}
	return t.SortedMap(flat), nil
}

// key parses the key of a map entry, up to the colon.
func (p *scanner) key(t *cqltype.Type, depth int) ([]byte, error) {
	if composed(t) {
		return p.value(t, depth)
	}
	s, _, err := p.word(":,}")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	return parseNative(t, s)
}

// fields parses a user-defined type. Missing fields are null.
func (p *scanner) fields(t *cqltype.Type, depth int) ([]byte, error) {
	if !p.take('{') {
		return nil, fmt.Errorf("%s: expected { before %q", t, clip(p.rest))
	}
	values := make([][]byte, len(t.Elems))
	for first := true; !p.take('}'); first = false {
		if !first && !p.take(',') {
			return nil, fmt.Errorf("%s: expected a comma before %q", t, clip(p.rest))
		}
		name, quoted, err := p.word(":,}")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t, err)
		}
		i := fieldIndex(t, name, quoted)
		if i < 0 {
			return nil, fmt.Errorf("%s: unknown field %q", t, clip(name))
		}
		if !p.take(':') {
			return nil, fmt.Errorf("%s: expected a colon before %q", t, clip(p.rest))
		}
		if values[i], err = p.value(t.Elems[i], depth+1); err != nil {
			return nil, fmt.Errorf("field %s: %w", t.Fields[i], err)
		}
	}
	return t.AppendTuple(nil, values...), nil
}

// fieldIndex finds a field. It first searches for the exact quoted name, and then applies the rules of CQL and JSON.
func fieldIndex(t *cqltype.Type, name string, quoted bool) int {
	if quoted {
		if i := t.FieldIndex(name); i >= 0 {
			return i
		}
	}
	return t.FieldIndex(cqltype.JSONName(name))
}

// Members calls f with the name and the text of the value of each member of a JSON object.
func Members(line string, f func(name, value string) error) error {
	p := scanner{rest: line}
	if !p.take('{') {
		return errors.New("the line is not a JSON object")
	}
	for first := true; !p.take('}'); first = false {
		if !first && !p.take(',') {
			return fmt.Errorf("expected a comma before %q", clip(p.rest))
		}
		name, quoted, err := p.word(":")
		if err != nil {
			return err
		}
		if !quoted || !p.take(':') {
			return fmt.Errorf("expected a quoted name and a colon before %q", clip(p.rest))
		}
		from := p.space()
		if err := p.skip(); err != nil {
			return err
		}
		if err := f(name, from[:len(from)-len(p.rest)]); err != nil {
			return err
		}
	}
	if p.space() != "" {
		return fmt.Errorf("%q follows the end of the object", clip(p.rest))
	}
	return nil
}

// skip skips a JSON value.
func (p *scanner) skip() error {
	for depth := 0; ; {
		s := p.space()
		if s == "" {
			return errors.New("unexpected end of the line in a value")
		}
		switch s[0] {
		case '{', '[':
			depth++
			p.rest = s[1:]
		case '}', ']':
			if depth--; depth < 0 {
				return fmt.Errorf("expected a value before %q", clip(s))
			}
			p.rest = s[1:]
		case ',', ':':
			if depth == 0 {
				return fmt.Errorf("expected a value before %q", clip(s))
			}
			p.rest = s[1:]
		default:
			if _, _, err := p.word(",:]}"); err != nil {
				return err
			}
		}
		if depth == 0 {
			return nil
		}
	}
}
