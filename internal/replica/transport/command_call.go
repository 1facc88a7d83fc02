// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Call sends a command and returns its one answer, which the caller owns. The deadline of ctx travels with it; when ctx
// ends the other node is told. Errors: ErrUnreachable and ErrBusy say that nothing was done, ErrLost that it is
// unknown, a *RemoteError comes from the handler.
func (t *Transport) Call(ctx context.Context, to NodeID, request []byte) ([]byte, error) {
	s, err := t.open(ctx, to, request, 0)
	if err != nil {
		return nil, err
	}
	b, err := s.Next()
	if err == io.EOF { //nolint:errorlint // Next returns it bare
		return nil, fmt.Errorf("%w: no answer", ErrFrame)
	}
	return b, err
}

// Bounded is a context whose bounds Call and Stream can keep without a timer for each, and without asking for its Done.
type Bounded interface {
	context.Context
	// Bounds returns a context that ends only early, when the command is given up with context.DeadlineExceeded, and
	// when it is if nothing has come by then. Times may be zero for never.
	Bounds() (parent context.Context, until, first time.Time)
}

// Stream sends a command whose answer comes in pages. Errors are those of Call.
func (t *Transport) Stream(ctx context.Context, to NodeID, request []byte) (*Stream, error) {
	return t.open(ctx, to, request, t.opts.PagesAhead)
}

// Answer hears how a command of Begin ended, once: with the answer, which it owns, or with an error as Call returns it.
// It is called on a goroutine of the transport that others wait for, so it must not block.
type Answer interface{ Answered(b []byte, err error) }

// Pending is a command for which no goroutine waits. Its owner may use it again once its Answer was called.
type Pending struct{ call call }

// Begin sends a command and returns; the request is copied. If it returns nil, then to hears the answer, or
// context.DeadlineExceeded at until, as the other node does; a zero until is none.
func (t *Transport) Begin(p *Pending, to NodeID, until time.Time, request []byte, answer Answer) error {
	p.call = call{until: until, answer: answer}
	_, err := t.start(&p.call, to, request, 0)
	return err
}

// Stream is the answer of a command, page by page. It belongs to one goroutine; Close ends it.
type Stream struct {
	ctx   context.Context
	l     *link
	paged bool
	over  error
	call  call
}

// call is a command under way, as its connection knows it.
type call struct {
	id uint64
	// until is when it is given up, and first when it is given up if no page has come; zero for never.
	until, first time.Time
	// pages, of a Stream, has room for all that the other node may send, and for the end. A Pending has an answer
	// instead.
	pages  chan page
	answer Answer
}

// page is a part of an answer; the last one has an end, io.EOF or an error.
type page struct {
	data []byte
	end  error
}

func (t *Transport) open(ctx context.Context, to NodeID, request []byte, ahead int) (*Stream, error) {
	s := &Stream{ctx: ctx, paged: ahead > 0, call: call{pages: make(chan page, ahead+1)}}
	if b, ok := ctx.(Bounded); ok {
		s.ctx, s.call.until, s.call.first = b.Bounds()
	} else {
		s.call.until, _ = ctx.Deadline()
	}
	err := s.ctx.Err()
	if err != nil {
		return nil, err
	}
	s.l, err = t.start(&s.call, to, request, ahead)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (t *Transport) start(c *call, to NodeID, request []byte, ahead int) (*link, error) {
	if len(request) > t.opts.FrameBytes {
		return nil, fmt.Errorf("%w: request of %d bytes", ErrTooLong, len(request))
	}
	p := t.peerOf(to)
	if p == nil {
		return nil, fmt.Errorf("%w: %w: %x", ErrUnreachable, ErrNoAddress, to)
	}
	left := time.Duration(0)
	if !c.until.IsZero() {
		left = max(time.Microsecond, time.Until(c.until))
	}
	head := requestHead(left, ahead)
	l := p.link(Command)
	if err := l.begin(c, &head, request); err != nil {
		return nil, err
	}
	t.counters.commandsSent.Add(1)
	return l, nil
}

// begin registers a command and queues its request, as one step: a connection that is lost ends it.
func (l *link) begin(c *call, head *[17]byte, request []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if len(l.calls) >= l.t.opts.CommandsPerPeer {
		return fmt.Errorf("%w: CommandsPerPeer of %d", ErrBusy, l.t.opts.CommandsPerPeer)
	}
	l.last++
	c.id = l.last
	binary.LittleEndian.PutUint64(head[:], c.id)
	if !l.out.put(kindRequest, head[:], request) {
		return fmt.Errorf("%w: QueueBytes of %d", ErrBusy, l.t.opts.QueueBytes)
	}
	if l.calls == nil {
		l.calls = map[uint64]*call{}
	}
	l.calls[c.id] = c
	if at := c.over(); !at.IsZero() && (l.sweepAt.IsZero() || at.Before(l.sweepAt)) {
		l.sweepSoon(at)
	}
	return nil
}

// over is when a command is given up as things are; called with the link's mu.
func (c *call) over() time.Time {
	if !c.first.IsZero() && (c.until.IsZero() || c.first.Before(c.until)) {
		return c.first
	}
	return c.until
}

// sweepSoon makes sweep look at that time; called with mu. One timer for all commands of a connection is cheaper than
// one for each.
func (l *link) sweepSoon(at time.Time) {
	l.sweepAt = at
	if l.sweeper == nil {
		l.sweeper = time.AfterFunc(time.Until(at), l.sweep)
		return
	}
	l.sweeper.Reset(time.Until(at))
}

// sweep gives up the commands whose time is over.
func (l *link) sweep() {
	var late []*call
	var next time.Time
	l.mu.Lock()
	now := time.Now()
	for id, c := range l.calls {
		switch at := c.over(); {
		case at.IsZero():
		case !at.After(now):
			delete(l.calls, id)
			l.tell(id, kindCancel)
			if !c.end(context.DeadlineExceeded) {
				late = append(late, c)
			}
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	if l.sweepAt = next; !next.IsZero() {
		l.sweepSoon(next)
	}
	l.mu.Unlock()
	tell(late, context.DeadlineExceeded)
}

// tell calls the Answers of those that have one, with no lock held.
func tell(calls []*call, err error) {
	for _, c := range calls {
		c.answer.Answered(nil, err)
	}
}

// end is the last thing a stream hears, unless it has everything already. It reports false for a Pending, whose Answer
// the caller has to call.
func (c *call) end(err error) bool {
	if c.pages == nil {
		return false
	}
	select {
	case c.pages <- page{end: err}:
	default: // the end is there already
	}
	return true
}

// Next returns a page, which the caller owns, and io.EOF after the last one. It may return the last page without an
// error first, and then io.EOF.
func (s *Stream) Next() ([]byte, error) {
	if s.over != nil {
		return nil, s.over
	}
	select {
	case p := <-s.call.pages:
		return s.take(p)
	default:
	}
	select {
	case p := <-s.call.pages:
		return s.take(p)
	case <-s.ctx.Done():
		s.Close()
		s.over = s.ctx.Err()
		return nil, s.over
	}
}

func (s *Stream) take(p page) ([]byte, error) {
	if p.end != nil {
		s.over = p.end
		if p.data != nil {
			return p.data, nil
		}
		return nil, p.end
	}
	if s.paged {
		s.l.tell(s.call.id, kindCredit)
	}
	return p.data, nil
}

// Close gives up what did not come yet.
func (s *Stream) Close() {
	if s.over != nil {
		return
	}
	s.over = ErrClosed
	if s.l.end(s.call.id) {
		s.l.tell(s.call.id, kindCancel)
	}
}

// tell sends a word about a command. There is at most one for every page.
func (l *link) tell(id uint64, kind byte) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], id)
	l.out.force(kind, b[:], nil)
}

// end forgets a command; false if it is over already.
func (l *link) end(id uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.calls[id]
	delete(l.calls, id)
	return ok
}

// answer takes a part of an answer.
func (l *link) answer(kind byte, b []byte) error {
	a, err := Frame{kind, b}.Answered()
	if err != nil {
		return err
	}
	id, p := a.ID, page{data: a.Data, end: a.End}
	l.mu.Lock()
	c := l.calls[id]
	if c == nil {
		l.mu.Unlock()
		return nil // it was cancelled
	}
	if p.end != nil {
		delete(l.calls, id)
	} else if len(c.pages) == max(cap(c.pages)-1, 0) {
		l.mu.Unlock()
		return fmt.Errorf("%w: a page nobody asked for", ErrFrame) // room for the end stays
	}
	c.first = time.Time{}
	if c.pages != nil {
		c.pages <- p // with mu, so that it comes before the end of a connection that is lost
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	if p.end == io.EOF { //nolint:errorlint // it is set above
		p.end = nil
	}
	c.answer.Answered(p.data, p.end)
	return nil
}
