// SPDX-License-Identifier: Apache-2.0

package script

import "github.com/dop251/goja"

// outside is where the stack of an error ends that is the script's business.
const outside = "\n\tat carryAll (native)"

// makeWithin makes the function that drain calls.
func (r *realm) makeWithin() {
	around, _ := goja.AssertFunction(r.mustRun(goja.MustCompile("operations",
		"(function (carryAll) { 'use strict'; return function () { carryAll() } })", true)))
	made, err := around(goja.Undefined(), r.native("carryAll", r.carryAll))
	must(err)
	r.within, _ = goja.AssertFunction(made)
}

// drain carries out what is pending: all of it, or as much as there is until something waits for a promise. Whenever
// the engine is left it runs what promises have to do, and throws the memory of its stack away. So callbacks are called
// within one call of a function, unless there are promises, whose turn is after each callback.
func (r *run) drain() error {
	if r.promised {
		return r.carryNext()
	}
	if _, err := r.realm.within(goja.Undefined()); err != nil {
		return err
	}
	return r.failed
}

// carryNext carries out one operation.
func (r *run) carryNext() error {
	next := r.pending[0]
	r.pending = r.pending[1:]
	return next.carryOut(r)
}

// carryAll carries out what is pending, until an error ends the script or something waits for a promise.
func (r *realm) carryAll(goja.FunctionCall) goja.Value {
	for run := r.run; len(run.pending) > 0 && !run.promised && run.failed == nil; {
		run.failed = run.carryNext()
	}
	return goja.Undefined()
}

// tracker hears of what waits for promises. It is a goja.AsyncContextTracker.
type tracker struct{ realm *realm }

// Grab implements goja.AsyncContextTracker.
func (t tracker) Grab() any {
	if t.realm.run != nil {
		t.realm.run.promised = true
	}
	return nil
}

// Resumed implements goja.AsyncContextTracker.
func (t tracker) Resumed(any) {}

// Exited implements goja.AsyncContextTracker.
func (t tracker) Exited() {}
