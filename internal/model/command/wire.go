// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
)

// ErrMalformed reports that bytes are not an encoded command. The bytes are truncated, too long, or contain a value
// that is out of range.
var ErrMalformed = errors.New("malformed command")

// appender writes the parts of commands.
type appender struct{ codec.Writer }

func (a *appender) columns(v []uint32) {
	a.Uint(uint64(len(v)))
	for _, c := range v {
		a.Uint(uint64(c))
	}
}

// dropped appends the columns whose cells have all been dropped. Function droppedUpto appends the partially dropped
// columns.
func (a *appender) dropped(list []cqltype.Dropped) {
	n := 0
	for _, d := range list {
		n += int(codec.Bit(d.Upto == cqltype.AllDropped))
	}
	a.Uint(uint64(n))
	for _, d := range list {
		if d.Upto == cqltype.AllDropped {
			a.Uint(uint64(d.Column))
		}
	}
}

// droppedUpto appends a field with the columns that were dropped up to a timestamp. If no such columns exist, it
// appends nothing.
func (a *appender) droppedUpto(number uint64, list []cqltype.Dropped) {
	var v codec.Writer
	for _, d := range list {
		if d.Upto != cqltype.AllDropped {
			v.Uint(uint64(d.Column))
			v.Int(d.Upto)
		}
	}
	if v != nil {
		a.Field(number, true, v)
	}
}

func (a *appender) nulls(v [][]byte) {
	a.Uint(uint64(len(v)))
	for _, e := range v {
		a.Null(e)
	}
}

// position appends the ring position of a key, which has 8 bytes, or 16 bytes on the wide ring.
func (a *appender) position(table uint32, t token.Token, low uint64) {
	a.Fixed(uint64(t))
	if table&keys.WideRing != 0 {
		a.Fixed(low)
	}
}

// reader reads the output of appender. Byte slices point into the input.
type reader struct {
	codec.Reader
	refused *feature.Newer
}

// newer ends the decoding because a newer build wrote the bytes.
func (r *reader) newer(what, unit string, has, newest uint64) {
	if r.Err() == nil {
		r.refused = &feature.Newer{What: what, Unit: unit, Has: has, Newest: newest}
	}
	r.Fail()
}

// end works like Reader.End, but returns the error that newer has recorded.
func (r *reader) end() error {
	err := r.End()
	if r.refused != nil {
		return r.refused
	}
	return err
}

// unknown rejects an unknown field that must be understood.
func (r *reader) unknown(what string, f codec.Field, known uint64) {
	if f.Must {
		r.newer(what, "field", f.Number, known)
	}
}

func (r *reader) position(table uint32) (t token.Token, low uint64) {
	t = token.Token(r.Fixed())
	if table&keys.WideRing != 0 {
		low = r.Fixed()
	}
	return t, low
}

func (r *reader) columns(dst []uint32) []uint32 {
	dst = dst[:0]
	for range r.Count(1) {
		dst = append(dst, r.Uint32())
	}
	return dst
}

func (r *reader) dropped(dst []cqltype.Dropped) []cqltype.Dropped {
	for range r.Count(1) {
		dst = append(dst, cqltype.Dropped{Column: r.Uint32(), Upto: cqltype.AllDropped})
	}
	return dst
}

// droppedUpto adds the columns in the output of appender.droppedUpto to a list.
func (r *reader) droppedUpto(f codec.Field, dst []cqltype.Dropped) []cqltype.Dropped {
	v := codec.NewReader(f.Value, ErrMalformed)
	for len(v.Rest()) > 0 {
		dst = append(dst, cqltype.Dropped{Column: v.Uint32(), Upto: v.Int()})
	}
	if v.End() != nil {
		r.Fail()
	}
	sortDropped(dst)
	return dst
}

func sortDropped(list []cqltype.Dropped) {
	slices.SortFunc(list, func(a, b cqltype.Dropped) int { return cmp.Compare(a.Column, b.Column) })
}

func (r *reader) nulls(dst [][]byte) [][]byte {
	dst = dst[:0]
	for range r.Count(1) {
		dst = append(dst, r.Null())
	}
	return dst
}

// open reads the version and the kind at the start of an encoded command.
func open(src []byte, want kind) (reader, error) {
	switch {
	case len(src) < 2 || src[0] == 0:
		return reader{}, ErrMalformed
	case src[0] > Version:
		return reader{}, &feature.Newer{What: "a command", Unit: "version", Has: uint64(src[0]), Newest: Version}
	case src[0] < Version:
		return reader{}, fmt.Errorf("unsupported command version %d: %w", src[0],
			ErrMalformed)
	case kind(src[1]) != want:
		return reader{}, ErrMalformed
	}
	return reader{Reader: codec.NewReader(src[2:], ErrMalformed)}, nil
}
