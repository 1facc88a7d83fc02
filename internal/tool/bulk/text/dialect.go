// SPDX-License-Identifier: Apache-2.0

package text

import (
	"bytes"
	"errors"
	"fmt"
)

// Dialect is how rows stand in CSV. A record ends with a line end that is not in quotes.
type Dialect struct {
	// Delimiter parts fields, Quote begins and ends one. Within quotes Escape has the next character stand for itself
	// if that is a quote or an escape; if it is the quote, a doubled quote stands for one, as RFC 4180 has it.
	Delimiter, Quote, Escape byte
	// Null is the text, without quotes, of null.
	Null string
	// Cqlsh reads what cqlsh's COPY TO writes: Escape has any next character stand for itself, within quotes and
	// outside of them, as in Python's csv; and what cqlsh has escaped itself before is undone, see Unescape.
	Cqlsh bool
}

// Check says what of a dialect cannot be.
func (d Dialect) Check() error {
	for _, c := range []byte{d.Delimiter, d.Quote, d.Escape} {
		if c == '\n' || c == '\r' || c == 0 || c >= 0x80 {
			return errors.New("delimiter, quote and escape are one ASCII character each, and no line end")
		}
	}
	if d.Delimiter == d.Quote || d.Delimiter == d.Escape {
		return errors.New("the delimiter is the quote or the escape, too: they have to differ")
	}
	return nil
}

// Field is a field of a record.
type Field struct {
	Text string
	// Null is true for the dialect's text of null, without quotes.
	Null bool
}

// Fields cuts a record, without its line end, into fields and appends them.
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

// field reads a field; rest is empty or begins with the delimiter.
func (d Dialect) field(s string) (f Field, rest string, err error) {
	if d.Cqlsh {
		return d.cqlshField(s)
	}
	if s == "" || s[0] != d.Quote {
		n := 0
		for n < len(s) && s[n] != d.Delimiter {
			if s[n] == d.Quote {
				return f, "", fmt.Errorf("a quote stands within %q, which does not begin with one", clip(s))
			}
			n++
		}
		return Field{s[:n], s[:n] == d.Null}, s[n:], nil
	}
	var b []byte // used once there is an escape
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

// AppendField appends a field, in quotes where it needs them.
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

// Quotes follows whether a text ends within quotes.
type Quotes struct {
	d               Dialect
	within, escaped bool
}

// Quotes begins before the first record.
func (d Dialect) Quotes() *Quotes { return &Quotes{d: d} }

// Feed takes the next piece of the text, which ends with a line end or the text, and tells whether a record ends there.
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
