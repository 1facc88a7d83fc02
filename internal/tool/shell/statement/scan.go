// SPDX-License-Identifier: Apache-2.0

package statement

import "unicode/utf8"

// Kind is the kind of a token.
type Kind uint8

// These are the kinds of tokens. A number is any word that starts with a digit: 1, 0xcafe, 5h. Punct is a single other
// character.
const (
	Word Kind = iota + 1
	Quoted
	String
	Dollar
	Number
	Punct
)

// Token is a word of a text. Begin and End are byte offsets. Comments and spaces are not tokens.
type Token struct {
	Kind       Kind
	Begin, End int
}

// open is the construct in which a text ends, such as a string or a comment.
type open uint8

const (
	inNothing open = iota
	inString
	inQuoted
	inDollar
	inLineComment
	inBlockComment
)

// openEnds contains the terminators of open constructs. openKinds contains their token kinds, or 0 for a comment.
var (
	openEnds  = [...]string{inString: "'", inQuoted: `"`, inDollar: "$$", inLineComment: "\n", inBlockComment: "*/"}
	openKinds = [...]Kind{inString: String, inQuoted: Quoted, inDollar: Dollar, inBlockComment: 0}
)

// name returns a description of the construct in which a text ends.
func (o open) name() string {
	return map[open]string{inString: "a string ('...')", inQuoted: `a quoted name ("...")`,
		inDollar:       "a string ($$...$$)",
		inBlockComment: "a comment (/* ... */)"}[o]
}

// scanner splits a text into tokens, piece by piece. Every piece except the last ends with a line end, so only
// strings, quoted names, and comments can span pieces. The zero value is a scanner at the start of a text.
type scanner struct {
	pos   int // the text before this offset has been scanned
	in    open
	begin int // position of the open token
}

// next returns the next token of the text that has been added. ok is false at the end of this text. A construct that
// is open there remains open.
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

// close looks for the end of the open construct. ok is true if a token has ended.
func (s *scanner) close(text []byte) (t Token, ok bool) {
	ends, kind := openEnds[s.in], openKinds[s.in]
	for ; s.pos < len(text); s.pos++ {
		if len(text)-s.pos < len(ends) || string(text[s.pos:s.pos+len(ends)]) != ends {
			continue
		}
		s.pos += len(ends)
		if len(ends) == 1 && kind != 0 && s.pos < len(text) && text[s.pos] == ends[0] {
			continue // a doubled quote; the loop skips it
		}
		s.in = inNothing
		return Token{kind, s.begin, s.pos}, kind != 0
	}
	return Token{}, false
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c >= utf8.RuneSelf
}

// Tokens splits a complete text. An unterminated string or quoted name is also a token. open reports such a token.
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
