// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dop251/goja"
)

// run is one call of a script in a realm. It has a goroutine of its own, which whoever called it waits for, but not for
// longer than the script may take: a single call of a built-in cannot be interrupted.
type run struct {
	engine *Engine
	realm  *realm
	ctx    context.Context
	call   *Call
	role   role

	begun, accept, end time.Time
	// stopped is why the script has to end; see stop.
	stopped atomic.Pointer[Failure]
	// mu guards over and abandoned, and is held while Items are used: after abandon they are not.
	mu              sync.Mutex
	over, abandoned bool
	watch           *time.Timer
	// heap is how large the heap was when the script was first looked at.
	heap uint64

	pending    []pending
	operations int
	log        logged
	// body is the response's, requestBody that of the request of a trigger; see response.go.
	body, requestBody goja.Value
	// broken says that the engine ended the script by other means than an exception: its state is not to be trusted.
	broken bool
	// rejections are the promises that were rejected and that nothing handles.
	rejections map[*goja.Promise]goja.Value
	// promised says that something waits for a promise; failed is the error of the last operation that was carried out
	// within drain.
	promised bool
	failed   error
}

// role is what a script runs as.
type role uint8

const (
	procedure role = iota + 1
	preTrigger
	postTrigger
	function
	cqlFunction
)

// watchEvery is how often a script that runs for longer is looked at.
const watchEvery = 2 * time.Millisecond

// result is what a run leaves.
type result struct {
	body, requestBody []byte
	// wire is what a function of CQL returns, nil for null.
	wire    []byte
	log     string
	failure *Failure
}

// do runs a script within its bounds, in a realm of the pool.
func (e *Engine) do(ctx context.Context, role role, c *Call) (*result, error) {
	of, err := e.enter(ctx, c.Who)
	if err != nil {
		return nil, err
	}
	// A script may end after its request, whose context is another one's then: it has a context that asks no other
	// once it is cancelled.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now := time.Now()
	within := &sync.WaitGroup{}
	r := &run{engine: e, ctx: context.WithValue(ctx, inner{}, within), call: c, role: role,
		begun: now, accept: now.Add(e.bounds.AcceptTime), end: now.Add(e.bounds.Time)}
	if role == cqlFunction || role == function {
		r.end = now.Add(e.bounds.FunctionTime)
	}
	if d, ok := ctx.Deadline(); ok && d.Before(r.end.Add(e.bounds.Grace)) {
		r.end = d.Add(-e.bounds.Grace)
		r.accept = now.Add(r.end.Sub(now) * 2 / 3)
	}
	done := make(chan *result, 1)
	go func() {
		defer func() { e.leave(of, c.Who, time.Since(now)) }()
		defer within.Wait()
		out := r.run()
		done <- out
	}()
	return r.wait(done)
}

// wait waits for a run, and gives up on it when it has not ended in time although it was told to.
func (r *run) wait(done chan *result) (*result, error) {
	limit := time.NewTimer(time.Until(r.end) + r.engine.bounds.Grace)
	defer limit.Stop()
	select {
	case out := <-done:
		return out, nil
	case <-limit.C:
	}
	r.mu.Lock()
	r.abandoned = true
	r.mu.Unlock()
	select {
	case out := <-done:
		return out, nil
	default:
		r.engine.abandoned.Add(1)
		return nil, r.tooLong()
	}
}

func (r *run) tooLong() *Failure {
	return &Failure{Status: 408, Fatal: true, Message: fmt.Sprintf(
		"The script ran longer than %v. Nothing was done: do less in one call, and stop when an operation is not accepted",
		r.end.Sub(r.begun).Round(time.Millisecond))}
}

// stop ends the script with a failure, from any goroutine. The first failure counts.
func (r *run) stop(f *Failure) {
	f.Fatal = true
	if !r.stopped.CompareAndSwap(nil, f) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.realm.vm.Interrupt(f)
	}
}

// look is called every few milliseconds while the script runs: it ends one whose time is over, or during which the
// heap has grown too much.
func (r *run) look() {
	heap := heapBytes()
	if r.heap == 0 {
		r.heap = heap
	}
	switch {
	case !time.Now().Before(r.end) || r.ctx.Err() != nil:
		r.stop(r.tooLong())
	case heap > r.heap+r.engine.bounds.MemoryBytes && r.engine.collected() > r.heap+r.engine.bounds.MemoryBytes:
		r.stop(&Failure{Status: 413, Message: fmt.Sprintf(
			"The heap of the node grew by more than %d bytes while the script ran. Nothing was done",
			r.engine.bounds.MemoryBytes)})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.heap = min(r.heap, heap)
		r.watch.Reset(watchEvery)
	}
}

// heapBytes is the size of the heap of the process, with garbage that was not collected yet.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// collectEvery is how often the garbage is collected at most to find out what scripts hold.
const collectEvery = 100 * time.Millisecond

// collected is heapBytes after the garbage was collected, unless that was done a moment ago: what scripts allocate so
// fast is not waited for again.
func (e *Engine) collected() uint64 {
	e.collecting.Lock()
	defer e.collecting.Unlock()
	if now := time.Now(); now.Sub(e.collection) > collectEvery {
		runtime.GC()
		e.collection = time.Now()
	}
	return heapBytes()
}

// run takes a realm, runs the script in it and gives it back if nothing extraordinary has happened.
func (r *run) run() (out *result) {
	e := r.engine
	r.realm = e.take()
	r.realm.begin(r)
	r.mu.Lock()
	r.watch = time.AfterFunc(watchEvery, r.look)
	r.mu.Unlock()
	clean := false
	defer func() {
		// The engine is another's code: what it panics with is an error of this script and no other.
		if p := recover(); p != nil {
			out = &result{failure: &Failure{Status: 500, Message: fmt.Sprintf("The script engine failed: %v", p)}}
			if f := r.stopped.Load(); f != nil {
				out.failure = f
			}
			clean = false
		}
		r.mu.Lock()
		r.over = true
		r.watch.Stop()
		r.mu.Unlock()
		if clean && !r.broken && r.stopped.Load() == nil && r.realm.uses < realmUsesMax {
			e.give(r.realm)
		}
	}()
	out = &result{}
	out.failure = r.script(out)
	out.log = r.log.String()
	clean = true
	return out
}

// script calls the function of the script, and then whatever its operations and promises call, until nothing is left.
func (r *run) script(out *result) *Failure {
	vm := r.realm.vm
	made, err := vm.RunProgram(r.call.Program.code)
	if err != nil {
		return r.failure(err)
	}
	outer, _ := goja.AssertFunction(made)
	f, err := outer(goja.Undefined(), r.realm.guard)
	if err != nil {
		return r.failure(err)
	}
	call, ok := goja.AssertFunction(f)
	if !ok {
		return refused("The script %s is not a function.", r.call.Program.name)
	}
	var args []goja.Value
	if r.role == procedure || r.role == function {
		for a := range r.call.Arguments.Elements() {
			args = append(args, r.realm.value(a))
		}
	}
	if r.role == cqlFunction {
		if args, err = r.realm.cqlArguments(r.call); err != nil {
			return err.(*Failure)
		}
	}
	r.requestBody = r.realm.value(r.call.Request)
	r.body = r.realm.value(r.call.Response)
	returned, err := call(goja.Undefined(), args...)
	if err != nil {
		return r.failure(err)
	}
	for len(r.pending) > 0 {
		if err := r.drain(); err != nil {
			return r.failure(err)
		}
	}
	if f := r.unhandled(returned); f != nil {
		return f
	}
	if r.role == cqlFunction {
		return r.cqlResult(out, returned)
	}
	if r.role == function {
		r.body = returned
	}
	return r.serialize(out)
}

// serialize writes the bodies that the script leaves.
func (r *run) serialize(out *result) (failure *Failure) {
	bytesMax := r.engine.bounds.ResultBytes
	if r.role != procedure {
		bytesMax = stringMax
	}
	ex := r.realm.vm.Try(func() {
		out.body = r.realm.json(r.body, bytesMax, jsonDepthMax)
		if r.role == preTrigger {
			out.requestBody = r.realm.json(r.requestBody, bytesMax, jsonDepthMax)
		}
	})
	if f := r.stopped.Load(); f != nil {
		return f
	}
	if ex != nil {
		return r.failure(ex)
	}
	if len(out.body) > bytesMax {
		return &Failure{Status: 413, Message: fmt.Sprintf(
			"The script returns %d bytes; at most %d are allowed. Nothing was done", len(out.body), bytesMax)}
	}
	return nil
}

// unhandled is the failure of a promise that was rejected and that nobody looked at, the returned one included.
func (r *run) unhandled(returned goja.Value) *Failure {
	if o, ok := returned.(*goja.Object); ok && o.ClassName() == "Promise" {
		if p, ok := o.Export().(*goja.Promise); ok && p.State() == goja.PromiseStateRejected {
			return r.thrown(p.Result())
		}
	}
	for _, v := range r.rejections {
		return r.thrown(v)
	}
	return nil
}

// rejected keeps track of the promises that were rejected without a handler.
func (r *realm) rejected(p *goja.Promise, operation goja.PromiseRejectionOperation) {
	if r.run == nil {
		return
	}
	if operation == goja.PromiseRejectionHandle {
		delete(r.run.rejections, p)
		return
	}
	if r.run.rejections == nil {
		r.run.rejections = map[*goja.Promise]goja.Value{}
	}
	r.run.rejections[p] = p.Result()
}

// failure translates an error of the engine.
func (r *run) failure(err error) *Failure {
	if f := r.stopped.Load(); f != nil {
		return f
	}
	if ex, ok := errors.AsType[*goja.Exception](err); ok {
		return r.thrown(ex.Value())
	}
	r.broken = true
	if _, ok := errors.AsType[*goja.StackOverflowError](err); ok {
		return refused("The script calls functions more than %d deep in each other. Nothing was done",
			r.engine.bounds.Depth)
	}
	return refused("The script ended: %v. Nothing was done", err)
}

// thrownMax is how much of what a script throws is told, in bytes.
const thrownMax = 4 << 10

// inside is what the engine tells of an object that it cannot make a text of: its own memory.
var inside = regexp.MustCompile(`Could not convert &\{[^\n]*?(\}[^\n}]* to primitive|\n|$)`)

// thrown is the failure of what a script threw: its text, which may be a program itself, and its number as sub-status.
func (r *run) thrown(v goja.Value) *Failure {
	text, number := "an error without a text", 0
	if ex := r.realm.vm.Try(func() {
		o, isObject := v.(*goja.Object)
		if isObject {
			if n := o.Get("number"); n != nil && goja.IsNumber(n) {
				number = int(n.ToInteger())
			}
			if o.ClassName() == "Object" {
				text = string(r.realm.json(v, thrownMax, jsonDepthMax))
				return
			}
		}
		text = v.String()
		if isObject {
			if stack := o.Get("stack"); stack != nil && goja.IsString(stack) {
				text, _, _ = strings.Cut(stack.String(), outside)
			}
		}
	}); ex != nil {
		text = "an error whose text cannot be told"
	}
	if f := r.stopped.Load(); f != nil {
		return f
	}
	if number < 100 || number > 599 {
		number = 0
	}
	if text == "" {
		text = "an error without a text"
	}
	text = inside.ReplaceAllString(text[:min(len(text), 2*thrownMax)], "Could not convert an object to primitive")
	return &Failure{Status: 400, SubStatus: number, Message: "Encountered exception while executing Javascript. " +
		"Exception = " + text[:min(len(text), thrownMax)]}
}
