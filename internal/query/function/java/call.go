// SPDX-License-Identifier: Apache-2.0

package java

import (
	"strings"
)

// method is a method or constructor of a class.
type method struct {
	static bool
	name   string
	params []*typeName
	result *typeName
	// variadic reports whether the last parameter accepts any number of arguments.
	variadic bool
	// call executes the method. Unless the method is static, the first value is the object. The object is never null.
	call func(f *frame, a []value) value
}

// methods maps the name of a class and a method to the methods with this name. The name of a constructor is new.
var methods = map[string][]*method{}

// def declares a method of a class by its signature, such as "static max(int,int)int".
func def(class, signature string, call func(f *frame, a []value) value) {
	m := &method{call: call}
	signature, m.static = strings.CutPrefix(signature, "static ")
	open, end := strings.IndexByte(signature, '('), strings.LastIndexByte(signature, ')')
	m.name = signature[:open]
	if end > open+1 {
		list := signature[open+1 : end]
		list, m.variadic = strings.CutSuffix(list, "...")
		for _, p := range split(list) {
			m.params = append(m.params, template(p))
		}
	}
	m.result = template(signature[end+1:])
	methods[class+"."+m.name] = append(methods[class+"."+m.name], m)
}

// split divides a list of types at the commas that are outside type arguments.
func split(list string) []string {
	var out []string
	depth, begin := 0, 0
	for i := range len(list) {
		switch list[i] {
		case '<':
			depth++
		case '>':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, list[begin:i])
				begin = i + 1
			}
		}
	}
	return append(out, list[begin:])
}

// template parses a type in a signature. T represents the type of the object. E, K, and V represent the type arguments
// of the object's type.
func template(text string) *typeName {
	if text == "" || text == "void" {
		return &typeName{name: "void"}
	}
	tokens, err := lex(text)
	if err != nil {
		panic(err)
	}
	p := &parser{tokens: tokens}
	return p.typeName()
}

// fill returns the type that a template represents for an object of the type of.
func fill(t *typeName, of *jtype) *jtype {
	arg := func(i int) *jtype {
		if i < len(of.args) {
			return of.args[i]
		}
		return jObject
	}
	var out *jtype
	switch t.name {
	case "void":
		return jVoid
	case "E", "K":
		out = arg(0)
	case "V":
		out = arg(1)
	case "T":
		out = of
	default:
		if out = primitiveTypes[t.name]; out == nil {
			args := make([]*jtype, len(t.args))
			for i, a := range t.args {
				if args[i] = fill(a, of); len(of.args) == 0 && (a.name == "E" || a.name == "K" || a.name == "V") {
					args = nil // a raw type
					break
				}
			}
			out = class(t.name, args...)
		}
	}
	for range t.dims {
		out = arrayOf(out)
	}
	return out
}

// candidates returns the methods of a class with a given name, including inherited methods.
func candidates(name, called string) []*method {
	found := methods[name+"."+called]
	for _, s := range classes[name].supers {
		found = append(found[:len(found):len(found)], candidates(s, called)...)
	}
	if len(classes[name].supers) == 0 && name != "Object" {
		found = append(found[:len(found):len(found)], methods["Object."+called]...)
	}
	return found
}

// choose returns the method that a call with the given arguments invokes. It prefers methods in this order: exact
// types, assignable types, conversions by boxing, and variadic methods.
func choose(found []*method, args []expression, of *jtype) *method {
	takes := func(m *method, i int, by func(from, to *jtype) bool) bool {
		return by(args[i].typ, fill(m.params[i], of))
	}
	exact := func(from, to *jtype) bool { return from.String() == to.String() }
	for _, by := range []func(from, to *jtype) bool{exact, assignable, convertible} {
		for _, m := range found {
			ok := !m.variadic && len(m.params) == len(args)
			for i := 0; ok && i < len(args); i++ {
				ok = takes(m, i, by)
			}
			if ok {
				return m
			}
		}
	}
	for _, m := range found {
		ok := m.variadic && len(args) >= len(m.params)-1
		for i := 0; ok && i < len(args); i++ {
			ok = convertible(args[i].typ, fill(m.params[min(i, len(m.params)-1)], of))
		}
		if ok {
			return m
		}
	}
	return nil
}

// arguments compiles the arguments of a call. If an argument contains an error, it returns false.
func (c *compiler) arguments(nodes []*node) ([]expression, bool) {
	args, ok := make([]expression, len(nodes)), true
	for i, n := range nodes {
		args[i] = c.expression(n)
		ok = ok && args[i].typ != jBad
		if args[i].typ == jVoid {
			c.errorf(n.line, "A method without a result cannot be an argument")
			ok = false
		}
	}
	return args, ok
}

func argTypes(args []expression) string {
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = a.typ.String()
	}
	return strings.Join(texts, ", ")
}

func (c *compiler) call(n *node) expression {
	if n.kids[0] == nil {
		c.errorf(n.line, "The method %s() is undefined for the type of the function", n.text)
		return bad()
	}
	if name, written, ok := c.className(n.kids[0]); ok {
		if name == "" {
			c.unknownName(n.line, written)
			return bad()
		}
		return c.invoke(n, expression{typ: class(name)}, true)
	}
	of := c.expression(n.kids[0])
	if of.typ == jBad {
		c.arguments(n.kids[1:])
		return bad()
	}
	if of.typ.kind != kRef || of.typ.elem != nil || of.typ == jNull {
		c.errorf(n.line, "Cannot invoke %s() on the type %s", n.text, of.typ)
		return bad()
	}
	return c.invoke(n, of, false)
}

// unsupportedMethods lists unsupported methods of Java's classes.
var unsupportedMethods = []string{"stream", "parallelStream", "forEach", "computeIfAbsent", "computeIfPresent",
	"compute", "merge",
	"replaceAll", "removeIf", "getClass", "wait", "notify", "chars", "codePoints", "getBytes", "listIterator",
	"toArray",
	"spliterator", "clone", "intern", "lines", "map", "filter", "sort", "descendingIterator"}

func (c *compiler) invoke(n *node, of expression, static bool) expression {
	args, ok := c.arguments(n.kids[1:])
	if !ok {
		return bad()
	}
	found := candidates(of.typ.name, n.text)
	if static {
		found = only(found, static)
	}
	m := choose(found, args, of.typ)
	if m == nil {
		for _, k := range unsupportedMethods {
			if k == n.text {
				panic(unsupported(n.line, "The method "+of.typ.name+"."+n.text))
			}
		}
		if len(found) == 0 {
			c.errorf(n.line, "The method %s(%s) is undefined for the type %s", n.text, argTypes(args), of.typ)
			return bad()
		}
		c.errorf(n.line, "The method %s in the type %s is not applicable for the arguments (%s)", n.text, of.typ,
			argTypes(args))
		return bad()
	}
	return c.invocation(m, of, args)
}

func only(found []*method, static bool) []*method {
	var out []*method
	for _, m := range found {
		if m.static == static {
			out = append(out, m)
		}
	}
	return out
}

// invocation compiles a call of a resolved method.
func (c *compiler) invocation(m *method, of expression, args []expression) expression {
	var evals []eval
	if !m.static && m.name != "new" {
		evals = append(evals, of.eval)
	}
	fixed := len(m.params)
	if m.variadic {
		fixed--
	}
	for i, a := range args {
		p := fill(m.params[min(i, len(m.params)-1)], of.typ)
		if i >= fixed {
			p = p.boxed()
		}
		evals = append(evals, c.coerce(a, p))
	}
	message := "Cannot invoke \"" + fullName(of.typ.name) + "." + m.name + "(" + paramNames(m) + ")\""
	because := of.nullReason
	receiver := !m.static && m.name != "new"
	t := fill(m.result, of.typ)
	do := m.call
	at := fixed
	if receiver {
		at++
	}
	e := expression{typ: t, nullReason: "the return value of \"" + fullName(of.typ.name) + "." + m.name + "(" +
		paramNames(m) + ")\""}
	e.eval = func(f *frame) value {
		f.step(1)
		var room [4]value
		values := room[:0]
		for _, arg := range evals {
			values = append(values, arg(f))
		}
		if receiver && values[0].r == nil {
			f.throwNull(message, because)
		}
		if m.variadic {
			rest := &list{}
			for _, v := range values[at:] {
				rest.elems = append(rest.elems, v.r)
			}
			values = append(values[:at:at], ofRef(rest))
		}
		return do(f, values)
	}
	if isTypeParameter(m.result) && t.kind == kRef && t.name != "Object" {
		e.eval = check(e.eval, t)
	}
	return e
}

// isTypeParameter reports whether a type is a type parameter. Values of a type parameter are checked when they are
// used.
func isTypeParameter(t *typeName) bool { return t.name == "E" || t.name == "K" || t.name == "V" }

func paramNames(m *method) string {
	texts := make([]string, len(m.params))
	for i, p := range m.params {
		switch p.name {
		case "E", "K", "V":
			texts[i] = "Object"
		default:
			texts[i] = p.name
		}
	}
	return strings.Join(texts, ", ")
}

func (c *compiler) creation(n *node) expression {
	t := c.resolve(n.typ)
	args, ok := c.arguments(n.kids)
	if t == jBad || !ok {
		return bad()
	}
	name := t.name
	found := methods[name+".new"]
	if extends(name, "Throwable") && name != "Object" {
		found = methods["Throwable.new"]
	}
	if len(found) == 0 {
		c.errorf(n.line, "Cannot instantiate the type %s", t)
		return bad()
	}
	m := choose(found, args, t)
	if m == nil {
		c.errorf(n.line, "The constructor %s(%s) is undefined", name, argTypes(args))
		return bad()
	}
	e := c.invocation(m, expression{typ: t}, args)
	e.typ = t
	if m.result.name == "Throwable" {
		inner, full := e.eval, fullName(name)
		e.eval = func(f *frame) value {
			t := *inner(f).r.(*Thrown)
			t.Class = full
			return ofRef(&t)
		}
	}
	return e
}

// classOf returns the class of a referenced object.
func classOf(r any) string {
	switch r := r.(type) {
	case string:
		return "String"
	case box:
		return boxes[r.kind]
	case *list:
		return "ArrayList"
	case *dict:
		if r.isSet {
			return "LinkedHashSet"
		}
		return "LinkedHashMap"
	case *entry:
		return "Map.Entry"
	case *record:
		if r.typ.Fields == nil {
			return "TupleValue"
		}
		return "UDTValue"
	case date:
		return "Date"
	case localDate:
		return "LocalDate"
	case uuidValue:
		return "UUID"
	case inet:
		return "InetAddress"
	case *buffer:
		return "ByteBuffer"
	case *builder:
		return "StringBuilder"
	case *iterator:
		return "Iterator"
	case *Thrown:
		return r.Class[lastDot(r.Class)+1:]
	}
	return numberClass(r)
}

// isA reports whether a referenced object is an instance of a class. It does not distinguish different classes of
// lists, sets, or maps.
func isA(r any, to *jtype) bool {
	if a, ok := r.(*array); ok {
		return to.name == "Object" || to.elem != nil && to.elem.String() == a.elem.String()
	}
	name := classOf(r)
	switch name {
	case "ArrayList":
		return to.name == "LinkedList" || extends(name, to.name)
	case "LinkedHashSet":
		return to.name == "HashSet" || extends(name, to.name)
	case "LinkedHashMap":
		return to.name == "HashMap" || extends(name, to.name)
	}
	return extends(name, to.name)
}
