// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// waitingMax bounds how many callers wait for a slot.
const waitingMax = 4096

// ErrWaiting refuses a caller because too many wait for a slot already.
var ErrWaiting = errors.New("too many requests wait for a processor")

// Slots lets a fixed number of callers work at the same time. A freed slot goes to the waiting claimant that has used
// the least lately; among equals to the one that has waited longest. It is safe for concurrent use.
type Slots struct {
	now func() time.Duration

	mu      sync.Mutex
	all     int
	free    int
	shares  Shares
	waiting []*waiter
}

type waiter struct {
	who     Claimant
	granted chan struct{}
}

// NewSlots makes n slots. now returns the time since any fixed instant; it never goes back.
func NewSlots(n int, now func() time.Duration) *Slots { return &Slots{now: now, all: n, free: n} }

// Enter takes a slot, and waits for one until ctx ends. The error is ErrWaiting or that of ctx.
func (s *Slots) Enter(ctx context.Context, who Claimant) error {
	if s.TryEnter() {
		return nil
	}
	s.mu.Lock()
	if s.free > 0 { // since then
		s.free--
		s.mu.Unlock()
		return nil
	}
	if len(s.waiting) >= waitingMax {
		s.mu.Unlock()
		return ErrWaiting
	}
	w := &waiter{who, make(chan struct{})}
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, w); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else {
		s.passOn() // it was granted in the meantime
	}
	return ctx.Err()
}

// TryEnter takes a slot if one is free.
func (s *Slots) TryEnter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return false
	}
	s.free--
	return true
}

// Leave gives a slot back that a claimant has held for some time.
func (s *Slots) Leave(who Claimant, held time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares.Took(who, max(int64(held), 1))
	s.passOn()
}

// passOn gives a slot to the next waiter, or makes it free. mu is held.
func (s *Slots) passOn() {
	if len(s.waiting) == 0 {
		s.free++
		return
	}
	now, next := s.now(), 0
	for i, w := range s.waiting {
		if s.shares.before(w.who, s.waiting[next].who, now) {
			next = i
		}
	}
	w := s.waiting[next]
	s.waiting = slices.Delete(s.waiting, next, next+1)
	close(w.granted)
}

// Used returns how many slots are taken.
func (s *Slots) Used() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all - s.free
}

// Contended reports whether anybody waits for a slot.
func (s *Slots) Contended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > 0
}
