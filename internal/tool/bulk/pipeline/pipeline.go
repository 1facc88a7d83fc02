// SPDX-License-Identifier: Apache-2.0

// Package pipeline implements a connection on which many requests can be in flight. It is for tools that write much
// data. A request that the server rejects because of overload, or that times out, is retried a limited number of times
// with increasing delays.
//
// Guarantees: (PI1) The function passed to Send is called exactly once, even if the connection fails. (PI2) At most
// Options.InFlight requests are in flight. Send and Flush are not safe for concurrent use. Start reading at Open.
package pipeline

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

const (
	writeBuffer = 64 << 10
	answerMax   = 64 << 20
	// backoffMin and backoffMax limit the delay before a retry. Each rejection doubles it.
	backoffMin = 20 * time.Millisecond
	backoffMax = 5 * time.Second
	// silenceMax is the maximum time that may pass without a response while requests are in flight.
	silenceMax = 2 * time.Minute
	// turnMax is the maximum time for which rejected requests are retried while other requests succeed. The time is
	// measured from the last success or from the start of the pipeline. The start counts because other clients may be
	// using all of the throughput at that time.
	turnMax = 30 * time.Second
)

// Options configures a pipeline.
type Options struct {
	rawclient.Options
	// InFlight is the maximum number of requests in flight, from 1 to 32,000.
	InFlight int
	// Retries is the maximum number of retries of a request. While the server executes other requests, a temporarily
	// rejected request is retried more often. In this case, the load exceeds a limit of the server, but each request is
	// executed eventually.
	Retries int
	// OnlyRefused is set if only requests that were certainly not executed may be retried. It is for requests that
	// must not be executed twice.
	OnlyRefused bool
}

// Pipeline is a connection.
type Pipeline struct {
	o      Options
	conn   *rawclient.Conn
	addr   string
	free   chan int16
	slots  []slot
	mu     sync.Mutex // protects out and writes
	out    *bufio.Writer
	frame  []byte
	ended  chan struct{} // closed when the connection has failed, after err was set
	err    error
	once   sync.Once
	reader sync.WaitGroup
	again  atomic.Int64
	// done is the wall clock time, in nanoseconds, of the last success or of the start of the pipeline.
	done atomic.Int64
}

// slot is the state of a request in flight, one per stream.
type slot struct {
	mu    sync.Mutex // protects the following fields
	op    cqlwire.Opcode
	body  []byte
	tries int
	done  func(error)
}

// Open connects to a server. The context applies only to the connection attempt.
func Open(ctx context.Context, addr string, o Options) (*Pipeline, error) {
	c, err := rawclient.Dial(ctx, addr, o.Options)
	if err != nil {
		return nil, err
	}
	p := &Pipeline{o: o, conn: c, addr: addr, free: make(chan int16, o.InFlight), slots: make([]slot, o.InFlight),
		out: bufio.NewWriterSize(c, writeBuffer), ended: make(chan struct{})}
	for i := range o.InFlight {
		p.free <- int16(i)
	}
	return p, nil
}

// Conn returns the connection. It is for calls before Start.
func (p *Pipeline) Conn() *rawclient.Conn { return p.conn }

// Start starts to read responses. Conn must not be used afterward.
func (p *Pipeline) Start() {
	p.done.Store(time.Now().UnixNano())
	p.reader.Go(p.read)
}

// OnlyRefused sets Options.OnlyRefused. OnlyRefused must be called before Start.
func (p *Pipeline) OnlyRefused() { p.o.OnlyRefused = true }

// Again returns the total number of retries.
func (p *Pipeline) Again() int64 { return p.again.Load() }

// Err returns the reason why the pipeline failed, or nil.
func (p *Pipeline) Err() error {
	select {
	case <-p.ended:
		return p.err
	default:
		return nil
	}
}

// Send sends a request when a stream is free. body appends the body of the request to a buffer. Another goroutine
// calls done with nil or the error, which is a *cqlwire.Error if the server returned one. done must not block.
func (p *Pipeline) Send(op cqlwire.Opcode, body func(dst []byte) []byte, done func(error)) {
	var stream int16
	select {
	case stream = <-p.free:
	default: // buffered requests must be sent before a response can arrive
		p.Flush()
		select {
		case stream = <-p.free:
		case <-p.ended:
			done(p.err)
			return
		case <-time.After(silenceMax):
			p.fail(fmt.Errorf("no response for %v", silenceMax))
			done(p.err)
			return
		}
	}
	s := &p.slots[stream]
	s.mu.Lock()
	s.op, s.body, s.tries, s.done = op, body(s.body[:0]), 0, done
	s.mu.Unlock()
	p.write(stream, false)
}

// Flush sends buffered requests.
func (p *Pipeline) Flush() {
	p.mu.Lock()
	err := p.out.Flush()
	p.mu.Unlock()
	if err != nil {
		p.fail(err)
	}
}

func (p *Pipeline) write(stream int16, flush bool) {
	s := &p.slots[stream]
	p.mu.Lock()
	s.mu.Lock()
	p.frame = rawclient.AppendFrame(p.frame[:0], stream, s.op, s.body)
	s.mu.Unlock()
	_, err := p.out.Write(p.frame)
	if err == nil && flush {
		err = p.out.Flush()
	}
	p.mu.Unlock()
	if err != nil {
		p.fail(err)
	}
	select { // the reader may have ended all slots with an error before this slot was filled
	case <-p.ended:
		p.end(stream, p.err)
	default:
	}
}

// end calls the function of a slot once.
func (p *Pipeline) end(stream int16, err error) {
	s := &p.slots[stream]
	s.mu.Lock()
	done := s.done
	s.done = nil
	s.mu.Unlock()
	if done != nil {
		done(err)
		p.free <- stream
	}
}

// fail closes the pipeline. Every request in flight ends with the error.
func (p *Pipeline) fail(err error) {
	p.once.Do(func() {
		p.err = fmt.Errorf("the connection to %s failed: %w", p.addr, err)
		close(p.ended)
		p.conn.Close()
	})
	for i := range p.slots {
		p.end(int16(i), p.err)
	}
}

// read reads responses until the connection ends.
func (p *Pipeline) read() {
	in := bufio.NewReaderSize(p.conn, writeBuffer)
	var head [cqlwire.HeaderSize]byte
	var body []byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			p.fail(err)
			return
		}
		h := cqlwire.ParseHeader(head[:])
		if h.Length < 0 || h.Length > answerMax {
			p.fail(fmt.Errorf("response of %d bytes exceeds the limit", h.Length))
			return
		}
		if cap(body) < int(h.Length) {
			body = make([]byte, h.Length)
		}
		body = body[:h.Length]
		if _, err := io.ReadFull(in, body); err != nil {
			p.fail(err)
			return
		}
		if int(h.Stream) >= 0 && int(h.Stream) < len(p.slots) {
			p.answer(h, body)
		}
	}
}

func (p *Pipeline) answer(h cqlwire.Header, body []byte) {
	if h.Opcode != cqlwire.OpError {
		p.done.Store(time.Now().UnixNano())
		p.end(h.Stream, nil)
		return
	}
	_, body, err := cqlwire.SplitPrefix(h.Flags, body)
	var e *cqlwire.Error
	if err == nil {
		e, err = cqlwire.DecodeError(body, cqlwire.V4)
	}
	if err != nil {
		p.end(h.Stream, err)
		return
	}
	s := &p.slots[h.Stream]
	s.mu.Lock()
	again := s.done != nil && (s.tries < p.o.Retries && p.worth(e) || p.o.Retries > 0 && p.moves() && Refused(e))
	s.tries++
	tries := s.tries
	s.mu.Unlock()
	if !again {
		p.end(h.Stream, e)
		return
	}
	p.again.Add(1)
	stream := h.Stream
	time.AfterFunc(Backoff(tries), func() { p.write(stream, true) })
}

// worth reports whether a retry of a request may succeed.
func (p *Pipeline) worth(e *cqlwire.Error) bool {
	return Refused(e) || !p.o.OnlyRefused && (e.Code == cqlwire.CodeWriteTimeout || e.Code == cqlwire.CodeReadTimeout)
}

// moves reports whether the server has recently executed requests of this pipeline, or may still start to execute
// them.
func (p *Pipeline) moves() bool { return time.Since(time.Unix(0, p.done.Load())) < turnMax }

// Refused reports whether an error means that the server cannot execute a request now and has not started to execute
// it.
func Refused(err error) bool {
	e, ok := errors.AsType[*cqlwire.Error](err)
	return ok && (e.Code == cqlwire.CodeOverloaded || e.Code == cqlwire.CodeUnavailable ||
		e.Code == cqlwire.CodeBootstrapping)
}

// Backoff returns the delay before the nth retry, counted from 1.
func Backoff(n int) time.Duration {
	d := min(backoffMin<<min(n-1, 10), backoffMax)
	return d/2 + rand.N(d/2)
}

// Wait flushes the buffered requests and waits until no request is in flight.
func (p *Pipeline) Wait() error {
	p.Flush()
	idle := time.NewTimer(silenceMax)
	defer idle.Stop()
	var taken []int16
	defer func() {
		for _, s := range taken {
			p.free <- s
		}
	}()
	for range p.slots {
		select {
		case s := <-p.free:
			taken = append(taken, s)
		case <-idle.C:
			p.fail(fmt.Errorf("no response for %v", silenceMax))
			return p.Err()
		}
		idle.Reset(silenceMax)
	}
	return p.Err()
}

// Close closes the connection. Requests in flight end with an error.
func (p *Pipeline) Close() {
	p.fail(errors.New("the pipeline was closed"))
	p.reader.Wait()
}
