// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// ErrToken is returned for bytes that Token.Append did not write.
var ErrToken = errors.New("not a token of a change feed")

// ErrScope is returned for a token of which a part of the scope that it is used for knows nothing: what was changed
// there would be left out.
var ErrScope = errors.New("a token of another part of the table")

// errMalformed is for answers that cannot be.
var errMalformed = errors.New("malformed entry of a change log")

// Token says which changes of a table were read: all up to since, at each position of the ring, and of the round under
// way those up to place.
type Token struct {
	// Table is the table's id. Kept says that it is a feed of what is kept of every change, and not one of latest
	// versions.
	Table uint32
	Kept  bool
	// AsOf is the second from which on all changes are still to be read; what was changed before has been.
	AsOf int64
	// Generation is that of the feed: a token of another generation would go on behind changes that were not logged.
	// Tokens of builds without generations have 0.
	Generation uint64

	since marks
	// scope is the part of the ring that the marks know of: that of the last page. The zero interval is all of it.
	scope interval
	// until is where the round under way ends and roundAt when it began; nil if none is. place is the last change of
	// the round that was read, nil if none was.
	until   marks
	roundAt int64
	place   *place
}

// place is where an entry of the change log stands. With an empty clustering key it is the beginning of its partition,
// without one the end.
type place struct {
	ring       uint64
	key        []byte
	clustering []byte // with the stamp before it
}

// placeAt is the beginning of a part of the ring.
func placeAt(p keys.Position) *place {
	return &place{ring: p.Ring, key: append([]byte{}, p.Key...), clustering: []byte{}}
}

// Beginning is the token of a feed of all changes.
func Beginning(table uint32, kept bool) Token { return Since(table, kept, time.UnixMicro(0)) }

// Since is the token of a feed of the changes from a time on.
func Since(table uint32, kept bool, at time.Time) Token {
	return Token{Table: table, Kept: kept, AsOf: at.Unix(), since: marks{{stamp: max(at.UnixMicro()-1, 0)}}}
}

// Now is the token of a feed of the changes that come after its first page, which is empty. now is the second at
// present.
func Now(table uint32, kept bool, now int64) Token {
	return Token{Table: table, Kept: kept, AsOf: now, since: marks{{stamp: math.MaxInt64}}}
}

// Above leaves out the changes up to a stamp.
func (t *Token) Above(stamp int64) { t.since = t.since.raised(marks{{stamp: stamp}}) }

// fresh reports whether the token is Now's.
func (t *Token) fresh() bool { return len(t.since) == 1 && t.since[0].stamp == math.MaxInt64 }

// part is the part of a scope from a position on in which the same stamps bound what is to be read; ok is false at the
// end of the scope.
func (t *Token) part(at keys.Position, scope interval) (in interval, after, upto int64, ok bool) {
	if !scope.limit.IsZero() && at.Compare(scope.limit) >= 0 {
		return in, 0, 0, false
	}
	after, endAfter := t.since.find(at)
	upto, endUpto := t.until.find(at)
	in = interval{begin: at, limit: scope.limit}
	for _, end := range []*keys.Position{endAfter, endUpto} {
		if end != nil && (in.limit.IsZero() || end.Compare(in.limit) < 0) {
			in.limit = *end
		}
	}
	return in, after, upto, true
}

// end ends the round.
func (t *Token) end() {
	t.since, t.AsOf = t.since.raised(t.until), max(t.AsOf, t.roundAt)
	t.until, t.place, t.roundAt = nil, nil, 0
}

// tokenFormat is the version of a token, its first byte.
const tokenFormat = 0xc1

// The flags of a token.
const (
	tokenKept = 1 << iota
	tokenRound
	tokenPlace
	tokenScope // was unknown to builds before feature level 5, whose tokens are taken for those of the whole ring
	// tokenGeneration was unknown to builds before feature level 8.
	tokenGeneration
	tokenFlagsEnd
)

// Append appends the encoded token.
func (t *Token) Append(dst []byte) []byte {
	w := codec.Writer(append(dst, tokenFormat))
	w.Byte(codec.Bit(t.Kept)*tokenKept | codec.Bit(t.until != nil)*tokenRound | codec.Bit(t.place != nil)*tokenPlace |
		codec.Bit(!t.scope.whole())*tokenScope | codec.Bit(t.Generation != 0)*tokenGeneration)
	w.Uint(uint64(t.Table))
	w.Int(t.AsOf)
	t.since.append(&w)
	if t.until != nil {
		w.Int(t.roundAt)
		t.until.append(&w)
	}
	if t.place != nil {
		w.Uint(t.place.ring)
		w.Bytes(t.place.key)
		w.Null(t.place.clustering)
	}
	if !t.scope.whole() {
		for _, p := range []*keys.Position{&t.scope.begin, &t.scope.limit} {
			w.Uint(p.Ring)
			w.Bytes(p.Key)
		}
	}
	if t.Generation != 0 {
		w.Uint(t.Generation)
	}
	return w
}

// DecodeToken reads what Append wrote. Every error is ErrToken.
func DecodeToken(b []byte) (Token, error) {
	r := codec.NewReader(b, ErrToken)
	format, flags := r.Byte(), r.Byte()
	t := Token{Kept: flags&tokenKept != 0, Table: r.Uint32(), AsOf: r.Int(), since: readMarks(&r)}
	if flags&tokenRound != 0 {
		t.roundAt, t.until = r.Int(), readMarks(&r)
	}
	if flags&tokenPlace != 0 {
		t.place = &place{ring: r.Uint(), key: append([]byte{}, r.Bytes()...), clustering: slices.Clone(r.Null())}
	}
	if flags&tokenScope != 0 {
		for _, p := range []*keys.Position{&t.scope.begin, &t.scope.limit} {
			p.Ring, p.Key = r.Uint(), slices.Clone(r.Bytes())
		}
	}
	if flags&tokenGeneration != 0 {
		t.Generation = r.Uint()
	}
	if r.End() != nil || format != tokenFormat || flags >= tokenFlagsEnd || t.place != nil && t.until == nil {
		return Token{}, ErrToken
	}
	return t, nil
}
