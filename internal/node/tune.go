// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
)

// TuneRuntime fits the process to the memory budget: it sets the memory limit, the garbage collector's target and the
// number of processors, unless the environment (GOMEMLIMIT, GOGC, GOMAXPROCS) has. It is for a process that is only a
// database; a program that embeds one keeps its own settings.
//
// The block cache is outside the Go heap with cgo and inside it without, where the usual target of 100 % would let the
// heap grow to twice the cache before a collection. A synced write holds a processor for the length of an fsync, so
// there are never fewer than two.
func TuneRuntime(o Options) {
	o = o.withDefaults()
	if os.Getenv("GOMEMLIMIT") == "" {
		limit := int64(o.Memory.Budget)
		if cgoEnabled {
			// Memory that cgo allocates does not count towards the limit: the cache and the memtables.
			limit -= int64(o.Memory.BlockCache + 4*o.Memory.Memtable)
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
