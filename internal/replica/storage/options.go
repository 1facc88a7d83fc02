// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/replica/guard"
)

// Options tune a Store. The zero value is useful.
type Options struct {
	// Identity is given to a store that is created; zero ids are drawn at random. A store that exists must have the
	// same cluster id, unless this one is zero.
	Identity Identity
	// Levels are the feature levels that the build understands, feature.Known by default: a directory of another one is
	// refused.
	Levels feature.Range
	// CacheBytes is the size of the block cache, 64 MiB by default.
	CacheBytes int64
	// MemtableBytes is the size of one memtable, 64 MiB by default; there are at most four. It is less where the disk
	// is small: a 256th of it.
	MemtableBytes int64
	// MaxOpenFiles bounds the open sstables, 1000 by default.
	MaxOpenFiles int
	// Reserve has descriptors for when the process has none left; nil: the store waits for some.
	Reserve *guard.Reserve
	// Compactions bounds how many compactions run at once, 1 by default.
	Compactions int
	// ReadOnly refuses all writes.
	ReadOnly bool
	// MinFreeDisk is the share of the disk, in percent, below which writes are refused, 5 by default; negative never
	// refuses. What flushing the memtables may take does not count as free.
	MinFreeDisk int
	// DiskCheckEvery is how often free disk space is looked at, 5 s by default.
	DiskCheckEvery time.Duration
	// ReclaimAfter is how long what sweeps have removed stays in the memtable if nothing else flushes that, 10 min by
	// default: only then do compactions give its space back.
	ReclaimAfter time.Duration
	// DiskUsage replaces statfs in tests.
	DiskUsage func(dir string) (vfs.DiskUsage, error)
	// DeadRunBytes bounds the memory for known runs of dead rows, 16 MiB by default; negative disables them.
	DeadRunBytes int
	// NearBytes bounds the memory for packed lists of vectors, 32 MiB by default; negative keeps none.
	NearBytes int64
	// LargeRowBytes bounds the memory for reading rows of very many cells, all readers together, 256 MiB by default.
	// LargeRowWait is how long a reader waits for its share, 5 s by default.
	LargeRowBytes int64
	LargeRowWait  time.Duration
	// Events are called as things happen; nil ones are not.
	Events Events
}

// Events tell the owner of a Store what goes on inside. They may come from any goroutine and must not block.
type Events struct {
	// Corrupt is called once when stored bytes turn out to be damaged; the store has stopped serving.
	Corrupt func(error)
	// Background is called when a flush or compaction fails; Pebble tries again, and nothing is said until one
	// succeeds.
	Background func(error)
	// Stall is called when writes stop because compactions lag behind, and when they go on.
	Stall func(stalled bool, reason string)
	// DiskFull is called when writes are refused for lack of disk space, and when they are accepted again.
	DiskFull func(full bool, freePercent int)
	// DiskOut is called, again and again, while the disk has less free than the store may need to be opened again: the
	// numbers are bytes that are free and that are needed. Replicas that must apply what their logs say stop then.
	DiskOut func(free, need uint64)
	// Fatal is called once when the disk did not take what had to be written; the store has stopped serving, and those
	// of its calls that are writing then never return. Without it there is a panic.
	Fatal func(error)
}

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
	setDefault(&o.DeadRunBytes, 16<<20)
	setDefault(&o.NearBytes, 32<<20)
	setDefault(&o.LargeRowBytes, 256<<20)
	setDefault(&o.LargeRowWait, 5*time.Second)
	if o.DiskUsage == nil {
		o.DiskUsage = fs.GetDiskUsage
	}
	return o
}

func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// Signals to the caller.
var (
	// ErrDiskFull refuses a write that would take space; deletes and reads go on.
	ErrDiskFull = errors.New("disk almost full: writes are refused, reads and deletes work")
	// ErrDisksFull refuses such a write because too few of the replicas would have room for it.
	ErrDisksFull = errors.New("disk almost full on too many nodes: writes are refused, reads and deletes work")
	// ErrDiskBrim refuses a delete as well, when the space that is kept for them is used up.
	ErrDiskBrim = errors.New("disk full: writes and deletes are refused, reads, TRUNCATE and DROP work")
	// ErrCorrupt stops a store that found damaged bytes.
	ErrCorrupt = errors.New("stored data is damaged")
	// ErrUnstamped refuses an operand that the leader has not stamped.
	ErrUnstamped = errors.New("operand without a timestamp")
	// ErrReadOnly refuses a write to a store opened read-only.
	ErrReadOnly = errors.New("store is open read-only")
)
