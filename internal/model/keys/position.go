// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/token"
)

// Position is the position of a partition key in its table. It consists of the ring position and the key itself. Two
// keys with the same token have different positions, so a partition can be split at a hot key. Keys with equal ring
// positions are ordered as in the store, which orders them by length and then by bytes. The empty key precedes all
// other keys.
type Position struct {
	// Ring is the ring position of a token (token.Token.Position). On the wide ring, it is the first half of the
	// position.
	Ring uint64
	// Low is the second half of a position on the wide ring. Low is 0 in a table without WideRing.
	Low uint64
	Key []byte
}

// At returns the position of a key with a token.
func At(t token.Token, key []byte) Position { return Position{Ring: t.Position(), Key: key} }

// Compare returns -1, 0, or 1.
func (p Position) Compare(o Position) int {
	if c := cmp.Compare(p.Ring, o.Ring); c != 0 {
		return c
	}
	if c := cmp.Compare(p.Low, o.Low); c != 0 {
		return c
	}
	if c := cmp.Compare(len(p.Key), len(o.Key)); c != 0 {
		return c
	}
	return bytes.Compare(p.Key, o.Key)
}

// IsZero reports whether p is the first position on the ring. As the limit of a span, the zero position is the end of
// the ring.
func (p Position) IsZero() bool { return p.Ring == 0 && p.Low == 0 && len(p.Key) == 0 }

// String returns the token, the second half of a wide position in hexadecimal, and the key. It omits parts that are
// zero or empty.
func (p Position) String() string {
	s := token.AtPosition(p.Ring).String()
	if p.Low != 0 {
		s = fmt.Sprintf("%s+%x", s, p.Low)
	}
	if len(p.Key) == 0 {
		return s
	}
	return fmt.Sprintf("%s/%x", s, p.Key)
}

// Boundary encodes p as a boundary of a Span of a table. Boundary returns nil for the zero Position.
func (p Position) Boundary(table uint32) []byte {
	if p.IsZero() {
		return nil
	}
	b := binary.BigEndian.AppendUint64(nil, p.Ring)
	if table&WideRing != 0 {
		b = binary.BigEndian.AppendUint64(b, p.Low)
	}
	if len(p.Key) == 0 {
		return b
	}
	return appendSized(b, p.Key)
}

// ParseBoundary is the inverse of Position.Boundary.
func ParseBoundary(table uint32, b []byte) (Position, error) {
	if len(b) == 0 {
		return Position{}, nil
	}
	n := positionLen(table)
	if len(b) < n {
		return Position{}, fmt.Errorf("boundary %x is too short", b)
	}
	p := Position{Ring: binary.BigEndian.Uint64(b)}
	if n > 8 {
		p.Low = binary.BigEndian.Uint64(b[8:])
	}
	if len(b) == n {
		return p, nil
	}
	if len(b) <= n+2 || int(binary.BigEndian.Uint16(b[n:])) != len(b)-n-2 {
		return Position{}, fmt.Errorf("boundary %x is not a position", b)
	}
	p.Key = bytes.Clone(b[n+2:])
	return p, nil
}
