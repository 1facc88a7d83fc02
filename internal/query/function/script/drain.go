// SPDX-License-Identifier: Apache-2.0

package script

import "github.com/dop251/goja"

// outside marks the end of the script's frames in the stack trace of an error.
const outside = "\n\tat carryAll (native)"

// makeWithin creates a JavaScript function that calls carryAll. drain calls this function.
func (r *realm) makeWithin() {
	around, _ := goja.AssertFunction(r.mustRun(goja.MustCompile("operations",
		"(function (carryAll) { 'use strict'; return function () { carryAll() } })", true)))
	made, err := around(goja.Undefined(), r.native("carryAll", r.carryAll))
	must(err)
	r.within, _ = goja.AssertFunction(made)
}

// drain executes the pending operations until no operation remains or the script waits for a promise. Whenever a
// JavaScript call returns, the engine runs promise jobs and releases the memory of the stack. Therefore, all callbacks
// run within one JavaScript call. If the script uses promises, the JavaScript call ends after each callback so that
// promise jobs can run.
func (r *run) drain() error {
	if r.promised {
		return r.carryNext()
	}
	if _, err := r.realm.within(goja.Undefined()); err != nil {
		return err
	}
	return r.failed
}

// carryNext executes the next pending operation.
func (r *run) carryNext() error {
	next := r.pending[0]
	r.pending = r.pending[1:]
	return next.carryOut(r)
}

// carryAll executes the pending operations until an error ends the script or the script waits for a promise.
func (r *realm) carryAll(goja.FunctionCall) goja.Value {
	for run := r.run; len(run.pending) > 0 && !run.promised && run.failed == nil; {
		run.failed = run.carryNext()
	}
	return goja.Undefined()
}

// tracker detects waits for promises. It implements goja.AsyncContextTracker.
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
