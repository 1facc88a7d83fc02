// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// rows is what readers of rows and writers of rows have to know of each other.
type rows struct {
	*engine
	*Tables
	memory

	// gate is held shared by every commit. Whoever must know that no commit is under way takes it exclusively, for
	// microseconds: ApplySweep between reading a key and rewriting it, and the learner of dead runs at its start.
	gate sync.RWMutex
	// weakened counts what took deletions out of headers: sweeps and truncations.
	weakened atomic.Uint64
	// arrivals is held while a snapshot is ingested, and while entries of partitions that nobody holds are removed.
	arrivals sync.Mutex
	// truncated is true if index entries may lead nowhere since the last walk over them.
	truncated atomic.Bool
}

// memory is what was learned of rows by reading and writing them. Losing it costs time, never truth.
type memory struct {
	dead  deadRuns
	piles piles
	// together is rangesTogether, but in tests.
	together int
	hot      hotKeys
	large    largeRows
}

func (m *memory) init(o *Options) {
	m.hot.seed, m.hot.after = maphash.MakeSeed(), collapseAfter
	m.large.seed, m.large.budget, m.large.waitMax = m.hot.seed, o.LargeRowBytes, o.LargeRowWait
	m.dead.init(o.DeadRunBytes)
	m.together = rangesTogether
	m.piles.init(m.together)
}
