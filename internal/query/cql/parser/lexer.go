// SPDX-License-Identifier: Apache-2.0

package parser

// token is the kind and the position of a token in a statement.
type token struct {
	kind kind
	// escaped reports whether the token is a string or a quoted name with doubled quotes.
	escaped bool
	begin   int32
	end     int32
}

// lexError describes a tError token. The token covers the invalid text.
type lexError struct {
	// at is the byte offset that Cassandra reports.
	at int32
	// expecting is the expected text in Cassandra's notation. If a character does not start a token, expecting is
	// empty.
	expecting string
}

// lexer splits a text into tokens on demand. It does not copy text. The zero value is ready for use after text has been
// set.
type lexer struct {
	text string
	pos  int
	err  lexError
}

func (l *lexer) next() token {
	if bad, ok := l.skipSpace(); !ok {
		return bad
	}
	if l.pos >= len(l.text) {
		return token{kind: tEOF, begin: int32(len(l.text)), end: int32(len(l.text))}
	}
	begin := l.pos
	c := l.text[begin]
	switch classes[c] & classLetterDigit {
	case classLetter:
		return l.word()
	case classDigit:
		return l.number(begin)
	}
	switch c {
	case '\'':
		return l.quoted('\'', tString)
	case '"':
		t := l.quoted('"', tQuoted)
		if t.kind == tQuoted && t.end-t.begin == 2 {
			t.kind = tEmptyQuoted
		}
		return t
	case '$':
		return l.dollar()
	}
	return l.punctuation(c)
}

// skipSpace moves to the next token. For an unterminated comment, it returns an error token.
func (l *lexer) skipSpace() (token, bool) {
	for l.pos < len(l.text) {
		switch c := l.text[l.pos]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			l.pos++
		case (c == '-' || c == '/') && l.pos+1 < len(l.text) && l.text[l.pos+1] == c:
			begin := l.pos
			for l.pos < len(l.text) && l.text[l.pos] != '\n' && l.text[l.pos] != '\r' {
				l.pos++
			}
			if l.pos == len(l.text) {
				return l.fail(begin, l.pos, "set null"), false
			}
		case c == '/' && l.pos+1 < len(l.text) && l.text[l.pos+1] == '*':
			begin := l.pos
			end := begin + 2
			for end+1 < len(l.text) && (l.text[end] != '*' || l.text[end+1] != '/') {
				end++
			}
			if end+1 >= len(l.text) {
				return l.fail(begin, len(l.text), "'*'"), false
			}
			l.pos = end + 2
		default:
			return token{}, true
		}
	}
	return token{}, true
}

func (l *lexer) fail(begin, at int, expecting string) token {
	l.err = lexError{at: int32(at), expecting: expecting}
	l.pos = len(l.text)
	return token{kind: tError, begin: int32(begin), end: int32(len(l.text))}
}

func (l *lexer) take(k kind, begin, end int) token {
	l.pos = end
	return token{kind: k, begin: int32(begin), end: int32(end)}
}

// word scans an identifier, a keyword, a UUID that starts with a letter, or an ISO 8601 duration.
func (l *lexer) word() token {
	text, begin, end := l.text, l.pos, l.pos
	var h uint32
	for end < len(text) {
		c := text[end]
		if classes[c]&classWord == 0 {
			break
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		h = hashByte(h, c)
		end++
	}
	if end-begin == 8 && end < len(text) && text[end] == '-' && isUUID(text[begin:]) {
		return l.take(tUUID, begin, begin+36)
	}
	if text[begin] == 'P' {
		if d := isoDurationLen(text[begin:]); d > 0 {
			return l.take(tDuration, begin, begin+d)
		}
	}
	k := tIdent
	if n := end - begin; n >= keywordLenMin && n <= keywordLenMax {
		k = lookupKeyword(text[begin:end], h)
	}
	return l.take(k, begin, end)
}

// number scans a token that starts with a digit or a minus sign. If begin is before the first digit, the token starts
// with a minus sign.
func (l *lexer) number(begin int) token {
	text, p := l.text, begin
	if text[p] == '-' {
		p++
	} else if isUUID(text[p:]) {
		return l.take(tUUID, begin, begin+36)
	} else if text[p] == '0' && p+1 < len(text) && text[p+1]|0x20 == 'x' {
		p += 2
		for p < len(text) && classes[text[p]]&classHex != 0 {
			p++
		}
		return l.take(tHex, begin, p)
	}
	if n := unitDurationLen(text[p:]); n > 0 {
		return l.take(tDuration, begin, p+n)
	}
	p = skipDigits(text, p)
	k := tInteger
	if p < len(text) && text[p] == '.' && !isRange(text[p:]) {
		k = tFloat
		p = skipDigits(text, p+1)
	}
	if p < len(text) && text[p]|0x20 == 'e' {
		e := p + 1
		if e < len(text) && (text[e] == '+' || text[e] == '-') {
			e++
		}
		if end := skipDigits(text, e); end > e {
			k, p = tFloat, end
		}
	}
	return l.take(k, begin, p)
}

// isRange reports whether a dot after a number starts the range operator instead of a decimal fraction. In `5...`, the
// first dot starts a fraction.
func isRange(s string) bool {
	return len(s) > 1 && s[1] == '.' && (len(s) == 2 || s[2] != '.')
}

func skipDigits(text string, p int) int {
	for p < len(text) && classes[text[p]]&classDigit != 0 {
		p++
	}
	return p
}

// quoted scans a string or a quoted name. A doubled quote represents a quote.
func (l *lexer) quoted(quote byte, k kind) token {
	begin := l.pos
	t := token{kind: k, begin: int32(begin)}
	for p := begin + 1; p < len(l.text); p++ {
		if l.text[p] != quote {
			continue
		}
		if p+1 < len(l.text) && l.text[p+1] == quote {
			t.escaped = true
			p++
			continue
		}
		l.pos = p + 1
		t.end = int32(p + 1)
		return t
	}
	return l.fail(begin, len(l.text), "'"+string(rune(quote))+"'")
}

// dollar scans a $$..$$ text. A single $ in the text is an ordinary character.
func (l *lexer) dollar() token {
	begin := l.pos
	if begin+1 >= len(l.text) || l.text[begin+1] != '$' {
		return l.fail(begin, begin+1, "'$'")
	}
	for p := begin + 2; p+1 < len(l.text); p++ {
		if l.text[p] == '$' && l.text[p+1] == '$' {
			return l.take(tDollar, begin, p+2)
		}
	}
	return l.fail(begin, len(l.text), "'$'")
}

func (l *lexer) punctuation(c byte) token {
	begin := l.pos
	var after byte
	if begin+1 < len(l.text) {
		after = l.text[begin+1]
	}
	switch {
	case c == '<' && after == '=':
		return l.take(tLessEqual, begin, begin+2)
	case c == '>' && after == '=':
		return l.take(tGreaterEqual, begin, begin+2)
	case c == '+' && after == '=':
		return l.take(tPlusEqual, begin, begin+2)
	case c == '.' && after == '.':
		return l.take(tRange, begin, begin+2)
	case c == '!':
		if after == '=' {
			return l.take(tNotEqual, begin, begin+2)
		}
		return l.fail(begin, begin+1, "'='")
	case c == '-':
		return l.minus(after)
	}
	if k := singles[c]; k != 0 {
		return l.take(k, begin, begin+1)
	}
	return l.fail(begin, begin, "")
}

// minus scans a token that starts with a minus sign. As in Cassandra, the minus sign is part of a number that follows
// immediately. Therefore, `a -1` consists of two operands without an operator.
func (l *lexer) minus(after byte) token {
	begin := l.pos
	rest := l.text[begin+1:]
	switch {
	case classes[after]&classDigit != 0:
		return l.number(begin)
	case after == '=':
		return l.take(tMinusEqual, begin, begin+2)
	case after == 'P':
		if d := isoDurationLen(rest); d > 0 {
			return l.take(tDuration, begin, begin+1+d)
		}
	case after|0x20 == 'n' && hasWord(rest, "nan"):
		return l.take(tNegNaN, begin, begin+1+len("nan"))
	case after|0x20 == 'i' && hasWord(rest, "infinity"):
		return l.take(tNegInfinity, begin, begin+1+len("infinity"))
	}
	return l.take(tMinus, begin, begin+1)
}

// hasWord reports whether the first word of s equals word, ignoring case.
func hasWord(s, word string) bool {
	return len(s) >= len(word) && equalLower(s[:len(word)], word) &&
		(len(s) == len(word) || classes[s[len(word)]]&classWord == 0)
}

func isUUID(s string) bool {
	if len(s) < 36 || s[8] != '-' {
		return false
	}
	for i := 0; i < 36; i++ {
		switch i {
		case 8, 13, 18, 23:
			if s[i] != '-' {
				return false
			}
		default:
			if classes[s[i]]&classHex == 0 {
				return false
			}
		}
	}
	return true
}

// These are the character classes of bytes. Bytes from 0x80 to 0xff do not belong to any class.
const (
	classLetter = 1 << iota
	classDigit
	classHex
	classWord

	classLetterDigit = classLetter | classDigit
)

var classes = buildClasses()

func buildClasses() (t [256]uint8) {
	for c := '0'; c <= '9'; c++ {
		t[c] = classDigit | classHex | classWord
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c] = classLetter | classWord
		if c <= 'f' {
			t[c] |= classHex
		}
		t[c-'a'+'A'] = t[c]
	}
	t['_'] = classWord
	return t
}

// singles maps single-byte tokens to their kinds.
var singles = [256]kind{
	'?': tMark, ':': tColon, ';': tSemicolon, ',': tComma, '.': tDot, '(': tOpen, ')': tClose, '[': tOpenBracket,
	']': tCloseBracket,
	'{': tOpenBrace, '}': tCloseBrace, '=': tEqual, '<': tLess, '>': tGreater, '+': tPlus, '*': tStar, '/': tSlash,
	'%': tPercent,
}
