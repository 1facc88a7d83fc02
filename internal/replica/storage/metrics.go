// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// counters counts the operations of the store.
type counters struct {
	operands, entries, batches, syncs                atomic.Uint64
	gets, iterators, headerSeeks, rows               atomic.Uint64
	tombstoneSkips, tombstoneRuns, swept, sweepsKept atomic.Uint64
	collapsed, captured, installed                   atomic.Uint64
	entriesSeen, dueSeen, dueTables                  atomic.Uint64
	sweepLag                                         atomic.Int64
}

// Statistics measures the contents and the activity of the store.
type Statistics struct {
	*engine
	*rows
	*disk
	reader    *Reader
	snapshots *Snapshots
}

// Metrics holds gauges and counters. The counters start at 0 when the store is opened.
type Metrics struct {
	// Operands and IndexEntries count the operands and index entries that batches have written. Batches counts commits,
	// and Syncs counts calls of Sync.
	Operands, IndexEntries, Batches, Syncs uint64
	// Gets and Iterators count all reads of the store. HeaderSeeks counts the seeks of deletions, and Rows counts the
	// keys that reads have visited.
	Gets, Iterators, HeaderSeeks, Rows uint64
	// TombstoneSkips counts the runs of dead rows that reads have skipped. TombstoneRuns counts the runs of dead rows
	// that have been found.
	TombstoneSkips, TombstoneRuns uint64
	// Swept counts the keys that sweeps have removed or shortened. SweepsKept counts the keys that sweeps have kept
	// because the keys were still needed.
	Swept, SweepsKept uint64
	// EntriesSeen and DueSeen count the index entries and the due notes that sweeps have examined.
	EntriesSeen, DueSeen uint64
	// SweepLag is the time since the data of the current sweep became due, in seconds. It is 0 if no sweep is in
	// progress.
	SweepLag int64
	// Collapsed counts the merges of keys with too many operands.
	Collapsed uint64
	// SnapshotsCaptured and SnapshotsInstalled count snapshots of whole partitions.
	SnapshotsCaptured, SnapshotsInstalled uint64
	// DiskFull is true while the store rejects writes for lack of disk space. FreePercent is the percentage of free
	// disk space, or -1 if it is unknown.
	DiskFull    bool
	FreePercent int
	// DiskAvailable is the number of free bytes at the last check, or 0 if it is unknown.
	DiskAvailable uint64
	// DiskBytes, MemtableBytes, and CacheBytes are the sizes of all files, of the memtables, and of the block cache.
	DiskBytes, MemtableBytes, CacheBytes uint64
	// ANNCacheBytes is the memory used by packed vector lists.
	ANNCacheBytes uint64
	// CompactionDebt is the number of bytes that compactions still need to process. ReadAmp is the number of files that
	// a read may need to examine.
	CompactionDebt uint64
	ReadAmp        int
	// Pebble holds all other metrics.
	Pebble *pebble.Metrics
}

// Metrics returns the current metrics.
func (s *Statistics) Metrics() Metrics {
	p := s.db.Metrics()
	return Metrics{
		Operands: s.m.operands.Load(), IndexEntries: s.m.entries.Load(), Batches: s.m.batches.Load(),
		Syncs: s.m.syncs.Load(),
		Gets:  s.m.gets.Load(), Iterators: s.m.iterators.Load(), HeaderSeeks: s.m.headerSeeks.Load(),
		Rows:           s.m.rows.Load(),
		TombstoneSkips: s.m.tombstoneSkips.Load(), TombstoneRuns: s.m.tombstoneRuns.Load(), Swept: s.m.swept.Load(),
		SweepsKept:  s.m.sweepsKept.Load(),
		EntriesSeen: s.m.entriesSeen.Load(), DueSeen: s.m.dueSeen.Load(), SweepLag: s.m.sweepLag.Load(),
		Collapsed: s.m.collapsed.Load(), SnapshotsCaptured: s.m.captured.Load(),
		SnapshotsInstalled: s.m.installed.Load(),
		DiskFull:           s.disk.full.Load(), FreePercent: int(s.disk.free.Load()),
		DiskAvailable: s.disk.available.Load(),
		DiskBytes:     p.DiskSpaceUsage(), MemtableBytes: p.MemTable.Size, CacheBytes: uint64(p.BlockCache.Size),
		ANNCacheBytes:  uint64(s.ann.size()),
		CompactionDebt: p.Compact.EstimatedDebt, ReadAmp: p.ReadAmp(), Pebble: p,
	}
}
