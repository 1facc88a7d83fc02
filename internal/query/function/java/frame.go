// SPDX-License-Identifier: Apache-2.0

package java

import (
	"math"
	"math/big"

	"github.com/ilion-db/ilion/internal/model/meter"
)

// These constants limit one call. The limits do not depend on time, so a call ends at the same point on every node.
const (
	// stepsMax is the maximum number of steps of a call. A statement, a method call, and an element of a collection
	// each count as one step. The maximum corresponds to several tens of milliseconds.
	stepsMax = 2_000_000
	// bytesMax is the maximum number of bytes that a call allocates.
	bytesMax = 16 << 20
	// stringMax is the maximum length of a string in bytes.
	stringMax = 2 << 20
)

// frame holds the state of one call.
type frame struct {
	program *Program
	locals  []value
	result  value
	// steps and bytes are the numbers of remaining steps and bytes. meter is the meter of the request. When steps is
	// less than checkAt, the frame reports the steps to the meter.
	steps, checkAt, reported int
	bytes                    int
	meter                    *meter.Meter
	deep                     int
	// targets holds the locations that assignments in progress modify.
	targets []*value
}

// checkEvery is the number of steps between two reports to the meter of the request.
const checkEvery = 512

// step consumes n steps. It must be called before the work.
func (f *frame) step(n int) {
	if f.steps -= n; f.steps < f.checkAt {
		f.reportSteps()
	}
}

// reportSteps reports the steps since the previous report to the meter and ends the call if a limit is exceeded.
func (f *frame) reportSteps() {
	if f.steps < 0 {
		panic(exhausted{what: "more than 2000000 steps"})
	}
	n := f.reported - f.steps
	f.reported, f.checkAt = f.steps, max(0, f.steps-checkEvery)
	f.abort(f.meter.Step(n))
}

// abort ends the call with an error of the request.
func (f *frame) abort(err error) {
	if err != nil {
		panic(exhausted{err: err})
	}
}

// alloc consumes n bytes and the steps for accessing these bytes. It must be called before the allocation.
func (f *frame) alloc(n int) {
	if f.bytes -= n; f.bytes < 0 {
		panic(exhausted{what: "more than 16 MiB of memory"})
	}
	f.abort(f.meter.Alloc(n))
	f.step(n >> 6)
}

// text consumes the steps for iterating over the characters of a text.
func (f *frame) text(s string) { f.step(len(s)/8 + 1) }

// numbers consumes the steps for multiplying or dividing numbers with the given sizes in bits.
func (f *frame) numbers(bits ...int) {
	most, all := 0, 0
	for _, b := range bits {
		most, all = max(most, b/64), all+b/64
	}
	f.step(1 + all + most*int(math.Sqrt(float64(most)))/16)
}

// digits consumes the steps for formatting a decimal number.
func (f *frame) digits(n *big.Int) {
	words := n.BitLen() / 64
	f.step(1 + words + words*words/32)
}

// newString returns a new string. If the string exceeds the maximum length, the call ends.
func (f *frame) newString(s string) value {
	if len(s) > stringMax {
		panic(exhausted{what: "a string of more than 2 MiB"})
	}
	f.alloc(len(s) + 16)
	return value{r: s}
}

// next describes how a statement ends.
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
