// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// queue limits the number of concurrent password checks. It also limits the number of waiting clients, in total and
// per network. A network cannot fill the queue. It can delay other clients by at most one of its clients.
type queue struct {
	slots   chan struct{}
	waiting atomic.Int32
	// turns serializes the clients of a network before they wait for a slot.
	turns lines

	mu sync.Mutex
	of map[netip.Prefix]int // number of waiting clients of each network
}

// enter takes a slot of the queue for a client at an address. It first waits for the given delay.
func (q *queue) enter(ctx context.Context, wait time.Duration, from netip.Addr) error {
	n := network(from)
	if !q.arrive(n) {
		return errTooMany
	}
	defer q.depart(n)
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errTooMany
		}
	}
	in, err := q.turns.join(ctx, n)
	if err != nil || in == nil {
		return errTooMany
	}
	defer q.turns.leave(in)
	select {
	case q.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errTooMany
	}
}

// arrive counts a waiting client. It returns false if too many clients are waiting.
func (q *queue) arrive(n netip.Prefix) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of[n] >= lineMax || q.waiting.Load() >= waitingMax {
		return false
	}
	if q.of == nil {
		q.of = map[netip.Prefix]int{}
	}
	q.of[n]++
	q.waiting.Add(1)
	return true
}

func (q *queue) depart(n netip.Prefix) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting.Add(-1)
	if q.of[n]--; q.of[n] == 0 {
		delete(q.of, n)
	}
}
