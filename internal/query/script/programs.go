// SPDX-License-Identifier: Apache-2.0

package script

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// programs keeps what was compiled, and that something could not be, by the text of the body: a script that was
// replaced by another text is another program. What was used longest ago goes first.
type programs struct {
	mu        sync.Mutex
	of        map[string]*list.Element
	order     list.List // of *compiled, the last used in front
	bytes     int
	compiling chan struct{}
}

type compiled struct {
	body    string
	program *Program
	err     error
}

// compileTime is how long a script may take to compile. Compiling cannot be interrupted: until it has ended no other
// script is compiled.
const compileTime = 2 * time.Second

// Program compiles the body of a script, or finds what was compiled before. Name is for errors. Errors are *Failure.
func (e *Engine) Program(ctx context.Context, name, body string) (*Program, error) {
	if len(body) > BodyBytesMax {
		return nil, refused("The script %s has %d bytes; at most %d are allowed.", name, len(body), BodyBytesMax)
	}
	return e.compiled(ctx, name, body, func() (*Program, error) { return compile(name, body) })
}

// compiled finds what was compiled of a text, or compiles it.
func (e *Engine) compiled(ctx context.Context, name, body string, compile func() (*Program, error)) (*Program, error) {
	if c := e.programs.find(body); c != nil {
		return c.program, c.err
	}
	slow := &Failure{Status: 408, Message: fmt.Sprintf(
		"The script %s could not be compiled within %v. Make its expressions and functions smaller", name, compileTime)}
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

// safely compiles, and makes an error of what the compiler panics with.
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
