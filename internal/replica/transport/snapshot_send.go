// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"time"
)

// SendSnapshot delivers head, followed by size bytes of data, on a connection of their own. It returns nil when the
// receiver's handler has taken them, or why it did not. See SendSnapshotFrom.
func (t *Transport) SendSnapshot(to NodeID, head []byte, data io.ReaderAt, size int64) error {
	return t.SendSnapshotFrom(t.ctx, to, headed{head, data}, int64(len(head))+size)
}

// headed is a head followed by data.
type headed struct {
	head []byte
	data io.ReaderAt
}

// ReadAt is io.ReaderAt's.
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

// SendSnapshotFrom delivers bytes that may be many. It waits while SnapshotsAtOnce others are under way. A connection
// that is cut is replaced, and the snapshot goes on where the receiver stands, for ResumeTimeout without progress.
func (t *Transport) SendSnapshotFrom(ctx context.Context, to NodeID, r io.ReaderAt, size int64) error {
	select {
	case t.sendSlots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-t.ctx.Done():
		return ErrClosed
	}
	defer func() { <-t.sendSlots }()
	err := t.sendSnapshot(ctx, to, r, size)
	if err == nil {
		t.counters.snapshotsSent.Add(1)
	} else {
		t.counters.snapshotsFailed.Add(1)
	}
	if t.opts.Events.SnapshotSent != nil {
		t.opts.Events.SnapshotSent(to, size, err)
	}
	return err
}

func (t *Transport) sendSnapshot(ctx context.Context, to NodeID, r io.ReaderAt, size int64) error {
	p := t.peerOf(to)
	if p == nil {
		return fmt.Errorf("%w: %w: %x", ErrUnreachable, ErrNoAddress, to)
	}
	s := &sending{t: t, p: p, sequence: t.sequence.Add(1), r: r, size: size, best: -1, sums: []uint32{0}}
	var progress time.Time
	for n := 0; ; n++ {
		before := s.best
		final, err := s.attempt(ctx)
		switch {
		case final:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case t.ctx.Err() != nil:
			return ErrClosed
		case s.best < 0:
			return fmt.Errorf("%w: %w", ErrUnreachable, err) // nothing began that could be resumed
		case s.best > before:
			progress, n = time.Now(), 0
		case time.Since(progress) > t.opts.ResumeTimeout:
			return fmt.Errorf("snapshot of %d bytes to %x stopped at %d: %w", size, to, s.best, err)
		}
		t.pause(ctx, t.backoff(n), nil)
	}
}

// sending is a snapshot on its way out.
type sending struct {
	t        *Transport
	p        *peer
	sequence uint64
	r        io.ReaderAt
	size     int64
	// best is the greatest offset the receiver asked for, -1 before it did.
	best int64
	// sums are the checksums of the bytes before every chunk, as far as they were read: the end needs that of the
	// whole, wherever an attempt begins.
	sums []uint32
}

// attempt sends over one connection; final says that another one is of no use.
func (s *sending) attempt(ctx context.Context) (final bool, err error) {
	conn, err := s.p.reach(ctx, Snapshot)
	if err != nil {
		return errors.As(err, new(*Refused)) && !errors.Is(err, ErrBusy), err
	}
	// The outbox holds two chunks: one is written while the next is read.
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
	stop := context.AfterFunc(ctx, func() { session.abort(ctx.Err()) })
	defer stop()
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
	if from < 0 || from > s.size {
		return true, fmt.Errorf("%w: receiver of %d bytes stands at %d", ErrFrame, s.size, from)
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

// stream puts the chunks from an offset on, and the end.
func (s *sending) stream(session *session, from int64, result chan error) (final bool, err error) {
	t := s.t
	chunk := make([]byte, t.opts.SnapshotChunk)
	step := int64(len(chunk))
	// The receiver stands between two chunks, or at the end. It may have more than this node knows of, and less.
	for n := int64(len(s.sums)) - 1; n*step < from; n++ {
		if err := s.read(chunk, n); err != nil {
			return true, err
		}
	}
	if from%step != 0 && from != s.size {
		return true, fmt.Errorf("%w: receiver stands at %d, within a chunk", ErrFrame, from)
	}
	for n := (from + step - 1) / step; n*step < s.size; n++ {
		b := chunk[:min(step, s.size-n*step)]
		select {
		case err := <-result: // the handler gave up
			return true, err
		case <-session.dead:
			return false, session.err
		default:
		}
		if !t.pause(t.ctx, t.bucket.take(len(b)), session.dead) {
			return false, ErrClosed
		}
		if err := s.read(chunk, n); err != nil {
			return true, err
		}
		var head [8]byte
		binary.LittleEndian.PutUint64(head[:], uint64(n*step))
		if !session.out.wait(session.dead, kindSnapshotChunk, head[:], b) {
			<-session.dead
			return false, session.err
		}
		t.counters.snapshotBytesSent.Add(uint64(len(b)))
	}
	var sum [4]byte
	binary.LittleEndian.PutUint32(sum[:], s.sums[(s.size+step-1)/step])
	session.out.force(kindSnapshotEnd, sum[:], nil)
	return false, nil
}

// read reads the n-th chunk and notes the checksum of everything up to its end.
func (s *sending) read(chunk []byte, n int64) error {
	at := n * int64(len(chunk))
	b := chunk[:min(int64(len(chunk)), s.size-at)]
	if got, err := s.r.ReadAt(b, at); got < len(b) {
		return fmt.Errorf("read snapshot at %d of %d: %w", at, s.size, err)
	}
	if n+1 == int64(len(s.sums)) {
		s.sums = append(s.sums, crc32.Update(s.sums[n], castagnoli, b))
	}
	return nil
}

// bucket lets bytes pass at a rate; it holds no more than what one chunk needs, so there are no bursts.
type bucket struct {
	rate int64
	mu   sync.Mutex
	free time.Time
}

// take books n bytes and returns how long to wait before they may pass.
func (b *bucket) take(n int) time.Duration {
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
