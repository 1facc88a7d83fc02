// SPDX-License-Identifier: Apache-2.0

package cqlwire

import "github.com/ilion-db/ilion/internal/model/dberr"

// NextEnvelope cuts the envelope at the front of b. size is its size; if b does not hold all of it, size is how much is
// needed at least and ok is false. A body beyond limit bytes is an error; the header is valid then, so that the error
// can be sent to its stream.
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

// Assembler puts an envelope together that was cut over several segments of version 5.
type Assembler struct {
	// Buf holds what has come so far. The caller may replace it when Open is false.
	Buf []byte
}

// Open reports whether an envelope has begun and not ended.
func (a *Assembler) Open() bool { return len(a.Buf) > 0 }

// Add takes the payload of the next segment that is not self-contained. When ok is true the envelope is complete and
// its body is a view over Buf, which the caller empties after use. Any error means that the connection has lost its
// thread.
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
