// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// outbox gathers frames for one connection after another; what has gathered while one write was under way is the next write.
type outbox struct {
	limit int
	// wake has room for one and is signalled when the outbox is not empty any more.
	wake chan struct{}

	mu      sync.Mutex
	shut    bool
	pending []byte
	frames  uint64
	// writing is the bytes of the write under way, spare the memory of one before.
	writing int
	spare   []byte
	// room is closed when a write ends and somebody waits for it.
	room chan struct{}
}

// spareMax is the memory that an idle outbox keeps.
const spareMax = 1 << 20

func newOutbox(limit int) *outbox { return &outbox{limit: limit, wake: make(chan struct{}, 1)} }

// put adds a frame of a followed by b; false if it is full or shut. A frame passes if nothing else waits, however long it is.
func (o *outbox) put(kind byte, a, b []byte) bool {
	head := frameHead(kind, a, b)
	o.mu.Lock()
	if o.shut || !o.fits(len(a)+len(b)+headLen) {
		o.mu.Unlock()
		return false
	}
	o.add(head, a, b)
	return true
}

// force adds a frame that is small and whose number is bounded otherwise.
func (o *outbox) force(kind byte, a, b []byte) {
	head := frameHead(kind, a, b)
	o.mu.Lock()
	if o.shut {
		o.mu.Unlock()
		return
	}
	o.add(head, a, b)
}

// wait adds a frame when there is room; false if stop was closed first.
func (o *outbox) wait(stop <-chan struct{}, kind byte, a, b []byte) bool {
	head := frameHead(kind, a, b)
	for {
		o.mu.Lock()
		if o.shut {
			o.mu.Unlock()
			return false
		}
		if o.fits(len(a) + len(b) + headLen) {
			o.add(head, a, b)
			return true
		}
		if o.room == nil {
			o.room = make(chan struct{})
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-stop:
			return false
		}
	}
}

func (o *outbox) fits(n int) bool {
	held := len(o.pending) + o.writing
	return held == 0 || held+n <= o.limit
}

// held is the bytes that wait or are being written.
func (o *outbox) held() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pending) + o.writing
}

// add is called with mu and releases it.
func (o *outbox) add(head [headLen]byte, a, b []byte) {
	first := len(o.pending) == 0
	o.pending = append(append(append(o.pending, head[:]...), a...), b...)
	o.frames++
	o.mu.Unlock()
	if first {
		select {
		case o.wake <- struct{}{}:
		default:
		}
	}
}

// take returns all that waits and how many frames it is.
func (o *outbox) take() ([]byte, uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, n := o.pending, o.frames
	o.pending, o.frames, o.spare = o.spare[:0], 0, nil
	o.writing = len(b)
	return b, n
}

// written ends the write of what take returned.
func (o *outbox) written(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = 0
	if cap(b) <= spareMax && o.spare == nil {
		o.spare = b[:0]
	}
	o.signalRoom()
}

func (o *outbox) signalRoom() {
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}

// reset drops all that waits, returns how many frames that was, and shuts or opens the outbox.
func (o *outbox) reset(shut bool) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.frames
	o.pending, o.frames, o.writing, o.shut = nil, 0, 0, shut
	o.signalRoom()
	return n
}

// session moves frames over one connection, both ways, and proves to the other side that this one lives.
type session struct {
	t    *Transport
	s    *stream
	out  *outbox
	dead chan struct{}
	once sync.Once
	err  error
}

func (t *Transport) newSession(s *stream, out *outbox) *session {
	return &session{t: t, s: s, out: out, dead: make(chan struct{})}
}

// abort ends the session; the first reason stays.
func (s *session) abort(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.dead)
		_ = s.s.raw.Close()
	})
}

// run moves frames until the connection ends and returns why. handle is called for every frame but keep-alives, on this goroutine;
// when it blocks, it watches s.dead. With reuse the payload is valid until handle returns.
func (s *session) run(reuse bool, handle func(kind byte, payload []byte) error) error {
	defer s.t.release(s.s.raw)
	_ = s.s.SetDeadline(time.Time{})
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.abort(s.write())
	}()
	s.abort(s.read(reuse, handle))
	<-written
	return s.err
}

func (s *session) read(reuse bool, handle func(kind byte, payload []byte) error) error {
	f := frameReader{r: bufio.NewReaderSize(&liveReader{s.s, s.t}, 64<<10), max: s.t.opts.FrameBytes + frameExtra}
	if reuse {
		f.reuse = make([]byte, 0, 4<<10)
	}
	for {
		kind, payload, err := f.next()
		if err != nil {
			return err
		}
		if kind == kindKeepAlive {
			continue
		}
		if err := handle(kind, payload); err != nil {
			return err
		}
	}
}

// frameExtra is what ids and the like add to a message of Options.FrameBytes.
const frameExtra = 64

// liveReader gives up when nothing comes for IdleTimeout.
type liveReader struct {
	conn net.Conn
	t    *Transport
}

func (r *liveReader) Read(b []byte) (int, error) {
	if err := r.conn.SetReadDeadline(time.Now().Add(r.t.opts.IdleTimeout)); err != nil {
		return 0, err
	}
	n, err := r.conn.Read(b)
	r.t.counters.bytesReceived.Add(uint64(n))
	return n, err
}

// write sends what gathers. It has no deadline: whoever still sends keep-alives is slow, not dead, and read finds out who does not.
func (s *session) write() error {
	timer := time.NewTimer(s.t.opts.KeepAlive)
	defer timer.Stop()
	for {
		select {
		case <-s.dead:
			return nil
		case <-s.out.wake:
		case <-timer.C:
			s.out.force(kindKeepAlive, nil, nil)
		}
		if b, frames := s.out.take(); frames > 0 {
			n, err := s.s.Write(b)
			s.out.written(b)
			s.t.counters.writes.Add(1)
			s.t.counters.bytesSent.Add(uint64(n))
			if err != nil {
				return err
			}
		}
		timer.Reset(s.t.opts.KeepAlive)
	}
}
