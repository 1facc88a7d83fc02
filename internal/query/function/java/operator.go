// SPDX-License-Identifier: Apache-2.0

package java

import (
	"math"
	"strings"
)

func (c *compiler) operands(n *node, a, b expression) expression {
	if a.typ != jBad && b.typ != jBad {
		c.errorf(n.line, "The operator %s is undefined for the argument type(s) %s, %s", strings.TrimSuffix(n.text, "="),
			a.typ, b.typ)
	}
	return bad()
}

func (c *compiler) binary(n *node) expression {
	a, b := c.expression(n.kids[0]), c.expression(n.kids[1])
	if a.typ == jBad || b.typ == jBad {
		return bad()
	}
	switch n.text {
	case "&&", "||":
		if a.typ.unboxed() != jBoolean || b.typ.unboxed() != jBoolean {
			return c.operands(n, a, b)
		}
		x, y := c.unbox(a).eval, c.unbox(b).eval
		and := n.text == "&&"
		return expression{typ: jBoolean, eval: func(f *frame) value {
			if v := x(f); (v.n != 0) != and {
				return v
			}
			return y(f)
		}}
	case "==", "!=":
		return c.equality(n, a, b)
	}
	return c.operation(n, n.text, a, b)
}

func (c *compiler) equality(n *node, a, b expression) expression {
	negate := n.text == "!="
	ua, ub := a.typ.unboxed(), b.typ.unboxed()
	primitive := a.typ.kind != kRef || b.typ.kind != kRef
	switch {
	case a.typ == jVoid || b.typ == jVoid:
		return c.operands(n, a, b)
	case primitive && (ua == nil || ub == nil || (ua == jBoolean) != (ub == jBoolean)):
		c.errorf(n.line, "Incompatible operand types %s and %s", a.typ, b.typ)
		return bad()
	case primitive && ua == jBoolean:
		x, y := c.unbox(a).eval, c.unbox(b).eval
		return expression{typ: jBoolean, eval: func(f *frame) value { return ofBool((x(f).n == y(f).n) != negate) }}
	case primitive:
		t := promote(ua, ub)
		x, y := c.coerce(a, t), c.coerce(b, t)
		if t == jDouble || t == jFloat {
			return expression{typ: jBoolean, eval: func(f *frame) value {
				return ofBool((x(f).float() == y(f).float()) != negate)
			}}
		}
		return expression{typ: jBoolean, eval: func(f *frame) value { return ofBool((x(f).n == y(f).n) != negate) }}
	case !assignable(a.typ, b.typ) && !assignable(b.typ, a.typ) && len(classes[a.typ.name].supers) > 0 &&
		len(classes[b.typ.name].supers) > 0:
		c.errorf(n.line, "Incompatible operand types %s and %s", a.typ, b.typ)
		return bad()
	}
	x, y := a.eval, b.eval
	return expression{typ: jBoolean, eval: func(f *frame) value {
		return ofBool(identical(x(f).r, y(f).r) != negate)
	}}
}

// identical compares references in the same way as the operator ==. Equal strings are identical, and equal boxes of
// small numbers are identical.
func identical(a, b any) bool {
	x, ok := a.(box)
	if y, both := b.(box); ok && both {
		return x == y && (x.kind == kBoolean || x.n >= -128 && x.n <= 127)
	}
	switch a.(type) {
	case nil, string, *list, *dict, *record, *array, *builder, *Thrown, *entry, *buffer, *iterator:
		return a == b
	case date, localDate, uuidValue, inet:
		return a == b
	}
	return false
}

// operation compiles an operator on numbers, booleans, or texts.
func (c *compiler) operation(n *node, op string, a, b expression) expression {
	ua, ub := a.typ.unboxed(), b.typ.unboxed()
	isText := func(t *jtype) bool { return t.kind == kRef && t.name == "String" }
	switch {
	case a.typ == jVoid || b.typ == jVoid:
		return c.operands(n, a, b)
	case op == "+" && (isText(a.typ) || isText(b.typ)):
		return c.concatenation(a, b)
	case ua == nil || ub == nil:
		return c.operands(n, a, b)
	case ua == jBoolean && ub == jBoolean && strings.Contains("&|^", op):
		x, y := c.unbox(a).eval, c.unbox(b).eval
		return expression{typ: jBoolean, eval: func(f *frame) value {
			return ofInt(integers[op](x(f).n, y(f).n))
		}}
	case !ua.numeric() || !ub.numeric():
		return c.operands(n, a, b)
	case op == "<<" || op == ">>" || op == ">>>":
		return c.shift(n, op, a, b)
	}
	t := promote(ua, ub)
	x, y := c.coerce(a, t), c.coerce(b, t)
	e := expression{typ: t}
	switch {
	case comparisons[op] != nil:
		e.typ = jBoolean
		compare := comparisons[op]
		if t == jDouble || t == jFloat {
			compare := floatComparisons[op]
			e.eval = func(f *frame) value { return ofBool(compare(x(f).float(), y(f).float())) }
			break
		}
		e.eval = func(f *frame) value { return ofBool(compare(x(f).n, y(f).n)) }
	case t == jDouble || t == jFloat:
		do := floats[op]
		if do == nil {
			return c.operands(n, a, b)
		}
		single := t == jFloat
		e.eval = func(f *frame) value {
			r := do(x(f).float(), y(f).float())
			if single {
				r = float64(float32(r))
			}
			return ofFloat(r)
		}
	default:
		do := integers[op]
		if do == nil {
			return c.operands(n, a, b)
		}
		kind := t.kind
		e.eval = func(f *frame) value { return narrow(do(x(f).n, y(f).n), kind) }
	}
	if e.constant = a.constant && b.constant && op != "/" && op != "%"; e.constant {
		return constant(e.typ, e.eval(nil))
	}
	return e
}

// These operations use 64-bit integers. The results of 32-bit operations are narrowed. The quotient of the minimum and
// -1 wraps around.
var integers = map[string]func(a, b int64) int64{
	"+": func(a, b int64) int64 { return a + b }, "-": func(a, b int64) int64 { return a - b },
	"*": func(a, b int64) int64 { return a * b },
	"/": func(a, b int64) int64 {
		if b == 0 {
			throw("ArithmeticException", "/ by zero")
		}
		if b == -1 {
			return -a
		}
		return a / b
	},
	"%": func(a, b int64) int64 {
		if b == 0 {
			throw("ArithmeticException", "/ by zero")
		}
		if b == -1 {
			return 0
		}
		return a % b
	},
	"&": func(a, b int64) int64 { return a & b }, "|": func(a, b int64) int64 { return a | b },
	"^": func(a, b int64) int64 { return a ^ b },
}

var floats = map[string]func(a, b float64) float64{
	"+": func(a, b float64) float64 { return a + b }, "-": func(a, b float64) float64 { return a - b },
	"*": func(a, b float64) float64 { return a * b }, "/": func(a, b float64) float64 { return a / b },
	"%": math.Mod,
}

var comparisons = map[string]func(a, b int64) bool{
	"<": func(a, b int64) bool { return a < b }, ">": func(a, b int64) bool { return a > b },
	"<=": func(a, b int64) bool { return a <= b }, ">=": func(a, b int64) bool { return a >= b },
}

var floatComparisons = map[string]func(a, b float64) bool{
	"<": func(a, b float64) bool { return a < b }, ">": func(a, b float64) bool { return a > b },
	"<=": func(a, b float64) bool { return a <= b }, ">=": func(a, b float64) bool { return a >= b },
}

func (c *compiler) shift(n *node, op string, a, b expression) expression {
	ua, ub := a.typ.unboxed(), b.typ.unboxed()
	if !ua.integral() || !ub.integral() {
		return c.operands(n, a, b)
	}
	t := promote(ua, jInt)
	x, y := c.coerce(a, t), c.unbox(b).eval
	long := t == jLong
	do := func(v, by int64) int64 {
		if long {
			by &= 63
		} else {
			by &= 31
		}
		switch op {
		case "<<":
			v <<= by
		case ">>":
			v >>= by
		default:
			if !long {
				return int64(int32(uint32(v) >> by))
			}
			return int64(uint64(v) >> by)
		}
		return v
	}
	e := expression{typ: t, eval: func(f *frame) value { return narrow(do(x(f).n, y(f).n), t.kind) }}
	if a.constant && b.constant {
		return constant(t, e.eval(nil))
	}
	return e
}

// concatenation compiles the concatenation of two values as texts.
func (c *compiler) concatenation(a, b expression) expression {
	x, y := stringOf(a), stringOf(b)
	return expression{typ: jString, eval: func(f *frame) value {
		l, r := x(f), y(f)
		if len(l)+len(r) > stringMax {
			panic(exhausted{what: "a string of more than 2 MiB"})
		}
		return f.newString(l + r)
	}}
}

// stringOf compiles the conversion of a value to a text.
func stringOf(e expression) func(f *frame) string {
	k := e.typ.kind
	if k == kRef {
		return func(f *frame) string { return f.string(e.eval(f).r) }
	}
	return func(f *frame) string { return text(e.eval(f), k) }
}

func (c *compiler) unary(n *node) expression {
	if n.text == "++" || n.text == "--" {
		return c.step(n, n.text, false)
	}
	e := c.expression(n.kids[0])
	if e.typ == jBad {
		return bad()
	}
	u := e.typ.unboxed()
	wrong := func() expression {
		c.errorf(n.line, "The operator %s is undefined for the argument type(s) %s", n.text, e.typ)
		return bad()
	}
	if u == nil || (n.text == "!") != (u == jBoolean) {
		return wrong()
	}
	inner := c.unbox(e)
	if n.text == "!" {
		return expression{typ: jBoolean, eval: func(f *frame) value { return ofBool(inner.eval(f).n == 0) }}
	}
	t := promote(u, jInt)
	v := c.coerce(inner, t)
	out := expression{typ: t}
	switch {
	case n.text == "+":
		out.eval = v
	case n.text == "~" && t.integral():
		out.eval = func(f *frame) value { return ofInt(^v(f).n) }
	case n.text == "~":
		return wrong()
	case t.integral():
		out.eval = func(f *frame) value { return narrow(-v(f).n, t.kind) }
	default:
		out.eval = func(f *frame) value { return ofFloat(-v(f).float()) }
	}
	if e.constant {
		return constant(t, out.eval(nil))
	}
	return out
}

// step compiles ++ and --.
func (c *compiler) step(n *node, op string, postfix bool) expression {
	target := c.expression(n.kids[0])
	if target.typ == jBad {
		return bad()
	}
	u := target.typ.unboxed()
	if target.target == nil || u == nil || !u.numeric() {
		c.errorf(n.line, "Invalid argument to operation %s", op)
		return bad()
	}
	one := constant(jInt, ofInt(1))
	return c.update(n, op[:1], target, one, postfix)
}

func (c *compiler) assign(n *node) expression {
	target, e := c.expression(n.kids[0]), c.expression(n.kids[1])
	if target.typ == jBad || e.typ == jBad {
		return bad()
	}
	if target.target == nil {
		c.errorf(n.line, "The left-hand side of an assignment must be a variable")
		return bad()
	}
	if n.text != "=" {
		return c.update(n, strings.TrimSuffix(n.text, "="), target, e, false)
	}
	v := c.assigned(n.line, e, target.typ)
	return expression{typ: target.typ, eval: func(f *frame) value {
		place := target.target(f)
		*place = v(f)
		return *place
	}}
}

// update compiles expressions such as x op= e and x++. If before is true, the result is the previous value.
func (c *compiler) update(n *node, op string, target, e expression, before bool) expression {
	// The target is evaluated only once. The operand is the value at the location of the target.
	held := expression{typ: target.typ, nullReason: target.nullReason}
	held.eval = func(f *frame) value { return *f.targets[len(f.targets)-1] }
	result := c.operation(n, op, held, e)
	if result.typ == jBad {
		return result
	}
	var store eval
	if u := target.typ.unboxed(); u != nil && result.typ.kind != kRef {
		narrowed := expression{typ: u, eval: func(f *frame) value {
			return convert(result.eval(f), result.typ.kind, u.kind)
		}}
		store = c.coerce(narrowed, target.typ)
	} else {
		store = c.assigned(n.line, result, target.typ)
	}
	return expression{typ: target.typ, eval: func(f *frame) value {
		place := target.target(f)
		depth := len(f.targets)
		f.targets = append(f.targets, place)
		old := *place
		v := store(f)
		f.targets = f.targets[:depth]
		*place = v
		if before {
			return old
		}
		return v
	}}
}
