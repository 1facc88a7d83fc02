// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"time"
)

const (
	// reclaimShare is the divisor that determines the share of garbage at which the store is completely compacted. A
	// value of 4 limits the cost to four written bytes for each freed byte. reclaimMin is the minimum amount of garbage
	// in bytes.
	reclaimShare = 4
	reclaimMin   = 256 << 10
)

// noteSwept records that the memtable contains removals by a sweep.
func (s *engine) noteSwept() {
	if s.sweptAt.Load() == 0 {
		s.sweptAt.CompareAndSwap(0, time.Now().UnixNano())
	}
}

// reclaim frees the space of deleted data even if no more writes arrive. It flushes the memtable if removals by sweeps
// have been in the memtable for Options.ReclaimAfter. It compacts the store if the store has contained much garbage for
// the same time.
func (s *Store) reclaim() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.wg.Go(func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	})
	tick := time.NewTicker(s.o.DiskCheckEvery)
	defer tick.Stop()
	var dirty time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.o.ReadOnly || s.Err() != nil {
			continue
		}
		at := s.sweptAt.Load()
		if at != 0 && time.Since(time.Unix(0, at)) >= s.o.ReclaimAfter && s.sweptAt.CompareAndSwap(at, 0) {
			s.disk.flushSoon()
		}
		switch {
		case !s.needsCompaction():
			dirty = time.Time{}
		case dirty.IsZero():
			dirty = time.Now()
		case time.Since(dirty) >= s.o.ReclaimAfter:
			_ = s.Compact(ctx) // the store reports its own errors
			dirty = time.Time{}
		}
	}
}

// needsCompaction reports whether much of the store is garbage that compactions would remove.
func (s *Store) needsCompaction() bool {
	m := s.db.Metrics()
	total := m.Total()
	garbage := m.Table.Garbage.PointDeletionsBytesEstimate + m.Table.Garbage.RangeDeletionsBytesEstimate
	return garbage >= reclaimMin && garbage >= uint64(total.TablesSize)/reclaimShare
}
