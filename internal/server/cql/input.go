// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"io"
	"net"
	"syscall"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// smallReadSize is the size, in bytes, of the buffer that an idle connection keeps if it cannot wait for readiness. It
// is also the maximum size of a partial message that is kept outside a buffer. Unauthenticated clients cannot send
// longer messages.
const smallReadSize = 4 << 10

// input reads from a connection into a pooled buffer. It holds the buffer only while the buffer contains data. An
// input belongs to the goroutine of the connection.
type input struct {
	nc net.Conn
	// raw is nil if the connection cannot wait for readiness (TLS). In that case, small receives the first bytes of
	// each read.
	raw     syscall.RawConn
	tryRead func(fd uintptr) bool // a method value that is created once
	readErr error
	// readN is the number of bytes that the last read returned. readLeft is the number of bytes that this read left in
	// the socket. slept is true if the last read had to wait.
	readN, readLeft int
	slept           bool
	small           []byte
	buf             *buffer // nil unless the buffer is in use or holds a part of a message
	rest            []byte  // a small part of a message whose rest has not arrived, kept without a buffer
	memory          memory
}

func (in *input) init(s *Server, nc net.Conn) {
	in.nc = nc
	in.memory = memory{stats: &s.stats, opts: &s.opts, nc: nc}
	if sc, ok := nc.(syscall.Conn); ok && canReadFD {
		if raw, err := sc.SyscallConn(); err == nil {
			in.raw, in.tryRead = raw, in.tryReadFD
			return
		}
	}
	in.small = make([]byte, smallReadSize)
}

// fill waits for input and reads once. It returns the number of bytes read into buf.
func (in *input) fill() (n int, err error) {
	if in.raw != nil {
		in.slept = false
		if err = in.raw.Read(in.tryRead); err == nil {
			n, err = in.readN, in.readErr
		}
	} else {
		if err = in.setAside(); err != nil {
			return 0, err
		}
		if in.buf != nil {
			n, err = in.nc.Read(in.buf.b[in.buf.w:])
		} else if n, err = in.nc.Read(in.small); n > 0 {
			in.takeUp()
			copy(in.buf.b[in.buf.w:], in.small[:n])
		}
	}
	if n > 0 {
		in.buf.w += n
		return n, nil
	}
	if err == nil {
		err = io.EOF
	}
	return 0, err
}

// tryReadFD is called by the runtime when the socket may be readable. It takes a buffer only when it is called, so a
// waiting connection has no buffer.
func (in *input) tryReadFD(fd uintptr) (done bool) {
	if in.buf == nil {
		in.takeUp()
	}
	n, again, err := readFD(fd, in.buf.b[in.buf.w:])
	if again {
		in.slept = true
		if err = in.setAside(); err == nil {
			return false
		}
	}
	in.readN, in.readErr, in.readLeft = n, err, 0
	if n == len(in.buf.b)-in.buf.w {
		in.readLeft = unread(fd)
	}
	return true
}

// takeUp takes a buffer and copies the partial message that setAside has saved into the buffer.
func (in *input) takeUp() {
	in.buf = getBuffer()
	in.buf.w = copy(in.buf.b, in.rest)
	in.rest = nil
}

// setAside returns the buffer of a connection that must wait for input. A small partial message is saved outside a
// buffer. A larger part counts as a large message.
func (in *input) setAside() error {
	if in.buf == nil || in.memory.buffer > 0 {
		return nil
	}
	part := in.buf.unread()
	if len(part) > smallReadSize {
		if !in.memory.receive(&in.memory.buffer, len(in.buf.b)) {
			return errNoMemory
		}
		return nil
	}
	in.rest = append(in.rest, part...) // rest was empty
	putBuffer(in.buf)
	in.buf = nil
	return nil
}

// grow makes room for the rest of a message or segment of size bytes. The size of the buffer depends on the received
// data and not on the announced size. grow returns false if the memory limit is reached.
func (in *input) grow(size int) bool {
	old := in.buf
	have := len(old.unread())
	grown := min(size, 2*len(old.b))
	if !in.memory.receive(&in.memory.buffer, grown-len(old.b)) {
		return false
	}
	in.buf = &buffer{b: make([]byte, grown), w: have}
	copy(in.buf.b, old.unread())
	putBuffer(old)
	return true
}

// partial reports whether part of a message has been received.
func (in *input) partial() bool { return len(in.rest) > 0 || in.buf != nil && in.buf.r < in.buf.w }

// release returns the buffer if it is empty. If the connection ends, release always returns the buffer.
func (in *input) release(all bool) {
	if in.buf != nil && (all || in.buf.w == 0) {
		putBuffer(in.buf)
		in.buf = nil
		in.memory.release(&in.memory.buffer)
	}
}

var errNoMemory error = &dberr.Overloaded{Message: "Too many bytes are in flight on this node"}

// memory is the part of Options.InFlightBytesMax that a connection uses for large messages.
type memory struct {
	stats *Stats
	opts  *Options
	nc    net.Conn
	// buffer is the number of bytes in the read buffer. message is the number of bytes in the buffers of assembled and
	// decompressed messages.
	buffer, message int64
	receiving       bool // a large message with a deadline is being received
}

// receive reserves n bytes for a message that has not arrived completely. Incomplete messages leave a quarter of the
// limit for complete requests. They must become complete within Options.WriteTimeout.
func (m *memory) receive(held *int64, n int) bool {
	if m.stats.InFlightBytes.Load()+int64(n) > m.opts.InFlightBytesMax*3/4 || !m.reserve(held, n) {
		return false
	}
	m.receiving = true
	return m.nc.SetReadDeadline(time.Now().Add(m.opts.WriteTimeout)) == nil
}

// reserve takes n bytes of the budget for large messages and adds them to held.
func (m *memory) reserve(held *int64, n int) bool {
	if m.stats.InFlightBytes.Add(int64(n)) > m.opts.InFlightBytesMax {
		m.stats.InFlightBytes.Add(int64(-n))
		return false
	}
	*held += int64(n)
	return true
}

// release returns the bytes that held counts.
func (m *memory) release(held *int64) {
	if *held > 0 {
		m.stats.InFlightBytes.Add(-*held)
		*held = 0
	}
	if m.receiving && m.buffer+m.message == 0 {
		m.receiving = false
		_ = m.nc.SetReadDeadline(time.Time{}) // a closed connection returns its error on the next read
	}
}
