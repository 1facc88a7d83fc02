// SPDX-License-Identifier: Apache-2.0

package cqlwire

import "github.com/ilion-db/ilion/internal/model/dberr"

// NextEnvelope splits off the envelope at the start of b. size is the size of the envelope. If b does not contain the
// complete envelope, size is the minimum required size, and ok is false. If the body exceeds limit bytes, NextEnvelope
// returns an error. In this case, the header is valid, and the server can send the error to the header's stream.
func NextEnvelope(b []byte, limit int) (h Header, body []byte, size int, ok bool, err error) {
	if len(b) < HeaderSize {
		return h, nil, HeaderSize, false, nil
	}
	h = ParseHeader(b)
	if h.Length < 0 {
		return h, nil, 0, false, dberr.Protocolf("Invalid frame body length: %d", h.Length)
	}
	if int(h.Length) > limit {
		return h, nil, 0, false, TooBig(int(h.Length), limit)
	}
	size = HeaderSize + int(h.Length)
	if len(b) < size {
		return h, nil, size, false, nil
	}
	return h, b[HeaderSize:size:size], size, true, nil
}

// Assembler reassembles an envelope that was divided among several segments of version 5.
type Assembler struct {
	// Buf holds the received part. The caller may replace it while Open returns false.
	Buf []byte
}

// Open reports whether an envelope has started but is not complete.
func (a *Assembler) Open() bool { return len(a.Buf) > 0 }

// Add adds the payload of the next segment. The segment must not be self-contained. If ok is true, the envelope is
// complete, and its body refers to Buf. The caller must empty Buf after use. After an error, the stream can no longer
// be decoded.
func (a *Assembler) Add(payload []byte, limit int) (h Header, body []byte, ok bool, err error) {
	if len(payload) == 0 {
		return h, nil, false, dberr.Protocolf("Invalid segment: it is empty and not self-contained")
	}
	a.Buf = append(a.Buf, payload...)
	h, body, size, ok, err := NextEnvelope(a.Buf, limit)
	if ok && size != len(a.Buf) {
		return h, nil, false, dberr.Protocolf("Invalid segment: bytes follow the end of a large message")
	}
	return h, body, ok, err
}
