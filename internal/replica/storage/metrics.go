// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// counters count what the store does.
type counters struct {
	operands, entries, batches, syncs      atomic.Uint64
	gets, iterators, headerSeeks, rows     atomic.Uint64
	deadSkips, deadRuns, swept, sweepsKept atomic.Uint64
	collapsed, captured, installed         atomic.Uint64
	entriesSeen, dueSeen, dueTables        atomic.Uint64
	sweepLag                               atomic.Int64
}

// Statistics measures what is there and what goes on.
type Statistics struct {
	*engine
	*rows
	*disk
	reader    *Reader
	snapshots *Snapshots
}

// Metrics are counts since Open, and levels.
type Metrics struct {
	// Operands and IndexEntries were written, in Batches; Syncs is the number of calls.
	Operands, IndexEntries, Batches, Syncs uint64
	// Gets and Iterators are all ways of reading; a write must not move them. Rows are the keys that reads visited.
	Gets, Iterators, HeaderSeeks, Rows uint64
	// DeadSkips are runs of dead rows that reads jumped over, DeadRuns those that were learned.
	DeadSkips, DeadRuns uint64
	// Swept keys were removed or shortened, SweepsKept were found to be needed still.
	Swept, SweepsKept uint64
	// EntriesSeen is how many index entries sweeps looked at, DueSeen how many notes of what is due.
	EntriesSeen, DueSeen uint64
	// SweepLag is for how many seconds what is being swept now has been due; 0 if nothing is.
	SweepLag int64
	// Collapsed keys had gathered so many operands that a write merged them.
	Collapsed uint64
	// SnapshotsCaptured and SnapshotsInstalled are of whole partitions.
	SnapshotsCaptured, SnapshotsInstalled uint64
	// DiskFull is true while writes are refused; FreePercent is -1 if unknown.
	DiskFull    bool
	FreePercent int
	// DiskAvailable is how many bytes were free when that was looked at last, 0 if unknown.
	DiskAvailable uint64
	// DiskBytes is the size of all files, MemtableBytes of the memtables, CacheBytes of the block cache.
	DiskBytes, MemtableBytes, CacheBytes uint64
	// NearBytes is the memory of packed lists of vectors.
	NearBytes uint64
	// CompactionDebt is what compactions have to do, in bytes; ReadAmp how many files a read may have to look at.
	CompactionDebt uint64
	ReadAmp        int
	// Pebble has everything else.
	Pebble *pebble.Metrics
}

// Metrics returns the current figures.
func (s *Statistics) Metrics() Metrics {
	p := s.db.Metrics()
	return Metrics{
		Operands: s.m.operands.Load(), IndexEntries: s.m.entries.Load(), Batches: s.m.batches.Load(),
		Syncs: s.m.syncs.Load(),
		Gets:  s.m.gets.Load(), Iterators: s.m.iterators.Load(), HeaderSeeks: s.m.headerSeeks.Load(),
		Rows:      s.m.rows.Load(),
		DeadSkips: s.m.deadSkips.Load(), DeadRuns: s.m.deadRuns.Load(), Swept: s.m.swept.Load(),
		SweepsKept:  s.m.sweepsKept.Load(),
		EntriesSeen: s.m.entriesSeen.Load(), DueSeen: s.m.dueSeen.Load(), SweepLag: s.m.sweepLag.Load(),
		Collapsed: s.m.collapsed.Load(), SnapshotsCaptured: s.m.captured.Load(),
		SnapshotsInstalled: s.m.installed.Load(),
		DiskFull:           s.disk.full.Load(), FreePercent: int(s.disk.free.Load()),
		DiskAvailable: s.disk.available.Load(),
		DiskBytes:     p.DiskSpaceUsage(), MemtableBytes: p.MemTable.Size, CacheBytes: uint64(p.BlockCache.Size),
		NearBytes:      uint64(s.near.size()),
		CompactionDebt: p.Compact.EstimatedDebt, ReadAmp: p.ReadAmp(), Pebble: p,
	}
}
