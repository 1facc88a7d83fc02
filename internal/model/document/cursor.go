// SPDX-License-Identifier: Apache-2.0

package document

import "strings"

// Cursor looks up several members of one object and scans its text at most once. A cursor belongs to one goroutine and
// reuses its memory for the next object.
type Cursor struct {
	v    Value
	at   int // start of the first member that has not been scanned
	seen []seenMember
}

// seenMember is a scanned member.
type seenMember struct {
	name       string // raw text between the quotes
	begin, end int32  // position of the value in the text
	escaped    bool   // the name contains escapes
}

// Reset prepares the cursor for lookups in v.
func (c *Cursor) Reset(v Value) {
	c.v, c.seen, c.at = v, c.seen[:0], 0
	if v.kind == Object && v.form != plain {
		c.at = skipSpace(v.text, 1)
	}
}

// Get returns v.Get(name) for the v passed to Reset.
func (c *Cursor) Get(name string) Value {
	if c.v.kind != Object || c.v.form == plain {
		return c.v.Get(name)
	}
	s := c.v.text
	for i := range c.seen {
		if m := &c.seen[i]; m.name == name && !m.escaped || m.escaped && unescape(m.name) == name {
			return valueOf(s[m.begin:m.end])
		}
	}
	for c.at < len(s) && s[c.at] == '"' {
		end, escaped := skipString(s, c.at)
		colon := skipSpace(s, end)
		if end-c.at < 2 || colon >= len(s) || s[colon] != ':' {
			break
		}
		m := seenMember{name: s[c.at+1 : end-1], escaped: escaped}
		at := skipSpace(s, colon+1)
		m.begin = int32(at)
		valueEnd := skipValue(s, at)
		m.end = int32(valueEnd)
		next := nextItem(s, valueEnd)
		if next <= at {
			break
		}
		c.seen = append(c.seen, m)
		c.at = next
		if m.name == name && !escaped || escaped && unescape(m.name) == name {
			return valueOf(s[m.begin:m.end])
		}
	}
	return Value{}
}

// valueOf returns the value of a text that contains only the value.
func valueOf(s string) Value {
	if len(s) < 2 {
		v, _ := valueAt(s, 0)
		return v
	}
	switch last := s[len(s)-1]; {
	case s[0] == '"' && last == '"':
		v := Value{kind: String, form: raw, text: s}
		if strings.IndexByte(s, '\\') >= 0 {
			v.form = rawEscaped
		}
		return v
	case s[0] == '{' && last == '}':
		return Value{kind: Object, form: raw, text: s}
	case s[0] == '[' && last == ']':
		return Value{kind: Array, form: raw, text: s}
	}
	v, _ := valueAt(s, 0)
	return v
}
