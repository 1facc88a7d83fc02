// SPDX-License-Identifier: Apache-2.0

package java

import (
	"math"
	"math/big"

	"github.com/ilion-db/ilion/internal/model/meter"
)

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
	// steps and bytes are what is left. meter is that of the request; it is told of steps when they fall below look.
	steps, checkAt, reported int
	bytes             int
	meter             *meter.Meter
	deep              int
	// held are the places that assignments under way change.
	targets []*value
}

// lookEvery is after how many steps the meter of the request is told of them.
const checkEvery = 512

// step takes steps from what the call may take. It is called before the work is done.
func (f *frame) step(n int) {
	if f.steps -= n; f.steps < f.checkAt {
		f.reportSteps()
	}
}

// tell tells the meter of the steps since the last time, and ends the call if it may not go on.
func (f *frame) reportSteps() {
	if f.steps < 0 {
		panic(exhausted{what: "more than 2000000 steps"})
	}
	n := f.reported - f.steps
	f.reported, f.checkAt = f.steps, max(0, f.steps-checkEvery)
	f.abort(f.meter.Step(n))
}

// heed ends the call with an error of the request.
func (f *frame) abort(err error) {
	if err != nil {
		panic(exhausted{err: err})
	}
}

// alloc takes bytes from what the call may allocate, and steps for touching them. It is called before they are
// allocated.
func (f *frame) alloc(n int) {
	if f.bytes -= n; f.bytes < 0 {
		panic(exhausted{what: "more than 16 MiB of memory"})
	}
	f.abort(f.meter.Alloc(n))
	f.step(n >> 6)
}

// text takes the steps of going through a text character by character.
func (f *frame) text(s string) { f.step(len(s)/8 + 1) }

// numbers takes the steps of arithmetic on numbers of so many bits: as many as a multiplication or a division takes.
func (f *frame) numbers(bits ...int) {
	most, all := 0, 0
	for _, b := range bits {
		most, all = max(most, b/64), all+b/64
	}
	f.step(1 + all + most*int(math.Sqrt(float64(most)))/16)
}

// digits takes the steps of writing a number out in decimal digits.
func (f *frame) digits(n *big.Int) {
	words := n.BitLen() / 64
	f.step(1 + words + words*words/32)
}

// made is a string that was made, which must not be too long.
func (f *frame) newString(s string) value {
	if len(s) > stringMax {
		panic(exhausted{what: "a string of more than 2 MiB"})
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
