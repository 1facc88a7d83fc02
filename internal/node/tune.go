// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/ilion-db/ilion/internal/query/script"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
)

// statementBytes is the memory for the texts, syntax trees and plans of large statements that are being executed, and
// as much again is for prepared statements: a sixteenth of the budget each, in bytes.
func (o *MemoryOptions) statementBytes() int64 {
	return int64(min(max(o.Budget/16, 16<<20), 256<<20))
}

// evaluationBytes is the memory for the evaluation of expressions and for results that are being read: that of four of
// the largest results, but no more than a quarter of the budget unless a single result may take more.
func (o *Options) evaluationBytes() int64 {
	result := int64(o.Limits.ResultBytes)
	return max(result, min(4*result, int64(o.Memory.Budget)/4))
}

// scriptBytes is how much the heap may grow while a JavaScript function or procedure runs: an eighth of the budget,
// within the bounds that scripts have.
func (o *MemoryOptions) scriptBytes() uint64 {
	return min(max(uint64(o.Budget)/8, script.MemoryBytesMin), script.MemoryBytesMax)
}

// TuneRuntime fits the process to the memory budget: it sets the memory limit, the garbage collector's target and the
// number of processors, unless the environment (GOMEMLIMIT, GOGC, GOMAXPROCS) has. It is for a process that is only a
// database; a program that embeds one keeps its own settings.
//
// The block cache is outside the Go heap with cgo and inside it without, where the usual target of 100 % would let the
// heap grow to twice the cache before a collection. A synced write holds a processor for the length of an fsync, so
// there are never fewer than two.
func TuneRuntime(o Options) {
	o = o.withDefaults()
	tuneAllocator()
	if os.Getenv("GOMEMLIMIT") == "" {
		limit := int64(o.Memory.Budget)
		if cgoEnabled {
			// Memory that cgo allocates does not count towards the limit: the cache and the memtables.
			limit -= int64(o.Memory.BlockCache + 4*o.Memory.Memtable)
			if o.Cluster.Internal != "" {
				limit -= int64(4*o.Memory.Memtable + raftlog.BlockCacheBytes) // of the log
			}
		}
		debug.SetMemoryLimit(min(max(limit, 64<<20), math.MaxInt64))
	}
	if os.Getenv("GOGC") == "" && !cgoEnabled {
		debug.SetGCPercent(35)
	}
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2)
	}
}

const (
	// tablesOpen is how many tables the store keeps open where descriptors are plenty; logs keep as many, at most.
	tablesOpen = 1000
	// descriptorsElsewhere are for everything but tables and clients: logs, manifests, other nodes, HTTP.
	descriptorsElsewhere = 256
	// webConnections bounds the connections of HTTP, and webAddressConnections those of one address. Idle ones give
	// their places to new ones; a backup may have 64 under way.
	webConnections, webAddressConnections = 128, 80
)

// shareDescriptors divides the files that the process may have open between the store, which cannot go on without, and
// clients. It returns how many tables the store may keep open, and how many clients there is room for.
func shareDescriptors(limit, clients int) (tables, connections int) {
	tables = min(tablesOpen, limit/8)
	return tables, min(clients, max(1, limit-2*tables-descriptorsElsewhere))
}
