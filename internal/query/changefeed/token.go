// SPDX-License-Identifier: Apache-2.0

package changefeed

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// ErrToken is returned for bytes that Token.Append did not write.
var ErrToken = errors.New("invalid change feed token")

// ErrScope is returned if the scope of a token does not include the whole requested scope. With such a token, the feed
// would skip changes outside the token's scope.
var ErrScope = errors.New("the change feed token belongs to another part of the table")

// errMalformed is returned for an invalid response.
var errMalformed = errors.New("malformed change log entry")

// Token is the position of a feed. At each ring position, all changes up to since have been read. In the current round,
// the changes up to place have also been read.
type Token struct {
	// Table is the ID of the table. Kept reports whether the feed returns all retained changes. Otherwise, the feed
	// returns only the latest versions.
	Table uint32
	Kept  bool
	// AsOf is a Unix time in seconds. All changes before AsOf have been read.
	AsOf int64
	// Generation is the generation of the feed. A feed that resumes with a token of another generation could skip
	// changes that were not logged. Tokens from builds without generations have the value 0.
	Generation uint64

	since marks
	// scope is the part of the ring that the marks describe. It is the scope of the last page. The zero interval
	// represents the whole ring.
	scope interval
	// until is the end of the current round, or nil between rounds. roundAt is the start time of the round. place is
	// the last change that the round has read, or nil.
	until   marks
	roundAt int64
	place   *place
}

// place is the position of a change log entry. An empty clustering key represents the beginning of the partition. A nil
// clustering key represents the end of the partition.
type place struct {
	ring       uint64
	key        []byte
	clustering []byte // starts with the stamp of the entry
}

// placeAt returns the beginning of a part of the ring.
func placeAt(p keys.Position) *place {
	return &place{ring: p.Ring, key: append([]byte{}, p.Key...), clustering: []byte{}}
}

// Beginning returns the token of a feed of all changes.
func Beginning(table uint32, kept bool) Token { return Since(table, kept, time.UnixMicro(0)) }

// Since returns the token of a feed that starts at a given time.
func Since(table uint32, kept bool, at time.Time) Token {
	return Token{Table: table, Kept: kept, AsOf: at.Unix(), since: marks{{stamp: max(at.UnixMicro()-1, 0)}}}
}

// Now returns the token of a feed that begins with an empty page and then returns only new changes. now is the current
// Unix time in seconds.
func Now(table uint32, kept bool, now int64) Token {
	return Token{Table: table, Kept: kept, AsOf: now, since: marks{{stamp: math.MaxInt64}}}
}

// Above excludes all changes up to a stamp.
func (t *Token) Above(stamp int64) { t.since = t.since.raised(marks{{stamp: stamp}}) }

// fresh reports whether Now has returned the token.
func (t *Token) fresh() bool { return len(t.since) == 1 && t.since[0].stamp == math.MaxInt64 }

// part returns the part of a scope that starts at a position and in which the stamp bounds do not change. At the end of
// the scope, ok is false.
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

// tokenFormat is the format version of a token. It is the first byte of an encoded token.
const tokenFormat = 0xc1

// These are the flags of a token.
const (
	tokenKept = 1 << iota
	tokenRound
	tokenPlace
	tokenScope // builds before feature level 5 do not set this flag, and their tokens cover the whole ring
	// tokenGeneration reports whether the token contains a generation. Builds before feature level 8 do not set this
	// flag.
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

// DecodeToken decodes the output of Append. It returns only the error ErrToken.
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
