// SPDX-License-Identifier: Apache-2.0

package script

import (
	"runtime"
	"time"
)

// BodyBytesMax is the maximum size of a script's text in bytes.
const BodyBytesMax = 256 << 10

// Bounds holds the limits of scripts. A zero field selects the default.
type Bounds struct {
	// Time is the maximum duration of a script. The default is 750 ms, which is less than the time for which a
	// transaction may lock its logical partition. After AcceptTime, the engine does not accept further operations, so
	// the script should return an intermediate result. The default of AcceptTime is 500 ms.
	Time, AcceptTime time.Duration
	// FunctionTime is the maximum duration of a call of a user-defined function. The default is 500 ms, which is
	// sufficient even on a busy node.
	FunctionTime time.Duration
	// Grace is the maximum time that the engine waits for a script to stop. The default is 50 ms.
	Grace time.Duration
	// CompileTime is the maximum CPU time for compiling a script. The default is 2 s.
	CompileTime time.Duration
	// MemoryBytes is the maximum growth of the process heap during a script that runs for more than a few milliseconds.
	// The default is MemoryBytesMax. The limit applies to the live heap of the whole process, because Go does not
	// assign memory to goroutines.
	MemoryBytes uint64
	// Depth is the maximum call depth. The default is 1,000.
	Depth int
	// Operations is the maximum number of item operations in a script. The default is 4,000.
	Operations int
	// ResultBytes is the maximum size of a script's JSON result. The default is 256 KiB minus the size of the log and
	// the envelope.
	ResultBytes int
	// LogBytes and LogLines limit the console log. The defaults are 8 KiB and 500 lines. Excess output is discarded.
	LogBytes, LogLines int
	// Scripts is the maximum number of concurrent scripts in a process. The default is the number of processors minus
	// one, with a minimum of 1.
	Scripts int
	// Programs and ProgramBytes limit the cache of compiled scripts. The defaults are 500 scripts and 16 MiB of text.
	Programs, ProgramBytes int
}

// MemoryBytesMax is the default of Bounds.MemoryBytes. MemoryBytesMin is the minimum value for which scripts run
// reliably while the node serves other clients.
const (
	MemoryBytesMax = 256 << 20
	MemoryBytesMin = 16 << 20
)

func (b Bounds) withDefaults() Bounds {
	orElse(&b.Time, 750*time.Millisecond)
	orElse(&b.AcceptTime, b.Time*2/3)
	orElse(&b.FunctionTime, 500*time.Millisecond)
	orElse(&b.Grace, 50*time.Millisecond)
	orElse(&b.CompileTime, 2*time.Second)
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

// These limits on built-ins and operators ensure that a single step cannot greatly exceed the limits in Bounds.
const (
	// stringMax is the maximum length of a string in UTF-16 units. The value equals the maximum size of an item.
	stringMax = 2 << 20
	// arrayMax is the maximum number of array elements that built-ins process or create.
	arrayMax = 1 << 17
	// searchMax is the maximum product of the lengths of a text and a search string. matchMax is the maximum product of
	// a text's length and the steps of a regular expression. Neither searches nor matches can be interrupted.
	searchMax = 1 << 28
	matchMax  = 1 << 24
	// argumentsMax is the maximum number of arguments of apply.
	argumentsMax = 1 << 15
	// jsonDepthMax is the maximum nesting depth of JSON that a script parses or writes. For stored items, the limit is
	// document.DepthMax.
	jsonDepthMax = 500
)
