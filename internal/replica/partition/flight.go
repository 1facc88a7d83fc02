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

// Indexed is a completion that wants to know the log index at which its write was applied, or a later one; At is called
// before the completion. A read elsewhere on this node that must not be older says so with Replica.Seen.
type Indexed interface{ At(index uint64) }

// tellIndex tells the completion of a write that succeeded an index at which it is there.
func tellIndex(done any, index uint64) {
	if i, ok := done.(Indexed); ok {
		i.At(index)
	}
}

// flight is a blind write from its proposal until it is applied. It is in its stripe's list meanwhile, so that a writer
// that has to read first can wait for it.
type flight struct {
	replica *Replica
	done    command.Completion
	price   ru.Units
	id      command.DedupeID
	token   token.Token
	key     []byte
	entry   []byte
	stripe  *stripe // nil when it is not in the list any more
	at      int     // in stripe.flights
	// barrier, if not nil, waits for this flight. One is enough: it is the latch's holder.
	barrier *barrier
}

// barrier waits for flights. The stripe's mutex guards left.
type barrier struct {
	left  int
	ready chan struct{}
}

// takeOff puts a flight into the list; the caller holds the stripe's mutex.
func (s *stripe) takeOff(f *flight) {
	f.stripe, f.at = s, len(s.flights)
	s.flights = append(s.flights, f)
}

// land takes a flight out of the list; the caller holds the stripe's mutex.
func (s *stripe) land(f *flight) {
	last := len(s.flights) - 1
	moved := s.flights[last]
	s.flights[f.at], moved.at = moved, f.at
	s.flights[last] = nil
	s.flights = s.flights[:last]
	if b := f.barrier; b != nil {
		f.barrier = nil
		if b.left--; b.left == 0 {
			close(b.ready)
		}
	}
}

// awaitLanding waits until the blind writes of a key that are under way have ended. The caller holds the key's latch,
// so no others can come, and those of other keys are not waited for.
func (s *stripe) awaitLanding(ctx context.Context, r *Replica, t token.Token, key []byte) error {
	var b *barrier
	s.mu.Lock()
	for _, f := range s.flights {
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
	_, cause := await(r.host.drive, r.host.drive.within(ctx, r.host.opts.LatchWait), b.ready)
	if cause == nil {
		return nil
	}
	s.mu.Lock()
	for _, f := range s.flights {
		if f.barrier == b {
			f.barrier = nil
		}
	}
	s.mu.Unlock()
	return &LatchTimeout{cause}
}

// applied implements early: whoever reads before it writes sees it now.
func (f *flight) applied() {
	s := f.stripe
	if s == nil {
		return
	}
	s.mu.Lock()
	s.land(f)
	s.mu.Unlock()
	f.stripe = nil
}

// Done implements raftgroup.Waiter. It is called on the sequencer's goroutine.
func (f *flight) Done(o raftgroup.Outcome) {
	f.applied()
	r, done, price := f.replica, f.done, f.price
	if f.id != (command.DedupeID{}) {
		r.recent.leave(f.id)
	}
	r.host.putFlight(f)
	r.complete(done, o, price)
}

// complete tells a completion how its proposal ended, and what that has cost.
func (r *Replica) complete(done command.Completion, o raftgroup.Outcome, price ru.Units) {
	err := r.ended(o)
	if err == nil {
		tellIndex(done, o.Index)
		ru.Tell(done, price)
	}
	done.Done(err)
}

// flightKept is how large an entry's memory may be to be used again.
const flightKept = 64 << 10

func (h *Host) putFlight(f *flight) {
	if cap(f.entry) > flightKept || cap(f.key) > flightKept {
		return
	}
	*f = flight{entry: f.entry[:0], key: f.key[:0]}
	h.flights.Put(f)
}
