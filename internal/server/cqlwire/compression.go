// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"encoding/binary"
	"sync"

	"github.com/golang/snappy"
	"github.com/pierrec/lz4/v4"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Compression is how bodies (v3, v4) or segments (v5, LZ4 alone) are compressed on a connection.
type Compression uint8

// The kinds of compression.
const (
	NoCompression Compression = iota
	LZ4
	Snappy
)

// compressMin is the size in bytes from which compression is tried. Compressing a kilobyte costs more time than
// everything else that the codec does with it, and nobody is obliged to compress.
const compressMin = 2 << 10

var errDecompress error = &dberr.Protocol{Message: "Invalid message: the body cannot be decompressed"}

// lz4s holds compressors: each has hash tables of 200 KB.
var lz4s = sync.Pool{New: func() any { return new(lz4.Compressor) }}

// lz4Block compresses src to the end of dst and returns dst unchanged if that makes it no smaller.
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

// compressBody appends the compressed form of a v3 or v4 body to dst, unless that would not make it smaller.
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

// DecompressedLen returns the length in bytes that a v3 or v4 body claims to have uncompressed, an error if that is
// more than limit or cannot be.
func DecompressedLen(body []byte, c Compression, limit int) (int, error) {
	var size uint64
	growth := uint64(255) // what a byte of an LZ4 block can become
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
		return 0, dberr.Protocolf("Invalid message: it is compressed, but no compression was agreed on")
	}
	if size > uint64(limit) {
		return 0, tooBig(size, limit)
	}
	if size > growth*uint64(len(body))+64 {
		return 0, errDecompress
	}
	return int(size), nil
}

// DecompressBody appends the uncompressed form of a v3 or v4 body to dst. It refuses more than limit bytes, before it
// allocates them.
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
	// An LZ4 block can grow 255-fold at most.
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

// grow returns dst with room for size more bytes.
func grow(dst []byte, size int) []byte {
	if cap(dst)-len(dst) < size {
		dst = append(make([]byte, 0, len(dst)+size), dst...)
	}
	return dst
}

func tooBig(size uint64, limit int) error {
	return dberr.Invalidf("Request is too big: length %d exceeds maximum allowed length %d.", size, limit)
}

// TooBig is the error for a body of size bytes where limit are allowed.
func TooBig(size, limit int) error { return tooBig(uint64(size), limit) }
