// SPDX-License-Identifier: Apache-2.0

package script

import (
	"runtime"
	"time"
)

// BodyBytesMax is how long the text of a script may be.
const BodyBytesMax = 256 << 10

// Bounds are what scripts may take; fields that are 0 have the defaults.
type Bounds struct {
	// Time is how long a script may run, 750 ms: less than a transaction may hold its logical partition. After
	// AcceptTime, 500 ms, operations are no longer accepted, and the script is expected to return what it has.
	Time, AcceptTime time.Duration
	// FunctionTime is how long one call of a user-defined function may take, 500 ms: work of a few, on a
	// node that is busy.
	FunctionTime time.Duration
	// Grace is how long a script that was told to end is waited for, 50 ms.
	Grace time.Duration
	// MemoryBytes is how much the heap of the process may grow while a script runs that has run for more than a few
	// milliseconds, MemoryBytesMax. It is the process's heap, because Go does not tell whose memory it is; garbage does
	// not count.
	MemoryBytes uint64
	// Depth is how many calls may lie in each other, 1,000.
	Depth int
	// Operations is how many operations on items a script may ask for, 4,000.
	Operations int
	// ResultBytes bounds what a script returns as JSON, 256 KiB less room for the log and the envelope.
	ResultBytes int
	// LogBytes and LogLines bound what it logs, 8 KiB and 500 lines: what is more is left out.
	LogBytes, LogLines int
	// Scripts is how many run at once in a process: one for each processor but one, which others have for themselves,
	// and at least 1.
	Scripts int
	// Programs and ProgramBytes bound the cache of compiled scripts, 500 scripts with 16 MiB of text.
	Programs, ProgramBytes int
}

// MemoryBytesMax is the default of Bounds.MemoryBytes; MemoryBytesMin is the least bound with which scripts can work
// beside the requests of other clients.
const (
	MemoryBytesMax = 256 << 20
	MemoryBytesMin = 16 << 20
)

func (b Bounds) withDefaults() Bounds {
	orElse(&b.Time, 750*time.Millisecond)
	orElse(&b.AcceptTime, b.Time*2/3)
	orElse(&b.FunctionTime, 500*time.Millisecond)
	orElse(&b.Grace, 50*time.Millisecond)
	orElse(&b.MemoryBytes, MemoryBytesMax)
	orElse(&b.Depth, 1000)
	orElse(&b.Operations, 4000)
	orElse(&b.LogBytes, 8<<10)
	orElse(&b.LogLines, 500)
	orElse(&b.ResultBytes, 240<<10)
	orElse(&b.Scripts, max(1, runtime.GOMAXPROCS(0)-1))
	orElse(&b.Programs, 500)
	orElse(&b.ProgramBytes, 16<<20)
	return b
}

func orElse[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// What the built-ins and operators of the language may make, so that no single step takes much of the bounds above.
const (
	// stringMax is how long a string may be, in UTF-16 units: as long as an item may be.
	stringMax = 2 << 20
	// arrayMax is how many elements the built-ins of arrays take or make.
	arrayMax = 1 << 17
	// searchMax bounds the product of the lengths of a text and of what is looked for in it, matchMax that of a text's
	// length and the steps of a regular expression: neither can be interrupted.
	searchMax = 1 << 28
	matchMax  = 1 << 24
	// argumentsMax is how many arguments apply passes.
	argumentsMax = 1 << 15
	// jsonDepthMax is how deep JSON may be nested that a script parses or writes; what is stored is bounded by
	// document.DepthMax.
	jsonDepthMax = 500
)
