// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/shell/statement"
)

// codeNames describes the error codes of a server.
var codeNames = map[cqlwire.ErrorCode]string{
	cqlwire.CodeServer: "Server error", cqlwire.CodeProtocol: "Protocol error",
	cqlwire.CodeBadCredentials: "Login failed", cqlwire.CodeUnavailable: "Unavailable",
	cqlwire.CodeOverloaded: "Overloaded", cqlwire.CodeBootstrapping: "Bootstrapping",
	cqlwire.CodeTruncate: "Truncate error", cqlwire.CodeWriteTimeout: "Write timeout",
	cqlwire.CodeReadTimeout: "Read timeout", cqlwire.CodeReadFailure: "Read failure",
	cqlwire.CodeFunctionFailure: "Function failure", cqlwire.CodeWriteFailure: "Write failure",
	cqlwire.CodeSyntax: "Syntax error", cqlwire.CodeUnauthorized: "Unauthorized", cqlwire.CodeInvalid: "Invalid query",
	cqlwire.CodeConfig: "Configuration error", cqlwire.CodeAlreadyExists: "Already exists",
	cqlwire.CodeUnprepared: "Unprepared",
}

// pointed adds, to a server error, the relevant line of the statement and a mark below the token. It does so only if
// the error contains enough information to find the token.
func pointed(text string, err error) error {
	refused := (*cqlwire.Error)(nil)
	if !errors.As(err, &refused) {
		return err
	}
	name := codeNames[refused.Code]
	if name == "" {
		name = fmt.Sprintf("Error 0x%04X", int32(refused.Code))
	}
	message := refused.Message
	begin, end, ok := findToken(text, refused)
	if ok && begin == 0 && refused.Code == cqlwire.CodeSyntax && strings.EqualFold(text[begin:end], "EXPLAIN") {
		message += "; this server is not Ilion and does not support EXPLAIN"
	}
	if !ok {
		return fmt.Errorf("%s: %s", name, message)
	}
	line, mark := markLine(text, begin, end)
	return &refusal{strings.Count(text[:begin], "\n"), fmt.Sprintf("%s: %s\n  %s\n  %s", name, message, line, mark)}
}

// refusal is an error with the line of the statement to which it refers.
type refusal struct {
	line int // counted from 0
	text string
}

func (r *refusal) Error() string { return r.text }

var (
	// atPosition matches the position in errors of CQL parsers. Line 0:-1 is the end of the text.
	atPosition = regexp.MustCompile(`^line (\d+):(-?\d+) `)
	// aboutName matches errors that contain the name to which they refer.
	aboutName = []*regexp.Regexp{
		regexp.MustCompile(`(?i)^undefined (?:column )?name (\S+)`),
		regexp.MustCompile(`(?i)^(?:table|keyspace|type|index|view) '?([^' ]+?)'? (?:does not|doesn't) exist`),
		regexp.MustCompile(`(?i)unknown (?:function|type|property|identifier|column) '?([^' ]+?)'?(?:$|[ ,])`),
		regexp.MustCompile(`(?i)unconfigured table (\S+)`),
		regexp.MustCompile(`(?i)^some partition key parts are missing: (\w+)`),
		regexp.MustCompile(`(?i) for "?(\w+)"? of type `),
	}
)

// findToken finds the bytes of a statement to which an error refers.
func findToken(text string, e *cqlwire.Error) (begin, end int, ok bool) {
	tokens, _ := statement.Tokens(text)
	if m := atPosition.FindStringSubmatch(e.Message); m != nil {
		row, _ := strconv.Atoi(m[1]) // the match contains only digits, and a number that is too large is not a line
		column, _ := strconv.Atoi(m[2])
		if row == 0 || column < 0 {
			return len(text), len(text), true
		}
		begin, ok := offset(text, row, column)
		if !ok {
			return 0, 0, false
		}
		for _, t := range tokens {
			if t.Begin <= begin && begin < t.End {
				return begin, t.End, true
			}
		}
		return begin, begin, true
	}
	for _, r := range aboutName {
		if m := r.FindStringSubmatch(e.Message); m != nil {
			name := strings.Trim(m[1], `".,`)
			name = name[strings.LastIndexByte(name, '.')+1:]
			for _, t := range tokens {
				word := strings.Trim(text[t.Begin:t.End], `"`)
				if t.Kind != statement.String && strings.EqualFold(word, name) {
					return t.Begin, t.End, true
				}
			}
		}
	}
	return 0, 0, false
}

// offset returns the byte offset of a position. line counts from 1. column counts characters from 0.
func offset(text string, line, column int) (int, bool) {
	at := 0
	for range line - 1 {
		n := strings.IndexByte(text[at:], '\n')
		if n < 0 {
			return 0, false
		}
		at += n + 1
	}
	for range column {
		_, size := utf8.DecodeRuneInString(text[at:])
		if size == 0 {
			break
		}
		at += size
	}
	return at, true
}

// lineMax is the maximum width of a displayed line, in columns.
const lineMax = 110

// markLine returns the line that contains the bytes from begin to end. It also returns a line with marks below these
// bytes.
func markLine(text string, begin, end int) (line, mark string) {
	from := strings.LastIndexByte(text[:begin], '\n') + 1
	to := len(text)
	if n := strings.IndexByte(text[begin:], '\n'); n >= 0 {
		to = begin + n
	}
	end = min(end, to)
	before, marked := clean(text[from:begin]), clean(text[begin:end])
	line = before + marked + clean(text[end:to])
	if w := runewidth.StringWidth(before); w > lineMax/2 {
		cut := runewidth.Truncate(before, w-lineMax/2, "")
		line, before = "..."+strings.TrimPrefix(line, cut), "..."+strings.TrimPrefix(before, cut)
	}
	line = runewidth.Truncate(line, lineMax, "...")
	mark = strings.Repeat(" ", runewidth.StringWidth(before)) +
		strings.Repeat("^", max(1, min(runewidth.StringWidth(marked), lineMax/2)))
	return line, mark
}

// clean replaces control characters, including tabs, with spaces. The marks therefore stay aligned.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r <= 0xa0 {
			return ' '
		}
		return r
	}, s)
}
