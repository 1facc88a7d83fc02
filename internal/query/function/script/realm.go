// SPDX-License-Identifier: Apache-2.0

package script

import (
	_ "embed"
	"fmt"
	"sync"

	"github.com/dop251/goja"
)

//go:embed prelude.js
var preludeText string

//go:embed query.js
var queryText string

//go:embed cql.js
var cqlText string

// preludes returns the programs of the prelude. The programs are compiled once per process.
var preludes = sync.OnceValue(func() [3]*goja.Program {
	return [3]*goja.Program{
		goja.MustCompile("prelude.js", preludeText, true),
		goja.MustCompile("query.js", queryText, true),
		goja.MustCompile("cql.js", cqlText, true),
	}
})

// absent lists the globals that the engine provides but scripts must not use. These globals compile text, use a large
// amount of memory in one step, or call functions of the engine without limits.
var absent = []string{
	"eval", "Proxy", "Reflect", "BigInt", "GoError", "ArrayBuffer", "SharedArrayBuffer", "DataView", "Int8Array",
	"Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array", "Float32Array",
	"Float64Array", "BigInt64Array", "BigUint64Array",
}

// realm is a JavaScript engine with limited and frozen built-ins. A realm serves one run at a time. The globals of a
// run are in a separate object, which is discarded after the run.
type realm struct {
	vm *goja.Runtime
	// run is the current run, or nil while the realm is in the pool.
	run  *run
	uses int
	// base holds the built-ins. The global objects of runs inherit from base.
	base  *goja.Object
	guard goja.Value
	// context is the result of getContext(). collection is the collection of context. underscore is the object __.
	// request and response are the objects of the current run.
	context, collection, underscore, request, response *goja.Object
	newError                                           goja.Value
	// scratch is the buffer that written uses.
	scratch []byte
	// within is a JavaScript function that calls carryAll. See drain.
	within goja.Callable
	// lists, maps, and records are the prototypes of CQL values.
	lists, maps, records *goja.Object
	newDate              goja.Value
}

// newRealm creates a realm. Creating a realm takes several milliseconds, so realms are reused.
func newRealm(depth int) *realm {
	r := &realm{vm: goja.New()}
	vm := r.vm
	vm.SetMaxCallStackSize(depth)
	vm.SetPromiseRejectionTracker(r.rejected)
	r.base = vm.GlobalObject()
	r.newError, r.newDate = r.base.Get("Error"), r.base.Get("Date")
	r.guard = vm.ToValue(r.guarded)
	r.makeObjects()
	for _, name := range absent {
		must(r.base.Delete(name))
	}
	vm.SetAsyncContextTracker(tracker{r})
	r.makeWithin()
	programs := preludes()
	query := r.mustRun(programs[1])
	native := vm.NewObject()
	r.method(native, "checkMatch", func(c goja.FunctionCall) goja.Value {
		if err := checkMatch(c.Argument(0).String(), int(c.Argument(1).ToInteger())); err != nil {
			panic(r.throwable("RangeError", err.Error()))
		}
		return goja.Undefined()
	})
	r.method(native, "setGlobal", func(c goja.FunctionCall) goja.Value {
		must(r.base.Set(c.Argument(0).String(), c.Argument(1)))
		return goja.Undefined()
	})
	r.method(native, "checkPattern", func(c goja.FunctionCall) goja.Value {
		if err := checkPattern(c.Argument(0).String()); err != nil {
			panic(r.throwable("RangeError", err.Error()))
		}
		return goja.Undefined()
	})
	r.method(native, "roots", func(goja.FunctionCall) goja.Value {
		return vm.ToValue([]any{r.base, r.context, r.collection, r.underscore, r.request, r.response})
	})
	r.method(native, "parse", r.jsonParse)
	r.method(native, "stringify", r.jsonStringify)
	must(native.Set("query", query))
	must(native.Set("collection", r.collection))
	r.method(native, "response", func(c goja.FunctionCall) goja.Value {
		r.run.body = c.Argument(0)
		return goja.Undefined()
	})
	bounds := vm.NewObject()
	must(bounds.Set("stringMax", stringMax))
	must(bounds.Set("arrayMax", arrayMax))
	must(bounds.Set("argumentsMax", argumentsMax))
	must(bounds.Set("searchMax", searchMax))
	r.mustCall(r.mustRun(programs[0]), native, bounds)
	prototypes := r.mustRun(programs[2]).(*goja.Object)
	r.lists, r.maps, r.records = prototypes.Get("lists").(*goja.Object), prototypes.Get("maps").(*goja.Object),
		prototypes.Get("records").(*goja.Object)
	return r
}

// begin assigns the realm to a run and creates a new global object.
func (r *realm) begin(run *run) {
	r.run = run
	r.uses++
	global := r.vm.CreateObject(r.base)
	must(global.DefineDataProperty("globalThis", global, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	r.vm.SetGlobalObject(global)
}

// end removes the run from the realm.
func (r *realm) end() {
	r.run = nil
	r.vm.SetGlobalObject(r.base)
}

// guarded checks the result of an operator. See harden. If the result is a string that is too long, guarded ends the
// script. An exception would not be sufficient, because the script could catch the exception and retain the allocated
// memory.
func (r *realm) guarded(c goja.FunctionCall) goja.Value {
	v := c.Argument(0)
	switch v := v.(type) {
	case goja.String:
		if v.Length() > stringMax {
			r.run.stop(refused("A string of the script is longer than %d characters.", stringMax))
		}
	case *goja.Object:
		if v.ClassName() == "Array" && v.Get("length").ToInteger() > arrayMax {
			r.run.stop(refused("An array of the script is longer than %d elements.", arrayMax))
		}
	}
	return v
}

// method adds a native function to an object.
func (r *realm) method(o *goja.Object, name string, f func(goja.FunctionCall) goja.Value) {
	must(o.Set(name, r.native(name, f)))
}

// native returns a native function.
func (r *realm) native(name string, f func(goja.FunctionCall) goja.Value) goja.Value {
	v := r.vm.ToValue(f).(*goja.Object)
	must(v.DefineDataProperty("name", r.vm.ToValue(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	return v
}

// throwable returns a JavaScript error. Native functions pass the error to panic.
func (r *realm) throwable(class, message string) goja.Value {
	constructor := r.base.Get(class)
	if constructor == nil {
		constructor = r.newError
	}
	o, err := r.vm.New(constructor, r.vm.ToValue(message))
	if err != nil {
		panic(err)
	}
	return o
}

func (r *realm) mustRun(p *goja.Program) goja.Value {
	v, err := r.vm.RunProgram(p)
	if err != nil {
		panic(fmt.Errorf("script prelude: %w", err))
	}
	return v
}

func (r *realm) mustCall(f goja.Value, args ...goja.Value) {
	call, _ := goja.AssertFunction(f)
	if _, err := call(goja.Undefined(), args...); err != nil {
		panic(fmt.Errorf("script prelude: %w", err))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
