// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/ilion-db/ilion/internal/replica/transport"
)

// wire is the connection over which one machine sends frames of Raft to another: bytes, which the product's framing
// makes of frames and frames of. A connection that is broken loses all that is under way; the next one takes its place.
type wire struct {
	n        *Network
	from, to int
	// number counts connections, lives are of the processes at both ends. last is when the last bytes arrive.
	number int
	lives  [2]int
	last   time.Duration
	// arrived are bytes that are no whole frame yet; sent the frames that are under way, in order.
	arrived []byte
	sent    [][]byte
}

// Rough says how often, once in so many frames, a connection breaks within a frame, and one bit of a frame arrives
// flipped. 0 is never.
type Rough struct{ Breaks, Flips int }

// Usual is what every seed has.
var Usual = Rough{Breaks: 1000, Flips: 1000}

// frameBytes bounds a frame.
const frameBytes = 64 << 20

// dice draws faults of connections. They are apart from all others, so that a run without them is what it was.
func (n *Network) dice() *rand.Rand {
	if n.rand == nil {
		n.rand = rand.New(rand.NewPCG(n.w.seed, 0x77))
	}
	return n.rand
}

// send puts a frame on the connection; nil is the last word of the process.
func (c *wire) send(frame []byte, deliver func(frame []byte)) {
	n, w := c.n, c.n.w
	if lives := [2]int{w.Machines[c.from].Life, w.Machines[c.to].Life}; lives != c.lives {
		if c.lives = lives; len(c.arrived) > 0 {
			c.end()
		}
	}
	var b []byte
	if frame == nil {
		b = transport.AppendDepart(nil)
	} else {
		b = transport.AppendRaft(nil, frame)
	}
	c.sent = append(c.sent, append([]byte(nil), frame...))
	broken := false
	if rough := n.Rough; !w.Calm {
		switch {
		case rough.Breaks > 0 && n.dice().IntN(rough.Breaks) == 0:
			w.Faults.Breaks++
			b, broken = b[:n.dice().IntN(len(b))], true
		case rough.Flips > 0 && n.dice().IntN(rough.Flips) == 0:
			w.Faults.Flips++
			b[n.dice().IntN(len(b))] ^= 1 << n.dice().IntN(8)
		}
	}
	at := max(w.Now+n.Delay(c.from, c.to), c.last)
	c.last = at
	number := c.number
	w.After(at-w.Now, func() {
		switch {
		case number != c.number:
			return
		case n.blocked[c.from][c.to]:
			c.end()
			return
		}
		c.arrived = append(c.arrived, b...)
		c.read(deliver)
		if broken && number == c.number {
			c.end()
		}
	})
}

// read takes whole frames from what has arrived. A frame that was not sent is a failure of the framing.
func (c *wire) read(deliver func(frame []byte)) {
	w := c.n.w
	for {
		rest := bytes.NewReader(c.arrived)
		buffer := c.n.buffered(rest)
		frame, departed, err := transport.NewRaftReader(buffer, frameBytes).Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return
		case err != nil:
			w.Note("the connection from node %d to node %d ends: %v", c.from, c.to, err)
			c.end()
			return
		case len(c.sent) == 0 || !bytes.Equal(frame, c.sent[0]) || departed != (len(frame) == 0):
			w.Fail("a frame of %d bytes from node %d to node %d is not what was sent", len(frame), c.from, c.to)
			return
		}
		c.arrived = c.arrived[len(c.arrived)-rest.Len()-buffer.Buffered():]
		c.sent = c.sent[1:]
		deliver(frame)
	}
}

// buffered is the buffer that the product's reader would make for itself, once for all connections.
func (n *Network) buffered(r io.Reader) *bufio.Reader {
	if n.buffer == nil {
		n.buffer = bufio.NewReaderSize(nil, 64<<10)
	}
	n.buffer.Reset(r)
	return n.buffer
}

// end ends the connection: what it carries is lost.
func (c *wire) end() {
	c.number++
	c.arrived, c.sent = nil, nil
}
