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
	// Identity is the identity of a new store. Open replaces zero IDs with random IDs. If Identity contains a cluster
	// ID, an existing store must have the same cluster ID.
	Identity Identity
	// Levels are the feature levels that the build supports. The default is feature.Known. Open rejects a directory
	// with any other level.
	Levels feature.Range
	// CacheBytes is the size of the block cache. The default is 64 MiB.
	CacheBytes int64
	// MemtableBytes is the size of one memtable. The default is 64 MiB or, on a small disk, 1/256 of the disk size. A
	// store has up to four memtables.
	MemtableBytes int64
	// MaxOpenFiles is the maximum number of open sstables. The default is 1000.
	MaxOpenFiles int
	// Reserve provides file descriptors when the process has reached its limit. If Reserve is nil, the store waits for
	// a free descriptor.
	Reserve *diskfs.Reserve
	// Compactions is the maximum number of concurrent compactions. The default is 1.
	Compactions int
	// ReadOnly makes the store reject all writes.
	ReadOnly bool
	// MinFreeDisk is the percentage of free disk space below which the store rejects writes. The default is 5. A
	// negative value disables the limit. Space that the store needs to flush the memtables does not count as free.
	MinFreeDisk int
	// DiskCheckEvery is the interval between checks of the free disk space. The default is 5 s.
	DiskCheckEvery time.Duration
	// ReclaimAfter is the maximum time for which removals by sweeps stay in the memtable. The default is 10 min.
	// Compactions free the space only after a flush.
	ReclaimAfter time.Duration
	// DiskUsage replaces statfs in tests.
	DiskUsage func(dir string) (vfs.DiskUsage, error)
	// TombstoneCacheBytes is the maximum size of the tombstone cache. The default is 16 MiB. A negative value disables
	// the cache.
	TombstoneCacheBytes int
	// ANNCacheBytes is the maximum size of the cache of packed vector lists. The default is 32 MiB. A negative value
	// disables the cache.
	ANNCacheBytes int64
	// LargeRowBytes is the maximum memory that all readers together use for large rows. The default is 256 MiB.
	// LargeRowWait is the maximum time for which a reader waits for this memory. The default is 5 s.
	LargeRowBytes int64
	LargeRowWait  time.Duration
	// Observer receives the events of the store. If Observer is nil, the store panics when the disk rejects a required
	// write.
	Observer Observer
}

// Observer receives the events of a Store. The store may call the methods on any goroutine. The methods must not block.
type Observer interface {
	// Failed is called once when the store has stopped serving. The error wraps ErrCorrupt if stored data is damaged,
	// or ErrBroken if the disk has rejected a required write. After ErrBroken, writes in progress never return.
	Failed(err error)
	// BackgroundFailed is called when a flush or compaction fails. Pebble retries the operation. BackgroundFailed is
	// called again only for a failure after the next successful flush or compaction.
	BackgroundFailed(err error)
	// Stalled is called when writes stop because compactions lag, and again when writes resume.
	Stalled(stalled bool, reason string)
	// DiskFull is called when the store starts to reject writes for lack of disk space, and again when it accepts
	// writes.
	DiskFull(full bool, freePercent int)
	// DiskOut is called repeatedly while the disk has less free space than the store may need for the next Open. The
	// arguments are the number of free bytes and the number of required bytes. The observer must stop all replicas that
	// apply logs.
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
	// ErrDisksFull rejects a write that would take space, because too few replicas have free disk space.
	ErrDisksFull = errors.New("disk almost full on too many nodes: writes are rejected; reads and deletes are allowed")
	// ErrDiskCritical rejects even a delete when the space reserved for deletes is used up.
	ErrDiskCritical = errors.New("disk full: writes and deletes are rejected; reads, TRUNCATE, and DROP are allowed")
	// ErrCorrupt means that the store has found damaged data.
	ErrCorrupt = errors.New("stored data is damaged")
	// ErrUnstamped rejects an operand without a timestamp.
	ErrUnstamped = errors.New("operand without a timestamp")
	// ErrReadOnly rejects a write to a store that was opened read-only.
	ErrReadOnly = errors.New("store is open read-only")
)
