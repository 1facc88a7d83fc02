// SPDX-License-Identifier: Apache-2.0

package httpguard

import (
	"io"
	"net/http"

	"github.com/ilion-db/ilion/internal/server/httpwire"
)

const (
	// headMax is the maximum size of the head of a request, in bytes.
	headMax = 16 << 10
	// readBytes is the size of a read, in bytes.
	readBytes = 4 << 10
	// chunkedMax is the maximum size of a piece of a chunked body, in bytes. Handlers limit the size of bodies.
	chunkedMax = 64 << 20
)

var errHeadSize = &httpwire.Malformed{Status: http.StatusRequestHeaderFieldsTooLarge,
	Message: "The request headers are too large."}

// framing tracks the requests of a connection. The zero value expects the first request.
type framing struct {
	in []byte // received data that has not been passed to the reader
	// checked is the number of bytes in the buffer in that may be passed to the reader. looked is the number of the
	// bytes after checked that have been searched for the end of a head.
	checked, looked int
	// left is the number of missing bytes of a body, or httpwire.Chunks. chunks is the state of a chunked body.
	left   int64
	chunks httpwire.Body
	// blank means that a line break after a body has been dropped. Some clients send such a line break.
	blank bool
	err   error
}

// read returns checked data. If no checked data is available, read reads more data.
func (f *framing) read(from io.Reader, p []byte) (int, error) {
	for f.checked == 0 {
		if f.err != nil {
			return 0, f.err
		}
		room := len(f.in)
		f.in = append(f.in, make([]byte, readBytes)...)
		n, err := from.Read(f.in[room:])
		f.in = f.in[:room+n]
		if n > 0 {
			f.err = f.check()
		} else if err != nil {
			return 0, err // the caller may extend the deadline and read again
		}
	}
	n := copy(p, f.in[:f.checked])
	f.in, f.checked = f.in[:copy(f.in, f.in[n:])], f.checked-n
	if len(f.in) == 0 {
		f.in = nil
	}
	return n, nil
}

// check checks the received data. It returns a *httpwire.Malformed if the data after the checked bytes is malformed.
func (f *framing) check() error {
	for f.checked < len(f.in) {
		rest := f.in[f.checked:]
		switch {
		case f.left == httpwire.Chunks:
			_, n, done, err := f.chunks.Take(nil, rest, chunkedMax)
			f.checked += n
			if err != nil {
				return err
			}
			if !done {
				return nil
			}
			f.left, f.chunks = 0, httpwire.Body{}
		case f.left > 0:
			n := min(f.left, int64(len(rest)))
			f.checked, f.left = f.checked+int(n), f.left-n
		default:
			if more, err := f.head(rest); more || err != nil {
				return err
			}
		}
	}
	return nil
}

// head searches for the end of a head. more is true if more data is needed.
func (f *framing) head(rest []byte) (more bool, err error) {
	if !f.blank && f.looked == 0 && len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n' {
		f.in, f.blank = append(f.in[:f.checked], rest[2:]...), true
		return false, nil
	}
	end, err := httpwire.End(rest, f.looked)
	switch {
	case err != nil:
		return false, err
	case end > headMax, end == 0 && len(rest) >= headMax:
		return false, errHeadSize
	case end == 0:
		f.looked = len(rest)
		return true, nil
	}
	var r httpwire.Request
	if err := r.Parse(rest[:end]); err != nil {
		return false, err
	}
	f.checked, f.looked, f.left, f.blank = f.checked+end, 0, r.Length, false
	return false, nil
}
