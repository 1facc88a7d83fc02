// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"time"
)

// This file is what connections carry, as bytes: for the transport, and for whoever carries the bytes of connections by
// other means, which is the simulator. The frames of snapshots are in chunks.go.

// Frame is a frame without its head.
type Frame struct {
	kind    byte
	payload []byte
}

// Reader cuts the bytes of a connection into frames.
type Reader struct{ f frameReader }

// NewReader returns a reader of frames of at most frameBytes bytes, Options.FrameBytes of the other side.
func NewReader(r io.Reader, frameBytes int) *Reader {
	return &Reader{frameReader{r: bufio.NewReaderSize(r, 64<<10), max: frameBytes + frameExtra}}
}

// Next returns the next frame that says anything. An error ends the connection: io.EOF between frames,
// io.ErrUnexpectedEOF within one, ErrFrame for bytes that are none.
func (r *Reader) Next() (Frame, error) {
	for {
		kind, payload, err := r.f.next()
		if err != nil || kind != kindKeepAlive {
			return Frame{kind, payload}, err
		}
	}
}

// AppendRaft appends what Send puts on a connection for a frame of the raft host.
func AppendRaft(dst, frame []byte) []byte { return appendFrame(dst, kindRaft, nil, frame) }

// AppendDepart appends the last word of a process.
func AppendDepart(dst []byte) []byte { return appendFrame(dst, kindDepart, nil, nil) }

// Raft returns what came on a raft connection: a frame of the raft host, or that the process at the other end has said
// its last word.
func (f Frame) Raft() (frame []byte, departed bool, err error) {
	switch {
	case f.kind == kindDepart && len(f.payload) == 0:
		return nil, true, nil
	case f.kind == kindRaft:
		return f.payload, false, nil
	}
	return nil, false, malformed(f.kind, len(f.payload))
}

// Asked is what the caller of a command says: the request, that a page more may be sent, or that nothing more is
// wanted.
type Asked struct {
	ID             uint64
	Cancel, Credit bool
	Request        []byte
	// Left is the time to the deadline, 0 for none. Ahead is how many pages may be sent before there is credit, 0 if
	// one answer is wanted.
	Left  time.Duration
	Ahead int
}

// AppendRequest appends what Call and Stream put on a connection.
func AppendRequest(dst []byte, id uint64, left time.Duration, ahead int, request []byte) []byte {
	head := requestHead(left, ahead)
	binary.LittleEndian.PutUint64(head[:], id)
	return appendFrame(dst, kindRequest, head[:], request)
}

// requestHead stands before a request; the place of its id is free.
func requestHead(left time.Duration, ahead int) (head [17]byte) {
	if left != 0 {
		binary.LittleEndian.PutUint64(head[8:], uint64(max(1, left.Microseconds())))
	}
	head[16] = byte(ahead)
	return head
}

// AppendCancel appends that nothing more is wanted.
func AppendCancel(dst []byte, id uint64) []byte {
	return appendFrame(dst, kindCancel, binary.LittleEndian.AppendUint64(nil, id), nil)
}

// AppendCredit appends that a page more may be sent.
func AppendCredit(dst []byte, id uint64) []byte {
	return appendFrame(dst, kindCredit, binary.LittleEndian.AppendUint64(nil, id), nil)
}

// Asked returns what came on a command connection to the node that serves it.
func (f Frame) Asked() (a Asked, err error) {
	b := f.payload
	if len(b) < 8 {
		return a, malformed(f.kind, len(b))
	}
	a.ID = binary.LittleEndian.Uint64(b)
	switch {
	case f.kind == kindRequest && len(b) >= 17:
		if micros := binary.LittleEndian.Uint64(b[8:]); micros < uint64(math.MaxInt64/time.Microsecond) {
			a.Left = time.Duration(micros) * time.Microsecond
		}
		a.Ahead, a.Request = int(b[16]), b[17:len(b):len(b)]
	case f.kind == kindCancel && len(b) == 8:
		a.Cancel = true
	case f.kind == kindCredit && len(b) == 8:
		a.Credit = true
	default:
		return a, malformed(f.kind, len(b))
	}
	return a, nil
}

// Answered is a part of the answer to a command. The last one has an End: io.EOF, or the error instead of an answer.
type Answered struct {
	ID   uint64
	Data []byte
	End  error
}

// AppendPage appends a part of an answer that more will follow.
func AppendPage(dst []byte, id uint64, data []byte) []byte {
	return appendFrame(dst, kindPage, binary.LittleEndian.AppendUint64(nil, id), data)
}

// AppendLast appends the last or only part of an answer.
func AppendLast(dst []byte, id uint64, data []byte) []byte {
	return appendFrame(dst, kindLast, binary.LittleEndian.AppendUint64(nil, id), data)
}

// AppendFail appends the end of an answer with an error.
func AppendFail(dst []byte, id uint64, err error) []byte {
	head, text := failHead(id, err)
	return appendFrame(dst, kindFail, head[:], []byte(text))
}

// failHead stands before the text of an error.
func failHead(id uint64, err error) (head [9]byte, text string) {
	binary.LittleEndian.PutUint64(head[:], id)
	head[8] = byte(statusOf(err))
	return head, clip(err.Error(), textMax)
}

// Answered returns what came on a command connection to the node that dialled it.
func (f Frame) Answered() (a Answered, err error) {
	b := f.payload
	if len(b) < 8 || f.kind == kindFail && len(b) < 9 {
		return a, malformed(f.kind, len(b))
	}
	a.ID, a.Data = binary.LittleEndian.Uint64(b), b[8:len(b):len(b)]
	switch f.kind {
	case kindPage:
	case kindLast:
		a.End = io.EOF
	case kindFail:
		a.Data, a.End = nil, answerError(status(b[8]), string(b[9:]))
	default:
		return a, malformed(f.kind, len(b))
	}
	return a, nil
}
