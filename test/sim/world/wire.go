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

// Wire is one direction of a connection between two machines: bytes, which the product's framing makes of frames and
// frames of. What is sent arrives in order. One that ends loses all that is under way; what is sent then is of the next
// connection.
type Wire struct {
	n        *Network
	from, to int
	rough    *Rough
	// Ended, if not nil, hears that a connection ended, and whether only because nothing gets through: nobody is told
	// so then.
	Ended func(silent bool)
	// number counts connections. last is when the last bytes arrive.
	number int
	last   time.Duration
	// arrived are bytes that are no whole frame yet; sent the frames that are under way, in order.
	arrived []byte
	sent    [][]byte
}

// Wire returns one whose faults are as rough says when something is sent.
func (n *Network) Wire(from, to int, rough *Rough) *Wire {
	return &Wire{n: n, from: from, to: to, rough: rough}
}

// Rough says how often, once in so many frames, a connection breaks within a frame, one bit of a frame arrives flipped,
// and a frame, with all that is sent after it, is held up for long, as by packets that are lost again and again. 0 is
// never.
type Rough struct{ Breaks, Flips, Stalls int }

// Usual is what every seed has on connections of Raft and on those of snapshots, Requests on those of requests: there
// an answer that is late for long is what has them sent again by another way.
var (
	Usual    = Rough{Breaks: 1000, Flips: 1000}
	Requests = Rough{Breaks: 1000, Flips: 1000, Stalls: 1000}
)

// frameBytes bounds a frame.
const frameBytes = 64 << 20

// stallLeast and stallMost bound how long a connection stalls.
const stallLeast, stallMost = 300 * time.Millisecond, 3 * time.Second

// dice draws faults of connections. They are apart from all others, so that a run without them is what it was.
func (n *Network) dice() *rand.Rand {
	if n.rand == nil {
		n.rand = rand.New(rand.NewPCG(n.w.seed, 0x77))
	}
	return n.rand
}

// harm returns what becomes of a frame on its way, and whether the connection breaks after it.
func (n *Network) harm(frame []byte, rough Rough) (b []byte, broken bool) {
	w := n.w
	switch {
	case w.Calm:
	case rough.Breaks > 0 && n.dice().IntN(rough.Breaks) == 0:
		w.Faults.Breaks++
		return frame[:n.dice().IntN(len(frame))], true
	case rough.Flips > 0 && n.dice().IntN(rough.Flips) == 0:
		w.Faults.Flips++
		b = bytes.Clone(frame)
		b[n.dice().IntN(len(b))] ^= 1 << n.dice().IntN(8)
		return b, false
	}
	return frame, false
}

// Send puts a frame, head and all, on the connection, which owns it then.
func (c *Wire) Send(frame []byte, deliver func(transport.Frame)) {
	n, w := c.n, c.n.w
	w.NoteFrame(c.from, c.to, frame)
	c.sent = append(c.sent, frame)
	b, broken := n.harm(frame, *c.rough)
	at := max(w.Now+n.Delay(c.from, c.to), c.last)
	if c.rough.Stalls > 0 && !w.Calm && n.dice().IntN(c.rough.Stalls) == 0 {
		w.Faults.Stalls++
		at += stallLeast + time.Duration(n.dice().Int64N(int64(stallMost-stallLeast)))
	}
	c.last = at
	number := c.number
	w.After(at-w.Now, func() {
		switch {
		case number != c.number:
			return
		case n.blocked[c.from][c.to]:
			c.end(true)
			return
		}
		c.arrived = append(c.arrived, b...)
		c.read(deliver)
		if broken && number == c.number {
			c.end(false)
		}
	})
}

// read takes whole frames from what has arrived. A frame that was not sent is a failure of the framing.
func (c *Wire) read(deliver func(transport.Frame)) {
	w := c.n.w
	for number := c.number; number == c.number; {
		rest := bytes.NewReader(c.arrived)
		buffer := c.n.buffered(rest)
		frame, err := transport.NewReader(buffer, frameBytes).Next()
		read := len(c.arrived) - rest.Len() - buffer.Buffered()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return
		case err != nil:
			w.Note("the connection from node %d to node %d ends: %v", c.from, c.to, err)
			c.end(false)
			return
		case len(c.sent) == 0 || !bytes.Equal(c.arrived[:read], c.sent[0]):
			w.Fail("a frame of %d bytes from node %d to node %d is not what was sent", read, c.from, c.to)
			return
		}
		c.arrived = c.arrived[read:]
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

// Close ends the connection: what it carries is lost.
func (c *Wire) Close() {
	c.number++
	c.arrived, c.sent = nil, nil
}

func (c *Wire) end(silent bool) {
	c.Close()
	if c.Ended != nil {
		c.Ended(silent)
	}
}
