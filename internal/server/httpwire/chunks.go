// SPDX-License-Identifier: Apache-2.0

package httpwire

import (
	"bytes"
	"net/http"
)

const (
	// ChunkLineMax is the maximum length, in bytes, of the line before a chunk and of each trailer line.
	ChunkLineMax = 1 << 10
	// trailersMax is the maximum number of trailer lines. The lines are ignored.
	trailersMax = 32
)

var (
	errChunk    = malformed("A chunk of the request body does not start with its size in hexadecimal.")
	errChunkEnd = malformed("A chunk of the request body is not followed by CR LF.")
	errTrailers = malformed("The request body has too many trailers.")
)

// ErrTooLarge reports that a body exceeds the limit of its reader.
var ErrTooLarge = &Malformed{http.StatusRequestEntityTooLarge, "The request body is too large."}

// Body decodes a chunked body. The zero value is ready for the first chunk.
type Body struct {
	state    chunkState
	left     int64 // number of remaining bytes in the current chunk
	trailers int
}

type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkData
	chunkEnd
	trailer
	ended
)

// Take consumes the part of data that belongs to the body. Take appends the contents of the chunks to dst. dst may
// grow to a total of most bytes. n is the number of consumed bytes. The next call must pass the remaining bytes again,
// followed by new data. done is true at the end of the body. Errors are of the type *Malformed.
func (b *Body) Take(dst, data []byte, most int) (out []byte, n int, done bool, err error) {
	for b.state != ended {
		rest := data[n:]
		if b.state == chunkData {
			take := int(min(b.left, int64(len(rest))))
			if take == 0 {
				return dst, n, false, nil
			}
			dst, n = append(dst, rest[:take]...), n+take
			if b.left -= int64(take); b.left == 0 {
				b.state = chunkEnd
			}
			continue
		}
		end := bytes.IndexByte(rest, '\n')
		if end < 0 && len(rest) < ChunkLineMax {
			return dst, n, false, nil
		}
		if end < 0 || end >= ChunkLineMax {
			return dst, n, false, errChunk
		}
		if end == 0 || rest[end-1] != '\r' {
			return dst, n, false, errLineEnd
		}
		if err := b.line(rest[:end-1], most-len(dst)); err != nil {
			return dst, n, false, err
		}
		n += end + 1
	}
	return dst, n, true, nil
}

// line processes a line that is not part of the contents of a chunk. room is the maximum size of the next chunk.
func (b *Body) line(line []byte, room int) error {
	switch b.state {
	case chunkSize:
		size, err := parseChunkSize(line)
		if err != nil {
			return err
		}
		if size > int64(room) {
			return ErrTooLarge
		}
		if b.left, b.state = size, chunkData; size == 0 {
			b.state = trailer
		}
	case chunkEnd:
		if len(line) > 0 {
			return errChunkEnd
		}
		b.state = chunkSize
	case trailer:
		if len(line) == 0 {
			b.state = ended
			return nil
		}
		if b.trailers++; b.trailers > trailersMax {
			return errTrailers
		}
		if name, value, ok := bytes.Cut(line, []byte(":")); !ok || !isToken(string(name)) || !isText(string(value)) {
			return errName
		}
	}
	return nil
}

// chunkDigits is the maximum number of digits of a chunk size. The number suffices for every accepted body.
const chunkDigits = 15

// parseChunkSize parses the size of a chunk and ignores extensions.
func parseChunkSize(line []byte) (size int64, err error) {
	digits, extension, _ := bytes.Cut(line, []byte(";"))
	if len(extension) > 0 || len(digits) < len(line) {
		digits = bytes.TrimRight(digits, " \t")
	}
	if len(digits) == 0 || len(digits) > chunkDigits || !isText(string(extension)) {
		return 0, errChunk
	}
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, errChunk
		}
		size = size<<4 | int64(c)
	}
	return size, nil
}
