// SPDX-License-Identifier: Apache-2.0

package httpwire

import (
	"bytes"
	"net/http"
)

const (
	// ChunkLineMax bounds the line before a chunk, and each line of what follows the last one, in bytes.
	ChunkLineMax = 1 << 10
	// trailersMax bounds what follows the last chunk, in lines, which are dropped.
	trailersMax = 32
)

var (
	errChunk    = malformed("A chunk of the request's body does not begin with its size as a hexadecimal number.")
	errChunkEnd = malformed("A chunk of the request's body is not followed by CR LF.")
	errTrailers = malformed("Too much follows the last chunk of the request's body.")
)

// ErrTooLarge is of a body that is larger than its reader takes.
var ErrTooLarge = &Malformed{http.StatusRequestEntityTooLarge, "The body of the request is too large."}

// Body puts a body together that comes in chunks. The zero value waits for the first.
type Body struct {
	state    chunkState
	left     int64 // of the chunk
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

// Take takes as much of data as belongs to the body, and appends what the chunks hold to dst, up to most bytes in all.
// n is how much it has taken; the rest has to be there again in the next call, with more behind it. done says that the
// body has ended. The error is a *Malformed.
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

// line takes a line that is not a chunk's content. room is how much a further chunk may have.
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

// chunkDigits is how many digits a chunk's size may have: more than any body that is taken.
const chunkDigits = 15

// parseChunkSize reads the size of a chunk; what extensions say is dropped.
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
