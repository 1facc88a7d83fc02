// SPDX-License-Identifier: Apache-2.0

package parser

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// failure is the reason for a parsing failure. The error is formatted only if the whole statement cannot be parsed,
// because speculative parsing often fails.
type failure struct {
	tok token
	lex lexError
	// mismatch reports whether expecting was the only possible token. If several tokens were possible, mismatch is
	// false.
	mismatch  bool
	expecting kind
	// If message is set, it replaces the text that the fields above determine.
	message string
	// bound reports whether message concerns a limit instead of the syntax.
	bound bool
	// hint is a suggestion that is appended to the error text.
	hint string
}

// fail records that no alternative matches the current token.
func (p *parser) fail() { p.stop(failure{tok: p.tok, lex: p.lex.err}) }

// failHint works like fail but adds a suggestion.
func (p *parser) failHint(hint string) { p.stop(failure{tok: p.tok, lex: p.lex.err, hint: hint}) }

// mismatch records that a token of kind k was expected.
func (p *parser) mismatch(k kind) {
	p.stop(failure{tok: p.tok, lex: p.lex.err, mismatch: true, expecting: k})
}

// refuse records an error with a specific text.
func (p *parser) refuse(format string, args ...any) {
	p.stop(failure{message: fmt.Sprintf(format, args...)})
}

// refuseBound records that the statement exceeds a limit.
func (p *parser) refuseBound(format string, args ...any) {
	p.stop(failure{message: fmt.Sprintf(format, args...), bound: true})
}

func (p *parser) stop(f failure) {
	if p.failed {
		return
	}
	p.failed = true
	p.failure = f
	p.tok = token{kind: tEOF, begin: int32(len(p.lex.text)), end: int32(len(p.lex.text))}
	p.aheadLen = 0
}

// build returns the error. The error texts have the format of Cassandra's parser generator:
//
//	line 1:9 mismatched input 'FORM' expecting K_FROM (SELECT * [FORM]...)
//	line 1:0 no viable alternative at input 'SELEC' ([SELEC]...)
func (f failure) build(text string) error {
	if f.message != "" {
		if f.bound {
			return &dberr.Invalid{Message: f.message}
		}
		return &dberr.Syntax{Message: f.message}
	}
	if f.tok.kind == tError {
		return &dberr.Syntax{Message: f.lex.describe(text)}
	}
	var b strings.Builder
	input := "<EOF>"
	if f.tok.kind == tEOF {
		b.WriteString("line 0:-1")
	} else {
		line, column := position(text, int(f.tok.begin))
		fmt.Fprintf(&b, "line %d:%d", line, column)
		input = shorten(text[f.tok.begin:f.tok.end], f.tok.kind)
	}
	if f.mismatch {
		fmt.Fprintf(&b, " mismatched input '%s' expecting %s", input, f.expecting)
	} else {
		fmt.Fprintf(&b, " no viable alternative at input '%s'", input)
	}
	if f.tok.kind != tEOF {
		b.WriteString(" (" + snippet(text, f.tok) + ")")
	}
	if hint := f.guess(text); hint != "" {
		b.WriteString("; " + hint)
	}
	return &dberr.Syntax{Message: b.String()}
}

// guess returns the suggestion, or an empty string if the failure has no suggestion.
func (f failure) guess(text string) string {
	if f.tok.kind == tIdent && strings.EqualFold(text[f.tok.begin:f.tok.end], "primarykey") {
		return "did you mean PRIMARY KEY?"
	}
	return f.hint
}

func (e lexError) describe(text string) string {
	line, column := position(text, int(e.at))
	at := "<EOF>"
	if int(e.at) < len(text) {
		r, size := utf8.DecodeRuneInString(text[e.at:])
		at = string(r)
		if r == utf8.RuneError {
			at = fmt.Sprintf("%x", text[e.at:int(e.at)+size])
		}
	}
	if e.expecting == "" {
		return fmt.Sprintf("line %d:%d no viable alternative at character '%s'", line, column, at)
	}
	return fmt.Sprintf("line %d:%d mismatched character '%s' expecting %s", line, column, at, e.expecting)
}

// position converts a byte offset to a line number, starting at 1, and a column in characters, starting at 0.
func position(text string, offset int) (line, column int) {
	before := text[:offset]
	line = 1 + strings.Count(before, "\n")
	return line, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
}

// These constants limit the length of a quoted statement in an error.
const (
	snippetTokens = 10
	snippetBytes  = 40
)

// snippet quotes the statement around tok, including up to ten tokens and spaces before tok.
func snippet(text string, tok token) string {
	l := lexer{text: text}
	var begins [snippetTokens]int
	n := 0
	add := func(at int) {
		begins[n%snippetTokens] = at
		n++
	}
	for end := 0; end < int(tok.begin); {
		t := l.next()
		if t.kind == tEOF || t.kind == tError {
			break
		}
		if int(t.begin) > end {
			add(end)
		}
		if t.begin >= tok.begin {
			break
		}
		add(int(t.begin))
		end = int(t.end)
	}
	from := 0
	if n > snippetTokens {
		from = begins[n%snippetTokens]
	}
	before := text[from:tok.begin]
	if len(before) > snippetBytes {
		cut := len(before) - snippetBytes
		for cut < len(before) && !utf8.RuneStart(before[cut]) {
			cut++
		}
		before = before[cut:]
		from = 1
	}
	var b strings.Builder
	if from > 0 {
		b.WriteString("...")
	}
	b.WriteString(before + "[" + shorten(text[tok.begin:tok.end], tok.kind) + "]")
	if int(tok.end) < len(text) {
		b.WriteString("...")
	}
	return b.String()
}

// shorten shortens a token for an error text. Like Cassandra, it removes the quotes of strings.
func shorten(s string, k kind) string {
	if k == tString {
		s = s[1 : len(s)-1]
	}
	if len(s) <= snippetBytes {
		return s
	}
	cut := snippetBytes
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
