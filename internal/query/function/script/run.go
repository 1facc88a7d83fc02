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

// run is one call of a script in a realm. Each run has a separate goroutine. The caller waits for the run only until
// the time limit, because built-ins cannot be interrupted.
type run struct {
	engine *Engine
	realm  *realm
	ctx    context.Context
	call   *Call
	role   role

	begun, accept, end time.Time
	// stopped is the failure that ends the script, or nil. See stop.
	stopped atomic.Pointer[Failure]
	// mu guards over and abandoned. A run holds mu while it uses Items, because an abandoned run must not use Items.
	mu              sync.Mutex
	over, abandoned bool
	watch           *time.Timer
	// heap is the size of the heap in bytes at the first check of the script.
	heap uint64

	pending    []pending
	operations int
	log        logged
	// body is the response body. requestBody is the request body of a trigger. See response.go.
	body, requestBody goja.Value
	// broken reports whether the script has ended without an exception. The realm of a broken run is not reused,
	// because the state of the realm may be invalid.
	broken bool
	// rejections maps rejected promises without a handler to the reasons for the rejections.
	rejections map[*goja.Promise]goja.Value
	// promised reports whether the script waits for a promise. failed is the error of the last operation that drain has
	// executed.
	promised bool
	failed   error
}

// role is the role in which a script runs.
type role uint8

const (
	procedure role = iota + 1
	preTrigger
	postTrigger
	function
	cqlFunction
)

// watchEvery is the interval at which a long-running script is checked.
const watchEvery = 2 * time.Millisecond

// result is the result of a run.
type result struct {
	body, requestBody []byte
	// wire is the result of a CQL function. nil represents null.
	wire    []byte
	log     string
	failure *Failure
}

// do executes a script in a pooled realm and enforces the limits.
func (e *Engine) do(ctx context.Context, role role, c *Call) (*result, error) {
	of, err := e.enter(ctx, c.Who)
	if err != nil {
		return nil, err
	}
	// A script may end after its request, when the context of the request has already been reused. After its
	// cancellation, the derived context does not access the request's context.
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

// wait waits for a run. If the run does not end within the grace period after the time limit, wait abandons the run.
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
		"The script exceeded %v and was rolled back. Do less in one call, and stop when an operation is not accepted",
		r.end.Sub(r.begun).Round(time.Millisecond))}
}

// stop ends the script with a failure. It may be called from any goroutine. Only the first failure is reported.
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

// look checks the limits of a running script every few milliseconds. It ends the script if the script has exceeded its
// time limit or the heap has grown too much.
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
			"The heap of the node grew by more than %d bytes during the script. The script was rolled back",
			r.engine.bounds.MemoryBytes)})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.heap = min(r.heap, heap)
		r.watch.Reset(watchEvery)
	}
}

// heapBytes returns the heap size of the process, including garbage.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// collectEvery is the minimum interval between garbage collections that measure the memory of scripts.
const collectEvery = 100 * time.Millisecond

// collected returns the result of heapBytes after a garbage collection. If a garbage collection has run recently,
// collected does not start another collection, because frequent collections are too expensive.
func (e *Engine) collected() uint64 {
	e.collecting.Lock()
	defer e.collecting.Unlock()
	if now := time.Now(); now.Sub(e.collection) > collectEvery {
		runtime.GC()
		e.collection = time.Now()
	}
	return heapBytes()
}

// run executes the script in a realm. It returns the realm to the pool unless the run is broken.
func (r *run) run() (out *result) {
	e := r.engine
	r.realm = e.take()
	r.realm.begin(r)
	r.mu.Lock()
	r.watch = time.AfterFunc(watchEvery, r.look)
	r.mu.Unlock()
	clean := false
	defer func() {
		// The engine is third-party code. A panic in the engine must affect only this script.
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

// script calls the function of the script. Then it runs all callbacks and promise jobs.
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
			return err.(*Failure) //nolint:errorlint // cqlArguments returns no other type
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

// serialize encodes the bodies that the script has set.
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
			"The result of the script has %d bytes; the limit is %d. The script was rolled back", len(out.body), bytesMax)}
	}
	return nil
}

// unhandled returns the failure for a rejected promise without a handler. returned may also be such a promise.
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

// rejected tracks rejected promises without a handler.
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

// failure converts an error from the engine.
func (r *run) failure(err error) *Failure {
	if f := r.stopped.Load(); f != nil {
		return f
	}
	if ex, ok := errors.AsType[*goja.Exception](err); ok {
		return r.thrown(ex.Value())
	}
	r.broken = true
	if _, ok := errors.AsType[*goja.StackOverflowError](err); ok {
		return refused("The script exceeded the call depth of %d and was rolled back",
			r.engine.bounds.Depth)
	}
	return refused("The script failed and was rolled back: %v", err)
}

// thrownMax is the maximum size in bytes of an exception's text in an error.
const thrownMax = 4 << 10

// inside matches the engine's message for an object that cannot be converted to a string. The message contains internal
// state.
var inside = regexp.MustCompile(`Could not convert &\{[^\n]*?(\}[^\n}]* to primitive|\n|$)`)

// thrown returns the failure for an exception. The failure contains the text of the exception. The sub-status is the
// number of the exception.
func (r *run) thrown(v goja.Value) *Failure {
	text, number := "an error without a message", 0
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
		text = "an error whose message cannot be read"
	}
	if f := r.stopped.Load(); f != nil {
		return f
	}
	if number < 100 || number > 599 {
		number = 0
	}
	if text == "" {
		text = "an error without a message"
	}
	text = inside.ReplaceAllString(text[:min(len(text), 2*thrownMax)], "Could not convert an object to primitive")
	return &Failure{Status: 400, SubStatus: number, Message: "Encountered exception while executing Javascript. " +
		"Exception = " + text[:min(len(text), thrownMax)]}
}
