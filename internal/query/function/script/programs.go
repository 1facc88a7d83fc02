// SPDX-License-Identifier: Apache-2.0

package script

import (
	"container/list"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// programs is an LRU cache of compiled scripts and compilation errors. The cache key is the text of the body.
type programs struct {
	mu    sync.Mutex
	of    map[string]*list.Element
	order list.List // *compiled elements in descending order of last use
	bytes int
	// compiling holds a value while a script is being compiled. During the compilation, clock returns the CPU time that
	// the compilation has used.
	compiling chan struct{}
	clock     atomic.Pointer[func() time.Duration]
}

// compileChecks is the number of CPU time checks per CompileTime.
const compileChecks = 20

type compiled struct {
	body    string
	program *Program
	err     error
}

// Program returns the compiled body of a script from the cache or compiles the body. Error messages contain name.
// Errors are of type *Failure.
func (e *Engine) Program(ctx context.Context, name, body string) (*Program, error) {
	if len(body) > BodyBytesMax {
		return nil, refused("The script %s has %d bytes; the limit is %d.", name, len(body), BodyBytesMax)
	}
	return e.compiled(ctx, name, body, func() (*Program, error) { return compile(name, body) })
}

// compiled returns the compiled form of a text from the cache or compiles the text. Only one script is compiled at a
// time. compiled fails if ctx ends, or if the compilation that it waits for has used CompileTime. A compilation cannot
// be interrupted, so it continues after compiled has failed. Further compilations must wait until this compilation
// ends.
func (e *Engine) compiled(ctx context.Context, name, body string, compile func() (*Program, error)) (*Program, error) {
	if c := e.programs.find(body); c != nil {
		return c.program, c.err
	}
	check := time.NewTicker(e.bounds.CompileTime / compileChecks)
	defer check.Stop()
	slow := &Failure{Status: 408, Message: fmt.Sprintf("The script %s could not be compiled within %v of CPU time, "+
		"or within the timeout of the request. Simplify its expressions and functions", name, e.bounds.CompileTime)}
	done, begin := make(chan *compiled, 1), e.programs.compiling
	for {
		select {
		case begin <- struct{}{}:
			begin = nil
			go e.compileNow(name, body, compile, done)
		case c := <-done:
			return c.program, c.err
		case <-ctx.Done():
			return nil, slow
		case <-check.C:
			if e.programs.exceeds(e.bounds.CompileTime) {
				return nil, slow
			}
		}
	}
}

// compileNow compiles a script on a separate thread. The separate thread is necessary to measure the CPU time of the
// compilation.
func (e *Engine) compileNow(name, body string, compile func() (*Program, error), done chan<- *compiled) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	clock := threadClock()
	e.programs.clock.Store(&clock)
	defer func() {
		e.programs.clock.Store(nil)
		<-e.programs.compiling
	}()
	c := e.programs.find(body)
	if c == nil {
		c = &compiled{body: body}
		c.program, c.err = safely(name, compile)
		e.programs.keep(c, e.bounds)
	}
	done <- c
}

// exceeds reports whether the running compilation has used more CPU time than limit.
func (p *programs) exceeds(limit time.Duration) bool {
	clock := p.clock.Load()
	return clock != nil && (*clock)() > limit
}

// safely compiles a script and converts a panic of the compiler to an error.
func safely(name string, compile func() (*Program, error)) (p *Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, refused("The script %s cannot be compiled: %v", name, r)
		}
	}()
	return compile()
}

func (p *programs) find(body string) *compiled {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.of[body]
	if e == nil {
		return nil
	}
	p.order.MoveToFront(e)
	return e.Value.(*compiled)
}

func (p *programs) keep(c *compiled, b Bounds) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[c.body] = p.order.PushFront(c)
	p.bytes += len(c.body)
	for p.order.Len() > 1 && (p.order.Len() > b.Programs || p.bytes > b.ProgramBytes) {
		last := p.order.Remove(p.order.Back()).(*compiled)
		delete(p.of, last.body)
		p.bytes -= len(last.body)
	}
}
