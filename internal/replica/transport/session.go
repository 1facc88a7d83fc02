// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// outbox queues frames for a sequence of connections. The next write contains all frames that are queued during a
// write.
type outbox struct {
	// limit is the maximum number of bytes in small frames. largeLimit is the maximum number of bytes in large frames.
	// An empty outbox accepts a frame of any size.
	limit, largeLimit int
	// wake has a buffer of one and is signaled when the outbox becomes non-empty.
	wake chan struct{}

	mu   sync.Mutex
	shut bool
	// blocks is the queue. A frame never spans two blocks. held is the number of bytes in blocks and in the current
	// write.
	blocks []block
	held   int
	// large is the number of bytes in frames larger than half of limit. Each of these frames is a separate block.
	large int
	// spare holds the memory of blocks that have been written. An idle outbox has no spare blocks.
	spare [][]byte
	// room is closed when a write ends. It is nil unless a goroutine waits for room.
	room chan struct{}
}

// block contains the data of one write.
type block struct {
	data   []byte
	frames uint64
}

// blockBytes is the maximum size of a block. It keeps the cost of a write low, and a block fits into the processor's
// cache. spareMax is the maximum number of spare blocks.
const (
	blockBytes = 64 << 10
	spareMax   = 16
)

func newOutbox(limit, largeLimit int) *outbox {
	return &outbox{limit: limit, largeLimit: largeLimit, wake: make(chan struct{}, 1)}
}

// outbox returns an outbox for Raft frames or commands.
func (t *Transport) outbox() *outbox { return newOutbox(t.opts.QueueBytes, t.opts.FrameBytes/4*5) }

// put adds a frame with payload a followed by b. It returns false if the outbox is full or shut.
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

// force adds a small frame without checking the limit. The caller must limit the number of these frames.
func (o *outbox) force(kind byte, a, b []byte) {
	head := frameHead(kind, a, b)
	o.mu.Lock()
	if o.shut {
		o.mu.Unlock()
		return
	}
	o.add(head, a, b)
}

// wait waits for room and adds a frame. It returns false if stop is closed first.
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

// fits reports whether a frame of n bytes fits. The caller must hold mu. Small and large frames have separate limits,
// so that a large frame cannot block heartbeats, and small frames cannot block a large frame.
func (o *outbox) fits(n int) bool {
	if o.isLarge(n) {
		return o.large == 0 || o.large+n <= o.largeLimit
	}
	return o.held == o.large || o.held-o.large+n <= o.limit
}

func (o *outbox) isLarge(n int) bool { return n > o.limit/2 && n > blockBytes }

// bytes returns the number of bytes that are queued or being written.
func (o *outbox) bytes() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held
}

// add adds a frame and releases mu, which the caller must hold.
func (o *outbox) add(head [headLen]byte, a, b []byte) {
	first := len(o.blocks) == 0
	n := headLen + len(a) + len(b)
	if first || cap(o.blocks[len(o.blocks)-1].data)-len(o.blocks[len(o.blocks)-1].data) < n {
		o.blocks = append(o.blocks, block{data: o.memory(n)})
	}
	last := &o.blocks[len(o.blocks)-1]
	last.data = append(append(append(last.data, head[:]...), a...), b...)
	last.frames++
	o.held += n
	if o.isLarge(n) {
		o.large += n
	}
	o.mu.Unlock()
	if first {
		select {
		case o.wake <- struct{}{}:
		default:
		}
	}
}

// memory returns an empty buffer for at least n bytes.
func (o *outbox) memory(n int) []byte {
	if n > blockBytes {
		return make([]byte, 0, n)
	}
	if k := len(o.spare); k > 0 {
		b := o.spare[k-1]
		o.spare = o.spare[:k-1]
		return b
	}
	return make([]byte, 0, blockBytes)
}

// take returns the first block, which remains counted until written is called. It returns false if no block exists.
func (o *outbox) take() (block, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.blocks) == 0 {
		o.blocks = nil // release the list, because it may have grown
		return block{}, false
	}
	b := o.blocks[0]
	o.blocks[0] = block{}
	o.blocks = o.blocks[1:]
	return b, true
}

// written ends the write of a block.
func (o *outbox) written(b block) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held -= len(b.data)
	if b.frames == 1 && o.isLarge(len(b.data)) {
		o.large -= len(b.data)
	}
	if cap(b.data) == blockBytes && len(o.spare) < spareMax {
		o.spare = append(o.spare, b.data[:0])
	}
	o.signalRoom()
}

// releaseSpare releases memory that is not in use.
func (o *outbox) releaseSpare() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spare = nil
}

func (o *outbox) signalRoom() {
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}

// reset drops the queue, shuts or opens the outbox, and returns the number of dropped frames. No write may be in
// progress.
func (o *outbox) reset(shut bool) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	var n uint64
	for _, b := range o.blocks {
		n += b.frames
	}
	o.blocks, o.held, o.large, o.spare, o.shut = nil, 0, 0, nil, shut
	o.signalRoom()
	return n
}

// session exchanges frames over one connection and sends keep-alives.
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

// abort ends the session. Only the first call sets the reason.
func (s *session) abort(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.dead)
		_ = s.s.raw.Close()
	})
}

// run exchanges frames until the connection ends and returns the reason. It calls handle on this goroutine for every
// frame except keep-alives. If handle can block, it must watch s.dead. If reuse is set, the payload is valid only until
// handle returns.
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

// frameExtra is the number of bytes that IDs and similar fields add to a message of Options.FrameBytes.
const frameExtra = 64

// liveReader is a reader that fails if no data arrives for IdleTimeout.
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

// write sends queued frames. It has no deadline, because a slow peer that sends keep-alives is alive.
func (s *session) write() error {
	timer := time.NewTimer(s.t.opts.KeepAlive)
	defer timer.Stop()
	for {
		select {
		case <-s.dead:
			return nil
		case <-s.out.wake:
		case <-timer.C:
			s.out.releaseSpare()
			s.out.force(kindKeepAlive, nil, nil)
		}
		for b, ok := s.out.take(); ok; b, ok = s.out.take() {
			n, err := s.s.Write(b.data)
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
