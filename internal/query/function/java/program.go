// SPDX-License-Identifier: Apache-2.0

package java

import (
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/meter"
)

// Signature describes a function for Compile.
type Signature struct {
	ArgNames []string
	Args     []*cqltype.Type
	Returns  *cqltype.Type
	// Nulls reports whether the body is called with null arguments. If Nulls is true, the arguments and the result have
	// box classes. Otherwise, numbers are primitive.
	Nulls bool
	Body  string
}

// Program is a compiled body. It is immutable and safe for concurrent use.
type Program struct {
	signature Signature
	run       exec
	locals    int
	result    *jtype
	params    []*jtype
}

// errorsMax is the maximum number of reported errors for a body.
const errorsMax = 20

// Compile compiles a body. The error is an *Error.
func Compile(s Signature) (p *Program, err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Error:
			p, err = nil, e
		default:
			p, err = nil, at(1, "The body cannot be compiled: %v", e)
		}
	}()
	tokens, lexed := lex(s.Body)
	if lexed != nil {
		return nil, lexed
	}
	body := parse(tokens)
	p = &Program{signature: s, result: typeOf(s.Returns, !s.Nulls)}
	c := &compiler{program: p, result: p.result, slots: 1}
	for i, t := range s.Args {
		p.params = append(p.params, typeOf(t, !s.Nulls))
		c.declare(1, s.ArgNames[i], p.params[i])
		c.scope[i].parameter = true
	}
	if c.find("udfContext") == nil {
		c.declare(1, "udfContext", class("UDFContext"))
	}
	var open bool
	if p.run, open = c.statements(body.kids); open && len(c.errors) == 0 {
		c.errorf(body.last(), "This method must return a result of type %s", p.result)
	}
	p.locals = c.locals
	if len(c.errors) > 0 {
		return nil, &Error{slices.Clip(c.errors)[:min(len(c.errors), errorsMax)]}
	}
	return p, nil
}

// last returns the last line of a body.
func (n *node) last() int {
	line := n.line
	for _, k := range n.kids {
		if k != nil {
			line = max(line, k.last())
		}
	}
	return line
}

// Call calls the function. The arguments and the result are wire values. A nil value represents null. The error is a
// *Thrown or an error from the meter. If m is nil, the call is not limited by a meter.
func (p *Program) Call(m *meter.Meter, args [][]byte) (out []byte, err error) {
	f := &frame{program: p, locals: make([]value, p.locals), steps: stepsMax, bytes: bytesMax,
		checkAt: stepsMax, reported: stepsMax, meter: m}
	mark := m.Mark()
	defer func() {
		if m.Release(mark); err == nil {
			err = m.Alloc(len(out))
		}
	}()
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Thrown:
			out, err = nil, e
		case exhausted:
			if out, err = nil, e.err; err != nil {
				return
			}
			out, err = nil, &Thrown{"java.lang.Error", "the function was ended: it takes " + e.what, true}
		default:
			// An unexpected panic must end only this call.
			out, err = nil, &Thrown{"java.lang.InternalError", fmt.Sprint(e), true}
		}
	}()
	for i, t := range p.signature.Args {
		if p.params[i].kind == kRef {
			f.locals[i] = ofRef(f.fromWire(t, args[i]))
		} else if b, ok := f.fromWire(t, args[i]).(box); ok {
			f.locals[i] = ofInt(b.n)
		}
	}
	if n := len(p.signature.Args); n < len(f.locals) {
		f.locals[n] = ofRef(&context{p})
	}
	p.run(f)
	if p.result.kind != kRef {
		f.result = f.result.boxing(p.result.kind)
	}
	return p.toWire(f, p.signature.Returns, f.result.r), nil
}
