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
	free    int
	shares  Shares
	waiting []*waiter
}

type waiter struct {
	who     Claimant
	granted chan struct{}
}

// NewSlots makes n slots. now returns the time since any fixed instant; it never goes back.
func NewSlots(n int, now func() time.Duration) *Slots { return &Slots{now: now, free: n} }

// Enter takes a slot, and waits for one until ctx ends. The error is ErrWaiting or that of ctx.
func (s *Slots) Enter(ctx context.Context, who Claimant) error {
	s.mu.Lock()
	if s.free > 0 {
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
	now, next, least := s.now(), 0, 0.
	for i, w := range s.waiting {
		if r := s.shares.Reserve(w.who, now); i == 0 || r < least {
			next, least = i, r
		}
	}
	w := s.waiting[next]
	s.waiting = slices.Delete(s.waiting, next, next+1)
	close(w.granted)
}

// Contended reports whether anybody waits for a slot.
func (s *Slots) Contended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > 0
}
