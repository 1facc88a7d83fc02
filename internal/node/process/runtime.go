// SPDX-License-Identifier: Apache-2.0

// Package process adapts the operating system process to the machine. It sets the memory limit and the garbage
// collector, and divides the file descriptors. Start reading at Tune.
package process

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
)

// Tune adapts the Go runtime to a memory budget in bytes. It sets the memory limit, the GC target, and GOMAXPROCS,
// unless the environment sets them (GOMEMLIMIT, GOGC, GOMAXPROCS). In builds with cgo, cgoBytes is the part of the
// budget outside the Go heap.
//
// Without cgo, the block cache is in the Go heap. The default GC target of 100 % would then let the heap grow to twice
// the size of the cache. A synced write blocks a processor for the duration of an fsync. Therefore, Tune sets
// GOMAXPROCS to two or more.
func Tune(budget, cgoBytes int64) {
	tuneAllocator()
	if os.Getenv("GOMEMLIMIT") == "" {
		limit := budget
		if cgoEnabled {
			limit -= cgoBytes
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
	// tablesOpen is the number of tables that the store keeps open if enough descriptors are available. The Raft log
	// keeps up to the same number of tables open.
	tablesOpen = 1000
	// descriptorsElsewhere is the number of descriptors that are reserved for logs, manifests, other nodes, and HTTP.
	descriptorsElsewhere = 256
)

// ShareDescriptors divides the file descriptors between the store and clients. The store cannot work without
// descriptors. It returns the number of tables that the store may keep open and the number of client connections.
func ShareDescriptors(limit, clients int) (tables, connections int) {
	tables = min(tablesOpen, limit/8)
	return tables, min(clients, max(1, limit-2*tables-descriptorsElsewhere))
}
