// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed says that bytes are not an encoded command: cut short, too long, or with a value out of range.
var ErrMalformed = errors.New("malformed command")

// ErrVersion says that a command was encoded by a newer version of this package.
var ErrVersion = errors.New("command of a newer version")

// appender writes the primitive forms of the codec. Numbers are varints; strings have their length before them.
type appender struct{ b []byte }

func (a *appender) byte(v byte)     { a.b = append(a.b, v) }
func (a *appender) uint(v uint64)   { a.b = binary.AppendUvarint(a.b, v) }
func (a *appender) int(v int64)     { a.b = binary.AppendVarint(a.b, v) }
func (a *appender) fixed(v int64)   { a.b = binary.BigEndian.AppendUint64(a.b, uint64(v)) }
func (a *appender) bytes(v []byte)  { a.uint(uint64(len(v))); a.b = append(a.b, v...) }
func (a *appender) string(v string) { a.uint(uint64(len(v))); a.b = append(a.b, v...) }
func (a *appender) flag(v bool)     { a.byte(boolByte(v)) }
func (a *appender) columns(v []uint32) {
	a.uint(uint64(len(v)))
	for _, c := range v {
		a.uint(uint64(c))
	}
}

// null writes bytes of which nil is not the empty slice: the length plus one, 0 for nil.
func (a *appender) null(v []byte) {
	if v == nil {
		a.uint(0)
		return
	}
	a.uint(uint64(len(v)) + 1)
	a.b = append(a.b, v...)
}

func (a *appender) nulls(v [][]byte) {
	a.uint(uint64(len(v)))
	for _, e := range v {
		a.null(e)
	}
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// reader takes the primitive forms off b. The first thing that does not fit sets err; everything read afterwards is zero.
// No count is believed that the rest of the bytes cannot hold, so memory stays proportional to the input.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = ErrMalformed
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) uint32() uint32 {
	v := r.uint()
	if v > 1<<32-1 {
		r.fail()
		return 0
	}
	return uint32(v)
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int32() int32 {
	v := r.int()
	if v != int64(int32(v)) {
		r.fail()
		return 0
	}
	return int32(v)
}

func (r *reader) fixed() int64 {
	if len(r.b) < 8 {
		r.fail()
		return 0
	}
	v := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return int64(v)
}

func (r *reader) flag() bool {
	v := r.byte()
	if v > 1 {
		r.fail()
	}
	return v == 1
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// bytes is a view over the input; empty when there is nothing.
func (r *reader) bytes() []byte { return r.take(r.uint()) }

func (r *reader) string() string { return string(r.bytes()) }

func (r *reader) null() []byte {
	n := r.uint()
	if n == 0 || r.err != nil {
		return nil
	}
	return r.take(n - 1)
}

// count reads how many items follow, each at least itemMin bytes long (itemMin > 0).
func (r *reader) count(itemMin int) int {
	n := r.uint()
	if n > uint64(len(r.b)/itemMin) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) nulls(dst [][]byte) [][]byte {
	n := r.count(1)
	dst = dst[:0]
	for range n {
		dst = append(dst, r.null())
	}
	return dst
}

func (r *reader) columns(dst []uint32) []uint32 {
	n := r.count(1)
	dst = dst[:0]
	for range n {
		dst = append(dst, r.uint32())
	}
	return dst
}

// end checks that everything was read.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail()
	}
	return r.err
}

// open reads the version and the kind that every encoded command begins with.
func open(src []byte, want Kind) (reader, error) {
	if len(src) < 2 {
		return reader{}, ErrMalformed
	}
	if src[0] > Version {
		return reader{}, fmt.Errorf("%w: %d, this one reads up to %d", ErrVersion, src[0], Version)
	}
	if src[0] == 0 || Kind(src[1]) != want {
		return reader{}, ErrMalformed
	}
	return reader{b: src[2:]}, nil
}
