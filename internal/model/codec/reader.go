// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/binary"
	"math"
)

// Reader consumes values from the front of its input. After a malformed value or a call of Fail, no input remains, and
// every method returns zero.
type Reader struct {
	b         []byte
	malformed error
	bad       bool
}

// NewReader returns a reader of b. All returned slices point into b. Err and End return malformed if the input is
// malformed.
func NewReader(b []byte, malformed error) Reader { return Reader{b: b, malformed: malformed} }

// Fail marks the input as malformed.
func (r *Reader) Fail() { r.b, r.bad = nil, true }

// Err returns an error if the input was malformed.
func (r *Reader) Err() error {
	if r.bad {
		return r.malformed
	}
	return nil
}

// End works like Err, but also returns an error if any input remains.
func (r *Reader) End() error {
	if len(r.b) > 0 {
		r.Fail()
	}
	return r.Err()
}

// Rest returns the unread input.
func (r *Reader) Rest() []byte { return r.b }

// Byte consumes one byte.
func (r *Reader) Byte() byte {
	if len(r.b) == 0 {
		r.Fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// Uint consumes a number.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// UpTo consumes a number that must not exceed most.
func (r *Reader) UpTo(most uint64) uint64 {
	v := r.Uint()
	if v > most {
		r.Fail()
		return 0
	}
	return v
}

// Uint32 consumes a number that must fit into 32 bits.
func (r *Reader) Uint32() uint32 { return uint32(r.UpTo(math.MaxUint32)) }

// Int consumes a signed number.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Int32 consumes a signed number that must fit into 32 bits.
func (r *Reader) Int32() int32 {
	v := r.Int()
	if v != int64(int32(v)) {
		r.Fail()
		return 0
	}
	return int32(v)
}

// Fixed consumes an 8-byte number.
func (r *Reader) Fixed() uint64 {
	if len(r.b) < 8 {
		r.Fail()
		return 0
	}
	v := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// Flag consumes a byte that must be 0 or 1.
func (r *Reader) Flag() bool {
	v := r.Byte()
	if v > 1 {
		r.Fail()
	}
	return v == 1
}

// Take consumes n bytes. Appending to the returned slice copies it.
func (r *Reader) Take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.Fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// Bytes consumes a length and that number of bytes.
func (r *Reader) Bytes() []byte { return r.Take(r.Uint()) }

// Text works like Bytes, but returns a copy as a string.
func (r *Reader) Text() string { return string(r.Bytes()) }

// Null consumes bytes for which nil differs from the empty slice.
func (r *Reader) Null() []byte {
	n := r.Uint()
	if n == 0 {
		return nil
	}
	return r.Take(n - 1)
}

// Count consumes the number of items that follow. Each item has at least itemMin bytes (itemMin > 0). After a
// malformed item, a loop over the items continues. The number of iterations never exceeds the input's length.
func (r *Reader) Count(itemMin int) int {
	n := r.Uint()
	if n > uint64(len(r.b)/itemMin) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Field is an optional part written by Writer.Field.
type Field struct {
	// Number is 0 after the last field.
	Number uint64
	// Must means that a reader must support the field.
	Must  bool
	Value []byte
}

// Field consumes the next field. after is the number of the previous field, or 0 for the first field. The returned
// Number is 0 after the last field and after a failure.
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

// KeepFields consumes a list of fields that the caller does not know. KeepFields returns the fields in the form that
// Writer.Raw can write, or nil if none exist. refused is the number of the first field that the caller must support,
// or 0 if no such field exists.
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
