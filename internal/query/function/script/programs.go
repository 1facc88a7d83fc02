// SPDX-License-Identifier: Apache-2.0

package script

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// programs is an LRU cache of compiled scripts and compilation errors. The key is the text of the body.
type programs struct {
	mu        sync.Mutex
	of        map[string]*list.Element
	order     list.List // elements are *compiled, most recently used first
	bytes     int
	compiling chan struct{}
}

type compiled struct {
	body    string
	program *Program
	err     error
}

// compileTime is the maximum compilation time of a script. Compilation cannot be interrupted and blocks the
// compilation of other scripts until it ends.
const compileTime = 2 * time.Second

// Program compiles the body of a script, or returns it from the cache. name is used in errors, which are of type
// *Failure.
func (e *Engine) Program(ctx context.Context, name, body string) (*Program, error) {
	if len(body) > BodyBytesMax {
		return nil, refused("The script %s has %d bytes; the limit is %d.", name, len(body), BodyBytesMax)
	}
	return e.compiled(ctx, name, body, func() (*Program, error) { return compile(name, body) })
}

// compiled returns the compiled form of a text from the cache, or compiles it.
func (e *Engine) compiled(ctx context.Context, name, body string, compile func() (*Program, error)) (*Program, error) {
	if c := e.programs.find(body); c != nil {
		return c.program, c.err
	}
	slow := &Failure{Status: 408, Message: fmt.Sprintf(
		"The script %s could not be compiled within %v. Simplify its expressions and functions", name, compileTime)}
	limit := time.NewTimer(compileTime)
	defer limit.Stop()
	select {
	case e.programs.compiling <- struct{}{}:
	case <-ctx.Done():
		return nil, slow
	case <-limit.C:
		return nil, slow
	}
	done := make(chan *compiled, 1)
	go func() {
		defer func() { <-e.programs.compiling }()
		c := e.programs.find(body)
		if c == nil {
			c = &compiled{body: body}
			c.program, c.err = safely(name, compile)
			e.programs.keep(c, e.bounds)
		}
		done <- c
	}()
	select {
	case c := <-done:
		return c.program, c.err
	case <-limit.C:
		return nil, slow
	}
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
