// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// smallReadSize is the size in bytes of the buffer that an idle connection keeps if it cannot wait for readiness. It
// is also the maximum size of a part of a message that is kept outside of a buffer. Unauthenticated clients cannot
// send longer messages.
const smallReadSize = 4 << 10

func (c *conn) initRead() {
	if sc, ok := c.nc.(syscall.Conn); ok && canReadFD {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
			c.tryRead, c.trySend = c.tryReadFD, c.trySendFD
			return
		}
	}
	c.small = make([]byte, smallReadSize)
}

// fill waits for input and reads once. Afterward c.in holds at least one more byte.
func (c *conn) fill() error {
	n, err := 0, error(nil)
	c.pause()
	switch {
	case c.raw != nil:
		c.slept = false
		if err = c.raw.Read(c.tryRead); err == nil {
			if n, err = c.readN, c.readErr; n > 0 {
				c.timeRead(n, c.readLeft)
			}
		}
	default:
		if err = c.setAside(); err != nil {
			return err
		}
		if c.in != nil {
			n, err = c.nc.Read(c.in.b[c.in.w:])
		} else if n, err = c.nc.Read(c.small); n > 0 {
			c.takeUp()
			copy(c.in.b[c.in.w:], c.small[:n])
		}
		c.waited = time.Duration(c.srv.pressure.processor.Load())
	}
	if n > 0 {
		c.in.w += n
		c.srv.stats.Reads.Add(1)
		c.srv.stats.BytesIn.Add(int64(n))
		return nil
	}
	if err == nil {
		err = io.EOF
	}
	return err
}

// tryReadFD is called by the runtime when the socket may be readable. It takes the buffer only then, so that a waiting
// connection has none.
func (c *conn) tryReadFD(fd uintptr) (done bool) {
	if c.in == nil {
		c.takeUp()
	}
	n, again, err := readFD(fd, c.in.b[c.in.w:])
	if again {
		c.slept = true
		if err = c.setAside(); err == nil {
			return false
		}
	}
	c.readN, c.readErr, c.readLeft = n, err, 0
	if n == len(c.in.b)-c.in.w {
		c.readLeft = unread(fd)
	}
	return true
}

// takeUp takes a buffer and copies the partial message into it that setAside has saved.
func (c *conn) takeUp() {
	c.in = getBuffer()
	c.in.w = copy(c.in.b, c.rest)
	c.rest = nil
}

// setAside returns the buffer of a connection that must wait for input. A small partial message is saved outside of a
// buffer. A larger part counts as a large message.
func (c *conn) setAside() error {
	if c.in == nil || c.reservedIn > 0 {
		return nil
	}
	part := c.in.b[c.in.r:c.in.w]
	if len(part) > smallReadSize {
		if !c.receive(&c.reservedIn, len(c.in.b)) {
			return errNoMemory
		}
		return nil
	}
	c.rest = append(c.rest, part...) // which was empty
	putBuffer(c.in)
	c.in = nil
	return nil
}

// consume executes all complete messages in the input. An error ends the connection.
func (c *conn) consume() error {
	for c.in.r < c.in.w && !c.lastMessage {
		data := c.in.b[c.in.r:c.in.w]
		if c.skip > 0 && !c.segments {
			n := min(c.skip, len(data))
			c.skip -= n
			c.in.r += n
			continue
		}
		take := c.envelope
		if c.segments {
			take = c.segment
		}
		size, ok, err := take(data)
		if err != nil {
			return err
		}
		if !ok {
			return c.makeRoom(size)
		}
		c.in.r += size
	}
	c.in.r, c.in.w = 0, 0
	return nil
}

// bodyMax returns the maximum size of a body in the current phase.
func (c *conn) bodyMax() int {
	if c.phase != ready {
		return min(c.srv.opts.FrameBytesMax, smallReadSize-cqlwire.HeaderSize)
	}
	return c.srv.opts.FrameBytesMax
}

// envelope executes the unframed message at the front of data. If it is incomplete, size is the required number of
// bytes and ok is false.
func (c *conn) envelope(data []byte) (size int, ok bool, err error) {
	// The version is checked by the first byte alone: headers of versions 1 and 2 are shorter, and the header of an
	// unknown version is unknown.
	if v := data[0] & 0x7f; v < cqlwire.VersionMin || v > cqlwire.VersionMax {
		c.version = 0
		c.respondError(0, cqlwire.BadVersion(v))
		c.lastMessage = true
		return len(data), true, nil
	}
	h, body, size, ok, err := cqlwire.NextEnvelope(data, c.bodyMax())
	switch {
	case err != nil && h.Length < 0:
		c.respondError(h.Stream, err)
		c.lastMessage = true
		return len(data), true, nil
	case err != nil:
		c.respondError(h.Stream, err)
		c.skip = cqlwire.HeaderSize + int(h.Length)
		return 0, true, nil
	case !ok:
		return size, false, nil
	}
	return size, true, c.message(h, body)
}

// makeRoom prepares the input for the rest of a message or segment of size bytes. The buffer grows with the received
// data instead of the announced size.
func (c *conn) makeRoom(size int) error {
	in := c.in
	have := in.w - in.r
	if in.r > 0 && in.r+size > len(in.b) {
		copy(in.b, in.b[in.r:in.w])
		in.r, in.w = 0, have
	}
	if in.w < len(in.b) {
		return nil
	}
	if c.phase != ready {
		return dberr.Protocolf("Invalid segment: it is too large during the handshake")
	}
	grown := min(size, 2*len(in.b))
	if c.receive(&c.reservedIn, grown-len(in.b)) {
		b := &buffer{b: make([]byte, grown), w: have}
		copy(b.b, in.b[:have])
		putBuffer(in)
		c.in = b
		return nil
	}
	if c.segments {
		return errNoMemory
	}
	c.overloaded(cqlwire.ParseHeader(in.b).Stream, errNoMemory)
	c.skip = size - have
	in.r, in.w = 0, 0
	return nil
}

var errNoMemory error = &dberr.Overloaded{Message: "Too many bytes are in flight on this node"}

// receive reserves n bytes for a message that has not arrived completely. Such messages leave a quarter of the limit
// for complete requests, and must be complete within Options.WriteTimeout.
func (c *conn) receive(held *int64, n int) bool {
	s := c.srv
	if s.stats.InFlightBytes.Load()+int64(n) > s.opts.InFlightBytesMax*3/4 || !c.reserve(held, n) {
		return false
	}
	c.receiving = true
	return c.nc.SetReadDeadline(time.Now().Add(s.opts.WriteTimeout)) == nil
}

// reserve takes n bytes of the budget for large messages and counts them in held.
func (c *conn) reserve(held *int64, n int) bool {
	s := c.srv
	if s.stats.InFlightBytes.Add(int64(n)) > s.opts.InFlightBytesMax {
		s.stats.InFlightBytes.Add(int64(-n))
		return false
	}
	*held += int64(n)
	return true
}

// release returns the bytes that are counted in held.
func (c *conn) release(held *int64) {
	if *held > 0 {
		c.srv.stats.InFlightBytes.Add(-*held)
		*held = 0
	}
	if c.receiving && c.reservedIn+c.reservedLarge == 0 {
		c.receiving = false
		_ = c.nc.SetReadDeadline(time.Time{}) // a closed connection reports its error on the next read
	}
}

// releaseInput returns the memory that the input does not need until more data arrives, or all of it if the connection
// ends.
func (c *conn) releaseInput(all bool) {
	if c.in != nil && (all || c.in.w == 0) {
		putBuffer(c.in)
		c.in = nil
		c.release(&c.reservedIn)
	}
	if c.plain != nil {
		putBuffer(c.plain)
		c.plain = nil
	}
	if c.request != nil {
		c.request.recycle()
		c.request = nil
	}
	if all || !c.large.Open() {
		c.release(&c.reservedLarge)
	}
}

// segment executes the messages in the segment at the front of data. Its errors end the connection: after a corrupt
// segment, the stream cannot be decoded.
func (c *conn) segment(data []byte) (size int, ok bool, err error) {
	s, size, ok, err := cqlwire.NextSegment(data, c.compression == cqlwire.LZ4)
	if !ok || err != nil {
		return size, false, err
	}
	payload := s.Payload
	if s.UncompressedLen > 0 {
		plain := c.plainBuffer()
		if plain.b, err = cqlwire.DecompressSegment(plain.b[:0], s); err != nil {
			return 0, false, err
		}
		payload = plain.b
	}
	if !s.SelfContained {
		return size, true, c.piece(payload)
	}
	if c.large.Open() || c.skip > 0 {
		return 0, false, dberr.Protocolf("Invalid segment: self-contained in the middle of a large message")
	}
	for len(payload) > 0 && !c.lastMessage {
		h, body, n, ok, err := cqlwire.NextEnvelope(payload, c.bodyMax())
		if err != nil {
			return 0, false, err
		}
		if !ok {
			return 0, false, dberr.Protocolf("Invalid segment: a message does not end in it")
		}
		if err := c.message(h, body); err != nil {
			return 0, false, err
		}
		payload = payload[n:]
	}
	return size, true, nil
}

// piece adds a segment that contains a part of a large message.
func (c *conn) piece(payload []byte) error {
	if c.skip > 0 {
		if c.skip -= len(payload); c.skip < 0 {
			return dberr.Protocolf("Invalid segment: bytes follow the end of a large message")
		}
		return nil
	}
	refused := errNoMemory
	if c.receive(&c.reservedLarge, len(payload)) {
		h, body, ok, err := c.large.Add(payload, c.bodyMax())
		if ok {
			err = c.message(h, body)
			c.large.Buf = nil
			c.release(&c.reservedLarge)
			return err
		}
		if _, big := errors.AsType[*dberr.Invalid](err); !big {
			return err
		}
		refused = err
	} else {
		c.large.Buf = append(c.large.Buf, payload...)
	}
	if len(c.large.Buf) < cqlwire.HeaderSize {
		return refused
	}
	h := cqlwire.ParseHeader(c.large.Buf)
	c.skip = cqlwire.HeaderSize + int(h.Length) - len(c.large.Buf)
	c.large.Buf = nil
	c.release(&c.reservedLarge)
	if c.skip < 0 || h.Length < 0 {
		return dberr.Protocolf("Invalid segment: bytes follow the end of a large message")
	}
	if errors.Is(refused, errNoMemory) {
		c.overloaded(h.Stream, errNoMemory)
	} else {
		c.respondError(h.Stream, refused)
	}
	return nil
}

// decompress returns the decompressed body of a message of version 3 or 4.
func (c *conn) decompress(body []byte) ([]byte, error) {
	size, err := cqlwire.DecompressedLen(body, c.compression, c.bodyMax())
	if err != nil {
		return nil, err
	}
	if size > bufferSize && !c.reserve(&c.reservedLarge, size) {
		return nil, errNoMemory
	}
	plain := c.plainBuffer()
	plain.b, err = cqlwire.DecompressBody(plain.b[:0], body, c.compression, c.bodyMax())
	return plain.b, err
}

func (c *conn) plainBuffer() *buffer {
	if c.plain == nil {
		c.plain = getBuffer()
	}
	return c.plain
}

// releasePlain returns the buffer for decompressed input after a message, if it has grown.
func (c *conn) releasePlain() {
	if c.plain != nil && cap(c.plain.b) > bufferKeepMax {
		c.plain = nil
		c.release(&c.reservedLarge)
	}
}
