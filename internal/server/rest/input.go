// SPDX-License-Identifier: Apache-2.0

package rest

import "github.com/ilion-db/ilion/internal/server/httpwire"

// inputBytes is the size of the buffer of an idle connection. It is sufficient for most requests.
const inputBytes = 4 << 10

// input is the buffered input of a connection.
type input struct {
	// buf holds the input from r to w. buf is room, unless the input does not fit into room.
	buf  []byte
	r, w int
	room [inputBytes]byte
	// left is the size of the unread body, or httpwire.Chunks. In the latter case, chunks holds the progress of
	// reading the body. awaited means that the client waits for "100 Continue" before it sends the body.
	left    int64
	chunks  httpwire.Body
	awaited bool
}

// reset discards the input and releases a grown buffer.
func (in *input) reset() { in.buf, in.r, in.w = in.room[:], 0, 0 }

func (in *input) unread() []byte { return in.buf[in.r:in.w] }

// space returns free space after the unread input for the next read.
func (in *input) space() []byte {
	switch {
	case in.r == in.w:
		in.r, in.w = 0, 0
	case in.w < len(in.buf):
	case in.r > 0:
		in.w = copy(in.buf, in.unread())
		in.r = 0
	default:
		grown := make([]byte, 2*len(in.buf))
		copy(grown, in.buf)
		in.buf = grown
	}
	return in.buf[in.w:]
}
