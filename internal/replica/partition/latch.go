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

// stripeCount is the number of independent stripes of the latches, a power of two.
const stripeCount = 1024

// latches separates conflicting writers of a logical partition.
//
// The mutex of a stripe orders blind writes. A blind write holds the mutex for a few microseconds while it assigns its
// timestamp and is proposed. A writer that must read before it writes acquires a latch instead, which is an entry in
// the stripe's list. A latch is granted when no earlier entry conflicts with it, so the queue of a key is fair. A blind
// write that finds a conflicting entry also joins the queue.
//
// Deadlocks are impossible for two reasons. The holder of a mutex never waits. A writer of several keys acquires one
// latch for each stripe, in ascending order of stripes.
type latches struct {
	queueMax int
	waitMax  time.Duration
	sim      *SimHooks
	pool     sync.Pool // holds *latch; this is a field because channels must stay in the test that created them
	stripes  [stripeCount]stripe
}

type stripe struct {
	mu      sync.Mutex
	entries []*latch // in order of arrival
	// pending holds the blind writes that have been proposed but not yet applied.
	pending []*pendingWrite
	_       [8]byte // padding to the size of a cache line
}

// latch is a granted or waiting entry of a stripe.
type latch struct {
	owner *Replica
	key   []byte // memory of the caller, which waits while the entry exists
	scope scope
	held  bool
	ready chan struct{} // receives one message if held becomes true later
}

type scope uint8

const (
	oneKey     scope = iota // the logical partition of key
	wholeOwner              // all of the replica's keys in this stripe
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

// heldLatch is the lock of a writer. It is the stripe's mutex if latch is nil, and the latch otherwise.
type heldLatch struct {
	stripe *stripe
	latch  *latch
}

// enter admits a blind write. It acquires the mutex if no entry conflicts with the key. Otherwise, it acquires a latch
// and waits for the earlier entries.
func (l *latches) enter(ctx context.Context, r *Replica, t token.Token, key []byte) (heldLatch, error) {
	if g, ok := l.enterNow(r, t, key); ok {
		return g, nil
	}
	return l.acquire(ctx, stripeOf(r.Table(), t), r, key, oneKey)
}

// enterNow works like enter, but returns false instead of waiting.
func (l *latches) enterNow(r *Replica, t token.Token, key []byte) (heldLatch, bool) {
	s := &l.stripes[stripeOf(r.Table(), t)]
	s.mu.Lock()
	if len(s.entries) == 0 {
		return heldLatch{stripe: s}, true
	}
	probe := latch{owner: r, key: key}
	for _, e := range s.entries {
		if e.conflicts(&probe) {
			s.mu.Unlock()
			return heldLatch{}, false
		}
	}
	return heldLatch{stripe: s}, true
}

// awaitHolders waits until all current holders of mutexes have released their mutexes.
func (l *latches) awaitHolders() {
	for i := range l.stripes {
		l.stripes[i].mu.Lock()
		//nolint:staticcheck // SA2001: it only waits
		l.stripes[i].mu.Unlock()
	}
}

// acquire acquires a latch after all conflicting entries. It returns *LatchTimeout when ctx ends or after waitMax. It
// returns dberr.Overloaded immediately if queueMax writers are waiting.
func (l *latches) acquire(ctx context.Context, i uint32, r *Replica, key []byte, sc scope) (heldLatch, error) {
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
		return heldLatch{}, &dberr.Overloaded{Message: "Too many writes are waiting for the same partition key"}
	}
	e.held = before == 0
	s.entries = append(s.entries, e)
	s.mu.Unlock()
	g := heldLatch{s, e}
	if before == 0 {
		return g, nil
	}
	return g, l.wait(ctx, g)
}

func (l *latches) wait(ctx context.Context, g heldLatch) error {
	_, cause := await(l.sim, l.sim.limit(ctx, l.waitMax), g.latch.ready)
	if cause == nil {
		return nil
	}
	g.stripe.mu.Lock()
	if g.latch.held { // the latch was granted during the timeout
		g.stripe.mu.Unlock()
		<-g.latch.ready
		return nil
	}
	g.stripe.remove(g.latch)
	g.stripe.mu.Unlock()
	l.put(g.latch)
	return &LatchTimeout{cause}
}

// leave releases the mutex or the latch.
func (l *latches) leave(g heldLatch) {
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

// remove removes an entry and grants the entries that waited only for this entry.
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

// blocked reports whether an earlier entry conflicts with the i-th entry.
func (s *stripe) blocked(i int) bool {
	for _, o := range s.entries[:i] {
		if o.conflicts(s.entries[i]) {
			return true
		}
	}
	return false
}
