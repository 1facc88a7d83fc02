// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ilion-db/ilion/internal/model/document"
)

// class is the class of a token.
type class uint8

const (
	tokenEnd class = iota
	tokenWord
	tokenParameter
	tokenString
	tokenNumber
	tokenSymbol
)

// token is a token of the text.
type token struct {
	span
	class  class
	text   string // the text as written, a decoded string, or a symbol
	number document.Value
	word   string // the word in upper case
}

// reserved lists the words that cannot be the name of an input or an alias without AS.
var reserved = map[string]bool{"AND": true, "OR": true, "NOT": true, "IN": true, "BETWEEN": true, "LIKE": true,
	"ESCAPE": true, "SELECT": true, "FROM": true, "WHERE": true, "ORDER": true, "GROUP": true, "BY": true, "JOIN": true,
	"AS": true, "ASC": true, "DESC": true, "DISTINCT": true, "TOP": true, "VALUE": true, "EXISTS": true, "ARRAY": true,
	"NULL": true, "TRUE": true, "FALSE": true, "UNDEFINED": true, "OFFSET": true, "LIMIT": true}

// symbols lists the symbols of more than one character, longest first.
var symbols = []string{">>>", "<<", ">>", "<=", ">=", "!=", "<>", "??", "||"}

// lexer splits a text into tokens.
type lexer struct {
	text string
	i    int
}

// skip skips white space and comments.
func (l *lexer) skip() error {
	for l.i < len(l.text) {
		rest := l.text[l.i:]
		switch {
		case strings.HasPrefix(rest, "--"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			l.i += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest, "*/")
			if n < 0 {
				return failure(l.text, span{l.i, len(l.text)}, codeSyntax, "Syntax error, the comment does not end.")
			}
			l.i += n + 2
		default:
			r, n := utf8.DecodeRuneInString(rest)
			if !unicode.IsSpace(r) && r != '\ufeff' {
				return nil
			}
			l.i += n
		}
	}
	return nil
}

func isWordStart(r rune) bool { return r == '_' || unicode.IsLetter(r) }
func isWordPart(r rune) bool {
	return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// wordEnd returns the end of the word that begins at i.
func (l *lexer) wordEnd(i int) int {
	for i < len(l.text) {
		r, n := utf8.DecodeRuneInString(l.text[i:])
		if !isWordPart(r) || r == utf8.RuneError && n <= 1 {
			break
		}
		i += n
	}
	return i
}

// next returns the token at i.
func (l *lexer) next() (token, error) {
	if err := l.skip(); err != nil {
		return token{}, err
	}
	t := token{span: span{l.i, l.i}}
	if l.i == len(l.text) {
		return t, nil
	}
	c := l.text[l.i]
	r, _ := utf8.DecodeRuneInString(l.text[l.i:])
	switch {
	case isWordStart(r) && r != utf8.RuneError:
		t.class, t.end = tokenWord, l.wordEnd(l.i)
		t.text = l.text[t.start:t.end]
		t.word = strings.ToUpper(t.text)
	case c == '@':
		t.class, t.end = tokenParameter, l.wordEnd(l.i+1)
		t.text = l.text[t.start:t.end]
		if len(t.text) == 1 {
			return t, failure(l.text, span{t.start, t.end}, codeSyntax,
				"Syntax error, a parameter has no name after '@'.")
		}
	case c == '"' || c == '\'':
		return l.str(t)
	case c >= '0' && c <= '9' || c == '.' && l.i+1 < len(l.text) && isDigit(l.text[l.i+1]):
		return l.number(t)
	default:
		t.class, t.end = tokenSymbol, l.i+1
		for _, s := range symbols {
			if strings.HasPrefix(l.text[l.i:], s) {
				t.end = l.i + len(s)
				break
			}
		}
		t.text = l.text[t.start:t.end]
		if !strings.ContainsAny(t.text[:1], "()[]{},.:?=!<>+-*/%&|^~") {
			return t, failure(l.text, span{t.start, l.i + len(string(r))}, codeSyntax,
				"Syntax error, incorrect syntax near '%c'.", r)
		}
	}
	l.i = t.end
	return t, nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func (l *lexer) number(t token) (token, error) {
	t.class = tokenNumber
	i := l.i
	digits := func() {
		for i < len(l.text) && isDigit(l.text[i]) {
			i++
		}
	}
	bad := func() (token, error) {
		t.end = l.wordEnd(i)
		return t, failure(l.text, t.span, codeNumber, "Syntax error, invalid numeric value token '%s'.",
			l.text[t.start:t.end])
	}
	if strings.HasPrefix(l.text[i:], "0x") || strings.HasPrefix(l.text[i:], "0X") {
		for i += 2; i < len(l.text) && isHex(l.text[i]); i++ {
		}
		n, err := strconv.ParseUint(l.text[l.i+2:i], 16, 64)
		if err != nil || l.wordEnd(i) != i {
			return bad()
		}
		t.number = document.NumberValue(float64(n))
	} else {
		digits()
		if i < len(l.text) && l.text[i] == '.' {
			i++
			digits()
		}
		if i < len(l.text) && l.text[i]|0x20 == 'e' {
			if i++; i < len(l.text) && (l.text[i] == '+' || l.text[i] == '-') {
				i++
			}
			digits()
		}
		f, err := strconv.ParseFloat(l.text[l.i:i], 64)
		if err != nil || l.wordEnd(i) != i {
			return bad()
		}
		t.number = document.NumberValue(f)
		if n, err := strconv.ParseInt(l.text[l.i:i], 10, 64); err == nil {
			t.number = document.IntegerValue(n)
		}
	}
	t.end, l.i = i, i
	t.text = l.text[t.start:t.end]
	return t, nil
}

func (l *lexer) str(t token) (token, error) {
	t.class = tokenString
	quote := l.text[l.i]
	var out []byte
	bad := func(end int) (token, error) {
		t.end = min(end, len(l.text))
		return t, failure(l.text, t.span, codeString, "Syntax error, invalid string literal token '%s'.",
			l.text[t.start:t.end])
	}
	for i := l.i + 1; i < len(l.text); i++ {
		switch c := l.text[i]; c {
		case quote:
			t.end, l.i, t.text = i+1, i+1, string(out)
			if !utf8.ValidString(t.text) {
				return bad(t.end)
			}
			return t, nil
		case '\\':
			i++
			if i == len(l.text) {
				return bad(i)
			}
			n, ok := escape(l.text[i:], &out)
			if !ok {
				return bad(i + 1)
			}
			i += n
		default:
			out = append(out, c)
		}
	}
	return bad(len(l.text))
}

// escape appends the character of a backslash escape. It returns the number of bytes of s that follow the first byte of
// the escape.
func escape(s string, out *[]byte) (int, bool) {
	const letters, meanings = `'"\/bfnrt`, "'\"\\/\b\f\n\r\t"
	if at := strings.IndexByte(letters, s[0]); at >= 0 {
		*out = append(*out, meanings[at])
		return 0, true
	}
	r, ok := hexRune(s)
	if !ok {
		return 0, false
	}
	n := 4
	if utf16.IsSurrogate(r) {
		low, ok := rune(0), false
		if len(s) > 5 && s[5] == '\\' {
			low, ok = hexRune(s[6:])
		}
		if both := utf16.DecodeRune(r, low); ok && both != utf8.RuneError {
			r, n = both, 10
		} else {
			r = utf8.RuneError
		}
	}
	*out = utf8.AppendRune(*out, r)
	return n, true
}

// hexRune parses u and four hexadecimal digits.
func hexRune(s string) (rune, bool) {
	if len(s) < 5 || s[0] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[1:5], 16, 32)
	return rune(n), err == nil
}
