// SPDX-License-Identifier: Apache-2.0

// Package codec has the primitive forms of which stored records, commands and frames are made: numbers, flags, bytes,
// lists.
//
//	uint     uvarint; int: varint, zigzag; fixed: 8 bytes, big-endian
//	flag     a byte, 0 or 1
//	bytes    their length, then they; text too
//	null     the length plus one, then the bytes; 0 is nil, which is not the empty slice
//	list     the number of items, then they
//	fields   optional parts in ascending order of their numbers, each a tag and bytes; a tag of 0 ends them
//
// A tag is twice the number of the field, plus one if a reader that does not know the field must not go on without it.
//
// A Writer allocates nothing but room to grow. A Reader allocates nothing: what it returns are views over its input.
// The first thing that does not fit makes everything after it zero, so a decoder asks once, at its end. No length and
// no count is believed that the rest of the input cannot hold, so a decoder's memory is proportional to its input. The
// package knows no record, no version and no error: those belong to the package whose record it is.
package codec

import "encoding/binary"

// Writer appends to itself.
type Writer []byte

// Byte appends v as it is.
func (w *Writer) Byte(v byte) { *w = append(*w, v) }

// Raw appends v as it is; its reader has to know its length.
func (w *Writer) Raw(v []byte) { *w = append(*w, v...) }

// Uint appends v, 1 to 10 bytes.
func (w *Writer) Uint(v uint64) { *w = binary.AppendUvarint(*w, v) }

// Int appends v, 1 to 10 bytes; the nearer to zero, the fewer.
func (w *Writer) Int(v int64) { *w = binary.AppendVarint(*w, v) }

// Fixed appends v, 8 bytes.
func (w *Writer) Fixed(v uint64) { *w = binary.BigEndian.AppendUint64(*w, v) }

// Flag appends v, 1 byte.
func (w *Writer) Flag(v bool) { *w = append(*w, Bit(v)) }

// Bytes appends the length of v and v. It does not tell nil from empty; see Null.
func (w *Writer) Bytes(v []byte) { *w = AppendBytes(*w, v) }

// Text is Bytes for a string.
func (w *Writer) Text(v string) { *w = AppendText(*w, v) }

// Null appends bytes of which nil is not the empty slice.
func (w *Writer) Null(v []byte) {
	if v == nil {
		w.Uint(0)
		return
	}
	w.Uint(uint64(len(v)) + 1)
	w.Raw(v)
}

// Field appends an optional part; EndFields has to follow the last one. Numbers ascend from 1. A reader that does not
// know a number passes over the field, or refuses the whole if must is set.
func (w *Writer) Field(number uint64, must bool, value []byte) {
	w.Uint(number<<1 | uint64(Bit(must)))
	w.Bytes(value)
}

// EndFields ends the list of fields. Alone it is the empty list, 1 byte.
func (w *Writer) EndFields() { w.Byte(0) }

// AppendBytes is Writer.Bytes for callers that append to a plain slice.
func AppendBytes(dst, v []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}

// AppendText is Writer.Text for them.
func AppendText(dst []byte, v string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}

// Bit is 1 for true.
func Bit(v bool) byte {
	if v {
		return 1
	}
	return 0
}
