// SPDX-License-Identifier: Apache-2.0

package java

// The bounds of one call. They are counted, so that a call ends alike wherever it runs.
const (
	// stepsMax is how many steps a call takes: a statement, a method or an element of a collection is one. They take
	// some tens of milliseconds.
	stepsMax = 2_000_000
	// bytesMax is how many bytes it allocates in all.
	bytesMax = 16 << 20
	// stringMax is how long a string may be, in bytes.
	stringMax = 2 << 20
)

// frame is one call.
type frame struct {
	program *Program
	locals  []value
	result  value
	steps   int
	bytes   int
	deep    int
	// held are the places that assignments under way change.
	held []*value
}

// step takes steps from what the call may take.
func (f *frame) step(n int) {
	if f.steps -= n; f.steps < 0 {
		panic(exhausted{"more than 2000000 steps"})
	}
}

// alloc takes bytes from what the call may allocate, and steps for touching them.
func (f *frame) alloc(n int) {
	if f.bytes -= n; f.bytes < 0 {
		panic(exhausted{"more than 16 MiB of memory"})
	}
	f.step(n >> 6)
}

// made is a string that was made, which must not be too long.
func (f *frame) made(s string) value {
	if len(s) > stringMax {
		panic(exhausted{"a string of more than 2 MiB"})
	}
	f.alloc(len(s) + 16)
	return value{r: s}
}

// next says where a statement leaves off.
type next uint8

const (
	goOn next = iota
	doBreak
	doContinue
	doReturn
)

type (
	eval func(f *frame) value
	exec func(f *frame) next
)
