// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// drainMax is the maximum wait for the last responses of a connection.
const drainMax = 10 * time.Second

// loader drives one connection from one goroutine. It writes all requests that may be sent with one call, and reads
// all available responses with one call.
type loader struct {
	conn    *rawclient.Conn
	next    func(dst []byte, stream int16) []byte
	begin   time.Time
	started []atomic.Int64 // start times by stream, in nanoseconds since begin
	out, in []byte
	skip    int // missing bytes of the current response
	// pace is nil in a closed loop.
	pace *pace
	// check, if not nil, is called with every complete response. It describes the error in the response, or returns
	// "".
	check func(h cqlwire.Header, body []byte) string

	done, errors atomic.Int64
	// refused counts OVERLOADED errors. refusedLatency contains the latencies of these errors. latency contains only
	// successful requests.
	refused          int64
	latency, refusal histogram
	firstError       string
	wrong            int64
	firstWrong       string
	broken           error
}

func newLoader(c *rawclient.Conn, inFlight int, next func([]byte, int16) []byte) *loader {
	return &loader{conn: c, next: next, begin: time.Now(), started: make([]atomic.Int64, inFlight),
		in: make([]byte, 0, 128<<10)}
}

// loop keeps the connection loaded until the phase is stopping. It then waits for the remaining responses.
func (l *loader) loop(ph *atomic.Int32) {
	if l.pace != nil {
		l.open(ph)
		return
	}
	for i := range l.started {
		l.send(int16(i), time.Now())
	}
	pending := len(l.started)
	for pending > 0 {
		if len(l.out) > 0 {
			if _, l.broken = l.conn.Write(l.out); l.broken != nil {
				return
			}
			l.out = l.out[:0]
		}
		p := phase(ph.Load())
		if p == stopping {
			// A server that does not respond must not block the report.
			if l.broken = l.conn.SetDeadline(time.Now().Add(drainMax)); l.broken != nil {
				return
			}
		}
		n, err := l.conn.Read(l.in[len(l.in):cap(l.in)])
		if err != nil {
			if ne := net.Error(nil); p == stopping && errors.As(err, &ne) && ne.Timeout() {
				return
			}
			l.broken = fmt.Errorf("read: %w", err)
			return
		}
		l.in = l.in[:len(l.in)+n]
		pending -= l.answers(p)
	}
}

func (l *loader) send(stream int16, now time.Time) {
	l.started[stream].Store(int64(now.Sub(l.begin)))
	l.out = l.next(l.out, stream)
}

// answers processes the received responses. Unless the run is stopping, it queues a request for each response. It
// returns the number of responses.
func (l *loader) answers(p phase) (ended int) {
	b, now := l.in, time.Now()
	if l.skip > 0 {
		n := min(l.skip, len(b))
		b, l.skip = b[n:], l.skip-n
	}
	for len(b) >= cqlwire.HeaderSize {
		h := cqlwire.ParseHeader(b)
		body := b[cqlwire.HeaderSize:]
		if (h.Opcode == cqlwire.OpError || l.check != nil) && len(body) < int(h.Length) {
			break // the response is incomplete, so wait for the rest
		}
		if int(h.Stream) < 0 || int(h.Stream) >= len(l.started) {
			b = body[min(len(body), int(h.Length)):]
			continue
		}
		l.answer(h, body, p, now)
		if n := int(h.Length); n > len(body) {
			l.skip, b = n-len(body), nil
		} else {
			b = body[n:]
		}
		switch {
		case l.pace != nil:
			l.pace.returned = append(l.pace.returned, h.Stream)
		case p == stopping:
			ended++
		default:
			l.send(h.Stream, now)
		}
	}
	l.in = l.in[:copy(l.in, b)]
	return ended
}

func (l *loader) answer(h cqlwire.Header, body []byte, p phase, now time.Time) {
	l.done.Add(1)
	took := (now.Sub(l.begin) - time.Duration(l.started[h.Stream].Load())).Microseconds()
	if l.check != nil {
		if text := l.check(h, body[:h.Length]); text != "" {
			l.wrong++
			if l.firstWrong == "" {
				l.firstWrong = text
			}
		}
	}
	if h.Opcode != cqlwire.OpError {
		if p == measuring {
			l.latency.record(took)
		}
		return
	}
	l.errors.Add(1)
	if len(body) >= 4 && cqlwire.ErrorCode(binary.BigEndian.Uint32(body)) == cqlwire.CodeOverloaded && p == measuring {
		l.refused++
		l.refusal.record(took)
	}
	if l.firstError == "" {
		if e, err := cqlwire.DecodeError(body[:h.Length], cqlwire.V4); err == nil {
			l.firstError = e.Error()
		}
	}
}
