// SPDX-License-Identifier: Apache-2.0

package java

import (
	"slices"
	"strings"
)

// variable is a parameter or local variable.
type variable struct {
	name string
	typ  *jtype
	// index is the index of the variable in the frame. slot is the number of the variable in the Java virtual machine.
	// Exception messages contain slot.
	index, slot int
	parameter   bool
}

// compiler compiles one body.
type compiler struct {
	program *Program
	errors  []string
	scope   []variable
	locals  int
	slots   int
	loops   int
	// handlers is the number of try statements around the current statement.
	result *jtype
	nodes  int
}

func (c *compiler) errorf(line int, format string, args ...any) {
	if e := at(line, format, args...).Lines[0]; len(c.errors) < 20 {
		c.errors = append(c.errors, e)
	}
}

// declare adds a variable to the scope.
func (c *compiler) declare(line int, name string, t *jtype) variable {
	if c.find(name) != nil {
		c.errorf(line, "Duplicate local variable %s", name)
	}
	v := variable{name: name, typ: t, index: len(c.scope), slot: c.slots}
	c.slots++
	if t.kind == kLong || t.kind == kDouble {
		c.slots++
	}
	c.scope = append(c.scope, v)
	c.locals = max(c.locals, len(c.scope))
	return v
}

func (c *compiler) find(name string) *variable {
	for i := len(c.scope) - 1; i >= 0; i-- {
		if c.scope[i].name == name {
			return &c.scope[i]
		}
	}
	return nil
}

// inScope compiles in a new scope.
func (c *compiler) inScope(compile func()) {
	n, slots := len(c.scope), c.slots
	compile()
	c.scope, c.slots = c.scope[:n], slots
}

// resolve returns the type with a name. If the type does not exist, it reports an error and returns jBad.
func (c *compiler) resolve(t *typeName) *jtype {
	var of *jtype
	if p := primitiveTypes[t.name]; p != nil {
		of = p
	} else {
		name := simpleName(t.name)
		if name == "" {
			if slices.ContainsFunc(unsupportedPackages, func(p string) bool { return strings.HasPrefix(t.name, p) }) &&
				!isHidden(t.name) {
				panic(unsupported(t.line, "The class "+t.name))
			}
			c.errorf(t.line, "%s cannot be resolved to a type", t.name)
			return jBad
		}
		args := make([]*jtype, len(t.args))
		for i, a := range t.args {
			if args[i] = c.resolve(a); args[i].kind != kRef {
				c.errorf(t.line, "Syntax error on token \"%s\", Dimensions expected after this token", args[i])
				return jBad
			}
		}
		of = class(name, args...)
	}
	for range t.dims {
		of = arrayOf(of)
	}
	if t.dims > 1 {
		panic(unsupported(t.line, "An array of arrays"))
	}
	return of
}

// simpleName returns the name of a class without the package name, or an empty string if the class does not exist.
func simpleName(name string) string {
	if c, ok := classes[name]; ok && !(c.in == "java.math" || c.in == "java.nio") {
		return name
	}
	for simple, c := range classes {
		if name == c.in+"."+simple || c.in == driver && name == "com.datastax.driver.core."+simple {
			return simple
		}
	}
	switch name {
	case "BigInteger", "BigDecimal", "ByteBuffer", "InetAddress":
		return name
	}
	return ""
}

// isHidden reports whether a body must not use a class. As in Cassandra, classes that provide access to the environment
// of the function are hidden.
func isHidden(name string) bool {
	for _, p := range []string{"java.lang.Thread", "java.lang.System", "java.lang.Runtime", "java.lang.Process",
		"java.lang.Class", "java.lang.reflect.", "java.lang.invoke.", "java.util.concurrent.", "java.net.Socket",
		"java.net.URL", "java.nio.file.", "java.nio.channels.", "java.util.jar.", "java.util.zip."} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// statements compiles a sequence of statements.
func (c *compiler) statements(nodes []*node) (exec, bool) {
	list := make([]exec, 0, len(nodes))
	open := true
	for _, n := range nodes {
		if !open {
			c.errorf(n.line, "Unreachable code")
			break
		}
		var run exec
		if run, open = c.statement(n); run != nil {
			list = append(list, run)
		}
	}
	switch len(list) {
	case 0:
		return func(*frame) next { return goOn }, open
	case 1:
		return list[0], open
	}
	return func(f *frame) next {
		for _, run := range list {
			if n := run(f); n != goOn {
				return n
			}
		}
		return goOn
	}, open
}

// statement compiles a statement. If the following statement is unreachable, open is false.
func (c *compiler) statement(n *node) (run exec, open bool) {
	c.nodes++
	switch n.op {
	case opEmpty:
		return nil, true
	case opBlock:
		c.inScope(func() { run, open = c.statements(n.kids) })
		return run, open
	case opLocal:
		return c.local(n), true
	case opExpr:
		e := c.expression(n.kids[0]).eval
		return func(f *frame) next {
			e(f)
			return goOn
		}, true
	case opIf:
		return c.branch(n)
	case opWhile, opDo, opFor:
		c.inScope(func() { run, open = c.loop(n) })
		return run, open
	case opForEach:
		c.inScope(func() { run = c.each(n) })
		return run, true
	case opReturn:
		return c.returns(n), false
	case opThrow:
		e := c.expression(n.kids[0])
		if e.typ != jBad && !assignable(e.typ, class("Throwable")) {
			c.errorf(n.line, "No exception of type %s can be thrown; an exception type must be a subclass of Throwable",
				e.typ)
		}
		return func(f *frame) next {
			t, ok := e.eval(f).r.(*Thrown)
			if !ok {
				throw("NullPointerException", "Cannot throw exception")
			}
			panic(t)
		}, false
	case opTry:
		return c.try(n)
	case opBreak, opContinue:
		if c.loops == 0 {
			word := "break"
			if n.op == opContinue {
				word = "continue"
			}
			c.errorf(n.line, "%s cannot be used outside of a loop", word)
		}
		to := doBreak
		if n.op == opContinue {
			to = doContinue
		}
		return func(*frame) next { return to }, false
	}
	panic(unsupported(n.line, "This statement"))
}

func (c *compiler) local(n *node) exec {
	var list []exec
	for _, d := range n.kids {
		if d.typ.name == "var" && d.typ.dims == 0 && d.kids[0] != nil {
			e := c.expression(d.kids[0])
			v := c.declare(d.line, d.text, e.typ)
			list = append(list, store(v.index, e.eval))
			continue
		}
		t := c.resolve(d.typ)
		if d.kids[0] == nil {
			v := c.declare(d.line, d.text, t)
			list = append(list, store(v.index, func(*frame) value { return value{} }))
			continue
		}
		if d.kids[0].op == opNew && len(t.args) > 0 && len(d.kids[0].typ.args) == 0 {
			d.kids[0].typ.args = d.typ.args
		}
		e := c.assigned(d.line, c.expression(d.kids[0]), t)
		v := c.declare(d.line, d.text, t)
		list = append(list, store(v.index, e))
	}
	return func(f *frame) next {
		for _, run := range list {
			run(f)
		}
		return goOn
	}
}

func store(index int, e eval) exec {
	return func(f *frame) next {
		f.locals[index] = e(f)
		return goOn
	}
}

func (c *compiler) condition(n *node) eval {
	e := c.expression(n)
	if e.typ == jBad {
		return e.eval
	}
	if u := e.typ.unboxed(); u != jBoolean {
		c.errorf(n.line, "Type mismatch: cannot convert from %s to boolean", e.typ)
	}
	return c.unbox(e).eval
}

func (c *compiler) branch(n *node) (exec, bool) {
	condition := c.condition(n.kids[0])
	var yes, no exec
	openYes, openNo := true, true
	c.inScope(func() { yes, openYes = c.statement(n.kids[1]) })
	if n.kids[2] != nil {
		c.inScope(func() { no, openNo = c.statement(n.kids[2]) })
	}
	return func(f *frame) next {
		run := no
		if condition(f).n != 0 {
			run = yes
		}
		if run == nil {
			return goOn
		}
		return run(f)
	}, openYes || openNo
}

func (c *compiler) returns(n *node) exec {
	if len(n.kids) == 0 {
		c.errorf(n.line, "This method must return a result of type %s", c.result)
		return func(*frame) next { return doReturn }
	}
	e := c.assigned(n.line, c.expression(n.kids[0]), c.result)
	return func(f *frame) next {
		f.result = e(f)
		return doReturn
	}
}

// assigned compiles the conversion of an expression to the type of an assignment target.
func (c *compiler) assigned(line int, e expression, to *jtype) eval {
	if e.typ == jBad || to == jBad {
		return e.eval
	}
	// A constant is converted to a smaller integer type or its box class if the value fits.
	if target := to.unboxed(); e.constant && target != nil && e.typ.integral() && e.typ.kind <= kInt &&
		target.integral() && target.kind <= kChar && narrow(e.eval(nil).n, target.kind) == e.eval(nil) {
		v := e.eval(nil)
		if to.kind == kRef {
			v = v.boxing(target.kind)
		}
		return func(*frame) value { return v }
	}
	if !convertible(e.typ, to) {
		c.errorf(line, "Type mismatch: cannot convert from %s to %s", e.typ, to)
		return e.eval
	}
	return c.coerce(e, to)
}

// coerce compiles the conversion of an expression to a type. The expression must be convertible to the type.
func (c *compiler) coerce(e expression, to *jtype) eval {
	inner := e.eval
	switch {
	case e.typ.kind == kRef && to.kind == kRef:
		return inner
	case to.kind == kRef:
		k := e.typ.kind
		return func(f *frame) value { return inner(f).boxing(k) }
	case e.typ.kind == kRef:
		e = c.unbox(e)
		inner = e.eval
	}
	if from, to := e.typ.kind, to.kind; from != to {
		return func(f *frame) value { return convert(inner(f), from, to) }
	}
	return inner
}

// unbox compiles the conversion of a box to a primitive. If the box is null, the conversion throws an exception.
func (c *compiler) unbox(e expression) expression {
	u := e.typ.unboxed()
	if u == nil || e.typ.kind != kRef {
		return e
	}
	inner, because := e.eval, e.nullReason
	message := "Cannot invoke \"java.lang." + e.typ.name + "." + u.name + "Value()\""
	return expression{typ: u, eval: func(f *frame) value {
		b, ok := inner(f).r.(box)
		if !ok {
			f.throwNull(message, because)
		}
		return value{n: b.n}
	}}
}

// throwNull throws a NullPointerException.
func (f *frame) throwNull(message, because string) {
	if because != "" {
		message += " because " + because + " is null"
	}
	throw("NullPointerException", "%s", message)
}
