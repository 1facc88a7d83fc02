// SPDX-License-Identifier: Apache-2.0

package cql

import "sync"

const (
	// bufferSize is the size in bytes of pooled buffers; flushSize is the output at which a connection writes before it goes on with its input.
	bufferSize = 64 << 10
	flushSize  = 64 << 10
	// bufferKeepMax is the size beyond which a buffer that has grown is left to the garbage collector.
	bufferKeepMax = 256 << 10
)

// buffer is a pooled piece of memory. The pointer travels with it, so that putting it back allocates nothing.
type buffer struct {
	b []byte
	// r and w bound what has been read from a socket and not yet consumed.
	r, w int
}

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, bufferSize)} }}

func getBuffer() *buffer { return buffers.Get().(*buffer) }

func putBuffer(b *buffer) {
	b.r, b.w = 0, 0
	if cap(b.b) > bufferKeepMax || cap(b.b) < bufferSize {
		b.b = nil // somebody else's next buffer should not be that large
		return
	}
	b.b = b.b[:cap(b.b)]
	buffers.Put(b)
}
