// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// SendSnapshot delivers head, followed by size bytes of data, on a separate connection. It returns nil when the
// receiver's handler has processed all bytes. It waits while SnapshotsAtOnce other snapshots are in progress.
// SendSnapshot replaces an interrupted connection and resumes at the receiver's offset, until ResumeTimeout has passed
// without progress.
func (t *Transport) SendSnapshot(to NodeID, head []byte, data io.ReaderAt, size int64) error {
	return t.sender.send(to, headed{head, data}, int64(len(head))+size)
}

// headed is a head followed by data.
type headed struct {
	head []byte
	data io.ReaderAt
}

// ReadAt implements io.ReaderAt.
func (h headed) ReadAt(b []byte, at int64) (n int, err error) {
	if at < int64(len(h.head)) {
		n = copy(b, h.head[at:])
		if n == len(b) {
			return n, nil
		}
	}
	m, err := h.data.ReadAt(b[n:], at+int64(n)-int64(len(h.head)))
	return n + m, err
}

// snapshotSender limits the number and the rate of outgoing snapshots.
type snapshotSender struct {
	t        *Transport
	bucket   rateLimiter
	slots    chan struct{}
	sequence atomic.Uint64 // sequence number of the last snapshot
}

func (x *snapshotSender) send(to NodeID, r io.ReaderAt, size int64) error {
	t := x.t
	select {
	case x.slots <- struct{}{}:
	case <-t.ctx.Done():
		return ErrClosed
	}
	defer func() { <-x.slots }()
	p := t.book.of(to)
	if p == nil {
		return fmt.Errorf("%w: %w: %x", ErrUnreachable, ErrNoAddress, to)
	}
	s := &sending{t: t, p: p, sequence: x.sequence.Add(1), chunks: newChunks(r, size), best: -1}
	err := s.run()
	if err == nil {
		t.counters.snapshotsSent.Add(1)
	}
	return err
}

// sending is an outgoing snapshot.
type sending struct {
	chunks
	t        *Transport
	p        *peer
	sequence uint64
	// best is the highest offset that the receiver has requested, or -1.
	best int64
}

// run sends the snapshot over one or more connections.
func (s *sending) run() error {
	t := s.t
	var progress time.Time
	for n := 0; ; n++ {
		before := s.best
		final, err := s.attempt()
		switch {
		case final:
			return err
		case t.ctx.Err() != nil:
			return ErrClosed
		case s.best < 0:
			return fmt.Errorf("%w: %w", ErrUnreachable, err) // nothing has been sent, so nothing can be resumed
		case s.best > before:
			progress, n = time.Now(), 0
		case time.Since(progress) > t.opts.ResumeTimeout:
			return fmt.Errorf("snapshot of %d bytes to %x stopped at %d: %w", s.size, s.p.node, s.best, err)
		}
		t.pause(t.ctx, t.backoff(n), nil)
	}
}

// attempt sends the snapshot over one connection. final reports whether another attempt would be useless.
func (s *sending) attempt() (final bool, err error) {
	conn, err := s.p.connect(s.t.ctx, Snapshot)
	if err != nil {
		return errors.As(err, new(*Refused)) && !errors.Is(err, ErrBusy), err
	}
	// The outbox holds two chunks, so that one chunk can be written while the next is read.
	session := s.t.newSession(conn, newOutbox(2*(s.t.opts.SnapshotChunk+frameExtra), 0))
	offset := make(chan int64, 1)
	result := make(chan error, 1)
	var moving sync.WaitGroup
	moving.Go(func() {
		_ = session.run(true, func(kind byte, b []byte) error {
			switch {
			case kind == kindSnapshotOffset && len(b) == 8:
				select {
				case offset <- int64(binary.LittleEndian.Uint64(b)):
					return nil
				default:
				}
			case kind == kindResult && len(b) >= 1 && len(result) == 0:
				if status(b[0]) == statusOK {
					result <- nil
				} else {
					result <- answerError(status(b[0]), string(b[1:]))
				}
				return nil
			}
			return malformed(kind, len(b))
		})
	})
	defer moving.Wait()
	defer session.abort(ErrLost)
	var begin [16]byte
	binary.LittleEndian.PutUint64(begin[:], s.sequence)
	binary.LittleEndian.PutUint64(begin[8:], uint64(s.size))
	session.out.force(kindSnapshotBegin, begin[:], nil)
	var from int64
	select {
	case from = <-offset:
	case err := <-result:
		return true, err
	case <-session.dead:
		return false, session.err
	}
	if from > 0 {
		s.t.counters.snapshotsResumed.Add(1)
	}
	s.best = max(s.best, from)
	if final, err := s.stream(session, from, result); final || err != nil {
		return final, err
	}
	select {
	case err := <-result:
		return true, err
	case <-session.dead:
		select {
		case err := <-result:
			return true, err
		default:
			return false, session.err
		}
	}
}

// stream queues all chunks from an offset and then the end.
func (s *sending) stream(session *session, from int64, result chan error) (final bool, err error) {
	t := s.t
	chunk := make([]byte, t.opts.SnapshotChunk)
	step := int64(len(chunk))
	n, err := s.goTo(from, chunk)
	if err != nil {
		return true, err
	}
	for ; n*step < s.size; n++ {
		select {
		case err := <-result: // the handler has stopped
			return true, err
		case <-session.dead:
			return false, session.err
		default:
		}
		if !t.pause(t.ctx, t.sender.bucket.take(int(min(step, s.size-n*step))), session.dead) {
			return false, ErrClosed
		}
		b, err := s.read(chunk, n)
		if err != nil {
			return true, err
		}
		head := chunkHead(n * step)
		if !session.out.wait(session.dead, kindSnapshotChunk, head[:], b) {
			<-session.dead
			return false, session.err
		}
		t.counters.snapshotBytesSent.Add(uint64(len(b)))
	}
	sum := sumBytes(s.sum())
	session.out.force(kindSnapshotEnd, sum[:], nil)
	return false, nil
}

// rateLimiter is a token bucket for bytes. Its capacity is one chunk, which prevents bursts.
type rateLimiter struct {
	rate int64
	load Load
	mu   sync.Mutex
	free time.Time
}

// overloadFactor is the divisor of the rate while the machine is overloaded.
const overloadFactor = 4

// take reserves n bytes and returns the delay before they may be sent.
func (b *rateLimiter) take(n int) time.Duration {
	if b.load != nil && b.load.Overloaded() {
		n *= overloadFactor
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.free.Before(now) {
		b.free = now
	}
	wait := b.free.Sub(now)
	b.free = b.free.Add(time.Duration(float64(n) / float64(b.rate) * float64(time.Second)))
	return wait
}
