// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Call sends a command and returns its single response. The caller owns the response. Call sends the deadline of ctx
// with the command, and notifies the other node when ctx ends. ErrUnreachable and ErrBusy mean that the command had no
// effect. ErrLost means that the outcome is unknown. A *RemoteError is an error of the handler on the other node.
func (t *Transport) Call(ctx context.Context, to NodeID, request []byte) ([]byte, error) {
	s, err := t.open(ctx, to, request, 0)
	if err != nil {
		return nil, err
	}
	b, err := s.Next()
	if err == io.EOF { //nolint:errorlint // Next returns the error unwrapped
		return nil, fmt.Errorf("%w: no response", ErrFrame)
	}
	return b, err
}

// Bounded is a context whose deadlines Call and Stream enforce without calling Done and without a timer for each
// context.
type Bounded interface {
	context.Context
	// Bounds returns a parent context for early cancellation and two deadlines. until is the deadline of the command.
	// first is a deadline that applies until data arrives. A zero time means that the deadline does not exist.
	Bounds() (parent context.Context, until, first time.Time)
}

// Stream is the response of a command, page by page. It is not safe for concurrent use. The caller must close it.
type Stream interface {
	// Next returns the next page, which the caller owns. It returns io.EOF after the last page.
	Next() ([]byte, error)
	// Close closes the Stream and abandons the rest of the response.
	Close()
}

// Stream sends a command with a response in pages. It returns the same errors as Call.
func (t *Transport) Stream(ctx context.Context, to NodeID, request []byte) (Stream, error) {
	s, err := t.open(ctx, to, request, t.opts.PagesAhead)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ResponseHandler receives the outcome of a command that Begin has sent, exactly once. The outcome is the response,
// which the handler owns, or an error of the same kind as errors of Call. HandleResponse is called on a shared
// goroutine of the transport and must not block.
type ResponseHandler interface{ HandleResponse(b []byte, err error) }

// Pending is a command for which no goroutine waits. The caller may reuse it after its ResponseHandler has been called.
type Pending struct{ call call }

// Begin sends a command without waiting for the response. It copies the request. If it returns nil, the handler
// receives the response, or context.DeadlineExceeded at the deadline until. The other node uses the same deadline. If
// until is zero, the command has no deadline.
func (t *Transport) Begin(p *Pending, to NodeID, until time.Time, request []byte, answer ResponseHandler) error {
	p.call = call{until: until, handler: answer}
	_, err := t.start(&p.call, to, request, 0)
	return err
}

// response is the Stream of a command on a dialed connection.
type response struct {
	ctx   context.Context
	l     *link
	paged bool
	over  error
	call  call
}

// call is a command in progress that is registered with its connection.
type call struct {
	id uint64
	// until is the deadline of the command. first is a deadline that applies until a page arrives. A zero time means
	// that the deadline does not exist.
	until, first time.Time
	// pages has room for the end and for all pages that the other node may send. Only a Stream uses it. A Pending has a
	// handler instead.
	pages   chan page
	handler ResponseHandler
}

// page is a part of a response. In the last page, end is io.EOF or an error.
type page struct {
	data []byte
	end  error
}

func (t *Transport) open(ctx context.Context, to NodeID, request []byte, ahead int) (*response, error) {
	s := &response{ctx: ctx, paged: ahead > 0, call: call{pages: make(chan page, ahead+1)}}
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
	p := t.book.of(to)
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
	return l, nil
}

// begin registers a command and queues its request in one step, so that a lost connection ends the command.
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

// over returns the current deadline of the command. The caller must hold the link's mu.
func (c *call) over() time.Time {
	if !c.first.IsZero() && (c.until.IsZero() || c.first.Before(c.until)) {
		return c.first
	}
	return c.until
}

// sweepSoon schedules sweep. The caller must hold mu. One timer for all commands of a connection is cheaper than one
// timer for each command.
func (l *link) sweepSoon(at time.Time) {
	l.sweepAt = at
	if l.sweeper == nil {
		l.sweeper = time.AfterFunc(time.Until(at), l.sweep)
		return
	}
	l.sweeper.Reset(time.Until(at))
}

// sweep abandons the commands whose deadline has passed.
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
			l.sendControl(id, kindCancel)
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
	notifyHandlers(late, context.DeadlineExceeded)
}

// notifyHandlers calls the handlers of commands that have a handler. The caller must not hold a lock.
func notifyHandlers(calls []*call, err error) {
	for _, c := range calls {
		c.handler.HandleResponse(nil, err)
	}
}

// end sends the end to a stream unless the stream already has an end. It returns false for a Pending, because the
// caller must call the handler of a Pending.
func (c *call) end(err error) bool {
	if c.pages == nil {
		return false
	}
	select {
	case c.pages <- page{end: err}:
	default: // the stream already has an end
	}
	return true
}

// Next implements Stream.
func (s *response) Next() ([]byte, error) {
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

func (s *response) take(p page) ([]byte, error) {
	if p.end != nil {
		s.over = p.end
		if p.data != nil {
			return p.data, nil
		}
		return nil, p.end
	}
	if s.paged {
		s.l.sendControl(s.call.id, kindCredit)
	}
	return p.data, nil
}

// Close implements Stream.
func (s *response) Close() {
	if s.over != nil {
		return
	}
	s.over = ErrClosed
	if s.l.end(s.call.id) {
		s.l.sendControl(s.call.id, kindCancel)
	}
}

// sendControl sends a control frame for a command.
func (l *link) sendControl(id uint64, kind byte) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], id)
	l.out.force(kind, b[:], nil)
}

// end unregisters a command. It returns false if the command has already ended.
func (l *link) end(id uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.calls[id]
	delete(l.calls, id)
	return ok
}

// handleResponse processes a part of a response.
func (l *link) handleResponse(kind byte, b []byte) error {
	a, err := Frame{kind, b}.HandleResponse()
	if err != nil {
		return err
	}
	id, p := a.ID, page{data: a.Data, end: a.End}
	l.mu.Lock()
	c := l.calls[id]
	if c == nil {
		l.mu.Unlock()
		return nil // the command was canceled
	}
	if p.end != nil {
		delete(l.calls, id)
	} else if len(c.pages) == max(cap(c.pages)-1, 0) {
		l.mu.Unlock()
		// The last slot is reserved for the end.
		return fmt.Errorf("%w: received a page that was not requested", ErrFrame)
	}
	c.first = time.Time{}
	if c.pages != nil {
		c.pages <- p // send under mu, so that the page precedes the end after a lost connection
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	if p.end == io.EOF { //nolint:errorlint // the field is set above
		p.end = nil
	}
	c.handler.HandleResponse(p.data, p.end)
	return nil
}
