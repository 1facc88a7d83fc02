// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// pendingWrite is a blind write that has been proposed but not yet applied. It is in the list of its stripe, so that a
// writer that must read first can wait for it.
type pendingWrite struct {
	replica *Replica
	done    command.Completion
	price   ru.Units
	id      command.DedupeID
	token   token.Token
	key     []byte
	entry   []byte
	stripe  *stripe // nil after the removal from the list
	at      int     // index in stripe.pending
	// barrier waits for this write. It is nil if no writer waits. One barrier is enough, because only the holder of the
	// key's latch waits.
	barrier *barrier
}

// barrier waits for pending writes. The stripe's mutex guards left.
type barrier struct {
	left  int
	ready chan struct{}
}

// addPending adds a write to s.pending. The caller must hold the stripe's mutex.
func (s *stripe) addPending(f *pendingWrite) {
	f.stripe, f.at = s, len(s.pending)
	s.pending = append(s.pending, f)
}

// removePending removes a write from s.pending. The caller must hold the stripe's mutex.
func (s *stripe) removePending(f *pendingWrite) {
	last := len(s.pending) - 1
	moved := s.pending[last]
	s.pending[f.at], moved.at = moved, f.at
	s.pending[last] = nil
	s.pending = s.pending[:last]
	if b := f.barrier; b != nil {
		f.barrier = nil
		if b.left--; b.left == 0 {
			close(b.ready)
		}
	}
}

// awaitPending waits for the pending blind writes to a key. The caller must hold the key's latch, which prevents new
// blind writes to the key.
func (s *stripe) awaitPending(ctx context.Context, r *Replica, t token.Token, key []byte) error {
	var b *barrier
	s.mu.Lock()
	for _, f := range s.pending {
		if f.replica == r && f.token == t && bytes.Equal(f.key, key) {
			if b == nil {
				b = &barrier{ready: make(chan struct{})}
			}
			f.barrier = b
			b.left++
		}
	}
	s.mu.Unlock()
	if b == nil {
		return nil
	}
	_, cause := await(r.host.sim, r.host.sim.limit(ctx, r.host.opts.LatchWait), b.ready)
	if cause == nil {
		return nil
	}
	s.mu.Lock()
	for _, f := range s.pending {
		if f.barrier == b {
			f.barrier = nil
		}
	}
	s.mu.Unlock()
	return &LatchTimeout{cause}
}

// applied implements appliedNotifier. It removes the write from the pending writes.
func (f *pendingWrite) applied() {
	s := f.stripe
	if s == nil {
		return
	}
	s.mu.Lock()
	s.removePending(f)
	s.mu.Unlock()
	f.stripe = nil
}

// Done implements raftgroup.Waiter. It is called on the sequencer's goroutine.
func (f *pendingWrite) Done(o raftgroup.Outcome) {
	f.applied()
	r, done, price := f.replica, f.done, f.price
	if f.id != (command.DedupeID{}) {
		r.dedupe.end(f.id)
	}
	r.host.putPending(f)
	r.complete(done, o, price)
}

// complete passes the outcome and the cost of a proposal to a completion.
func (r *Replica) complete(done command.Completion, o raftgroup.Outcome, price ru.Units) {
	if err := r.ended(o); err != nil {
		done.Done(command.Failed(err))
		return
	}
	done.Done(command.Outcome{Index: o.Index, Charge: int64(price)})
}

// pendingKeptBytes is the maximum size of an entry whose memory is reused, in bytes.
const pendingKeptBytes = 64 << 10

func (h *Host) putPending(f *pendingWrite) {
	if cap(f.entry) > pendingKeptBytes || cap(f.key) > pendingKeptBytes {
		return
	}
	*f = pendingWrite{entry: f.entry[:0], key: f.key[:0]}
	h.pendingWrites.Put(f)
}
