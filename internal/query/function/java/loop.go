// SPDX-License-Identifier: Apache-2.0

package java

// loop compiles a while, do, or for loop.
func (c *compiler) loop(n *node) (exec, bool) {
	var init, update exec
	var condition eval
	var test, body *node
	switch n.op {
	case opFor:
		init, _ = c.statements(n.kids[0].kids)
		test, body = n.kids[1], n.kids[3]
	default:
		test, body = n.kids[0], n.kids[1]
	}
	endless := test == nil || test.op == opLiteral && test.text == "true"
	before := c.nodes
	if test != nil {
		condition = c.condition(test)
	}
	breaks := hasBreak(body)
	c.loops++
	var run exec
	c.inScope(func() { run, _ = c.statement(body) })
	c.loops--
	if n.op == opFor {
		update, _ = c.statements(n.kids[2].kids)
	}
	cost := 1 + c.nodes - before
	first := n.op == opDo
	return func(f *frame) next {
		if init != nil {
			init(f)
		}
		for again := first; ; {
			f.step(cost)
			if !again && condition != nil && condition(f).n == 0 {
				return goOn
			}
			again = false
			if run != nil {
				switch run(f) {
				case doBreak:
					return goOn
				case doReturn:
					return doReturn
				}
			}
			if update != nil {
				update(f)
			}
		}
	}, !endless || breaks
}

// hasBreak reports whether a body contains a break that ends the loop.
func hasBreak(n *node) bool {
	if n == nil {
		return false
	}
	switch n.op {
	case opBreak:
		return true
	case opWhile, opDo, opFor, opForEach:
		return false
	}
	for _, k := range n.kids {
		if hasBreak(k) {
			return true
		}
	}
	return false
}

// each compiles a loop of the form for (T x : all).
func (c *compiler) each(n *node) exec {
	all := c.expression(n.kids[0])
	element := jObject
	switch {
	case all.typ == jBad:
		element = jBad
	case all.typ.elem != nil:
		element = all.typ.elem
	case !extends(all.typ.name, "Iterable"):
		c.errorf(n.line, "Can only iterate over an array or an instance of java.lang.Iterable")
		element = jBad
	case len(all.typ.args) == 1:
		element = all.typ.args[0]
	}
	t := element
	if n.typ.name != "var" {
		t = c.resolve(n.typ)
	}
	v := c.declare(n.line, n.text, t)
	take := c.assigned(n.line, expression{typ: element, eval: func(f *frame) value { return f.locals[v.index] }}, t)
	before := c.nodes
	c.loops++
	var run exec
	c.inScope(func() { run, _ = c.statement(n.kids[1]) })
	c.loops--
	cost := 1 + c.nodes - before
	because := all.nullReason
	return func(f *frame) next {
		collection := all.eval(f)
		visit := func(e value) next {
			f.step(cost)
			f.locals[v.index] = e
			f.locals[v.index] = take(f)
			if run == nil {
				return goOn
			}
			return run(f)
		}
		var elems []any
		switch r := collection.r.(type) {
		case *array:
			for _, e := range r.of {
				if n := visit(e); n == doReturn || n == doBreak {
					return afterLoop(n)
				}
			}
			return goOn
		case *list:
			elems = r.elems
		case *dict:
			elems = r.keys
		default:
			f.throwNull("Cannot invoke \"java.util."+all.typ.name+".iterator()\"", because)
		}
		length := len(elems)
		for i := 0; i < length; i++ {
			if n := visit(ofRef(elems[i])); n == doReturn || n == doBreak {
				return afterLoop(n)
			}
			if l, ok := collection.r.(*list); ok && len(l.elems) != length {
				panic(&Thrown{Class: "java.util.ConcurrentModificationException"})
			}
		}
		return goOn
	}
}

// afterLoop returns the result of a loop that a statement in the loop's body has ended.
func afterLoop(n next) next {
	if n == doReturn {
		return doReturn
	}
	return goOn
}

// try compiles a statement of the form try .. catch .. finally.
func (c *compiler) try(n *node) (exec, bool) {
	var body, finally exec
	var open, openFinally bool
	c.inScope(func() { body, open = c.statement(n.kids[0]) })
	type handler struct {
		classes []string
		index   int
		run     exec
	}
	var handlers []handler
	for _, k := range n.kids[2:] {
		h := handler{}
		caught := class("Throwable")
		for _, t := range k.types {
			j := c.resolve(t)
			if j != jBad && !extends(j.name, "Throwable") {
				c.errorf(k.line, "No exception of type %s can be thrown; an exception type must be a subclass of Throwable", j)
			}
			h.classes = append(h.classes, j.name)
			if caught = j; len(k.types) > 1 {
				caught = class("Exception")
			}
		}
		c.inScope(func() {
			h.index = c.declare(k.line, k.text, caught).index
			var o bool
			h.run, o = c.statement(k.kids[0])
			open = open || o
		})
		handlers = append(handlers, h)
	}
	if openFinally = true; n.kids[1] != nil {
		c.inScope(func() { finally, openFinally = c.statement(n.kids[1]) })
	}
	return func(f *frame) next {
		f.step(1)
		to, thrown := attempt(f, body)
		if thrown != nil {
			for _, h := range handlers {
				if catches(h.classes, thrown) {
					f.locals[h.index] = ofRef(thrown)
					to, thrown = attempt(f, h.run)
					break
				}
			}
		}
		if finally != nil {
			if last := finally(f); last != goOn {
				return last
			}
		}
		if thrown != nil {
			panic(thrown)
		}
		return to
	}, open && openFinally
}

// attempt runs the body or a handler of a try statement. It returns the thrown exception, or nil.
func attempt(f *frame, run exec) (to next, thrown *Thrown) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *Thrown:
			thrown = p
		default:
			panic(p)
		}
	}()
	if run == nil {
		return goOn, nil
	}
	return run(f), nil
}

func catches(names []string, t *Thrown) bool {
	name := t.Class[lastDot(t.Class)+1:]
	for _, n := range names {
		if extends(name, n) || n == "Exception" || n == "Throwable" || n == "RuntimeException" {
			return true
		}
	}
	return false
}

func lastDot(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '.' {
			return i
		}
	}
	return -1
}
