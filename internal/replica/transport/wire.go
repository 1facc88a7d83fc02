// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bufio"
	"io"
)

// AppendRaft appends what Send puts on a connection for a frame: for whoever carries the bytes of connections by other
// means, which is the simulator.
func AppendRaft(dst, frame []byte) []byte { return appendFrame(dst, kindRaft, nil, frame) }

// AppendDepart appends the last word of a process.
func AppendDepart(dst []byte) []byte { return appendFrame(dst, kindDepart, nil, nil) }

// RaftReader reads the frames of a raft connection from its bytes.
type RaftReader struct{ f frameReader }

// NewRaftReader returns a reader of frames of at most frameBytes bytes, Options.FrameBytes of the other side.
func NewRaftReader(r io.Reader, frameBytes int) *RaftReader {
	return &RaftReader{frameReader{r: bufio.NewReaderSize(r, 64<<10), max: frameBytes + frameExtra}}
}

// Next returns the next frame, or that the process at the other end has said its last word. An error ends the
// connection: io.EOF between frames, io.ErrUnexpectedEOF within one, ErrFrame for bytes that are none.
func (r *RaftReader) Next() (frame []byte, departed bool, err error) {
	for {
		kind, payload, err := r.f.next()
		if err != nil {
			return nil, false, err
		}
		if kind != kindKeepAlive {
			return raftFrame(kind, payload)
		}
	}
}

// raftFrame says what a frame on a raft connection is.
func raftFrame(kind byte, payload []byte) (frame []byte, departed bool, err error) {
	switch {
	case kind == kindDepart && len(payload) == 0:
		return nil, true, nil
	case kind == kindRaft:
		return payload, false, nil
	}
	return nil, false, malformed(kind, len(payload))
}
