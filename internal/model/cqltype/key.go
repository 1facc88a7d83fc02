// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// These are the markers of the key form. A value is encoded as a marker byte and a self-delimiting body. Concatenated
// forms therefore compare, as bytes, like tuples of values. The form of a tuple is a prefix of the forms of all tuples
// that extend it.
//
//	marker   body
//	01       -                               null
//	02       -                               the empty value
//	03       fixed width                     boolean, integers, floats, date, time, timestamp, uuid, timeuuid
//	03       bytes, 00 as 00 FF, then 00 01  text, ascii, blob, inet, duration, custom
//	03       header, two's complement        varint: see keynumber.go
//	03       sign, exponent, digits, 00      decimal: see keynumber.go
//	03       forms of the elements, then 00  list, set, map (key, value, ...), vector, tuple and UDT (without trailing
//	                                         nulls)
//	04       bytes as for text               an invalid value: it is comparable and preserved, and never an error
//
// The descending form is the bitwise complement, except for a top-level null. The form of null is 01 in both orders,
// so null sorts first.
//
// bytes.Compare of two forms returns the same result as Compare of the values. It returns the opposite result if the
// forms are descending and neither value is null. Values that compare equal therefore have the same form. In
// Cassandra, these values are the same clustering key. A reader of a form gets a normalized value. Normalization
// removes trailing zeros after the decimal point, shortens varints, pads tuples with nulls, and uses the canonical NaN
// and the canonical booleans. All other values are unchanged.
const (
	keyEnd   = 0x00
	keyNull  = 0x01
	keyEmpty = 0x02
	keyValue = 0x03
	keyRaw   = 0x04

	escaped    = 0xff // after 00: a zero byte
	terminator = 0x01 // after 00: the end
)

// ErrKey reports that bytes are not the key form of the type.
var ErrKey = errors.New("cqltype: malformed key form")

// AppendKey appends the order-preserving form of a value to dst, or its descending form if desc is true.
func (t *Type) AppendKey(dst, wire []byte, desc bool) []byte {
	start := len(dst)
	dst = appendKey(dst, t, wire)
	if desc && wire != nil {
		for i := start; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	return dst
}

func appendKey(dst []byte, t *Type, wire []byte) []byte {
	switch {
	case wire == nil:
		return append(dst, keyNull)
	case len(wire) == 0:
		return append(dst, keyEmpty)
	case !t.Kind.wellFormed(wire):
		return appendEscaped(append(dst, keyRaw), wire)
	}
	dst = append(dst, keyValue)
	switch t.Kind {
	case Tinyint, Smallint, Int, Bigint, Counter, Timestamp:
		dst = append(dst, wire[0]^0x80)
		return append(dst, wire[1:]...)
	case Date, Time:
		return append(dst, wire...)
	case Boolean:
		return append(dst, byte(btoi(wire[0] != 0)))
	case Float:
		return binary.BigEndian.AppendUint32(dst, orderFloat(binary.BigEndian.Uint32(wire)))
	case Double:
		return binary.BigEndian.AppendUint64(dst, orderDouble(binary.BigEndian.Uint64(wire)))
	case UUID:
		hi, lo := uuidOrder(wire)
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, hi), lo)
	case Timeuuid:
		hi, lo := timeuuidOrder(wire)
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, hi), lo)
	case Varint:
		return appendVarintKey(dst, trimVarint(wire))
	case Decimal:
		return appendDecimalKey(dst, decimalOf(wire))
	case List, Set, Map, Tuple, UDT, Vector:
		return appendElementKeys(dst, t, wire)
	}
	return appendEscaped(dst, wire)
}

func appendEscaped(dst, v []byte) []byte {
	for {
		i := bytes.IndexByte(v, 0)
		if i < 0 {
			dst = append(dst, v...)
			return append(dst, 0, terminator)
		}
		dst = append(dst, v[:i+1]...)
		dst = append(dst, escaped)
		v = v[i+1:]
	}
}

func appendElementKeys(dst []byte, t *Type, wire []byte) []byte {
	end := len(dst) // after the last non-null component
	c := t.walk(wire)
	for i := 0; ; i++ {
		v, more := c.next()
		if !more {
			break
		}
		dst = appendKey(dst, t.elemType(i), v)
		if v != nil || t.IsCollection() { // a vector has no null elements
			end = len(dst)
		}
	}
	return append(dst[:end], keyEnd)
}

// A keyReader reads ascending key forms, or descending forms if the mask is FF.
type keyReader struct {
	src  []byte
	mask byte
}

func maskOf(desc bool) byte {
	if desc {
		return 0xff
	}
	return 0
}

func (r *keyReader) byte() (byte, bool) {
	if len(r.src) == 0 {
		return 0, false
	}
	b := r.src[0] ^ r.mask
	r.src = r.src[1:]
	return b, true
}

// copy appends the next n bytes to dst.
func (r *keyReader) copy(dst []byte, n int) ([]byte, bool) {
	if n < 0 || len(r.src) < n {
		return dst, false
	}
	start := len(dst)
	dst = append(dst, r.src[:n]...)
	if r.mask != 0 {
		for i := start; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	r.src = r.src[n:]
	return dst, true
}

// escaped appends an escaped string to dst, or skips it.
func (r *keyReader) escaped(dst []byte, skip bool) ([]byte, bool) {
	for {
		i := bytes.IndexByte(r.src, r.mask)
		if i < 0 || i+1 >= len(r.src) {
			return dst, false
		}
		next := r.src[i+1] ^ r.mask
		if next != escaped && next != terminator {
			return dst, false
		}
		if skip {
			r.src = r.src[i:]
		} else {
			dst, _ = r.copy(dst, i)
		}
		r.src = r.src[2:]
		if next == terminator {
			return dst, true
		}
		if !skip {
			dst = append(dst, 0)
		}
	}
}

// ReadKey reads one key form from src and appends the wire value to dst. The result wire contains only the value. It
// is nil for null. wire has the remaining capacity of dst, so a caller with several values can pass wire[len(wire):]
// as the next dst.
func (t *Type) ReadKey(dst, src []byte, desc bool) (wire, rest []byte, err error) {
	r := keyReader{src: src, mask: maskOf(desc)}
	out, null, ok := r.readKey(t, dst)
	switch {
	case !ok && nullFirst(src, desc):
		return nil, src[1:], nil
	case !ok:
		return nil, src, ErrKey
	case null:
		return nil, r.src, nil
	case out == nil:
		out = []byte{}
	}
	return out[len(dst):], r.src, nil
}

func (r *keyReader) readKey(t *Type, dst []byte) (out []byte, null, ok bool) {
	marker, ok := r.byte()
	if !ok {
		return dst, false, false
	}
	switch marker {
	case keyNull:
		return dst, true, true
	case keyEmpty:
		return dst, false, true
	case keyRaw:
		dst, ok = r.escaped(dst, false)
		return dst, false, ok
	case keyValue:
		dst, ok = r.readBody(t, dst)
		return dst, false, ok
	}
	return dst, false, false
}

func (r *keyReader) readBody(t *Type, dst []byte) ([]byte, bool) {
	switch t.Kind {
	case Varint:
		return readVarintKey(r, dst)
	case Decimal:
		return readDecimalKey(r, dst)
	case List, Set, Map, Tuple, UDT:
		return r.readElementKeys(t, dst)
	case Vector:
		return r.readVectorKey(t, dst)
	}
	n := t.Kind.width()
	if n == 0 {
		return r.escaped(dst, false)
	}
	start := len(dst)
	dst, ok := r.copy(dst, n)
	if !ok {
		return dst, false
	}
	v := dst[start:]
	switch t.Kind {
	case Tinyint, Smallint, Int, Bigint, Counter, Timestamp:
		v[0] ^= 0x80
	case Boolean:
		return dst, v[0] <= 1
	case Float:
		binary.BigEndian.PutUint32(v, unorderFloat(binary.BigEndian.Uint32(v)))
	case Double:
		binary.BigEndian.PutUint64(v, unorderDouble(binary.BigEndian.Uint64(v)))
	case UUID:
		appendUUID(v[:0], binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:]))
	case Timeuuid:
		appendTimeuuid(v[:0], binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:]))
	}
	return dst, true
}

// readElementKeys reconstructs a collection, tuple, or UDT.
func (r *keyReader) readElementKeys(t *Type, dst []byte) ([]byte, bool) {
	header := len(dst)
	if t.IsCollection() {
		dst = append(dst, 0, 0, 0, 0)
	}
	n := 0
	for {
		if len(r.src) == 0 {
			return dst, false
		}
		if r.src[0]^r.mask == keyEnd {
			r.src = r.src[1:]
			break
		}
		if !t.IsCollection() && n == len(t.Elems) {
			return dst, false
		}
		length := len(dst)
		dst = append(dst, 0xff, 0xff, 0xff, 0xff)
		var null, ok bool
		if dst, null, ok = r.readKey(t.elemType(n), dst); !ok {
			return dst, false
		}
		if !null {
			binary.BigEndian.PutUint32(dst[length:], uint32(len(dst)-length-4))
		}
		n++
	}
	switch {
	case t.Kind == Map && n%2 != 0:
		return dst, false
	case t.Kind == Map:
		n /= 2
	case !t.IsCollection():
		for ; n < len(t.Elems); n++ {
			dst = append(dst, 0xff, 0xff, 0xff, 0xff)
		}
		return dst, true
	}
	binary.BigEndian.PutUint32(dst[header:], uint32(n))
	return dst, true
}

// SkipKey removes one key form from the front of src.
func (t *Type) SkipKey(src []byte, desc bool) (rest []byte, err error) {
	r := keyReader{src: src, mask: maskOf(desc)}
	if !r.skipKey(t) {
		if nullFirst(src, desc) {
			return src[1:], nil
		}
		return src, ErrKey
	}
	return r.src, nil
}

// nullFirst reports whether src starts with the form of null in a descending column. This form is not complemented.
func nullFirst(src []byte, desc bool) bool { return desc && len(src) > 0 && src[0] == keyNull }

func (r *keyReader) skipKey(t *Type) bool {
	marker, ok := r.byte()
	switch {
	case !ok:
		return false
	case marker == keyNull || marker == keyEmpty:
		return true
	case marker == keyRaw:
		_, ok = r.escaped(nil, true)
		return ok
	case marker != keyValue:
		return false
	}
	switch t.Kind {
	case Varint:
		return skipVarintKey(r)
	case Decimal:
		return skipDecimalKey(r)
	case List, Set, Map, Tuple, UDT, Vector:
		for i := 0; len(r.src) > 0; i++ {
			if r.src[0]^r.mask == keyEnd {
				r.src = r.src[1:]
				return true
			}
			if (t.Kind == Tuple || t.Kind == UDT) && i == len(t.Elems) || !r.skipKey(t.elemType(i)) {
				return false
			}
		}
		return false
	}
	n := t.Kind.width()
	if n == 0 {
		_, ok = r.escaped(nil, true)
		return ok
	}
	if len(r.src) < n {
		return false
	}
	r.src = r.src[n:]
	return true
}

// AfterPrefix returns the smallest byte string that is greater than every string with the prefix. AfterPrefix returns
// nil if the prefix contains only FF bytes. It modifies prefix in place and returns a slice of prefix.
func AfterPrefix(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			prefix[i]++
			return prefix[:i+1]
		}
	}
	return nil
}
