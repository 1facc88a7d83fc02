// SPDX-License-Identifier: Apache-2.0

package text

import (
	"bytes"
	"errors"
	"fmt"
)

// Dialect is a CSV dialect. A record ends with a line end outside of quotes.
type Dialect struct {
	// Delimiter separates fields, and Quote encloses them. Within quotes, Escape makes a following quote or escape
	// character literal. If Escape is the quote character, a doubled quote represents a quote (RFC 4180).
	Delimiter, Quote, Escape byte
	// Null is the unquoted text that stands for null.
	Null string
	// Cqlsh accepts the output of COPY TO in cqlsh. Escape then makes any following character literal, within and
	// outside of quotes, in the same way as in Python's csv module. The escapes of cqlsh itself are then reversed (see
	// Unescape).
	Cqlsh bool
}

// Check returns an error if the dialect is invalid.
func (d Dialect) Check() error {
	for _, c := range []byte{d.Delimiter, d.Quote, d.Escape} {
		if c == '\n' || c == '\r' || c == 0 || c >= 0x80 {
			return errors.New("invalid delimiter, quote, or escape: expected one ASCII character other than a line end")
		}
	}
	if d.Delimiter == d.Quote || d.Delimiter == d.Escape {
		return errors.New("the delimiter must differ from the quote and the escape")
	}
	return nil
}

// Field is a field of a record.
type Field struct {
	Text string
	// Null is set for the dialect's text for null, without quotes.
	Null bool
}

// Fields splits a record, without its line end, into fields and appends them.
func (d Dialect) Fields(dst []Field, record string) ([]Field, error) {
	for {
		f, rest, err := d.field(record)
		if err != nil {
			return dst, fmt.Errorf("field %d: %w", len(dst)+1, err)
		}
		dst = append(dst, f)
		if rest == "" {
			return dst, nil
		}
		record = rest[1:]
	}
}

// field parses a field. rest is empty or starts with the delimiter.
func (d Dialect) field(s string) (f Field, rest string, err error) {
	if d.Cqlsh {
		return d.cqlshField(s)
	}
	if s == "" || s[0] != d.Quote {
		n := 0
		for n < len(s) && s[n] != d.Delimiter {
			if s[n] == d.Quote {
				return f, "", fmt.Errorf("unexpected quote in %q, which does not start with a quote", clip(s))
			}
			n++
		}
		return Field{s[:n], s[:n] == d.Null}, s[n:], nil
	}
	var b []byte // used after the first escape
	from := 1
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch {
		case c != d.Quote && c != d.Escape:
		case i+1 < len(s) && (c == d.Escape && (s[i+1] == d.Quote || s[i+1] == d.Escape) ||
			c == d.Quote && s[i+1] == d.Quote):
			b = append(append(b, s[from:i]...), s[i+1])
			i++
			from = i + 1
		case c == d.Quote:
			if rest = s[i+1:]; rest != "" && rest[0] != d.Delimiter {
				return f, rest, fmt.Errorf("%q follows the closing quote", clip(rest))
			}
			if b == nil {
				return Field{Text: s[1:i]}, rest, nil
			}
			return Field{Text: string(append(b, s[from:i]...))}, rest, nil
		}
	}
	return f, "", fmt.Errorf("the quote is not closed: %q", clip(s))
}

// AppendField appends a field, with quotes if necessary.
func (d Dialect) AppendField(dst []byte, content []byte, null bool) []byte {
	if null {
		return append(dst, d.Null...)
	}
	special := string(content) == d.Null || len(content) == 0 || bytes.IndexByte(content, d.Delimiter) >= 0 ||
		bytes.IndexByte(content, d.Quote) >= 0 || bytes.ContainsAny(content, "\r\n") ||
		content[0] == ' ' || content[len(content)-1] == ' '
	if !special {
		return append(dst, content...)
	}
	dst = append(dst, d.Quote)
	for _, c := range content {
		if c == d.Quote || c == d.Escape {
			dst = append(dst, d.Escape)
		}
		dst = append(dst, c)
	}
	return append(dst, d.Quote)
}

// Quotes tracks whether a text ends within quotes.
type Quotes struct {
	d               Dialect
	within, escaped bool
}

// Quotes returns a tracker for the start of the first record.
func (d Dialect) Quotes() *Quotes { return &Quotes{d: d} }

// Feed processes the next part of the text, up to a line end or the end of the text, and reports whether a record ends
// there.
func (q *Quotes) Feed(line []byte) bool {
	if q.d.Escape == q.d.Quote {
		q.within = q.within != (bytes.Count(line, []byte{q.d.Quote})%2 == 1)
		return !q.within
	}
	for _, c := range line {
		switch {
		case q.escaped:
			q.escaped = false
		case (q.within || q.d.Cqlsh) && c == q.d.Escape:
			q.escaped = true
		case c == q.d.Quote:
			q.within = !q.within
		}
	}
	return !q.within
}
