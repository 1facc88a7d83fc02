// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// A row with a collection of a million elements takes hundreds of megabytes to merge and to decode, and a hundred
// clients may read it at once. So reads of partitions that are known to have such rows share a budget of memory, and
// wait for each other where it is used up. What is known is learned by reading and writing; the first readers after a
// start do not know yet.

const (
	largeSlots = 1 << 12
	// largeMin is from which estimate on a row counts as large, in bytes.
	largeMin = 4 << 20
	// largeCell and largeByte estimate what reading takes: per cell its forms in the merger and in the row, per byte of
	// the stored row its copies.
	largeCell, largeByte = 350, 3
	// largeLook is the size in bytes of a stored row from which on it is looked at.
	largeLook = 48 << 10
)

// largeRows is the budget and what is known.
type largeRows struct {
	seed maphash.Seed
	// known has the estimate for the largest row seen in a partition of the slot, in KiB.
	known [largeSlots]atomic.Uint32

	mu      sync.Mutex
	budget  int64
	waitMax time.Duration
	used    int64
	waiters []*largeWaiter // in order of arrival
}

type largeWaiter struct {
	size  int64
	ready chan struct{}
}

func (l *largeRows) slot(prefix []byte) *atomic.Uint32 {
	return &l.known[maphash.Bytes(l.seed, prefix)%largeSlots]
}

// note remembers that a partition has a row of that many bytes and cells.
func (l *largeRows) note(prefix []byte, bytes, cells int) {
	if size := largeByte*bytes + largeCell*cells; size >= largeMin {
		kib := uint32(min(size>>10, 1<<31))
		if s := l.slot(prefix); s.Load() < kib {
			s.Store(kib)
		}
	}
}

// enter takes what reading a partition may need, and waits for it, up to waitMax; leave gives it back.
func (l *largeRows) enter(ctx context.Context, prefix []byte) (size int64, err error) {
	kib := l.slot(prefix).Load()
	if kib == 0 {
		return 0, nil
	}
	l.mu.Lock()
	size = min(int64(kib)<<10, l.budget)
	if len(l.waiters) == 0 && l.used+size <= l.budget {
		l.used += size
		l.mu.Unlock()
		return size, nil
	}
	w := &largeWaiter{size, make(chan struct{})}
	l.waiters = append(l.waiters, w)
	l.mu.Unlock()
	timer := time.NewTimer(l.waitMax)
	defer timer.Stop()
	err = context.DeadlineExceeded
	select {
	case <-w.ready:
		return size, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.ready: // meanwhile
		l.used -= size
	default:
		for i := range l.waiters {
			if l.waiters[i] == w {
				l.waiters = append(l.waiters[:i], l.waiters[i+1:]...)
				break
			}
		}
	}
	l.wake()
	return 0, err
}

func (l *largeRows) leave(size int64) {
	if size == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used -= size
	l.wake()
}

// wake lets in as many as there is room for. mu is held.
func (l *largeRows) wake() {
	for len(l.waiters) > 0 && l.used+l.waiters[0].size <= l.budget {
		l.used += l.waiters[0].size
		close(l.waiters[0].ready)
		l.waiters = l.waiters[1:]
	}
}
