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

// drainMax bounds how long a stopping connection waits for its last answers.
const drainMax = 10 * time.Second

// loader drives one connection from one goroutine: it writes every request that may be sent in one call, and reads
// every answer that has come in one.
type loader struct {
	conn    *rawclient.Conn
	next    func(dst []byte, stream int16) []byte
	begin   time.Time
	started []atomic.Int64 // by stream, as nanoseconds since begin
	out, in []byte
	skip    int // bytes of the current answer still to come
	// pace is nil in a closed loop.
	pace *pace
	// check, if not nil, is called with every whole answer, and says what is wrong with it.
	check func(h cqlwire.Header, body []byte) string

	done, errors atomic.Int64
	// refused are the errors that are OVERLOADED, and their latencies; latency has those of good answers alone.
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

// loop keeps the connection loaded until the phase is stopping, then waits for the answers still under way.
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
			// A server that never answers must not hold the report.
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

// answers handles what has been read and queues a request for each answer, unless stopping; then it returns how many
// came.
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
			break // it is short: wait for all of it
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
