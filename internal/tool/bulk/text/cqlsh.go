// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"strconv"
	"strings"
)

// cqlshField parses a field that cqlsh wrote.
func (d Dialect) cqlshField(s string) (f Field, rest string, err error) {
	var b strings.Builder
	quoted := s != "" && s[0] == d.Quote
	i := 0
	if quoted {
		i = 1
	}
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c == d.Escape && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case quoted && c == d.Quote:
			if rest = s[i+1:]; rest != "" && rest[0] != d.Delimiter {
				return f, rest, fmt.Errorf("%q follows the closing quote", clip(rest))
			}
			return Field{Text: Unescape(b.String())}, rest, nil
		case !quoted && c == d.Delimiter:
			return Field{Text: Unescape(b.String()), Null: s[:i] == d.Null}, s[i:], nil
		default:
			b.WriteByte(c)
		}
	}
	if quoted {
		return f, "", fmt.Errorf("the quote is not closed: %q", clip(s))
	}
	return Field{Text: Unescape(b.String()), Null: s == d.Null}, "", nil
}

// Unescape reverses the escaping of cqlsh, which doubles backslashes and writes control characters like Python, such
// as
//
// or \x07. Unescape does not change other backslashes.
func Unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case '\\':
			b.WriteByte(c)
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'x':
			if i+2 < len(s) {
				if r, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
					b.WriteRune(rune(r))
					i += 2
					continue
				}
			}
			b.WriteString(`\x`)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}
