// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"encoding/binary"
	"sync"

	"github.com/golang/snappy"
	"github.com/pierrec/lz4/v4"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Compression is the compression of bodies in versions 3 and 4, or of segments in version 5. Segments support only
// LZ4.
type Compression uint8

// These are the compression algorithms.
const (
	NoCompression Compression = iota
	LZ4
	Snappy
)

// compressMin is the minimum size of a compressed body, in bytes. Compression is optional. The compression of a
// kilobyte takes longer than all other work of the codec for that kilobyte.
const compressMin = 2 << 10

var errDecompress error = &dberr.Protocol{Message: "Invalid message: the body cannot be decompressed"}

// lz4s pools compressors, because each compressor contains hash tables of 200 KB.
var lz4s = sync.Pool{New: func() any { return new(lz4.Compressor) }}

// lz4Block appends the compressed src to dst. If compression does not reduce the size, it returns dst unchanged.
func lz4Block(dst, src []byte) (out []byte, ok bool) {
	n := len(dst)
	if bound := n + lz4.CompressBlockBound(len(src)); cap(dst) < bound {
		dst = append(make([]byte, 0, bound), dst...)
	}
	c := lz4s.Get().(*lz4.Compressor)
	size, err := c.CompressBlock(src, dst[n:cap(dst)])
	lz4s.Put(c)
	if err != nil || size == 0 || size >= len(src) {
		return dst[:n], false
	}
	return dst[:n+size], true
}

// compressBody appends the compressed form of a version 3 or 4 body to dst. It does nothing if compression does not
// reduce the size.
func compressBody(dst, body []byte, c Compression) (out []byte, ok bool) {
	n := len(dst)
	switch c {
	case LZ4:
		dst = appendI32(dst, int32(len(body)))
		dst, ok = lz4Block(dst, body)
	case Snappy:
		bound := snappy.MaxEncodedLen(len(body))
		if bound < 0 {
			return dst, false
		}
		if cap(dst)-n < bound {
			dst = append(make([]byte, 0, n+bound), dst...)
		}
		dst = dst[:n+len(snappy.Encode(dst[n:cap(dst)], body))]
		ok = true
	}
	if !ok || len(dst)-n >= len(body) {
		return dst[:n], false
	}
	return dst, true
}

// DecompressedLen returns the uncompressed length, in bytes, that a compressed body of version 3 or 4 declares. If the
// length exceeds limit or is impossible, DecompressedLen returns an error.
func DecompressedLen(body []byte, c Compression, limit int) (int, error) {
	var size uint64
	growth := uint64(255) // one byte of an LZ4 block expands to at most this size
	switch c {
	case LZ4:
		if len(body) < 4 {
			return 0, errDecompress
		}
		size = uint64(binary.BigEndian.Uint32(body))
	case Snappy:
		n, err := snappy.DecodedLen(body)
		if err != nil {
			return 0, errDecompress
		}
		size, growth = uint64(n), 64
	default:
		return 0, dberr.Protocolf("Invalid message: it is compressed, but no compression was negotiated")
	}
	if size > uint64(limit) {
		return 0, tooBig(size, limit)
	}
	if size > growth*uint64(len(body))+64 {
		return 0, errDecompress
	}
	return int(size), nil
}

// DecompressBody appends the uncompressed form of a version 3 or 4 body to dst. If the length exceeds limit bytes, it
// returns an error without allocating memory.
func DecompressBody(dst, body []byte, c Compression, limit int) ([]byte, error) {
	size, err := DecompressedLen(body, c, limit)
	if err != nil {
		return dst, err
	}
	if c == LZ4 {
		return lz4Unblock(dst, body[4:], size)
	}
	n := len(dst)
	dst = grow(dst, size)
	out, err := snappy.Decode(dst[n:n+size:n+size], body)
	if err != nil || len(out) != size {
		return dst[:n], errDecompress
	}
	return dst[:n+size], nil
}

// DecompressSegment appends the uncompressed payload of a segment to dst.
func DecompressSegment(dst []byte, s Segment) ([]byte, error) {
	return lz4Unblock(dst, s.Payload, s.UncompressedLen)
}

func lz4Unblock(dst, src []byte, size int) ([]byte, error) {
	n := len(dst)
	// An LZ4 block expands by a factor of at most 255.
	if size > 255*len(src)+64 {
		return dst, errDecompress
	}
	if size == 0 {
		return dst, nil
	}
	dst = grow(dst, size)
	got, err := lz4.UncompressBlock(src, dst[n:n+size])
	if err != nil || got != size {
		return dst[:n], errDecompress
	}
	return dst[:n+size], nil
}

// grow returns dst with free capacity for at least size bytes.
func grow(dst []byte, size int) []byte {
	if cap(dst)-len(dst) < size {
		dst = append(make([]byte, 0, len(dst)+size), dst...)
	}
	return dst
}

func tooBig(size uint64, limit int) error {
	return dberr.Invalidf("Request is too big: length %d exceeds maximum allowed length %d.", size, limit)
}

// TooBig returns the error for a body of size bytes that exceeds the limit.
func TooBig(size, limit int) error { return tooBig(uint64(size), limit) }
