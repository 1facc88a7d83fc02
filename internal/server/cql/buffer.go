// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"math/bits"
	"sync"
)

const (
	// bufferSize is the size in bytes of pooled buffers; flushSize is the output at which a connection writes before it
	// goes on with its input.
	bufferSize = 64 << 10
	flushSize  = 64 << 10
	// bufferKeepMax is the size beyond which a buffer that has grown is no longer one of the usual size, and
	// largeKeepMax that beyond which it is left to the garbage collector.
	bufferKeepMax = 128 << 10
	largeKeepMax  = 4 << 20
)

// buffer is a pooled piece of memory. The pointer travels with it, so that putting it back allocates nothing.
type buffer struct {
	b []byte
	// r and w bound what has been read from a socket and not yet consumed.
	r, w int
}

// Pages of rows are larger than most messages: buffers that have held some are pooled apart, so that nobody waits for
// input with one.
var (
	buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, bufferSize)} }}
	large   = sync.Pool{New: func() any { return new(buffer) }}
)

func getBuffer() *buffer { return buffers.Get().(*buffer) }

// getLarge returns a buffer that holds at least size bytes.
func getLarge(size int) *buffer {
	b := large.Get().(*buffer)
	if cap(b.b) < size {
		b.b = make([]byte, 1<<bits.Len(uint(size-1)))
	}
	return b
}

func putBuffer(b *buffer) {
	b.r, b.w = 0, 0
	b.b = b.b[:cap(b.b)]
	switch n := cap(b.b); {
	case n < bufferSize || n > largeKeepMax:
		b.b = nil // somebody else's next buffer should not be that large
	case n > bufferKeepMax:
		large.Put(b)
	default:
		buffers.Put(b)
	}
}
