// SPDX-License-Identifier: Apache-2.0

// Package pipeline is a connection with many requests under way, for tools that write much. A request that the server
// refuses because it is overloaded, or could not answer in time, is sent again after a while that grows, a bounded
// number of times.
//
// Guarantees: (PI1) the function given to Send is called exactly once, whatever becomes of the connection; (PI2) at
// most Options.InFlight requests are held. Send and Flush are for one goroutine. Start at Open.
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
	// backoffMin and backoffMax bound how long a refused request waits; each refusal doubles it.
	backoffMin = 20 * time.Millisecond
	backoffMax = 5 * time.Second
	// silenceMax is how long a server may say nothing while requests are under way.
	silenceMax = 2 * time.Minute
	// turnMax is how long a request that is refused is sent again while others are carried out, from when the last one
	// was, or the pipeline was started: at first, others of a throughput may get all of it.
	turnMax = 30 * time.Second
)

// Options describe a pipeline.
type Options struct {
	rawclient.Options
	// InFlight is how many requests are under way at most, 1 to 32,000.
	InFlight int
	// Retries is how often a request is sent again at most. One that the server refuses for now is sent again beyond
	// that as long as it carries out others: more is asked of it than it may take, and each gets its turn.
	Retries int
	// OnlyRefused has requests sent again only if they were certainly not carried out: for those that count twice.
	OnlyRefused bool
}

// Pipeline is a connection.
type Pipeline struct {
	o      Options
	conn   *rawclient.Conn
	addr   string
	free   chan int16
	slots  []slot
	mu     sync.Mutex // guards out and what is written
	out    *bufio.Writer
	frame  []byte
	ended  chan struct{} // closed when the connection has broken, after err was set
	err    error
	once   sync.Once
	reader sync.WaitGroup
	again  atomic.Int64
	// done is when a request was carried out last, or the pipeline was started, in nanoseconds of the wall clock.
	done atomic.Int64
}

// slot is a request under way: its stream's.
type slot struct {
	mu    sync.Mutex // guards the fields below
	op    cqlwire.Opcode
	body  []byte
	tries int
	done  func(error)
}

// Open connects. The context bounds the connecting only.
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

// Conn is the connection, for calls before Start.
func (p *Pipeline) Conn() *rawclient.Conn { return p.conn }

// Start begins to read answers; Conn must not be used any more.
func (p *Pipeline) Start() {
	p.done.Store(time.Now().UnixNano())
	p.reader.Go(p.read)
}

// OnlyRefused sets Options.OnlyRefused, before Start.
func (p *Pipeline) OnlyRefused() { p.o.OnlyRefused = true }

// Again is how many requests were sent again.
func (p *Pipeline) Again() int64 { return p.again.Load() }

// Err is why the pipeline broke, nil if it has not.
func (p *Pipeline) Err() error {
	select {
	case <-p.ended:
		return p.err
	default:
		return nil
	}
}

// Send sends a request, which append appends to a buffer that it is given, when there is room for it. done is called,
// by another goroutine, with nil or the error: *cqlwire.Error if the server has answered one. It must not block.
func (p *Pipeline) Send(op cqlwire.Opcode, body func(dst []byte) []byte, done func(error)) {
	var stream int16
	select {
	case stream = <-p.free:
	default: // whatever is written has to go before anything comes back
		p.Flush()
		select {
		case stream = <-p.free:
		case <-p.ended:
			done(p.err)
			return
		case <-time.After(silenceMax):
			p.fail(fmt.Errorf("no answer for %v", silenceMax))
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

// Flush sends what is buffered.
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
	select { // the reader may have failed the slots before this one was filled
	case <-p.ended:
		p.end(stream, p.err)
	default:
	}
}

// end calls the function of a slot, once.
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

// fail breaks the pipeline: every request under way ends with the error.
func (p *Pipeline) fail(err error) {
	p.once.Do(func() {
		p.err = fmt.Errorf("the connection to %s broke: %w", p.addr, err)
		close(p.ended)
		p.conn.Close()
	})
	for i := range p.slots {
		p.end(int16(i), p.err)
	}
}

// read reads answers until the connection ends.
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
			p.fail(fmt.Errorf("an answer of %d bytes is out of bounds", h.Length))
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

// worth says whether a request may be carried out when it is sent again.
func (p *Pipeline) worth(e *cqlwire.Error) bool {
	return Refused(e) || !p.o.OnlyRefused && (e.Code == cqlwire.CodeWriteTimeout || e.Code == cqlwire.CodeReadTimeout)
}

// moves says whether the server has carried out requests of this pipeline lately, or may still begin to.
func (p *Pipeline) moves() bool { return time.Since(time.Unix(0, p.done.Load())) < turnMax }

// Refused says whether an error is the server's that it cannot carry out a request now and has not begun to.
func Refused(err error) bool {
	e, ok := errors.AsType[*cqlwire.Error](err)
	return ok && (e.Code == cqlwire.CodeOverloaded || e.Code == cqlwire.CodeUnavailable ||
		e.Code == cqlwire.CodeBootstrapping)
}

// Backoff is how long to wait before the n-th repetition, counted from 1.
func Backoff(n int) time.Duration {
	d := min(backoffMin<<min(n-1, 10), backoffMax)
	return d/2 + rand.N(d/2)
}

// Wait flushes and waits until no request is under way.
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
			p.fail(fmt.Errorf("no answer for %v", silenceMax))
			return p.Err()
		}
		idle.Reset(silenceMax)
	}
	return p.Err()
}

// Close ends the connection; requests under way end with an error.
func (p *Pipeline) Close() {
	p.fail(errors.New("it was closed"))
	p.reader.Wait()
}
