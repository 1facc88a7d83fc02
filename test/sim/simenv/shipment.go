// SPDX-License-Identifier: Apache-2.0

package simenv

import (
	"bytes"
	"errors"
	"io"

	"github.com/ilion-db/ilion/internal/replica/transport"
)

// shipment is the receiver's side of a snapshot transfer. The snapshot arrives in frames over a sequence of
// connections. Each connection resumes where the previous connection ended.
type shipment struct {
	n    *Network
	data io.ReaderAt
	way  *transport.Shipment
	// gone reports whether the sender has abandoned the snapshot or has ended.
	gone func() bool
	// frames holds the unread frames of the connection. If broken is set, the connection breaks after these frames.
	// ready holds decoded bytes of the snapshot. at is the number of bytes read.
	frames []byte
	ready  []byte
	at     int64
	end    error
}

// chunkBytes is small, so that small snapshots also have several frames.
const chunkBytes = 700

// connectionsMost is the maximum number of connections for a snapshot.
const connectionsMost = 100

func (n *Network) shipment(data io.ReaderAt, size int64, gone func() bool) *shipment {
	return &shipment{n: n, data: data, way: transport.NewShipment(data, size, chunkBytes), gone: gone}
}

// Read implements io.Reader.
func (s *shipment) Read(b []byte) (int, error) {
	if s.gone() {
		return 0, errLost
	}
	for tries := 0; len(s.ready) == 0 && s.end == nil; tries++ {
		if tries == connectionsMost {
			return 0, errLost
		}
		s.take()
	}
	if len(s.ready) == 0 {
		return 0, s.end
	}
	n := copy(b, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// take reads the next frame. It opens another connection if the current connection ends first.
func (s *shipment) take() {
	rest := bytes.NewReader(s.frames)
	buffer := s.n.buffered(rest)
	frame, err := transport.NewReader(buffer, frameBytes).Next()
	if err != nil {
		s.connect()
		return
	}
	s.frames = s.frames[len(s.frames)-rest.Len()-buffer.Buffered():]
	b, err := s.way.Take(frame)
	switch {
	case err == nil:
		s.arrived(b)
	case errors.Is(err, transport.ErrFrame), errors.Is(err, transport.ErrSnapshot):
		s.n.w.Fail("a snapshot: %v", err)
		s.end = err
	default:
		s.end = io.EOF
	}
}

// arrived checks that the received bytes equal the sent bytes.
func (s *shipment) arrived(b []byte) {
	want := make([]byte, len(b))
	if _, err := s.data.ReadAt(want, s.at); err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(b, want) {
		s.n.w.Fail("%d bytes of a snapshot at %d differ from the sent bytes (%v)", len(b), s.at, err)
	}
	s.ready, s.at = b, s.at+int64(len(b))
}

// connect opens a connection.
func (s *shipment) connect() {
	frames, err := s.way.Connect()
	if err != nil {
		s.end = err
		return
	}
	s.frames = nil
	for _, f := range frames {
		b, broken := s.n.harm(f, s.n.Rough)
		if s.frames = append(s.frames, b...); broken {
			return
		}
	}
}

// headed is a header followed by data.
type headed struct {
	head []byte
	data io.ReaderAt
}

// ReadAt implements io.ReaderAt.
func (h headed) ReadAt(b []byte, at int64) (n int, err error) {
	if at < int64(len(h.head)) {
		if n = copy(b, h.head[at:]); n == len(b) {
			return n, nil
		}
	}
	m, err := h.data.ReadAt(b[n:], at+int64(n)-int64(len(h.head)))
	return n + m, err
}
