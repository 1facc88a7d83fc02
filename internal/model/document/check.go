// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Fault is the kind of a syntax error.
type Fault uint8

// These are the kinds of syntax errors that Decode distinguishes.
const (
	OtherFault Fault = iota
	// The text ends, or continues with an unexpected character, where a value is required.
	NoValue
	NoComma
	NoName
	NoColon
	NoDigit
	// Start is the offset of the u in the escape.
	NoHexDigit
	// The text ends within a string.
	OpenString
	UnknownEscape
	ControlCharacter
	// Start is the offset of the zero.
	LeadingZero
	// Start is the offset of the number.
	NumberTooLong
	TooDeep
)

// checker scans a text and rejects invalid JSON.
type checker struct {
	s          []byte
	i          int
	in         int // the offset of the array or object around i, or -1
	depthMax   int
	numberMax  int // the maximum length of a number; 0 means that a number must be in the range of a double
	lone       rune
	visitor    Visitor // the visitor, or nil
	duplicates bool
	// names holds the names of the objects around i, outermost object first.
	names []string
}

func (c *checker) fail(fault Fault, format string, args ...any) error {
	return c.failFrom(c.in, fault, format, args...)
}

func (c *checker) failFrom(start int, fault Fault, format string, args ...any) error {
	return &SyntaxError{Offset: c.i, Message: fmt.Sprintf(format, args...), Fault: fault, Start: start}
}

func (c *checker) space() {
	for c.i < len(c.s) {
		switch c.s[c.i] {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return
		}
	}
}

// peek returns the byte at i, or 0 at the end.
func (c *checker) peek() byte {
	if c.i < len(c.s) {
		return c.s[c.i]
	}
	return 0
}

func (c *checker) value(depth int) error {
	switch b := c.peek(); {
	case c.i == len(c.s):
		return c.fail(NoValue, "unexpected end of the text: expected a value")
	case b == '{' || b == '[':
		if depth > c.depthMax {
			return c.fail(TooDeep, "arrays and objects are nested more than %d levels deep", c.depthMax)
		}
		if b == '{' {
			return c.object(depth)
		}
		return c.array(depth)
	case b == '"':
		s, err := c.str()
		return c.scalar(String, s, err)
	case b == '-' || b >= '0' && b <= '9':
		begin := c.i
		err := c.number()
		return c.scalar(Number, viewText(c.s[begin:c.i]), err)
	case b == 't':
		return c.scalar(Boolean, "true", c.word("true"))
	case b == 'f':
		return c.scalar(Boolean, "false", c.word("false"))
	case b == 'n':
		return c.scalar(Null, "null", c.word("null"))
	}
	return c.fail(NoValue, "a value cannot begin with %s", c.here())
}

// scalar passes a value to the visitor if it is valid.
func (c *checker) scalar(kind Kind, text string, err error) error {
	if err == nil && c.visitor != nil {
		c.visitor.Scalar(kind, text)
	}
	return err
}

// begin consumes the start of an array or object. It returns the offset of the surrounding array or object, which end
// requires.
func (c *checker) begin(kind Kind) (outer int) {
	outer, c.in = c.in, c.i
	c.i++
	if c.visitor != nil {
		c.visitor.Begin(kind)
	}
	return outer
}

func (c *checker) end(outer int) error {
	c.in = outer
	if c.visitor != nil {
		c.visitor.End()
	}
	return nil
}

// here describes the character at i.
func (c *checker) here() string {
	if c.i == len(c.s) {
		return "the end of the text"
	}
	r, _ := utf8.DecodeRune(c.s[c.i:])
	return strconv.QuoteRune(r)
}

func (c *checker) word(w string) error {
	if Word(viewText(c.s[c.i:])) != w {
		return c.fail(NoValue, "expected a value: unknown word that begins with %s", w)
	}
	c.i += len(w)
	return nil
}

// Word returns the letters, digits, underscores, and dollar signs at the start of a text.
func Word(text string) string {
	for i, r := range text {
		if r != '_' && r != '$' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return text[:i]
		}
	}
	return text
}

func (c *checker) array(depth int) error {
	outer := c.begin(Array)
	if c.space(); c.peek() == ']' {
		c.i++
		return c.end(outer)
	}
	for more := true; more; {
		c.space()
		err := c.value(depth + 1)
		if err == nil {
			more, err = c.more(']', "an element")
		}
		if err != nil {
			return err
		}
	}
	return c.end(outer)
}

// more consumes the comma or the end after an element or member. It reports whether it consumed a comma.
func (c *checker) more(end byte, behind string) (bool, error) {
	switch c.space(); c.peek() {
	case ',', end:
		c.i++
		return c.s[c.i-1] == ',', nil
	}
	return false, c.fail(NoComma, "expected a comma or %c after %s, but found %s", end, behind, c.here())
}

func (c *checker) object(depth int) error {
	own := names{c: c, begin: len(c.names)}
	defer func() { c.names = c.names[:own.begin] }()
	outer := c.begin(Object)
	if c.space(); c.peek() == '}' {
		c.i++
		return c.end(outer)
	}
	for more := true; more; {
		if c.space(); c.peek() != '"' {
			return c.fail(NoName, "expected a quoted member name, but found %s", c.here())
		}
		name, err := c.str()
		if err != nil {
			return err
		}
		if own.add(name); c.visitor != nil {
			c.visitor.Name(name)
		}
		if c.space(); c.peek() != ':' {
			return c.fail(NoColon, "expected a colon after the member name, but found %s", c.here())
		}
		c.i++
		c.space()
		if err = c.value(depth + 1); err == nil {
			more, err = c.more('}', "a member")
		}
		if err != nil {
			return err
		}
	}
	return c.end(outer)
}

// names checks an object for duplicate names.
type names struct {
	c     *checker
	begin int
	set   map[string]struct{} // used if an object has many names
}

// manyNames is the minimum number of names for which a map is faster than a linear search.
const manyNames = 24

func (n *names) add(name string) {
	own := n.c.names[n.begin:]
	if n.set == nil && len(own) >= manyNames {
		n.set = make(map[string]struct{}, 2*manyNames)
		for _, o := range own {
			n.set[o] = struct{}{}
		}
	}
	if n.set != nil {
		if _, ok := n.set[name]; ok {
			n.c.duplicates = true
		}
		n.set[name] = struct{}{}
		return
	}
	for _, o := range own {
		if o == name {
			n.c.duplicates = true
			return
		}
	}
	n.c.names = append(n.c.names, name)
}

// str consumes the string at i and returns the decoded string. If possible, the result shares the text's memory.
func (c *checker) str() (string, error) {
	begin := c.i + 1
	escaped, ascii := false, true
	for c.i = begin; c.i < len(c.s); c.i++ {
		switch b := c.s[c.i]; {
		case b == '"':
			inner := c.s[begin:c.i]
			if !ascii && !utf8.Valid(inner) {
				c.i = begin + invalidAt(inner)
				return "", c.fail(OtherFault, "invalid UTF-8")
			}
			c.i++
			s := viewText(inner)
			if escaped {
				s = unescapeWith(s, c.lone)
			}
			return s, nil
		case b == '\\':
			escaped = true
			if err := c.escape(); err != nil {
				return "", err
			}
		case b < ' ':
			return "", c.fail(ControlCharacter, "a control character in a string must be escaped, as in \\u%04x", b)
		case b >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", c.fail(OpenString, "unexpected end of the text in a string")
}

// escape consumes an escape and leaves i at the escape's last byte.
func (c *checker) escape() error {
	c.i++
	switch c.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		begin := c.i
		for range 4 {
			c.i++
			if b := c.peek() | 0x20; (b < '0' || b > '9') && (b < 'a' || b > 'f') {
				return c.failFrom(begin, NoHexDigit, "\\u must be followed by four hexadecimal digits")
			}
		}
		return nil
	}
	return c.fail(UnknownEscape, "a backslash before %s is not a valid escape", c.here())
}

func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return len(b)
}

func (c *checker) digits() int {
	n := c.i
	for b := c.peek(); b >= '0' && b <= '9'; b = c.peek() {
		c.i++
	}
	return c.i - n
}

func (c *checker) number() error {
	begin, exponent := c.i, false
	if c.peek() == '-' {
		c.i++
	}
	if zero := c.i; c.peek() == '0' {
		if c.i++; c.digits() > 0 {
			return c.failFrom(zero, LeadingZero, "a number cannot have leading zeros")
		}
	} else if c.digits() == 0 {
		return c.fail(NoDigit, "expected a digit, but found %s", c.here())
	}
	if c.peek() == '.' {
		if c.i++; c.digits() == 0 {
			return c.fail(NoDigit, "expected a digit after the decimal point, but found %s", c.here())
		}
	}
	if b := c.peek(); b == 'e' || b == 'E' {
		exponent = true
		if c.i++; c.peek() == '+' || c.peek() == '-' {
			c.i++
		}
		if c.digits() == 0 {
			return c.fail(NoDigit, "expected a digit in the exponent, but found %s", c.here())
		}
	}
	if c.numberMax > 0 {
		if c.i-begin > c.numberMax {
			return c.failFrom(begin, NumberTooLong, "a number cannot have more than %d bytes", c.numberMax)
		}
		return nil
	}
	if exponent || c.i-begin > 300 {
		f, _ := strconv.ParseFloat(string(c.s[begin:c.i]), 64)
		if math.IsInf(f, 0) {
			c.i = begin
			return c.fail(OtherFault, "the number exceeds the range of a double")
		}
	}
	return nil
}
