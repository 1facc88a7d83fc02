// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Span is a part of a table. It consists of the keys whose position (see AppendPosition) is in [Begin, End). An empty
// Begin is the start of the table, and an empty End is its end. A boundary may be between two partition keys of the
// same token.
type Span struct {
	Table      uint32
	Begin, End []byte
}

// TokenSpan returns the part of a table that a token range covers.
func TokenSpan(table uint32, r token.Range) Span {
	s := Span{Table: table}
	if r.Begin != 0 {
		s.Begin = binary.BigEndian.AppendUint64(nil, r.Begin)
	}
	if r.Limit != 0 {
		s.End = binary.BigEndian.AppendUint64(nil, r.Limit)
	}
	return s
}

// Holds reports whether a logical partition is in the span.
func (s Span) Holds(p Position) bool {
	var buf [64]byte
	pos := binary.BigEndian.AppendUint64(buf[:0], p.Ring)
	if s.Table&WideRing != 0 {
		pos = binary.BigEndian.AppendUint64(pos, p.Low)
	}
	pos = appendSized(pos, p.Key)
	return bytes.Compare(s.Begin, pos) <= 0 && (len(s.End) == 0 || bytes.Compare(pos, s.End) < 0)
}

// Bounds returns the first key of the span and the first key after the span.
func (s Span) Bounds() (lower, upper []byte) {
	lower = append(AppendTable(nil, s.Table), s.Begin...)
	if len(s.End) > 0 {
		return lower, append(AppendTable(nil, s.Table), s.End...)
	}
	return lower, After(AppendTable(nil, s.Table))
}

// Tokens returns the smallest token range that covers the span.
func (s Span) Tokens() token.Range {
	var r token.Range
	r.Begin, _ = boundary(s.Begin)
	limit, exact := boundary(s.End)
	if r.Limit = limit; !exact {
		r.Limit++ // The limit is 0 after the last position
	}
	return r
}

// boundary decodes the position of a boundary. exact is false if the boundary is between partition keys of the same
// token.
func boundary(b []byte) (position uint64, exact bool) {
	var buf [8]byte
	copy(buf[:], b)
	return binary.BigEndian.Uint64(buf[:]), len(b) <= len(buf)
}

// String returns the table and the boundaries in hexadecimal.
func (s Span) String() string { return fmt.Sprintf("%d[%x,%x)", s.Table, s.Begin, s.End) }

// Append appends the encoded span.
func (s Span) Append(dst []byte) []byte {
	w := codec.Writer(dst)
	w.Uint(uint64(s.Table))
	w.Bytes(s.Begin)
	w.Bytes(s.End)
	return w
}

// DecodeSpan decodes the output of Append. The span points into b.
func DecodeSpan(b []byte) (Span, error) {
	r := codec.NewReader(b, ErrCorrupt)
	s := Span{Table: r.Uint32(), Begin: r.Bytes(), End: r.Bytes()}
	return s, r.End()
}
