// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/ilion-db/ilion/internal/query/function/script"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
)

// statementBytes returns the memory for the texts, syntax trees, and plans of large statements in execution, and also
// for prepared statements: each 1/16 of the budget.
func (o *MemoryOptions) statementBytes() int64 {
	return int64(min(max(o.Budget/16, 16<<20), 256<<20))
}

// evaluationBytes returns the memory for the evaluation of expressions and for results that are being read: four times
// the largest result. The maximum is a quarter of the budget, unless a single result may be larger.
func (o *Options) evaluationBytes() int64 {
	result := int64(o.Limits.ResultBytes)
	return max(result, min(4*result, int64(o.Memory.Budget)/4))
}

// scriptBytes returns how much the heap may grow while a JavaScript function or procedure runs: an eighth of the
// budget, within the limits of scripts.
func (o *MemoryOptions) scriptBytes() uint64 {
	return min(max(uint64(o.Budget)/8, script.MemoryBytesMin), script.MemoryBytesMax)
}

// TuneRuntime adapts the Go runtime to the memory budget: the memory limit, the GC target, and GOMAXPROCS, unless the
// environment sets them (GOMEMLIMIT, GOGC, GOMAXPROCS). It is intended for database processes; programs that embed a
// database keep their own settings.
//
// With cgo the block cache is outside the Go heap. Without cgo it is inside, and the default GC target of 100 % would
// let the heap grow to twice the cache. A synced write blocks a processor for the duration of an fsync, so GOMAXPROCS
// is at least two.
func TuneRuntime(o Options) {
	o = o.withDefaults()
	tuneAllocator()
	if os.Getenv("GOMEMLIMIT") == "" {
		limit := int64(o.Memory.Budget)
		if cgoEnabled {
			// Memory allocated by cgo does not count toward the limit: the cache and the memtables.
			limit -= int64(o.Memory.BlockCache + 4*o.Memory.Memtable)
			if o.Cluster.Internal != "" {
				limit -= int64(4*o.Memory.Memtable + raftlog.BlockCacheBytes) // of the Raft log
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
	// tablesOpen is the number of tables that the store keeps open if descriptors are plentiful. The Raft log keeps up
	// to as many.
	tablesOpen = 1000
	// descriptorsElsewhere are reserved for logs, manifests, other nodes, and HTTP.
	descriptorsElsewhere = 256
	// webConnections bounds the HTTP connections, and webAddressConnections the connections from one address. New
	// connections replace idle ones. A backup may use 64 at the same time.
	webConnections, webAddressConnections = 128, 80
)

// shareDescriptors divides the file descriptors between the store, which cannot work without them, and clients. It
// returns the number of tables that the store may keep open and the number of client connections.
func shareDescriptors(limit, clients int) (tables, connections int) {
	tables = min(tablesOpen, limit/8)
	return tables, min(clients, max(1, limit-2*tables-descriptorsElsewhere))
}
