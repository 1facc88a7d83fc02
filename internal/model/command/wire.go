// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/codec"
)

// ErrMalformed says that bytes are not an encoded command: cut short, too long, or with a value out of range.
var ErrMalformed = errors.New("malformed command")

// ErrVersion says that a command was encoded by a newer version of this package.
var ErrVersion = errors.New("command of a newer version")

// appender writes what commands are made of.
type appender struct{ codec.Writer }

func (a *appender) columns(v []uint32) {
	a.Uint(uint64(len(v)))
	for _, c := range v {
		a.Uint(uint64(c))
	}
}

func (a *appender) nulls(v [][]byte) {
	a.Uint(uint64(len(v)))
	for _, e := range v {
		a.Null(e)
	}
}

// reader takes it off again. Byte slices are views over the input.
type reader struct{ codec.Reader }

func (r *reader) columns(dst []uint32) []uint32 {
	dst = dst[:0]
	for range r.Count(1) {
		dst = append(dst, r.Uint32())
	}
	return dst
}

func (r *reader) nulls(dst [][]byte) [][]byte {
	dst = dst[:0]
	for range r.Count(1) {
		dst = append(dst, r.Null())
	}
	return dst
}

// open reads the version and the kind that every encoded command begins with.
func open(src []byte, want kind) (reader, error) {
	if len(src) < 2 {
		return reader{}, ErrMalformed
	}
	if src[0] > Version {
		return reader{}, fmt.Errorf("%w: %d, this one reads up to %d", ErrVersion, src[0], Version)
	}
	if src[0] == 0 || kind(src[1]) != want {
		return reader{}, ErrMalformed
	}
	return reader{codec.NewReader(src[2:], ErrMalformed)}, nil
}
