// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"errors"
	"net"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// message is a message from the client, or the reason why the message is rejected.
type message struct {
	cqlwire.Header // if the version is unknown, the header is zero
	body           []byte
	refused        error
	// last is true if the input after the message cannot be decoded.
	last bool
}

// progress is the result of decoding the start of the input.
type progress uint8

const (
	incomplete progress = iota // more input is needed
	skipped                    // input without a message was consumed
	complete                   // a message was decoded
)

// frameReader decodes the messages in the input of a connection. The input consists of unframed envelopes or of
// version 5 segments. A frameReader belongs to the goroutine of the connection.
type frameReader struct {
	input
	frameBytesMax int
	// trusted is set after the handshake. Before that, messages must be small.
	trusted     bool
	segments    bool
	compression cqlwire.Compression
	payload     []byte  // unread messages of a self-contained segment
	plain       *buffer // buffer for decompressed input, or nil when the connection is idle
	large       cqlwire.Assembler
	assembled   bool // the last message contains slices of large
	skip        int  // remaining bytes of a rejected message to skip; in version 5, bytes of payload
}

func (f *frameReader) init(s *Server, nc net.Conn) {
	f.input.init(s, nc)
	f.frameBytesMax = s.opts.FrameBytesMax
}

// next decodes the next message into m. The body of m is valid until the next call. ok is false if more input is
// needed. An error means that the input cannot be decoded, or that a partial message cannot be kept. The caller must
// then end the connection.
func (f *frameReader) next(m *message) (ok bool, err error) {
	if f.assembled {
		f.dropLarge()
	}
	for {
		var p progress
		switch {
		case len(f.payload) > 0:
			p, err = f.contained(m)
		case f.buf.r == f.buf.w:
			f.buf.r, f.buf.w = 0, 0
			return false, nil
		case f.segments:
			p, err = f.segment(m)
		default:
			p, err = f.envelope(m)
		}
		if p != skipped || err != nil {
			return p == complete, err
		}
	}
}

// bodyMax returns the maximum size of a body.
func (f *frameReader) bodyMax() int {
	if !f.trusted {
		return min(f.frameBytesMax, smallReadSize-cqlwire.HeaderSize)
	}
	return f.frameBytesMax
}

// envelope decodes the unframed message at the start of the input.
func (f *frameReader) envelope(m *message) (progress, error) {
	data := f.buf.unread()
	if f.skip > 0 {
		n := min(f.skip, len(data))
		f.skip -= n
		f.buf.r += n
		return skipped, nil
	}
	// The check of the version uses only the first byte. Headers of versions 1 and 2 are shorter, and the format of an
	// unknown version's header is unknown.
	if v := data[0] & 0x7f; v < cqlwire.VersionMin || v > cqlwire.VersionMax {
		*m = message{refused: cqlwire.BadVersion(v), last: true}
		return complete, nil
	}
	h, body, size, ok, err := cqlwire.NextEnvelope(data, f.bodyMax())
	switch {
	case err != nil:
		if *m = (message{Header: h, refused: err, last: h.Length < 0}); !m.last {
			f.skip = cqlwire.HeaderSize + int(h.Length)
		}
		return complete, nil
	case !ok:
		return f.makeRoom(m, size)
	}
	f.buf.r += size
	m.Header, m.body = h, body
	return complete, nil
}

// makeRoom prepares the input for the rest of a message or segment of size bytes. If this is not possible, it rejects
// the message.
func (f *frameReader) makeRoom(m *message, size int) (progress, error) {
	in := f.buf
	if in.r > 0 && in.r+size > len(in.b) {
		in.w = copy(in.b, in.unread())
		in.r = 0
	}
	switch {
	case in.w < len(in.b):
		return incomplete, nil
	case !f.trusted:
		return incomplete, dberr.Protocolf("Invalid segment: it is too large during the handshake")
	case f.grow(size):
		return incomplete, nil
	case f.shed(m):
		return complete, nil
	case f.segments:
		return incomplete, errNoMemory
	}
	*m = message{Header: cqlwire.ParseHeader(in.b), refused: errNoMemory}
	f.skip = size - len(in.unread())
	in.r, in.w = 0, 0
	return complete, nil
}

// segment decodes the segment at the start of the input. Its errors end the connection, because the stream cannot be
// decoded after a corrupt segment.
func (f *frameReader) segment(m *message) (progress, error) {
	s, size, ok, err := cqlwire.NextSegment(f.buf.unread(), f.compression == cqlwire.LZ4)
	if err != nil {
		return incomplete, err
	}
	if !ok {
		return f.makeRoom(m, size)
	}
	payload := s.Payload
	if s.UncompressedLen > 0 {
		plain := f.plainBuffer()
		if plain.b, err = cqlwire.DecompressSegment(plain.b[:0], s); err != nil {
			return incomplete, err
		}
		payload = plain.b
	}
	f.buf.r += size
	if !s.SelfContained {
		return f.piece(m, payload)
	}
	if f.large.Open() || f.skip > 0 {
		return incomplete, dberr.Protocolf("Invalid segment: self-contained in the middle of a large message")
	}
	f.payload = payload
	return skipped, nil
}

// contained decodes the next message of a self-contained segment.
func (f *frameReader) contained(m *message) (progress, error) {
	h, body, n, ok, err := cqlwire.NextEnvelope(f.payload, f.bodyMax())
	if err != nil {
		return incomplete, err
	}
	if !ok {
		return incomplete, dberr.Protocolf("Invalid segment: a message does not end in it")
	}
	f.payload = f.payload[n:]
	m.Header, m.body = h, body
	return complete, nil
}

// piece adds a segment that contains part of a large message.
func (f *frameReader) piece(m *message, payload []byte) (progress, error) {
	if f.skip > 0 {
		if f.skip -= len(payload); f.skip < 0 {
			return incomplete, dberr.Protocolf("Invalid segment: bytes follow the end of a large message")
		}
		return skipped, nil
	}
	refused := errNoMemory
	if f.memory.receive(&f.memory.message, len(payload)) {
		h, body, ok, err := f.large.Add(payload, f.bodyMax())
		if ok {
			f.assembled = true
			m.Header, m.body = h, body
			return complete, nil
		}
		if _, big := errors.AsType[*dberr.Invalid](err); !big {
			return skipped, err
		}
		refused = err
	} else {
		f.large.Buf = append(f.large.Buf, payload...)
	}
	if len(f.large.Buf) < cqlwire.HeaderSize {
		return incomplete, refused
	}
	h := cqlwire.ParseHeader(f.large.Buf)
	f.skip = cqlwire.HeaderSize + int(h.Length) - len(f.large.Buf)
	f.dropLarge()
	if f.skip < 0 || h.Length < 0 {
		return incomplete, dberr.Protocolf("Invalid segment: bytes follow the end of a large message")
	}
	*m = message{Header: h, refused: refused}
	return complete, nil
}

// shed rejects the large message that is being assembled, so its memory is available for the next segment. shed
// reports whether such a message existed. The rest of the message is skipped.
func (f *frameReader) shed(m *message) bool {
	if len(f.large.Buf) < cqlwire.HeaderSize || f.assembled {
		return false
	}
	h := cqlwire.ParseHeader(f.large.Buf)
	f.skip = cqlwire.HeaderSize + int(h.Length) - len(f.large.Buf)
	f.dropLarge()
	*m = message{Header: h, refused: errNoMemory}
	return true
}

// dropLarge releases the memory of an assembled message.
func (f *frameReader) dropLarge() {
	f.large.Buf, f.assembled = nil, false
	f.memory.release(&f.memory.message)
}

// decompress returns the decompressed body of a message of version 3 or 4. The caller must call releasePlain.
func (f *frameReader) decompress(body []byte) ([]byte, error) {
	size, err := cqlwire.DecompressedLen(body, f.compression, f.bodyMax())
	if err != nil {
		return nil, err
	}
	if size > bufferSize && !f.memory.reserve(&f.memory.message, size) {
		return nil, errNoMemory
	}
	plain := f.plainBuffer()
	plain.b, err = cqlwire.DecompressBody(plain.b[:0], body, f.compression, f.bodyMax())
	return plain.b, err
}

func (f *frameReader) plainBuffer() *buffer {
	if f.plain == nil {
		f.plain = getBuffer()
	}
	return f.plain
}

// releasePlain returns the buffer for decompressed input after a message if the buffer has grown.
func (f *frameReader) releasePlain() {
	if f.plain != nil && cap(f.plain.b) > bufferKeepMax {
		f.plain = nil
		f.memory.release(&f.memory.message)
	}
}

// partial reports whether part of a message has been received.
func (f *frameReader) partial() bool { return f.input.partial() || f.large.Open() || f.skip > 0 }

// release returns the memory that is not needed until more data arrives. If the connection ends, it returns all
// memory.
func (f *frameReader) release(all bool) {
	f.input.release(all)
	if f.plain != nil {
		putBuffer(f.plain)
		f.plain = nil
	}
	if all || !f.large.Open() {
		f.memory.release(&f.memory.message)
	}
}
