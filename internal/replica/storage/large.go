// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// Merging and decoding a row with a collection of a million elements takes hundreds of megabytes. Concurrent reads of
// partitions with large rows therefore share a memory budget. The store records large rows when they are read or
// written, so the first reads after a start are not limited.

const (
	largeSlots = 1 << 12
	// largeMin is the estimated memory, in bytes, above which a row counts as large.
	largeMin = 4 << 20
	// largeCell and largeByte are used to estimate the memory for reading a row. largeCell is the memory for each cell
	// in the merger and in the row, in bytes. largeByte is the number of copies of each stored byte.
	largeCell, largeByte = 350, 3
	// largeLook is the size, in bytes, above which the store estimates the memory for a row.
	largeLook = 48 << 10
)

// largeRows holds the budget and the known large rows.
type largeRows struct {
	seed maphash.Seed
	// known contains the estimate for the largest row seen in each slot's partitions, in KiB.
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

// note records the size and the number of cells of a row in a partition.
func (l *largeRows) note(prefix []byte, bytes, cells int) {
	if size := largeByte*bytes + largeCell*cells; size >= largeMin {
		kib := uint32(min(size>>10, 1<<31))
		if s := l.slot(prefix); s.Load() < kib {
			s.Store(kib)
		}
	}
}

// enter reserves the memory for reading a partition. It waits up to waitMax until enough memory is available. leave
// releases the memory.
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
	case <-w.ready: // the memory was granted during the timeout
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

// wake admits as many waiters as the budget allows. The caller must hold mu.
func (l *largeRows) wake() {
	for len(l.waiters) > 0 && l.used+l.waiters[0].size <= l.budget {
		l.used += l.waiters[0].size
		close(l.waiters[0].ready)
		l.waiters = l.waiters[1:]
	}
}
