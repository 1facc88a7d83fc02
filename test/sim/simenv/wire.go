// SPDX-License-Identifier: Apache-2.0

package simenv

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/ilion-db/ilion/internal/replica/transport"
)

// Wire is one direction of a connection between two machines. It transports bytes, and the product's framing converts
// between bytes and frames. Frames arrive in order. A connection that ends loses all data in flight. Later frames
// belong to the next connection.
type Wire struct {
	n        *Network
	from, to int
	rough    *Rough
	// Ended, if not nil, is called when a connection ends. silent is set if the network drops all packets, so neither
	// side is notified.
	Ended func(silent bool)
	// number counts connections. last is the arrival time of the last bytes.
	number int
	last   time.Duration
	// arrived holds received bytes that do not form a whole frame yet. sent holds the frames in flight, in order.
	arrived []byte
	sent    [][]byte
}

// Wire returns a Wire. The value of rough at the time of each send determines its faults.
func (n *Network) Wire(from, to int, rough *Rough) *Wire {
	return &Wire{n: n, from: from, to: to, rough: rough}
}

// Rough holds the frequencies of connection faults. A value n means that one in n frames has the fault. The value 0
// disables the fault. A break closes the connection in the middle of a frame. A flip changes one bit of a frame. A
// stall delays a frame and all later frames for a long time, as repeated packet loss does.
type Rough struct{ Breaks, Flips, Stalls int }

// Usual holds the faults that every seed injects into the connections for Raft and for snapshots. Requests holds the
// faults that every seed injects into the connections for requests. A late response makes the sender retry by another
// route.
var (
	Usual    = Rough{Breaks: 1000, Flips: 1000}
	Requests = Rough{Breaks: 1000, Flips: 1000, Stalls: 1000}
)

// frameBytes is the maximum size of a frame.
const frameBytes = 64 << 20

// stallLeast and stallMost bound the duration of a stall.
const stallLeast, stallMost = 300 * time.Millisecond, 3 * time.Second

// dice returns the random source for connection faults. Because the source is separate, these faults do not change the
// other random draws of a run.
func (n *Network) dice() *rand.Rand {
	if n.rand == nil {
		n.rand = rand.New(rand.NewPCG(n.w.seed, 0x77))
	}
	return n.rand
}

// harm applies the faults of the transport to a frame, and reports whether the connection breaks after the frame.
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

// Send sends a frame with its header on the connection. The connection takes ownership of the frame.
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

// read reads whole frames from the received bytes. A received frame that was not sent is a failure of the framing.
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
			w.Fail("a frame of %d bytes from node %d to node %d differs from the sent frame", read, c.from, c.to)
			return
		}
		c.arrived = c.arrived[read:]
		c.sent = c.sent[1:]
		deliver(frame)
	}
}

// buffered returns a reused read buffer. The product's reader would otherwise allocate a buffer for each connection.
func (n *Network) buffered(r io.Reader) *bufio.Reader {
	if n.buffer == nil {
		n.buffer = bufio.NewReaderSize(nil, 64<<10)
	}
	n.buffer.Reset(r)
	return n.buffer
}

// Close ends the connection. Frames in flight are lost.
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
