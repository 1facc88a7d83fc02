// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// serving is an accepted command connection.
type serving struct {
	t       *Transport
	session *session

	mu sync.Mutex
	// under holds the commands without a complete response. count and bytes also include commands whose handlers have
	// not returned.
	under map[uint64]*responder
	count int
	bytes int64
}

// responder is the Responder of a command on an accepted connection.
type responder struct {
	s     *serving
	id    uint64
	size  int64
	paged bool
	// deadline is zero if the command has no deadline.
	deadline time.Time

	// holds is the number of unreleased holds on the command. The response and the handler each have a hold. The
	// command counts as in progress until both holds have been released.
	holds atomic.Int32

	mu     sync.Mutex
	over   bool
	credit int
	// more is closed when credit is available again. It is nil unless a goroutine waits for credit.
	more chan struct{}
	ctx  lazyContext
}

// answerWait is the maximum size of a final response that is sent without waiting for room.
const answerWait = 4 << 10

func (t *Transport) serveCommands(s *stream) {
	if t.reply(s, Command, s.peer.Node, nil) != nil {
		return
	}
	v := &serving{t: t, session: t.newSession(s, t.outbox()), under: map[uint64]*responder{}}
	_ = v.session.run(false, v.handle)
	v.lost()
	v.session.out.reset(true)
}

// lost ends the contexts of all commands without a complete response after the caller has disconnected.
func (v *serving) lost() {
	v.mu.Lock()
	all := make([]*responder, 0, len(v.under))
	for _, r := range v.under {
		all = append(all, r)
	}
	v.mu.Unlock()
	for _, r := range all {
		r.end(context.Canceled)
	}
}

func (v *serving) handle(kind byte, b []byte) error {
	a, err := Frame{kind, b}.Request()
	switch {
	case err != nil:
		return err
	case a.Cancel:
		if r := v.find(a.ID); r != nil {
			r.finish()
		}
		return nil
	case a.Credit:
		if r := v.find(a.ID); r != nil {
			return r.grant()
		}
		return nil
	}
	return v.request(a.ID, a.Left, a.Ahead, a.Request)
}

func (v *serving) find(id uint64) *responder {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.under[id]
}

// request starts a handler, or rejects the request.
func (v *serving) request(id uint64, left time.Duration, ahead int, request []byte) error {
	t := v.t
	r := &responder{s: v, id: id, size: int64(len(request)), paged: ahead > 0, credit: ahead}
	v.mu.Lock()
	_, double := v.under[id]
	busy := v.count >= t.opts.CommandsPerPeer || (v.bytes > 0 && v.bytes+r.size > t.opts.CommandBytes)
	if !double && !busy {
		v.under[id] = r
		v.count++
		v.bytes += r.size
	}
	v.mu.Unlock()
	switch {
	case double:
		return fmt.Errorf("%w: duplicate request %d", ErrFrame, id)
	case busy:
		v.refuse(id, fmt.Errorf("%w: CommandsPerPeer or CommandBytes of the other node", ErrBusy))
		if v.session.out.bytes() > 4*t.opts.QueueBytes {
			return fmt.Errorf("%w: the peer does not read rejections", ErrBusy)
		}
		return nil
	}
	if left > 0 {
		r.deadline = time.Now().Add(left)
	}
	t.counters.commandsServed.Add(1)
	r.holds.Store(2)
	if t.commands.ServeInline(request, r) {
		r.release()
		return nil
	}
	if !t.workers.run(task{r, request}) {
		r.finish()
		return ErrClosed
	}
	return nil
}

// run calls the handler.
func (r *responder) run(request []byte) {
	t := r.s.t
	t.commands.Serve((*commandContext)(r), r.s.session.s.peer.Node, request, r)
	r.release()
}

// release releases a hold.
func (r *responder) release() {
	if r.holds.Add(-1) == 0 {
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		r.s.count--
		r.s.bytes -= r.size
	}
}

func (v *serving) refuse(id uint64, err error) {
	head, text := failHead(id, err)
	v.session.out.force(kindFail, head[:], []byte(text))
}

// finish ends the command. It returns false if the command has already ended.
func (r *responder) finish() bool {
	r.mu.Lock()
	was := r.over
	r.over = true
	r.mu.Unlock()
	if was {
		return false
	}
	r.s.mu.Lock()
	delete(r.s.under, r.id)
	r.s.mu.Unlock()
	r.end(context.Canceled)
	r.release()
	return true
}

// grant adds credit for one page.
func (r *responder) grant() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.credit++; r.credit > 255 {
		return fmt.Errorf("%w: credit for %d pages", ErrFrame, r.credit)
	}
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
	return nil
}

// Page implements Responder.
func (r *responder) Page(data []byte) error {
	if !r.paged {
		return ErrOneAnswer
	}
	if err := r.tooLong(data); err != nil {
		return err
	}
	for {
		r.mu.Lock()
		if !r.over && r.credit > 0 {
			r.credit--
			r.mu.Unlock()
			break
		}
		if r.more == nil {
			r.more = make(chan struct{})
		}
		more := r.more
		r.mu.Unlock()
		select {
		case <-more:
		case <-r.ended():
			return r.why()
		}
	}
	if !r.put(kindPage, data) {
		return r.lost()
	}
	return nil
}

// End implements Responder.
func (r *responder) End(data []byte) error {
	if err := r.tooLong(data); err != nil {
		r.Fail(err)
		return err
	}
	r.mu.Lock()
	over := r.over
	r.mu.Unlock()
	if over {
		return r.lost()
	}
	sent := true
	if len(data) > answerWait {
		sent = r.put(kindLast, data)
	} else {
		r.force(data)
	}
	if !r.finish() || !sent {
		return r.lost()
	}
	return nil
}

// Fail implements Responder.
func (r *responder) Fail(err error) {
	if r.finish() {
		r.s.refuse(r.id, err)
	}
}

func (r *responder) tooLong(data []byte) error {
	if len(data) > r.s.t.opts.FrameBytes {
		return fmt.Errorf("%w: response of %d bytes", ErrTooLong, len(data))
	}
	return nil
}

func (r *responder) put(kind byte, data []byte) bool {
	var head [8]byte
	binary.LittleEndian.PutUint64(head[:], r.id)
	return r.s.session.out.wait(r.ended(), kind, head[:], data)
}

func (r *responder) force(data []byte) {
	var head [8]byte
	binary.LittleEndian.PutUint64(head[:], r.id)
	r.s.session.out.force(kindLast, head[:], data)
}

func (r *responder) lost() error {
	if err := r.why(); err != nil {
		return err
	}
	return ErrLost
}
