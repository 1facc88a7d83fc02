// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/token"
)

// stripeCount is how many independent parts the latches have; a power of two.
const stripeCount = 1024

// latches keep the conflicting writers of a logical partition apart.
//
// A stripe's mutex orders blind writes: they stamp and apply while they hold it, a few microseconds. Who must read
// before it writes takes a latch instead, an entry in the stripe's list, and holds no mutex meanwhile. A latch is
// granted when no earlier entry conflicts with it, so the queue of a key is fair. A blind write that finds an entry for
// its key queues as one itself.
//
// Deadlock: a mutex is held only over work that waits for nothing. Whoever holds several latches took them in ascending
// order of stripes, one entry per stripe.
type latches struct {
	queueMax int
	waitMax  time.Duration
	drive    *Drive
	pool     sync.Pool // *latch; a field, so that channels stay with the tests that made them
	stripes  [stripeCount]stripe
}

type stripe struct {
	mu      sync.Mutex
	entries []*latch // in order of arrival
	// flights are blind writes that are proposed and not yet applied.
	flights []*flight
	_       [8]byte // a cache line of its own
}

// latch is an entry of a stripe: held, or waiting to be.
type latch struct {
	owner *Replica
	key   []byte // the caller's memory: it waits for as long as the entry is there
	scope scope
	held  bool
	ready chan struct{} // one message when held becomes true later
}

// scope is how much a latch covers.
type scope uint8

const (
	oneKey     scope = iota // the logical partition of key
	wholeOwner              // everything of the replica in this stripe
)

func (l *latch) conflicts(o *latch) bool {
	return l.owner == o.owner && (l.scope == wholeOwner || o.scope == wholeOwner || bytes.Equal(l.key, o.key))
}

func newLatches(queueMax int, waitMax time.Duration) *latches {
	l := &latches{queueMax: queueMax, waitMax: waitMax}
	l.pool.New = func() any { return &latch{ready: make(chan struct{}, 1)} }
	return l
}

func stripeOf(table uint32, t token.Token) uint32 {
	h := uint64(t) ^ uint64(table)*0x9e3779b97f4a7c15
	return uint32(h^h>>32) % stripeCount
}

// guard is what a writer holds: the stripe's mutex if latch is nil, else the latch.
type guard struct {
	stripe *stripe
	latch  *latch
}

// enter lets a blind write in: with the mutex if nothing holds the key, which is nearly always, else after those
// that do.
func (l *latches) enter(ctx context.Context, r *Replica, t token.Token, key []byte) (guard, error) {
	if g, ok := l.enterNow(r, t, key); ok {
		return g, nil
	}
	return l.acquire(ctx, stripeOf(r.Table(), t), r, key, oneKey)
}

// enterNow is enter for callers that must not wait; false if they would have to.
func (l *latches) enterNow(r *Replica, t token.Token, key []byte) (guard, bool) {
	s := &l.stripes[stripeOf(r.Table(), t)]
	s.mu.Lock()
	if len(s.entries) == 0 {
		return guard{stripe: s}, true
	}
	probe := latch{owner: r, key: key}
	for _, e := range s.entries {
		if e.conflicts(&probe) {
			s.mu.Unlock()
			return guard{}, false
		}
	}
	return guard{stripe: s}, true
}

// pass returns when all that hold one of the mutexes now have left it.
func (l *latches) pass() {
	for i := range l.stripes {
		l.stripes[i].mu.Lock()
		//lint:ignore SA2001 it only waits
		l.stripes[i].mu.Unlock()
	}
}

// acquire takes a latch, waiting for those before it. It gives up when ctx ends, at its deadline or after waitMax, with
// *LatchTimeout, and at once with dberr.Overloaded when queueMax are waiting already.
func (l *latches) acquire(ctx context.Context, i uint32, r *Replica, key []byte, sc scope) (guard, error) {
	s := &l.stripes[i]
	e := l.pool.Get().(*latch)
	e.owner, e.key, e.scope, e.held = r, key, sc, false
	s.mu.Lock()
	before := 0
	for _, o := range s.entries {
		if o.conflicts(e) {
			before++
		}
	}
	if before > l.queueMax && sc == oneKey {
		s.mu.Unlock()
		l.put(e)
		return guard{}, &dberr.Overloaded{Message: "Too many writes are waiting for the same partition key"}
	}
	e.held = before == 0
	s.entries = append(s.entries, e)
	s.mu.Unlock()
	g := guard{s, e}
	if before == 0 {
		return g, nil
	}
	return g, l.wait(ctx, g)
}

func (l *latches) wait(ctx context.Context, g guard) error {
	_, cause := await(l.drive, l.drive.within(ctx, l.waitMax), g.latch.ready)
	if cause == nil {
		return nil
	}
	g.stripe.mu.Lock()
	if g.latch.held { // granted meanwhile
		g.stripe.mu.Unlock()
		<-g.latch.ready
		return nil
	}
	g.stripe.remove(g.latch)
	g.stripe.mu.Unlock()
	l.put(g.latch)
	return &LatchTimeout{cause}
}

// leave ends what enter or acquire began.
func (l *latches) leave(g guard) {
	if g.latch == nil {
		g.stripe.mu.Unlock()
		return
	}
	g.stripe.mu.Lock()
	g.stripe.remove(g.latch)
	g.stripe.mu.Unlock()
	l.put(g.latch)
}

func (l *latches) put(e *latch) {
	e.owner, e.key = nil, nil
	l.pool.Put(e)
}

// remove takes an entry out and grants those that waited for it alone.
func (s *stripe) remove(e *latch) {
	n := 0
	for _, o := range s.entries {
		if o != e {
			s.entries[n] = o
			n++
		}
	}
	s.entries[n] = nil
	s.entries = s.entries[:n]
	for i, w := range s.entries {
		if !w.held && w.conflicts(e) && !s.blocked(i) {
			w.held = true
			w.ready <- struct{}{}
		}
	}
}

// blocked reports whether an entry before the i-th conflicts with it.
func (s *stripe) blocked(i int) bool {
	for _, o := range s.entries[:i] {
		if o.conflicts(s.entries[i]) {
			return true
		}
	}
	return false
}
