// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/token"
)

// Span is a part of a table: the keys whose position (see AppendPosition) is in [Begin, End). An empty Begin is the table's
// beginning, an empty End its end. A boundary may lie between two partition keys of one token.
type Span struct {
	Table      uint32
	Begin, End []byte
}

// TokenSpan is the part of a table that a range of tokens covers.
func TokenSpan(table uint32, r token.Range) Span {
	s := Span{Table: table}
	if r.Begin == token.Max || r.End <= r.Begin {
		// Nothing lies there: a span that ends where it begins.
		s.Begin = AppendToken(nil, r.Begin)
		s.End = s.Begin
		return s
	}
	if r.Begin != token.Min {
		s.Begin = AppendToken(nil, r.Begin+1)
	}
	if r.End != token.Max {
		s.End = AppendToken(nil, r.End+1)
	}
	return s
}

// Contains reports whether a logical partition lies in the span.
func (s Span) Contains(tok token.Token, pk []byte) bool {
	var buf [64]byte
	pos := AppendPosition(buf[:0], tok, pk)
	return bytes.Compare(s.Begin, pos) <= 0 && (len(s.End) == 0 || bytes.Compare(pos, s.End) < 0)
}

// Bounds returns the first key of the span and the first behind it.
func (s Span) Bounds() (lower, upper []byte) {
	lower = append(AppendTable(nil, s.Table), s.Begin...)
	if len(s.End) > 0 {
		return lower, append(AppendTable(nil, s.Table), s.End...)
	}
	return lower, After(AppendTable(nil, s.Table))
}

// Tokens returns the smallest range of tokens that covers the span.
func (s Span) Tokens() token.Range {
	r := token.Full
	if t, _ := boundToken(s.Begin); len(s.Begin) > 0 && t > token.Min {
		r.Begin = t - 1
	}
	if t, exact := boundToken(s.End); len(s.End) > 0 {
		if r.End = t; exact && t > token.Min {
			r.End = t - 1
		}
	}
	return r
}

// boundToken reads the token of a boundary; exact is false if part of that token's keys lie before the boundary.
func boundToken(b []byte) (t token.Token, exact bool) {
	var buf [8]byte
	copy(buf[:], b)
	return token.Token(binary.BigEndian.Uint64(buf[:]) ^ signBit), len(b) <= len(buf)
}

// String shows the table and the bounds in hexadecimal.
func (s Span) String() string { return fmt.Sprintf("%d[%x,%x)", s.Table, s.Begin, s.End) }
