// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"time"
)

const (
	// reclaimShare is the part of a store, one of so many, that has to be garbage for all of it to be compacted, and
	// reclaimMin the bytes: so at most four bytes are written for each that becomes free.
	reclaimShare = 4
	reclaimMin   = 256 << 10
)

// noteSwept notes that the memtable has something that a sweep removed.
func (s *engine) noteSwept() {
	if s.sweptAt.Load() == 0 {
		s.sweptAt.CompareAndSwap(0, time.Now().UnixNano())
	}
}

// reclaim has the space of what was deleted given back although nothing more is written: until then the memtable would
// not be full, and the first levels would wait for more. It flushes what sweeps removed long ago, and compacts a store
// of which much has been garbage for as long.
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
		case !s.wasteful():
			dirty = time.Time{}
		case dirty.IsZero():
			dirty = time.Now()
		case time.Since(dirty) >= s.o.ReclaimAfter:
			_ = s.Compact(ctx) // the store says what is wrong with it; what was not compacted is looked at again
			dirty = time.Time{}
		}
	}
}

// wasteful reports whether much of the store is garbage that compactions would remove.
func (s *Store) wasteful() bool {
	m := s.db.Metrics()
	total := m.Total()
	garbage := m.Table.Garbage.PointDeletionsBytesEstimate + m.Table.Garbage.RangeDeletionsBytesEstimate
	return garbage >= reclaimMin && garbage >= uint64(total.TablesSize)/reclaimShare
}
