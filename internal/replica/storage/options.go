// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/replica/diskfs"
)

// Options configure a Store. The zero value is ready for use.
type Options struct {
	// Identity is the identity of a new store. Zero IDs are replaced with random IDs. An existing store must have the
	// same cluster ID, unless the ID in Options is zero.
	Identity Identity
	// Levels are the feature levels that the build supports. The default is feature.Known. A directory with another
	// level is rejected.
	Levels feature.Range
	// CacheBytes is the size of the block cache. The default is 64 MiB.
	CacheBytes int64
	// MemtableBytes is the size of one memtable. There are at most four memtables. The default is 64 MiB. On a small
	// disk, the size is 1/256 of the disk.
	MemtableBytes int64
	// MaxOpenFiles is the maximum number of open sstables. The default is 1000.
	MaxOpenFiles int
	// Reserve provides file descriptors when the process has none left. If it is nil, the store waits for a descriptor.
	Reserve *diskfs.Reserve
	// Compactions is the maximum number of concurrent compactions. The default is 1.
	Compactions int
	// ReadOnly rejects all writes.
	ReadOnly bool
	// MinFreeDisk is the percentage of free disk space below which writes are rejected. The default is 5. If it is
	// negative, writes are never rejected. Space that flushing the memtables may take does not count as free.
	MinFreeDisk int
	// DiskCheckEvery is the interval between checks of the free disk space. The default is 5 s.
	DiskCheckEvery time.Duration
	// ReclaimAfter is the time for which removals by sweeps stay in the memtable if no other event flushes it. The
	// default is 10 min. Compactions free the space only after the flush.
	ReclaimAfter time.Duration
	// DiskUsage replaces statfs in tests.
	DiskUsage func(dir string) (vfs.DiskUsage, error)
	// TombstoneCacheBytes is the maximum memory for known runs of dead rows. The default is 16 MiB. A negative value
	// disables the cache.
	TombstoneCacheBytes int
	// ANNCacheBytes is the maximum memory for packed vector lists. The default is 32 MiB. A negative value disables the
	// cache.
	ANNCacheBytes int64
	// LargeRowBytes is the maximum memory of all readers for rows with very many cells. The default is 256 MiB.
	// LargeRowWait is the time for which a reader waits for its share. The default is 5 s.
	LargeRowBytes int64
	LargeRowWait  time.Duration
	// Observer is notified of events. If it is nil, the store panics when the disk rejects a required write.
	Observer Observer
}

// Observer is notified of the events of a Store. Its methods may be called on any goroutine and must not block.
type Observer interface {
	// Failed is called once when the store has stopped serving, because stored data is damaged (ErrCorrupt) or the disk
	// has rejected a required write (ErrBroken). In the second case, its current write calls never return.
	Failed(err error)
	// BackgroundFailed is called when a flush or compaction fails. Pebble retries the operation, and BackgroundFailed
	// is not called again until a flush or compaction has succeeded.
	BackgroundFailed(err error)
	// Stalled is called when writes stop because compactions lag, and when they resume.
	Stalled(stalled bool, reason string)
	// DiskFull is called when writes are rejected for lack of disk space, and when they are accepted again.
	DiskFull(full bool, freePercent int)
	// DiskOut is called repeatedly while the disk has less free space than the store may need to be opened again. Its
	// arguments are the number of free bytes and the number of required bytes. Replicas that must apply their logs must
	// then stop.
	DiskOut(free, need uint64)
}

// unobserved is the default Observer.
type unobserved struct{}

func (unobserved) Failed(err error) {
	if errors.Is(err, ErrBroken) {
		panic(err)
	}
}

func (unobserved) BackgroundFailed(error) {}
func (unobserved) Stalled(bool, string)   {}
func (unobserved) DiskFull(bool, int)     {}
func (unobserved) DiskOut(uint64, uint64) {}

func (o Options) withDefaults(fs vfs.FS) Options {
	if o.Levels == (feature.Range{}) {
		o.Levels = feature.Known
	}
	setDefault(&o.CacheBytes, 64<<20)
	setDefault(&o.MemtableBytes, 64<<20)
	setDefault(&o.MaxOpenFiles, 1000)
	setDefault(&o.Compactions, 1)
	setDefault(&o.MinFreeDisk, 5)
	setDefault(&o.DiskCheckEvery, 5*time.Second)
	setDefault(&o.ReclaimAfter, 10*time.Minute)
	setDefault(&o.TombstoneCacheBytes, 16<<20)
	setDefault(&o.ANNCacheBytes, 32<<20)
	setDefault(&o.LargeRowBytes, 256<<20)
	setDefault(&o.LargeRowWait, 5*time.Second)
	if o.DiskUsage == nil {
		o.DiskUsage = fs.GetDiskUsage
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	return o
}

func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// These are the errors of the store.
var (
	// ErrDiskFull rejects a write that would take space. Deletes and reads continue.
	ErrDiskFull = errors.New("disk almost full: writes are rejected; reads and deletes are allowed")
	// ErrDisksFull rejects a write that would take space because too few of the replicas have space for it.
	ErrDisksFull = errors.New("disk almost full on too many nodes: writes are rejected; reads and deletes are allowed")
	// ErrDiskCritical rejects even a delete when the space reserved for deletes is used up.
	ErrDiskCritical = errors.New("disk full: writes and deletes are rejected; reads, TRUNCATE, and DROP are allowed")
	// ErrCorrupt is returned by a store that has found damaged data.
	ErrCorrupt = errors.New("stored data is damaged")
	// ErrUnstamped rejects an operand without a timestamp.
	ErrUnstamped = errors.New("operand without a timestamp")
	// ErrReadOnly rejects a write to a store that was opened read-only.
	ErrReadOnly = errors.New("store is open read-only")
)
