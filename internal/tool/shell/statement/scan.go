// SPDX-License-Identifier: Apache-2.0

package statement

import "unicode/utf8"

// Kind is what a token is.
type Kind uint8

// The kinds of tokens. Numbers are whatever begins with a digit: 1, 0xcafe, 5h. Punct is one character of anything
// else.
const (
	Word Kind = iota + 1
	Quoted
	String
	Dollar
	Number
	Punct
)

// Token is a word of a text; Begin and End are byte offsets. Comments and space are none.
type Token struct {
	Kind       Kind
	Begin, End int
}

// open is what a text ends within.
type open uint8

const (
	inNothing open = iota
	inString
	inQuoted
	inDollar
	inLineComment
	inBlockComment
)

// openEnds is what ends that which is open, and openKinds what token it is then, 0 for a comment.
var (
	openEnds  = [...]string{inString: "'", inQuoted: `"`, inDollar: "$$", inLineComment: "\n", inBlockComment: "*/"}
	openKinds = [...]Kind{inString: String, inQuoted: Quoted, inDollar: Dollar, inBlockComment: 0}
)

// name says what a text ends within, for people.
func (o open) name() string {
	return map[open]string{inString: "a string ('...')", inQuoted: `a quoted name ("...")`,
		inDollar:       "a string ($$...$$)",
		inBlockComment: "a comment (/* ... */)"}[o]
}

// scanner cuts a text into tokens piece by piece: each piece but the last ends with a line end, so that no token but a
// string, a quoted name or a comment stands in two of them. Its zero value is at the beginning.
type scanner struct {
	pos   int // what is before has been looked at
	in    open
	begin int // of the token that is open
}

// next returns the next token of a text that the pieces so far are the beginning of. ok is false at its end, where what
// is open stays open.
func (s *scanner) next(text []byte) (t Token, ok bool) {
	for s.pos < len(text) {
		if s.in != inNothing {
			if t, ok = s.close(text); ok {
				return t, true
			}
			continue
		}
		c, begin := text[s.pos], s.pos
		two := s.pos+1 < len(text) && text[s.pos+1] == c
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			s.pos++
		case (c == '-' || c == '/') && two:
			s.enter(inLineComment, 2)
		case c == '/' && s.pos+1 < len(text) && text[s.pos+1] == '*':
			s.enter(inBlockComment, 2)
		case c == '\'':
			s.enter(inString, 1)
		case c == '"':
			s.enter(inQuoted, 1)
		case c == '$' && two:
			s.enter(inDollar, 2)
		case isWord(c):
			for s.pos < len(text) && isWord(text[s.pos]) {
				s.pos++
			}
			kind := Word
			if c >= '0' && c <= '9' {
				kind = Number
			}
			return Token{kind, begin, s.pos}, true
		default:
			s.pos++
			return Token{Punct, begin, s.pos}, true
		}
	}
	return Token{}, false
}

func (s *scanner) enter(in open, length int) {
	s.in, s.begin = in, s.pos
	s.pos += length
}

// close looks for the end of what is open; ok is true when a token has ended there.
func (s *scanner) close(text []byte) (t Token, ok bool) {
	ends, kind := openEnds[s.in], openKinds[s.in]
	for ; s.pos < len(text); s.pos++ {
		if len(text)-s.pos < len(ends) || string(text[s.pos:s.pos+len(ends)]) != ends {
			continue
		}
		s.pos += len(ends)
		if len(ends) == 1 && kind != 0 && s.pos < len(text) && text[s.pos] == ends[0] {
			continue // a doubled quote; the loop moves over it
		}
		s.in = inNothing
		return Token{kind, s.begin, s.pos}, kind != 0
	}
	return Token{}, false
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c >= utf8.RuneSelf
}

// Tokens cuts a whole text. A string or quoted name that does not end is a token, too, as open says.
func Tokens(text string) (tokens []Token, open bool) {
	b := []byte(text)
	var s scanner
	for {
		t, ok := s.next(b)
		if !ok {
			break
		}
		tokens = append(tokens, t)
	}
	if kind := openKinds[s.in]; kind != 0 {
		return append(tokens, Token{kind, s.begin, len(text)}), true
	}
	return tokens, s.in != inNothing
}
