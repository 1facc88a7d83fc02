// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"encoding/binary"
	"math"
)

func appendU16(dst []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(dst, v) }
func appendI32(dst []byte, v int32) []byte  { return binary.BigEndian.AppendUint32(dst, uint32(v)) }
func appendI64(dst []byte, v int64) []byte  { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

// appendString appends a [string]. It truncates the text to 65535 bytes, so the message is valid even if the text is
// too long.
func appendString[S ~string | ~[]byte](dst []byte, s S) []byte {
	if len(s) > math.MaxUint16 {
		s = s[:math.MaxUint16]
	}
	dst = appendU16(dst, uint16(len(s)))
	return append(dst, s...)
}

func appendLongString(dst, s []byte) []byte {
	dst = appendI32(dst, int32(len(s)))
	return append(dst, s...)
}

// AppendBytes appends [bytes], which is a length and the bytes. For nil, the length is -1, and no bytes follow. The
// cells of rows have this encoding.
func AppendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	dst = appendI32(dst, int32(len(b)))
	return append(dst, b...)
}

func appendStringList(dst []byte, l []string) []byte {
	if len(l) > math.MaxUint16 {
		l = l[:math.MaxUint16]
	}
	dst = appendU16(dst, uint16(len(l)))
	for _, s := range l {
		dst = appendString(dst, s)
	}
	return dst
}
