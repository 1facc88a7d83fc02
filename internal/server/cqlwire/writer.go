// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"encoding/binary"
	"sync"
)

// Writer encodes envelopes into a buffer. For each envelope, the caller calls Begin, appends the body to Buf, and
// calls End. After Finish, Buf can be sent. In version 5, Writer packs as many envelopes as possible into each
// segment. It does so in place. The zero Writer writes unframed, uncompressed envelopes.
type Writer struct {
	// Buf holds the output. The caller appends bodies to Buf, and takes or replaces Buf after Finish.
	Buf []byte

	compression Compression
	segments    bool
	// open is true if a segment has been started and has not ended. While open is true, segment is the offset of the
	// segment's header, which can be 0.
	open     bool
	segment  int
	envelope int // offset of the header of the current envelope
}

// SetFraming changes the format of all later envelopes. segments must be true for version 5 after the handshake. No
// segment may be open.
func (w *Writer) SetFraming(segments bool, c Compression) { w.segments, w.compression = segments, c }

func (w *Writer) segmentHeader() int {
	if w.compression == LZ4 {
		return segmentHeaderLZ4
	}
	return segmentHeaderPlain
}

// Begin starts an envelope. The length in h is ignored.
func (w *Writer) Begin(h Header) {
	if w.segments && !w.open {
		w.openSegment()
	}
	w.envelope = len(w.Buf)
	w.Buf = AppendHeader(w.Buf, h)
}

// Cancel drops the current envelope.
func (w *Writer) Cancel() { w.Buf = w.Buf[:w.envelope] }

// End ends the current envelope.
func (w *Writer) End() {
	body := w.Buf[w.envelope+HeaderSize:]
	if !w.segments && w.compression != NoCompression && len(body) >= compressMin {
		body = w.compress(body)
	}
	binary.BigEndian.PutUint32(w.Buf[w.envelope+5:], uint32(len(body)))
	if w.open && len(w.Buf)-w.segment-w.segmentHeader() > SegmentPayloadMax {
		w.spill()
	}
}

// Finish ends the open segment, if a segment is open. Buf can then be sent.
func (w *Writer) Finish() {
	if w.open {
		w.closeSegment(true)
	}
}

// compress replaces the body of the current envelope with its compressed form if the compressed form is smaller. It
// returns the resulting body.
func (w *Writer) compress(body []byte) []byte {
	s := getScratch()
	defer putScratch(s)
	var ok bool
	if s.b, ok = compressBody(s.b[:0], body, w.compression); ok {
		w.Buf = append(w.Buf[:w.envelope+HeaderSize], s.b...)
		w.Buf[w.envelope+1] |= FlagCompressed
	}
	return w.Buf[w.envelope+HeaderSize:]
}

func (w *Writer) openSegment() {
	w.open = true
	w.segment = len(w.Buf)
	var head [segmentHeaderLZ4]byte
	w.Buf = append(w.Buf, head[:w.segmentHeader()]...)
}

// closeSegment ends the open segment. The payload of the segment is all data after the segment's header.
func (w *Writer) closeSegment(selfContained bool) {
	w.open = false
	head := w.segmentHeader()
	start := w.segment + head
	length, uncompressed := len(w.Buf)-start, 0
	if length == 0 {
		w.Buf = w.Buf[:w.segment]
		return
	}
	if w.compression == LZ4 && length >= compressMin {
		s := getScratch()
		var ok bool
		if s.b, ok = lz4Block(s.b[:0], w.Buf[start:]); ok {
			uncompressed = length
			length = len(s.b)
			w.Buf = append(w.Buf[:start], s.b...)
		}
		putScratch(s)
	}
	putSegmentHeader(w.Buf[w.segment:], w.compression == LZ4, length, uncompressed, selfContained)
	w.Buf = binary.LittleEndian.AppendUint32(w.Buf, segmentCRC32(w.Buf[start:start+length]))
}

// spill moves the current envelope to one or more new segments, because the envelope does not fit into the open
// segment.
func (w *Writer) spill() {
	s := getScratch()
	defer putScratch(s)
	s.b = append(s.b[:0], w.Buf[w.envelope:]...)
	w.Buf = w.Buf[:w.envelope]
	w.closeSegment(true)
	rest := s.b
	if len(rest) <= SegmentPayloadMax {
		w.openSegment()
		w.envelope = len(w.Buf)
		w.Buf = append(w.Buf, rest...)
		return
	}
	for len(rest) > 0 {
		n := min(len(rest), SegmentPayloadMax)
		w.openSegment()
		w.Buf = append(w.Buf, rest[:n]...)
		w.closeSegment(false)
		rest = rest[n:]
	}
}

type scratch struct{ b []byte }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func getScratch() *scratch { return scratches.Get().(*scratch) }

// putScratch returns a scratch buffer to the pool unless it is too large.
func putScratch(s *scratch) {
	if cap(s.b) <= 1<<20 {
		scratches.Put(s)
	}
}
