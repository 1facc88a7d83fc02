// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"time"
)

// This file exposes the encoding of connections to callers that transfer the bytes by other means, such as the
// simulator. chunks.go implements the frames of snapshots.

// Frame is a frame without its head.
type Frame struct {
	kind    byte
	payload []byte
}

// Reader reads frames from the bytes of a connection.
type Reader struct{ f frameReader }

// NewReader returns a reader of frames of up to frameBytes bytes. frameBytes must be the other side's value of
// Options.FrameBytes.
func NewReader(r io.Reader, frameBytes int) *Reader {
	return &Reader{frameReader{r: bufio.NewReaderSize(r, 64<<10), max: frameBytes + frameExtra}}
}

// Next returns the next frame that is not a keep-alive. The caller must close the connection after an error. If the
// connection ends, the error is io.EOF between frames and io.ErrUnexpectedEOF within a frame. If the bytes are invalid,
// the error is ErrFrame.
func (r *Reader) Next() (Frame, error) {
	for {
		kind, payload, err := r.f.next()
		if err != nil || kind != kindKeepAlive {
			return Frame{kind, payload}, err
		}
	}
}

// AppendRaft appends the encoding of a Raft frame.
func AppendRaft(dst, frame []byte) []byte { return appendFrame(dst, kindRaft, nil, frame) }

// AppendDepart appends the last frame of a process.
func AppendDepart(dst []byte) []byte { return appendFrame(dst, kindDepart, nil, nil) }

// Raft decodes a frame of a Raft connection. It returns a Raft frame, or departed is true if the other process has
// announced its departure.
func (f Frame) Raft() (frame []byte, departed bool, err error) {
	switch {
	case f.kind == kindDepart && len(f.payload) == 0:
		return nil, true, nil
	case f.kind == kindRaft:
		return f.payload, false, nil
	}
	return nil, false, malformed(f.kind, len(f.payload))
}

// RequestFrame is a frame from the caller of a command. It contains a request, a credit for one more page, or a
// cancellation.
type RequestFrame struct {
	ID             uint64
	Cancel, Credit bool
	Request        []byte
	// Left is the time until the deadline, or 0 if the command has no deadline. Ahead is the number of pages that the
	// other node may send without credit, or 0 for a single response.
	Left  time.Duration
	Ahead int
}

// AppendRequest appends the encoding of a request.
func AppendRequest(dst []byte, id uint64, left time.Duration, ahead int, request []byte) []byte {
	head := requestHead(left, ahead)
	binary.LittleEndian.PutUint64(head[:], id)
	return appendFrame(dst, kindRequest, head[:], request)
}

// requestHead returns the header of a request, without its ID.
func requestHead(left time.Duration, ahead int) (head [17]byte) {
	if left != 0 {
		binary.LittleEndian.PutUint64(head[8:], uint64(max(1, left.Microseconds())))
	}
	head[16] = byte(ahead)
	return head
}

// AppendCancel appends a cancellation.
func AppendCancel(dst []byte, id uint64) []byte {
	return appendFrame(dst, kindCancel, binary.LittleEndian.AppendUint64(nil, id), nil)
}

// AppendCredit appends a credit for one more page.
func AppendCredit(dst []byte, id uint64) []byte {
	return appendFrame(dst, kindCredit, binary.LittleEndian.AppendUint64(nil, id), nil)
}

// Request decodes a frame of a command connection on the serving node.
func (f Frame) Request() (a RequestFrame, err error) {
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

// ResponseFrame is a part of the response to a command. In the last part, End is io.EOF or an error.
type ResponseFrame struct {
	ID   uint64
	Data []byte
	End  error
}

// AppendPage appends a part of a response that is not the last part.
func AppendPage(dst []byte, id uint64, data []byte) []byte {
	return appendFrame(dst, kindPage, binary.LittleEndian.AppendUint64(nil, id), data)
}

// AppendLast appends the last or only part of a response.
func AppendLast(dst []byte, id uint64, data []byte) []byte {
	return appendFrame(dst, kindLast, binary.LittleEndian.AppendUint64(nil, id), data)
}

// AppendFail appends the end of a response with an error.
func AppendFail(dst []byte, id uint64, err error) []byte {
	head, text := failHead(id, err)
	return appendFrame(dst, kindFail, head[:], []byte(text))
}

// failHead returns the header of an error and the text that follows the header.
func failHead(id uint64, err error) (head [9]byte, text string) {
	binary.LittleEndian.PutUint64(head[:], id)
	head[8] = byte(statusOf(err))
	return head, clip(err.Error(), textMax)
}

// HandleResponse decodes a frame of a command connection on the dialing node.
func (f Frame) HandleResponse() (a ResponseFrame, err error) {
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
