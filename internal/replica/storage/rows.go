// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// rows is the state that readers and writers of rows share.
type rows struct {
	*engine
	*Tables
	rowCaches

	// Every commit holds commitMu in shared mode. ApplySweep holds it exclusively while it reads and rewrites keys, and
	// the runFinder holds it exclusively at the start of a search. An exclusive lock lasts only microseconds.
	commitMu sync.RWMutex
	// weakened is the number of operations (sweeps and truncations) that have removed deletions from headers.
	weakened atomic.Uint64
	// ingestMu is held while a snapshot is ingested, and while entries without an owner are removed.
	ingestMu sync.Mutex
	// truncated is true if many index entries may have become stale since the last scan.
	truncated atomic.Bool
}

// rowCaches holds the caches of the readers and writers of rows. Losing a cache costs time but does not affect results.
type rowCaches struct {
	tombstones  tombstoneCache
	rangeCounts rangeCounts
	// together is rangesTogether, except in tests.
	together int
	hot      hotKeys
	large    largeRows
}

func (m *rowCaches) init(o *Options) {
	m.hot.seed, m.hot.after = maphash.MakeSeed(), collapseAfter
	m.large.seed, m.large.budget, m.large.waitMax = m.hot.seed, o.LargeRowBytes, o.LargeRowWait
	m.tombstones.init(o.TombstoneCacheBytes)
	m.together = rangesTogether
	m.rangeCounts.init(m.together)
}
