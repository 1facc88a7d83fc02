// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Call sends a command and returns its one answer, which the caller owns. The deadline of ctx travels with it; when ctx ends the other
// node is told. Errors: ErrUnreachable and ErrBusy say that nothing was done, ErrLost that it is unknown, a *RemoteError comes from
// the handler.
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

// Stream sends a command whose answer comes in pages. Errors are those of Call.
func (t *Transport) Stream(ctx context.Context, to NodeID, request []byte) (*Stream, error) {
	return t.open(ctx, to, request, t.opts.PagesAhead)
}

// Stream is the answer of a command, page by page. It belongs to one goroutine; Close ends it.
type Stream struct {
	ctx context.Context
	l   *link
	id  uint64
	// pages has room for all that the other node may send.
	pages chan page
	paged bool
	over  error
}

// page is a part of an answer; the last one has an end, io.EOF or an error.
type page struct {
	data []byte
	end  error
}

func (t *Transport) open(ctx context.Context, to NodeID, request []byte, ahead int) (*Stream, error) {
	if len(request) > t.opts.FrameBytes {
		return nil, fmt.Errorf("%w: request of %d bytes", ErrTooLong, len(request))
	}
	p := t.peerOf(to)
	if p == nil {
		return nil, fmt.Errorf("%w: %w: %x", ErrUnreachable, ErrNoAddress, to)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var head [17]byte
	if deadline, ok := ctx.Deadline(); ok {
		binary.LittleEndian.PutUint64(head[8:], uint64(max(1, time.Until(deadline).Microseconds())))
	}
	head[16] = byte(ahead)
	s := &Stream{ctx: ctx, l: p.link(Command), pages: make(chan page, ahead+1), paged: ahead > 0}
	if err := s.l.begin(s, &head, request); err != nil {
		return nil, err
	}
	t.counters.commandsSent.Add(1)
	return s, nil
}

// begin registers a command and queues its request, as one step: a connection that is lost ends it.
func (l *link) begin(s *Stream, head *[17]byte, request []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if len(l.calls) >= l.t.opts.CommandsPerPeer {
		return fmt.Errorf("%w: CommandsPerPeer of %d", ErrBusy, l.t.opts.CommandsPerPeer)
	}
	l.last++
	s.id = l.last
	binary.LittleEndian.PutUint64(head[:], s.id)
	if !l.out.put(kindRequest, head[:], request) {
		return fmt.Errorf("%w: QueueBytes of %d", ErrBusy, l.t.opts.QueueBytes)
	}
	if l.calls == nil {
		l.calls = map[uint64]*Stream{}
	}
	l.calls[s.id] = s
	return nil
}

// end is the last a stream hears, unless it has all it may get.
func (s *Stream) end(err error) {
	select {
	case s.pages <- page{end: err}:
	default: // the end is there already
	}
}

// Next returns a page, which the caller owns, and io.EOF behind the last one. It may return the last page and no error, then io.EOF.
func (s *Stream) Next() ([]byte, error) {
	if s.over != nil {
		return nil, s.over
	}
	select {
	case p := <-s.pages:
		return s.take(p)
	default:
	}
	select {
	case p := <-s.pages:
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
		s.l.tell(s.id, kindCredit)
	}
	return p.data, nil
}

// Close gives up what did not come yet.
func (s *Stream) Close() {
	if s.over != nil {
		return
	}
	s.over = ErrClosed
	if s.l.end(s.id) {
		s.l.tell(s.id, kindCancel)
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
	if len(b) < 8 || (kind == kindFail && len(b) < 9) {
		return malformed(kind, len(b))
	}
	id := binary.LittleEndian.Uint64(b)
	p := page{data: b[8:len(b):len(b)]}
	switch kind {
	case kindPage:
	case kindLast:
		p.end = io.EOF
	case kindFail:
		p = page{end: answerError(status(b[8]), string(b[9:]))}
	default:
		return malformed(kind, len(b))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.calls[id]
	if s == nil {
		return nil // it was cancelled
	}
	if p.end != nil {
		delete(l.calls, id)
	} else if len(s.pages) == cap(s.pages)-1 {
		return fmt.Errorf("%w: a page nobody asked for", ErrFrame) // room for the end stays
	}
	s.pages <- p
	return nil
}
