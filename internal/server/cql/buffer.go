// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"math/bits"
	"sync"
)

const (
	// bufferSize is the size of pooled buffers in bytes. flushSize is the amount of output at which a connection
	// writes before it processes more input.
	bufferSize = 64 << 10
	flushSize  = 64 << 10
	// bufferKeepMax is the size above which a grown buffer is pooled separately from other buffers. A buffer larger
	// than largeKeepMax is not pooled.
	bufferKeepMax = 128 << 10
	largeKeepMax  = 4 << 20
)

// buffer is a pooled byte slice. The pool stores the pointer, because the return of a buffer must not allocate.
type buffer struct {
	b []byte
	// r and w delimit the data that has been read from a socket and has not been consumed.
	r, w int
}

// unread returns the data that has not been consumed.
func (b *buffer) unread() []byte { return b.b[b.r:b.w] }

// Pages of rows are larger than most messages. Buffers that have held such pages are pooled separately. Therefore, a
// connection does not keep a large buffer while it waits for input.
var (
	buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, bufferSize)} }}
	large   = sync.Pool{New: func() any { return new(buffer) }}
)

func getBuffer() *buffer { return buffers.Get().(*buffer) }

// getLarge returns a buffer with a capacity of at least size bytes.
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
		b.b = nil // the next user of the buffer must not hold this much memory
	case n > bufferKeepMax:
		large.Put(b)
	default:
		buffers.Put(b)
	}
}
