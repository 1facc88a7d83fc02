// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// waitingMax bounds how many callers wait for a slot.
const waitingMax = 4096

// ErrWaiting refuses a caller because too many wait for a slot already, ErrLate one that has waited for its limit.
var (
	ErrWaiting = errors.New("too many requests wait for a processor")
	ErrLate    = errors.New("no processor was free in time")
)

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
	who     Principal
	granted chan struct{}
}

// NewSlots makes n slots. now returns the time since any fixed instant; it never goes back.
func NewSlots(n int, now func() time.Duration) *Slots { return &Slots{now: now, all: n, free: n} }

// Enter takes a slot. It waits for one until ctx ends, and no longer than limit if that is above 0. The error is
// ErrWaiting, ErrLate or that of ctx. No context is derived from ctx: a timer of such a context may ask ctx after Enter
// has returned, and the memory of a request's context is used again.
func (s *Slots) Enter(ctx context.Context, who Principal, limit time.Duration) error {
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
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	err := ErrLate
	select {
	case <-w.granted:
		return nil
	case <-late:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, w); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else {
		s.passOn() // it was granted in the meantime
	}
	return err
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
func (s *Slots) Leave(who Principal, held time.Duration) {
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
