// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// DepthMax is the maximum nesting depth of arrays and objects in an item.
const DepthMax = 128

// SizeMax is the maximum length of an item's text, in bytes.
const SizeMax = 2 << 20

// Limits are the limits of Parse. A zero field selects DepthMax or SizeMax.
type Limits struct {
	Depth int
	Size  int // bytes of text
}

// SyntaxError reports why and where a text was rejected.
type SyntaxError struct {
	Offset  int // position in bytes
	Message string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("The JSON is not valid at byte %d: %s.", e.Offset, e.Message)
}

// SizeError reports a text that is too long. HTTP clients receive it as status 413.
type SizeError struct{ Size, Limit int }

func (e *SizeError) Error() string {
	return fmt.Sprintf("The JSON has %d bytes, but the limit is %d.", e.Size, e.Limit)
}

// Parse checks that text is one JSON value within the limits, and returns it. The value shares the memory of text,
// which must not change while the value is used. If duplicate members had to be removed, the value has a separate text.
// Errors are of the types *SyntaxError and *SizeError.
func Parse(text []byte, limits Limits) (Value, error) {
	if limits.Depth == 0 {
		limits.Depth = DepthMax
	}
	if limits.Size == 0 {
		limits.Size = SizeMax
	}
	if len(text) > limits.Size {
		return Value{}, &SizeError{len(text), limits.Size}
	}
	c := checker{s: text, depthMax: limits.Depth}
	c.space()
	begin := c.i
	if err := c.value(1); err != nil {
		return Value{}, err
	}
	end := c.i
	if c.space(); c.i < len(text) {
		return Value{}, c.fail("unexpected data after the value")
	}
	text = text[begin:end]
	if c.duplicates {
		text = appendUnique(make([]byte, 0, len(text)), View(text))
	}
	return View(text), nil
}

// checker scans a text and rejects invalid JSON.
type checker struct {
	s          []byte
	i          int
	depthMax   int
	duplicates bool
	// names holds the names in the objects that contain position i, outermost object first.
	names []string
}

func (c *checker) fail(format string, args ...any) error {
	return &SyntaxError{c.i, fmt.Sprintf(format, args...)}
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
		return c.fail("unexpected end of the text: expected a value")
	case b == '{' || b == '[':
		if depth > c.depthMax {
			return c.fail("arrays and objects are nested more than %d levels deep", c.depthMax)
		}
		if b == '{' {
			return c.object(depth)
		}
		return c.array(depth)
	case b == '"':
		_, err := c.str()
		return err
	case b == '-' || b >= '0' && b <= '9':
		return c.number()
	case b == 't':
		return c.word("true")
	case b == 'f':
		return c.word("false")
	case b == 'n':
		return c.word("null")
	}
	return c.fail("a value cannot begin with %s", c.here())
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
	if len(c.s)-c.i < len(w) || string(c.s[c.i:c.i+len(w)]) != w {
		return c.fail("expected a value: unknown word that begins with %s", w)
	}
	c.i += len(w)
	return nil
}

func (c *checker) array(depth int) error {
	c.i++
	if c.space(); c.peek() == ']' {
		c.i++
		return nil
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
	return nil
}

// more consumes the comma or the closing character after an element or member, and reports whether it was a comma.
func (c *checker) more(end byte, behind string) (bool, error) {
	switch c.space(); c.peek() {
	case ',', end:
		c.i++
		return c.s[c.i-1] == ',', nil
	}
	return false, c.fail("expected a comma or %c after %s, but found %s", end, behind, c.here())
}

func (c *checker) object(depth int) error {
	own := names{c: c, begin: len(c.names)}
	defer func() { c.names = c.names[:own.begin] }()
	c.i++
	if c.space(); c.peek() == '}' {
		c.i++
		return nil
	}
	for more := true; more; {
		if c.space(); c.peek() != '"' {
			return c.fail("expected a quoted member name, but found %s", c.here())
		}
		name, err := c.str()
		if err != nil {
			return err
		}
		own.add(name)
		if c.space(); c.peek() != ':' {
			return c.fail("expected a colon after the member name, but found %s", c.here())
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
	return nil
}

// names checks an object for duplicate names.
type names struct {
	c     *checker
	begin int
	set   map[string]struct{} // used if there are many names
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

// str consumes the string at i and returns it decoded. The result shares the text's memory if the string has no
// escapes.
func (c *checker) str() (string, error) {
	begin := c.i + 1
	escaped, ascii := false, true
	for c.i = begin; c.i < len(c.s); c.i++ {
		switch b := c.s[c.i]; {
		case b == '"':
			inner := c.s[begin:c.i]
			if !ascii && !utf8.Valid(inner) {
				c.i = begin + invalidAt(inner)
				return "", c.fail("invalid UTF-8")
			}
			c.i++
			s := viewText(inner)
			if escaped {
				s = unescape(s)
			}
			return s, nil
		case b == '\\':
			escaped = true
			if err := c.escape(); err != nil {
				return "", err
			}
		case b < ' ':
			return "", c.fail("a control character in a string must be escaped, as in \\u%04x", b)
		case b >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", c.fail("unexpected end of the text in a string")
}

// escape consumes an escape sequence and leaves i at its last byte.
func (c *checker) escape() error {
	c.i++
	switch c.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			c.i++
			if b := c.peek() | 0x20; (b < '0' || b > '9') && (b < 'a' || b > 'f') {
				return c.fail("\\u must be followed by four hexadecimal digits")
			}
		}
		return nil
	}
	return c.fail("a backslash before %s is not a valid escape", c.here())
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
	if c.peek() == '0' {
		if c.i++; c.digits() > 0 {
			return c.fail("a number cannot have leading zeros")
		}
	} else if c.digits() == 0 {
		return c.fail("expected a digit, but found %s", c.here())
	}
	if c.peek() == '.' {
		if c.i++; c.digits() == 0 {
			return c.fail("expected a digit after the decimal point, but found %s", c.here())
		}
	}
	if b := c.peek(); b == 'e' || b == 'E' {
		exponent = true
		if c.i++; c.peek() == '+' || c.peek() == '-' {
			c.i++
		}
		if c.digits() == 0 {
			return c.fail("expected a digit in the exponent, but found %s", c.here())
		}
	}
	if exponent || c.i-begin > 300 {
		f, _ := strconv.ParseFloat(string(c.s[begin:c.i]), 64)
		if math.IsInf(f, 0) {
			c.i = begin
			return c.fail("the number exceeds the range of a double")
		}
	}
	return nil
}

// appendUnique appends v without members that later members of the same name replace. Parts of the text without such
// members remain unchanged.
func appendUnique(dst []byte, v Value) []byte {
	switch v.kind {
	case Array:
		dst = append(dst, '[')
		n := 0
		for e := range v.Elements() {
			if n++; n > 1 {
				dst = append(dst, ',')
			}
			dst = appendUnique(dst, e)
		}
		return append(dst, ']')
	case Object:
		places := map[string]int{}
		var keep []Member
		for name, e := range v.Members() {
			if at, ok := places[name]; ok {
				keep[at].Value = e
				continue
			}
			places[name] = len(keep)
			keep = append(keep, Member{name, e})
		}
		dst = append(dst, '{')
		for i, m := range keep {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendString(dst, m.Name), ':')
			dst = appendUnique(dst, m.Value)
		}
		return append(dst, '}')
	}
	return v.Append(dst)
}
