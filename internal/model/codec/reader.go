// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/binary"
	"math"
)

// Reader takes values off the front of its input. Once something did not fit, or Fail was called, the rest is empty and
// every method returns zero.
type Reader struct {
	b         []byte
	malformed error
	bad       bool
}

// NewReader returns a reader of b, of which everything it returns is a view. Err and End return malformed if b is.
func NewReader(b []byte, malformed error) Reader { return Reader{b: b, malformed: malformed} }

// Fail says that what was read cannot be.
func (r *Reader) Fail() { r.b, r.bad = nil, true }

// Err returns an error if something did not fit.
func (r *Reader) Err() error {
	if r.bad {
		return r.malformed
	}
	return nil
}

// End is Err for a reader that must have nothing left.
func (r *Reader) End() error {
	if len(r.b) > 0 {
		r.Fail()
	}
	return r.Err()
}

// Rest is what has not been read.
func (r *Reader) Rest() []byte { return r.b }

// Byte takes one byte.
func (r *Reader) Byte() byte {
	if len(r.b) == 0 {
		r.Fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// Uint takes a number.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// UpTo takes a number that is at most most.
func (r *Reader) UpTo(most uint64) uint64 {
	v := r.Uint()
	if v > most {
		r.Fail()
		return 0
	}
	return v
}

// Uint32 takes a number that fits.
func (r *Reader) Uint32() uint32 { return uint32(r.UpTo(math.MaxUint32)) }

// Int takes a signed number.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Int32 takes a signed number that fits.
func (r *Reader) Int32() int32 {
	v := r.Int()
	if v != int64(int32(v)) {
		r.Fail()
		return 0
	}
	return int32(v)
}

// Fixed takes a number of 8 bytes.
func (r *Reader) Fixed() uint64 {
	if len(r.b) < 8 {
		r.Fail()
		return 0
	}
	v := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// Flag takes a byte that is 0 or 1.
func (r *Reader) Flag() bool {
	v := r.Byte()
	if v > 1 {
		r.Fail()
	}
	return v == 1
}

// Take takes n bytes. The view cannot be appended to without a copy.
func (r *Reader) Take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.Fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// Bytes takes a length and as many bytes.
func (r *Reader) Bytes() []byte { return r.Take(r.Uint()) }

// Text is Bytes as a string, which is a copy.
func (r *Reader) Text() string { return string(r.Bytes()) }

// Null takes bytes of which nil is not the empty slice.
func (r *Reader) Null() []byte {
	n := r.Uint()
	if n == 0 {
		return nil
	}
	return r.Take(n - 1)
}

// Count takes the number of items that follow, each of at least itemMin bytes (itemMin > 0). After a failure among the
// items a loop over them runs on, at most as often as the input was long.
func (r *Reader) Count(itemMin int) int {
	n := r.Uint()
	if n > uint64(len(r.b)/itemMin) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Field is an optional part as Writer.Field wrote it.
type Field struct {
	// Number is 0 after the last field.
	Number uint64
	// Must says that a reader has to know the field.
	Must  bool
	Value []byte
}

// Field takes the next field after the one numbered after, 0 for the first. Its Number is 0 if there is none left, also
// after a failure.
func (r *Reader) Field(after uint64) Field {
	if len(r.b) > 0 && r.b[0] == 0 {
		r.b = r.b[1:]
		return Field{}
	}
	tag := r.Uint()
	f := Field{Number: tag >> 1, Must: tag&1 != 0, Value: r.Bytes()}
	if f.Number <= after || r.bad {
		r.Fail()
		return Field{}
	}
	return f
}

// KeepFields takes a list of fields of which the caller knows none, and returns them as Writer.Raw can write them back,
// nil for none. refused is the number of the first one that the caller would have to know, 0 if there is none.
func (r *Reader) KeepFields() (kept []byte, refused uint64) {
	var w Writer
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		if f.Must && refused == 0 {
			refused = f.Number
		}
		w.Field(f.Number, f.Must, f.Value)
	}
	return w, refused
}
