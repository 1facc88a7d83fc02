// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/replica/guard"
)

// disk knows how full the disk is. It must never be so full that the log cannot be written: that ends the
// process.
//
// Writes that take space are refused while less than Options.MinFreeDisk percent is free, after what flushing the
// memtables may take. Deletes take space, too, until they are compacted: they go on to a fifth of that. Changes of the
// schema, TRUNCATE and DROP are always accepted. Compactions, which give back what was deleted, leave that fifth alone.
//
// What the logs of replica sets say is applied however full the disk is. Before it is so full that the store could not
// be opened again, Events.DiskOut is called, for the node to stop.
type disk struct {
	*engine
	full, brim atomic.Bool
	// free is the free share in percent at the last look, -1 if unknown.
	free atomic.Int64
	// available is how many bytes were free then, 0 if unknown.
	available atomic.Uint64
	// credit is how many bytes may be committed before the next look: a small disk fills in less time than passes
	// between two ticks.
	credit atomic.Int64
	// unflushed is the size of the log at the last look, in bytes.
	unflushed atomic.Uint64
	mu        sync.Mutex // of one look at a time
}

const (
	// brimShare is the share of the least free space below which deletes are refused as well.
	brimShare = 5
	// creditMin and creditShare say how many bytes may be committed before the next look: of the space that is left a
	// part, since a byte is written to the log, by the flush and by compactions.
	creditMin   = 64 << 10
	creditShare = 8
)

func (s *disk) watchDisk() {
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
		if batches := s.m.batches.Load(); s.full.Load() && batches != flushed && s.Err() == nil {
			// What was deleted gives its space back once it is flushed, and so does the log.
			flushed = batches
			s.flushSoon()
		}
	}
}

// lookAgain makes the next commit look at the free space, which a flush or a compaction has changed.
func (s *disk) lookAgain() { s.credit.Store(0) }

// spend counts bytes that are about to be committed.
func (s *disk) spend(bytes int) {
	if s.credit.Add(-int64(bytes)) < 0 {
		s.checkDisk()
	}
}

// checkDisk looks at the free space now. A file system that cannot say counts as roomy.
func (s *disk) checkDisk() {
	if !s.mu.TryLock() {
		return // somebody is looking
	}
	defer s.mu.Unlock()
	u, err := s.o.DiskUsage(s.dir)
	if s.o.MinFreeDisk < 0 || err != nil || u.TotalBytes == 0 {
		s.free.Store(-1)
		s.credit.Store(1 << 62)
		return
	}
	percent := int(float64(u.AvailBytes) / float64(u.TotalBytes) * 100)
	s.free.Store(int64(percent))
	s.available.Store(u.AvailBytes)
	least, left := u.TotalBytes/100*uint64(s.o.MinFreeDisk), uint64(0)
	flush := s.db.Metrics().WAL.Size
	s.unflushed.Store(flush)
	if u.AvailBytes > flush {
		left = u.AvailBytes - flush
	}
	if spare := guard.Spare(u.TotalBytes); left < spare && s.o.Events.DiskOut != nil {
		s.o.Events.DiskOut(u.AvailBytes, flush+spare)
	}
	full, brim := left < least, u.AvailBytes < least/brimShare
	above := least
	if full {
		above = least / brimShare
	}
	s.credit.Store(max(creditMin, (int64(left)-int64(above))/creditShare))
	s.brim.Store(brim)
	if s.full.Swap(full) == full {
		return
	}
	if full {
		s.flushSoon() // the log may be all that is in the way
	}
	if s.o.Events.DiskFull != nil {
		s.o.Events.DiskFull(full, percent)
	}
}

// keptFree is what compactions leave free, in bytes: what must stay free for deletes, and what the flushes of all
// memtables take.
func (s *disk) keptFree() uint64 {
	u, err := s.o.DiskUsage(s.dir)
	if err != nil || s.o.MinFreeDisk < 0 {
		return 0
	}
	return u.TotalBytes/100*uint64(s.o.MinFreeDisk)/brimShare + s.unflushed.Load()
}

// flushSoon asks for a flush.
func (s *disk) flushSoon() {
	if !s.o.ReadOnly {
		_, err := s.db.AsyncFlush()
		_ = s.check(err) // it says when the store was closed
	}
}

// writable refuses writes to a store that failed, is read-only or is nearly full.
func (s *disk) writable(grows bool) error {
	if err := s.Err(); err != nil {
		return err
	}
	if s.o.ReadOnly {
		return ErrReadOnly
	}
	if grows && s.full.Load() {
		return ErrDiskFull
	}
	return nil
}

// accepts refuses what the disk has no room for.
func (s *disk) accepts(grows, mutates bool) error {
	if err := s.writable(grows); err != nil {
		return err
	}
	if mutates && s.brim.Load() {
		return ErrDiskBrim
	}
	return nil
}

// room refuses to take that many bytes of disk if too little would be left.
func (s *disk) room(size uint64) error {
	u, err := s.o.DiskUsage(s.dir)
	if s.o.MinFreeDisk < 0 || err != nil || u.TotalBytes == 0 {
		return nil
	}
	keep := u.TotalBytes/100*uint64(s.o.MinFreeDisk) + s.db.Metrics().WAL.Size
	if u.AvailBytes < keep || u.AvailBytes-keep < size {
		return fmt.Errorf("%w: it takes %d MiB, %d of %d MiB are free, and %d must stay free", ErrNoRoom,
			size>>20, u.AvailBytes>>20, u.TotalBytes>>20, keep>>20)
	}
	return nil
}
