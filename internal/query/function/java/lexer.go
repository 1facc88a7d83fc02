// SPDX-License-Identifier: Apache-2.0

package java

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tEnd tokenKind = iota
	tIdent
	tNumber
	tChar
	tString
	tOperator
)

type token struct {
	kind tokenKind
	// text is the identifier, the operator, the source text of the number, or the value of the character or string.
	text string
	line int
}

// operators holds the operators in descending order of length.
var operators = []string{
	">>>=", "<<=", ">>=", ">>>", "...", "->", "::", "++", "--", "&&", "||", "==", "!=", "<=", ">=", "+=", "-=", "*=",
	"/=", "&=", "|=", "^=", "%=", "<<", ">>", "(", ")", "{", "}", "[", "]", ";", ",", ".", "@", "=", ">", "<", "!", "~",
	"?", ":", "+", "-", "*", "/", "&", "|", "^", "%",
}

// lex splits a body into tokens. The parser splits >> and >>> if they close type arguments.
func lex(text string) ([]token, *Error) {
	var out []token
	line := 1
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
			i++
		case strings.HasPrefix(text[i:], "//"):
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case strings.HasPrefix(text[i:], "/*"):
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				return nil, at(line, "Unexpected end of comment")
			}
			line += strings.Count(text[i:i+2+end], "\n")
			i += end + 4
		case c == '"' || c == '\'':
			if strings.HasPrefix(text[i:], `"""`) {
				return nil, unsupported(line, "a text block")
			}
			value, n, ok := quoted(text[i:])
			if !ok {
				return nil, at(line, "String literal is not properly closed by a double-quote")
			}
			kind := tString
			if c == '\'' {
				if kind = tChar; utf8.RuneCountInString(value) != 1 || []rune(value)[0] > 0xffff {
					return nil, at(line, "Invalid character constant")
				}
			}
			out = append(out, token{kind, value, line})
			i += n
		case isDigit(c) || c == '.' && i+1 < len(text) && isDigit(text[i+1]):
			n := numberLength(text[i:])
			out = append(out, token{tNumber, text[i : i+n], line})
			i += n
		default:
			if n := wordLength(text[i:]); n > 0 {
				out = append(out, token{tIdent, text[i : i+n], line})
				i += n
				continue
			}
			op := ""
			for _, o := range operators {
				if strings.HasPrefix(text[i:], o) {
					op = o
					break
				}
			}
			if op == "" {
				return nil, at(line, "Syntax error on token \"Invalid Character\", delete this token")
			}
			out = append(out, token{tOperator, op, line})
			i += len(op)
		}
	}
	return append(out, token{tEnd, "end of the body", line}), nil
}

// wordLength returns the length of the identifier or keyword at the beginning of a text, or 0.
func wordLength(text string) int {
	for i, r := range text {
		if r != '_' && r != '$' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return i
		}
	}
	return len(text)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// numberLength returns the length of the number at the beginning of a text.
func numberLength(text string) int {
	hex := strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0X")
	n := 0
	for n < len(text) {
		c := text[n] | 0x20
		switch {
		case isDigit(text[n]), text[n] == '_', text[n] == '.', c >= 'a' && c <= 'f', c == 'x', c == 'l':
		case (text[n] == '+' || text[n] == '-') && !hex && n > 0 && text[n-1]|0x20 == 'e':
		default:
			return n
		}
		n++
	}
	return n
}

// quoted parses a string or character literal. It returns the value and the length of the literal.
func quoted(text string) (value string, n int, ok bool) {
	var b strings.Builder
	quote := text[0]
	for i := 1; i < len(text); {
		switch c := text[i]; {
		case c == quote:
			return b.String(), i + 1, true
		case c == '\n':
			return "", 0, false
		case c != '\\':
			b.WriteByte(c)
			i++
		case i+1 >= len(text):
			return "", 0, false
		default:
			taken, ok := escape(&b, text[i+1:])
			if !ok {
				return "", 0, false
			}
			i += 1 + taken
		}
	}
	return "", 0, false
}

// escape writes the character that an escape sequence represents. text starts after the backslash. escape returns the
// length of the sequence without the backslash.
func escape(b *strings.Builder, text string) (int, bool) {
	if i := strings.IndexByte(`btnfr"'\s`, text[0]); i >= 0 {
		b.WriteByte("\b\t\n\f\r\"'\\ "[i])
		return 1, true
	}
	if text[0] == 'u' {
		n := 1
		for n < len(text) && text[n] == 'u' {
			n++
		}
		if len(text) < n+4 {
			return 0, false
		}
		v, err := strconv.ParseUint(text[n:n+4], 16, 16)
		b.WriteRune(rune(v))
		return n + 4, err == nil
	}
	n := 0
	for n < 3 && n < len(text) && text[n] >= '0' && text[n] <= '7' {
		n++
	}
	v, err := strconv.ParseUint(text[:n], 8, 8)
	b.WriteRune(rune(v))
	return n, err == nil
}
