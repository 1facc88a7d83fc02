// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// waitingMax is the maximum number of callers waiting for a slot.
const waitingMax = 4096

// ErrWaiting reports that too many callers already wait for a slot. ErrLate reports that a caller has waited for the
// maximum time.
var (
	ErrWaiting = errors.New("too many requests are waiting for a processor")
	ErrLate    = errors.New("timed out waiting for a processor")
)

// Slots limits the number of concurrent callers. A freed slot is granted to the waiting principal with the lowest
// recent use. If several principals have the same use, the principal that has waited longest receives the slot. It is
// safe for concurrent use.
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

// NewSlots returns n slots. now returns the time since a fixed instant and never decreases.
func NewSlots(n int, now func() time.Duration) *Slots { return &Slots{now: now, all: n, free: n} }

// Enter acquires a slot. Enter waits until ctx ends, or up to limit if limit is positive. The error is ErrWaiting,
// ErrLate, or the error of ctx.
//
// Enter does not derive a context from ctx. The timer of a derived context could use ctx after Enter has returned. By
// then, the memory of the request's context may have been reused.
func (s *Slots) Enter(ctx context.Context, who Principal, limit time.Duration) error {
	if s.TryEnter() {
		return nil
	}
	s.mu.Lock()
	if s.free > 0 { // a slot was freed after TryEnter
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
		s.grantNext() // the slot was granted before the wait ended
	}
	return err
}

// TryEnter acquires a slot if one is free.
func (s *Slots) TryEnter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return false
	}
	s.free--
	return true
}

// Leave releases a slot that a principal has held for the given time.
func (s *Slots) Leave(who Principal, held time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares.Took(who, max(int64(held), 1))
	s.grantNext()
}

// grantNext grants a slot to the next waiter, or marks it as free. The caller must hold mu.
func (s *Slots) grantNext() {
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

// Used returns the number of acquired slots.
func (s *Slots) Used() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all - s.free
}

// Contended reports whether any caller waits for a slot.
func (s *Slots) Contended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > 0
}
