// SPDX-License-Identifier: Apache-2.0

// Package codec implements the primitive encodings of stored records, commands, and frames. These primitives are
// numbers, flags, bytes, and lists.
//
//	uint     uvarint; int: varint, zigzag; fixed: 8 bytes, big-endian
//	flag     a byte, 0 or 1
//	bytes    their length, then the bytes; also used for text
//	null     the length plus one, then the bytes; 0 is nil, which differs from the empty slice
//	list     the number of items, then the items
//	fields   optional parts in ascending order of their numbers, each a tag and bytes; a tag of 0 ends them
//
// A tag is twice the number of the field. One is added if a reader that does not know the field must reject the input.
//
// A Writer allocates only to grow its buffer. A Reader does not allocate, because it returns slices of its input.
// After the first malformed value, all reads return zero values, so a decoder needs only one check at the end. A
// length or count that exceeds the remaining input is rejected, so the memory use of a decoder is proportional to its
// input.
//
// The package does not define records, versions, or errors. The package that owns a record defines its format and
// errors.
package codec

import "encoding/binary"

// Writer is a byte slice to which its methods append.
type Writer []byte

// Byte appends v unchanged.
func (w *Writer) Byte(v byte) { *w = append(*w, v) }

// Raw appends v unchanged. The reader must know the length of the value.
func (w *Writer) Raw(v []byte) { *w = append(*w, v...) }

// Uint appends v in 1 to 10 bytes.
func (w *Writer) Uint(v uint64) { *w = binary.AppendUvarint(*w, v) }

// Int appends v in 1 to 10 bytes. Values near zero are shorter.
func (w *Writer) Int(v int64) { *w = binary.AppendVarint(*w, v) }

// Fixed appends v in 8 bytes.
func (w *Writer) Fixed(v uint64) { *w = binary.BigEndian.AppendUint64(*w, v) }

// Flag appends v as 1 byte.
func (w *Writer) Flag(v bool) { *w = append(*w, Bit(v)) }

// Bytes appends the length of v, followed by v. Bytes does not distinguish nil from an empty slice, but Null does.
func (w *Writer) Bytes(v []byte) { *w = AppendBytes(*w, v) }

// Text works like Bytes, but appends a string.
func (w *Writer) Text(v string) { *w = AppendText(*w, v) }

// Null appends bytes and distinguishes nil from the empty slice.
func (w *Writer) Null(v []byte) {
	if v == nil {
		w.Uint(0)
		return
	}
	w.Uint(uint64(len(v)) + 1)
	w.Raw(v)
}

// Field appends an optional part. Numbers must ascend from 1, and EndFields must follow the last field. A reader that
// does not know a field's number ignores the field, or rejects the input if must is set.
func (w *Writer) Field(number uint64, must bool, value []byte) {
	w.Uint(number<<1 | uint64(Bit(must)))
	w.Bytes(value)
}

// EndFields ends the list of fields. If no fields were written, it appends an empty list of 1 byte.
func (w *Writer) EndFields() { w.Byte(0) }

// AppendBytes works like Writer.Bytes for callers that append to a plain slice.
func AppendBytes(dst, v []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}

// AppendText works like Writer.Text for callers that append to a plain slice.
func AppendText(dst []byte, v string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}

// Bit returns 1 for true and 0 for false.
func Bit(v bool) byte {
	if v {
		return 1
	}
	return 0
}
