// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/replica/diskfs"
)

// disk monitors the free disk space. It prevents the disk from becoming so full that Pebble cannot write its log, which
// would end the process.
//
// Writes that take space are rejected while less than Options.MinFreeDisk percent of the disk is free. The space that
// the store needs to flush the memtables does not count as free. Deletes also take space until compactions remove the
// deleted data. Deletes are accepted until less than a fifth of that limit is free. Schema changes, TRUNCATE, and DROP
// are always accepted.
//
// Entries in the logs of replica sets are applied regardless of the free space. The node must stop before the disk
// becomes too full to open the store again. The store therefore calls Observer.DiskOut.
type disk struct {
	*engine
	full, critical atomic.Bool
	// free is the percentage of free space at the last check, or -1 if unknown.
	free atomic.Int64
	// available is the number of free bytes at the last check, or 0 if unknown.
	available atomic.Uint64
	// credit is the number of bytes that may be committed before the next check. A small disk can become full between
	// two regular checks.
	credit atomic.Int64
	// unflushed is the size of the log at the last check, in bytes.
	unflushed atomic.Uint64
	mu        sync.Mutex // mu serializes checks
}

const (
	// criticalShare is the divisor that yields the limit for deletes from the minimum free space.
	criticalShare = 5
	// creditMin and creditShare determine how many bytes may be committed before the next check. The credit is a
	// fraction of the remaining space, because the log, the flush, and compactions write each byte several times.
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
			// A flush frees the space of the log and of deleted data.
			flushed = batches
			s.flushSoon()
		}
	}
}

// recheckSoon makes the next commit check the free space. It is called after a flush or a compaction.
func (s *disk) recheckSoon() { s.credit.Store(0) }

// spend counts the bytes of a batch before the commit.
func (s *disk) spend(bytes int) {
	if s.credit.Add(-int64(bytes)) < 0 {
		s.checkDisk()
	}
}

// checkDisk checks the free space immediately. If the file system does not report its usage, checkDisk assumes that
// enough space is free.
func (s *disk) checkDisk() {
	if !s.mu.TryLock() {
		return // another check is in progress
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
	if spare := diskfs.SpareBytes(u.TotalBytes); left < spare {
		s.o.Observer.DiskOut(u.AvailBytes, flush+spare)
	}
	full, brim := left < least, u.AvailBytes < least/criticalShare
	above := least
	if full {
		above = least / criticalShare
	}
	s.credit.Store(max(creditMin, (int64(left)-int64(above))/creditShare))
	s.critical.Store(brim)
	if s.full.Swap(full) == full {
		return
	}
	if full {
		s.flushSoon() // a flush frees the space of the log
	}
	s.o.Observer.DiskFull(full, percent)
}

// reservedFree returns the number of bytes that compactions leave free. It is the sum of the reserve for deletes and
// the space needed to flush all memtables.
func (s *disk) reservedFree() uint64 {
	u, err := s.o.DiskUsage(s.dir)
	if err != nil || s.o.MinFreeDisk < 0 {
		return 0
	}
	return u.TotalBytes/100*uint64(s.o.MinFreeDisk)/criticalShare + s.unflushed.Load()
}

// flushSoon requests a flush.
func (s *disk) flushSoon() {
	if !s.o.ReadOnly {
		_, err := s.db.AsyncFlush()
		_ = s.check(err) // the flush fails if the store is closed
	}
}

// writable rejects writes to a store that has failed, is read-only, or is nearly full.
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

// accepts rejects writes for which the disk has no space.
func (s *disk) accepts(grows, mutates bool) error {
	if err := s.writable(grows); err != nil {
		return err
	}
	if mutates && s.critical.Load() {
		return ErrDiskCritical
	}
	return nil
}

// room returns an error if writing size bytes would leave too little free space.
func (s *disk) room(size uint64) error {
	u, err := s.o.DiskUsage(s.dir)
	if s.o.MinFreeDisk < 0 || err != nil || u.TotalBytes == 0 {
		return nil
	}
	keep := u.TotalBytes/100*uint64(s.o.MinFreeDisk) + s.db.Metrics().WAL.Size
	if u.AvailBytes < keep || u.AvailBytes-keep < size {
		return fmt.Errorf("%w: it requires %d MiB, %d of %d MiB are free, and %d must remain free", ErrNoRoom,
			size>>20, u.AvailBytes>>20, u.TotalBytes>>20, keep>>20)
	}
	return nil
}
