// SPDX-License-Identifier: Apache-2.0

package document

import (
	"iter"
	"strings"
)

// The functions in this file scan texts that have already been parsed as JSON. If a text is not valid, the functions
// stop at or before its end (JD3).

// These are the classes of bytes outside the strings of an array or object. They are used to skip values.
const (
	classOther = iota
	classQuote
	classOpen
	classClose
)

var classes = func() (c [256]uint8) {
	c['"'], c['{'], c['['], c['}'], c[']'] = classQuote, classOpen, classOpen, classClose, classClose
	return c
}()

// skipSpace returns the index of the first byte at or after i that is not white space.
func skipSpace(s string, i int) int {
	for i < len(s) && s[i] <= ' ' {
		i++
	}
	return i
}

// shortString is the number of leading bytes of a string that are searched byte by byte. Most names are shorter. The
// remaining bytes are searched with vector instructions.
const shortString = 16

// skipString returns the index after the string whose opening quote is at i. It also reports whether the string
// contains an escape.
func skipString(s string, i int) (end int, escaped bool) {
	i++
	short := min(len(s), i+shortString)
	for j := i; j < short; j++ {
		if c := s[j]; c == '"' {
			return j + 1, false
		} else if c == '\\' {
			return skipEscaped(s, j), true
		}
	}
	return skipLongString(s, i, short)
}

// skipEscaped returns the index after the string that contains i. i is the index of an escape or of another character.
func skipEscaped(s string, i int) int {
	for i < len(s) {
		switch s[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
		i++
	}
	return len(s)
}

// skipLongString continues a search at j. The string that starts at i contains neither a quote nor an escape before j.
func skipLongString(s string, i, j int) (end int, escaped bool) {
	for j < len(s) {
		n := strings.IndexByte(s[j:], '"')
		if n < 0 {
			return len(s), escaped
		}
		if !escaped && strings.IndexByte(s[j:j+n], '\\') < 0 {
			return j + n + 1, false
		}
		escaped = true
		j += n
		back := j
		for back > i && s[back-1] == '\\' {
			back--
		}
		if (j-back)%2 == 0 {
			return j + 1, true
		}
		j++
	}
	return len(s), escaped
}

// skipValue returns the index after the value that starts at i.
func skipValue(s string, i int) int {
	if i >= len(s) {
		return i
	}
	switch s[i] {
	case '"':
		end, _ := skipString(s, i)
		return end
	case '{', '[':
		return skipContainer(s, i)
	default:
		return skipScalar(s, i)
	}
}

// skipScalar returns the index after the number or word that starts at i.
func skipScalar(s string, i int) int {
	for i < len(s) {
		switch c := s[i]; {
		case c == ',' || c == '}' || c == ']' || c <= ' ' || c == ':' || c == '"':
			return i
		}
		i++
	}
	return i
}

func skipContainer(s string, i int) int {
	depth := 0
	for i < len(s) {
		switch classes[s[i]] {
		case classQuote:
			i, _ = skipString(s, i)
			continue
		case classOpen:
			depth++
		case classClose:
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return i
}

// valueAt returns the value that starts at i, and the index after the value. If no value starts at i, it returns
// Undefined.
func valueAt(s string, i int) (Value, int) {
	if i >= len(s) {
		return Value{}, i
	}
	switch c := s[i]; c {
	case '"':
		end, escaped := skipString(s, i)
		if end-i < 2 || s[end-1] != '"' {
			return Value{}, end
		}
		v := Value{kind: String, form: raw, text: s[i:end]}
		if escaped {
			v.form = rawEscaped
		}
		return v, end
	case '{', '[':
		end := skipContainer(s, i)
		if end-i < 2 {
			return Value{}, end
		}
		if c == '[' {
			return Value{kind: Array, form: raw, text: s[i:end]}, end
		}
		return Value{kind: Object, form: raw, text: s[i:end]}, end
	default:
		return scalarAt(s, i)
	}
}

func scalarAt(s string, i int) (Value, int) {
	end := skipScalar(s, i)
	switch text := s[i:end]; {
	case text == "true":
		return BooleanValue(true), end
	case text == "false":
		return BooleanValue(false), end
	case text == "null":
		return NullValue, end
	case text != "" && (text[0] == '-' || text[0] >= '0' && text[0] <= '9'):
		return Value{kind: Number, form: raw, text: text}, end
	}
	return Value{}, end
}

// nextItem returns the start of the item after the item that ends at i. After the last item, it returns the end of the
// container.
func nextItem(s string, i int) int {
	if i = skipSpace(s, i); i < len(s) && s[i] == ',' {
		i = skipSpace(s, i+1)
	}
	return i
}

// part is a member in the text of its object. It consists of the positions of the quoted name and of the value.
type part struct {
	begin, nameEnd, end int
	escaped             bool // the name contains escapes
	value               Value
}

// name returns the decoded name.
func (p *part) name(s string) string {
	if name := s[p.begin+1 : p.nameEnd-1]; !p.escaped {
		return name
	}
	return unescape(s[p.begin+1 : p.nameEnd-1])
}

// parts yields the members of the object with text s.
func parts(s string) iter.Seq[part] {
	return func(yield func(part) bool) {
		i := skipSpace(s, 1)
		for i < len(s) && s[i] == '"' {
			p := part{begin: i}
			p.nameEnd, p.escaped = skipString(s, i)
			if p.nameEnd-i < 2 {
				return
			}
			colon := skipSpace(s, p.nameEnd)
			if colon >= len(s) || s[colon] != ':' {
				return
			}
			p.value, p.end = valueAt(s, skipSpace(s, colon+1))
			if !p.value.IsDefined() || !yield(p) {
				return
			}
			i = nextItem(s, p.end)
		}
	}
}

// memberOf looks up a member of the object with text s. It does not construct the values of earlier members.
func memberOf(s, name string) Value {
	i := skipSpace(s, 1)
	for i < len(s) && s[i] == '"' {
		end, escaped := skipString(s, i)
		if end-i < 2 {
			break
		}
		colon := skipSpace(s, end)
		if colon >= len(s) || s[colon] != ':' {
			break
		}
		at := skipSpace(s, colon+1)
		inner := s[i+1 : end-1]
		if !escaped && inner == name || escaped && unescape(inner) == name {
			v, _ := valueAt(s, at)
			return v
		}
		if i = nextItem(s, skipValue(s, at)); i <= at {
			break
		}
	}
	return Value{}
}
