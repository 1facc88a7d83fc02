// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"sync"
	"sync/atomic"
	"time"
)

// diskWatch remembers how full the disk is. It must never be so full that the log cannot be written: that ends the
// process.
//
// Writes that take space are refused while less than Options.MinFreeDisk percent is free, after what flushing the
// memtables may take. Deletes take space, too, until they are compacted: they go on to a fifth of that. Changes of the
// schema, TRUNCATE and DROP are always accepted.
type diskWatch struct {
	full, brim atomic.Bool
	// free is the free share in percent at the last look, -1 if unknown.
	free atomic.Int64
	// credit is how many bytes may be committed before the next look: a small disk fills in less time than passes
	// between two ticks.
	credit atomic.Int64
	mu     sync.Mutex // of one look at a time
}

const (
	// brimShare is the share of the least free space below which deletes are refused as well.
	brimShare = 5
	// creditMin and creditShare say how many bytes may be committed before the next look: of the space that is left a
	// part, since a byte is written to the log, by the flush and by compactions.
	creditMin   = 64 << 10
	creditShare = 8
)

func (s *Store) watchDisk() {
	tick := time.NewTicker(s.o.DiskCheckEvery)
	defer tick.Stop()
	var flushed uint64
	for {
		select {
		case <-s.closing:
			return
		case <-tick.C:
			s.checkDisk()
		}
		if batches := s.m.batches.Load(); s.disk.full.Load() && batches != flushed && s.Err() == nil {
			// What was deleted gives its space back once it is flushed, and so does the log.
			flushed = batches
			s.flushSoon()
		}
	}
}

// lookAgain makes the next commit look at the free space, which a flush or a compaction has changed.
func (d *diskWatch) lookAgain() { d.credit.Store(0) }

// spend counts bytes that are about to be committed.
func (s *Store) spend(bytes int) {
	if s.disk.credit.Add(-int64(bytes)) < 0 {
		s.checkDisk()
	}
}

// checkDisk looks at the free space now. A file system that cannot say counts as roomy.
func (s *Store) checkDisk() {
	d := &s.disk
	if !d.mu.TryLock() {
		return // somebody is looking
	}
	defer d.mu.Unlock()
	u, err := s.o.DiskUsage(s.dir)
	if s.o.MinFreeDisk < 0 || err != nil || u.TotalBytes == 0 {
		d.free.Store(-1)
		d.credit.Store(1 << 62)
		return
	}
	percent := int(float64(u.AvailBytes) / float64(u.TotalBytes) * 100)
	d.free.Store(int64(percent))
	least, left := u.TotalBytes/100*uint64(s.o.MinFreeDisk), uint64(0)
	if flush := s.db.Metrics().WAL.Size; u.AvailBytes > flush {
		left = u.AvailBytes - flush
	}
	full, brim := left < least, u.AvailBytes < least/brimShare
	above := least
	if full {
		above = least / brimShare
	}
	d.credit.Store(max(creditMin, (int64(left)-int64(above))/creditShare))
	d.brim.Store(brim)
	if d.full.Swap(full) == full {
		return
	}
	if full {
		s.flushSoon() // the log may be all that is in the way
	}
	if s.o.Events.DiskFull != nil {
		s.o.Events.DiskFull(full, percent)
	}
}

// memtableShare and memtableMin bound a memtable by the size of the disk: each reserves a log a little larger than
// itself, up to six of them, and a flush writes as much. All that must fit into what is kept free.
const (
	memtableShare = 128
	memtableMin   = 1 << 20
)

// memtableFor is the size of a memtable that the disk has room for.
func (s *Store) memtableFor(asked int64) int64 {
	u, err := s.o.DiskUsage(s.dir)
	if err != nil || u.TotalBytes == 0 {
		return asked
	}
	return min(asked, max(memtableMin, int64(u.TotalBytes/memtableShare)))
}

// flushSoon asks for a flush.
func (s *Store) flushSoon() {
	if !s.o.ReadOnly {
		_, err := s.db.AsyncFlush()
		_ = s.check(err) // it says when the store was closed
	}
}
