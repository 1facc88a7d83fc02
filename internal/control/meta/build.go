// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Build is how far an index in Building has come: the entries of all rows up to a place are made, and durable. Whoever
// builds goes on from there.
type Build struct {
	// Policy is schema.Index.Policy of what they were made by: those of another one have to be made anew.
	Policy string
	// Token and Key are the partition that the place is in; Whole says that it is behind its last row, else Clustering
	// is the last one.
	Token           token.Token
	Key, Clustering []byte
	Whole           bool
	// Rows is of how many rows entries were made.
	Rows int64
}

// Percent is how much of the ring has been passed, 0 to 100.
func (b *Build) Percent() int {
	if b == nil {
		return 0
	}
	return int(b.Token.Position() >> 32 * 100 >> 32)
}

// The forms of the record of an index that is to be built: one that was not begun, or begun by a build that does not
// note how far it came; and one with a Build.
const (
	buildPlain = 1
	buildPlace = 2
)

// Append appends the record; a nil Build is one of an index that was not begun.
func (b *Build) Append(dst []byte) []byte {
	if b == nil {
		return append(dst, buildPlain)
	}
	w := codec.Writer(append(dst, buildPlace))
	w.Text(b.Policy)
	w.Fixed(uint64(b.Token))
	w.Bytes(b.Key)
	w.Null(b.Clustering)
	w.Flag(b.Whole)
	w.Uint(uint64(b.Rows))
	return w
}

// DecodeBuild reads a record. What it does not know is built from the beginning.
func DecodeBuild(record []byte) *Build {
	if len(record) == 0 || record[0] != buildPlace {
		return nil
	}
	r := codec.NewReader(record[1:], ErrMalformed)
	b := &Build{Policy: r.Text(), Token: token.Token(r.Fixed()), Key: r.Bytes(), Clustering: r.Null(), Whole: r.Flag(),
		Rows: int64(r.Uint())}
	if r.End() != nil {
		return nil
	}
	return b
}

// WithBuilding returns a state in which an index is to be built, from the beginning, or is no longer.
func (s *State) WithBuilding(index uint32, building bool) *State {
	next := *s
	next.Building = with(s.Building, index, true, building)
	next.Builds = with(s.Builds, index, nil, false)
	return &next
}

// WithBuild returns a state that says how far an index in Building has come.
func (s *State) WithBuild(index uint32, b *Build) *State {
	next := *s
	next.Builds = with(s.Builds, index, b, true)
	return &next
}
