// SPDX-License-Identifier: Apache-2.0

package java

import (
	"math"
	"strconv"
	"strings"
)

// expression is a compiled expression.
type expression struct {
	typ  *jtype
	eval eval
	// constant reports whether eval always returns the same value and does not use the frame.
	constant bool
	// nullReason describes the null value in the message of a NullPointerException, for example "<parameter1>" in
	// quotes.
	nullReason string
	// target returns the location of the value at run time. It is set for variables and array elements.
	target func(f *frame) *value
}

func bad() expression { return expression{typ: jBad, eval: func(*frame) value { return value{} }} }

func constant(t *jtype, v value) expression {
	return expression{typ: t, constant: true, eval: func(*frame) value { return v }}
}

func (c *compiler) expression(n *node) expression {
	c.nodes++
	switch n.op {
	case opLiteral:
		return c.literal(n)
	case opName:
		return c.variable(n)
	case opField:
		return c.field(n)
	case opCall:
		return c.call(n)
	case opIndex:
		return c.index(n)
	case opNew:
		return c.creation(n)
	case opNewArray:
		return c.newArray(n)
	case opArray:
		return c.arrayLiteral(n)
	case opCast:
		return c.cast(n)
	case opUnary:
		return c.unary(n)
	case opPostfix:
		return c.step(n, n.text, true)
	case opBinary:
		return c.binary(n)
	case opAssign:
		return c.assign(n)
	case opConditional:
		return c.conditional(n)
	case opInstanceof:
		return c.instance(n)
	}
	panic(unsupported(n.line, "This expression"))
}

func (c *compiler) literal(n *node) expression {
	switch n.typ.name {
	case "String":
		return constant(jString, value{r: n.text})
	case "char":
		return constant(jChar, ofInt(int64([]rune(n.text)[0])))
	case "boolean":
		return constant(jBoolean, ofBool(n.text == "true"))
	case "null":
		return expression{typ: jNull, eval: func(*frame) value { return value{} }, nullReason: "\"null\""}
	}
	return c.number(n)
}

func (c *compiler) number(n *node) expression {
	text := strings.ReplaceAll(strings.ToLower(n.text), "_", "")
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	hex := strings.HasPrefix(text, "0x")
	last := text[len(text)-1]
	floating := !hex && (strings.ContainsAny(text, ".e") || last == 'f' || last == 'd')
	if floating {
		bits, t := 64, jDouble
		digits := strings.TrimRight(text, "fd")
		if last == 'f' {
			bits, t = 32, jFloat
		}
		f, err := strconv.ParseFloat(sign+digits, bits)
		if err != nil || math.IsInf(f, 0) {
			c.errorf(n.line, "The literal %s of type %s is out of range", n.text, t)
			return bad()
		}
		return constant(t, ofFloat(f))
	}
	t, bits := jInt, 32
	if last == 'l' {
		t, bits, text = jLong, 64, text[:len(text)-1]
	}
	base := 10
	switch {
	case hex:
		base, text = 16, text[2:]
	case strings.HasPrefix(text, "0b"):
		base, text = 2, text[2:]
	case len(text) > 1 && text[0] == '0':
		base, text = 8, text[1:]
	}
	u, err := strconv.ParseUint(text, base, 64)
	limit := uint64(1) << (bits - 1) // magnitude limit of negative numbers
	if sign == "" {
		limit--
	}
	if err != nil || base == 10 && u > limit || base != 10 && bits == 32 && u > math.MaxUint32 {
		c.errorf(n.line, "The literal %s of type %s is out of range", n.text, t)
		return bad()
	}
	v := int64(u)
	if sign != "" {
		v = -v
	}
	return constant(t, narrow(v, t.kind))
}

func (c *compiler) variable(n *node) expression {
	v := c.find(n.text)
	if v == nil {
		c.errorf(n.line, "%s cannot be resolved to a variable", n.text)
		return bad()
	}
	i := v.index
	because := "\"<local" + strconv.Itoa(v.slot) + ">\""
	if v.parameter {
		because = "\"<parameter" + strconv.Itoa(v.index+1) + ">\""
	}
	return expression{typ: v.typ, nullReason: because, eval: func(f *frame) value { return f.locals[i] },
		target: func(f *frame) *value { return &f.locals[i] }}
}

// statics holds the constants of classes.
var statics = map[string]expression{
	"Integer.MAX_VALUE": constant(jInt, ofInt(math.MaxInt32)),
	"Integer.MIN_VALUE": constant(jInt, ofInt(math.MinInt32)),
	"Long.MAX_VALUE":    constant(jLong, ofInt(math.MaxInt64)), "Long.MIN_VALUE": constant(jLong, ofInt(math.MinInt64)),
	"Short.MAX_VALUE": constant(jShort, ofInt(math.MaxInt16)),
	"Short.MIN_VALUE": constant(jShort, ofInt(math.MinInt16)),
	"Byte.MAX_VALUE":  constant(jByte, ofInt(math.MaxInt8)), "Byte.MIN_VALUE": constant(jByte, ofInt(math.MinInt8)),
	"Double.MAX_VALUE":         constant(jDouble, ofFloat(math.MaxFloat64)),
	"Double.MIN_VALUE":         constant(jDouble, ofFloat(math.SmallestNonzeroFloat64)),
	"Double.NaN":               constant(jDouble, ofFloat(math.NaN())),
	"Double.POSITIVE_INFINITY": constant(jDouble, ofFloat(math.Inf(1))),
	"Double.NEGATIVE_INFINITY": constant(jDouble, ofFloat(math.Inf(-1))),
	"Float.MAX_VALUE":          constant(jFloat, ofFloat(math.MaxFloat32)),
	"Float.NaN":                constant(jFloat, ofFloat(math.NaN())),
	"Math.PI":                  constant(jDouble, ofFloat(math.Pi)), "Math.E": constant(jDouble, ofFloat(math.E)),
	"Boolean.TRUE":    constant(class("Boolean"), value{r: box{kBoolean, 1}}),
	"Boolean.FALSE":   constant(class("Boolean"), value{r: box{kBoolean, 0}}),
	"BigDecimal.ZERO": constant(class("BigDecimal"), value{r: decimalOf(0)}),
	"BigDecimal.ONE":  constant(class("BigDecimal"), value{r: decimalOf(1)}),
	"BigInteger.ZERO": constant(class("BigInteger"), value{r: bigOf(0)}),
	"BigInteger.ONE":  constant(class("BigInteger"), value{r: bigOf(1)}),
	"BigInteger.TEN":  constant(class("BigInteger"), value{r: bigOf(10)}),
	"BigDecimal.TEN":  constant(class("BigDecimal"), value{r: decimalOf(10)}),
	"Float.MIN_VALUE": constant(jFloat, ofFloat(math.SmallestNonzeroFloat32)),
	"Integer.SIZE":    constant(jInt, ofInt(32)),
	"Long.SIZE":       constant(jInt, ofInt(64)),
	"Character.SIZE":  constant(jInt, ofInt(16)),
	"Integer.BYTES":   constant(jInt, ofInt(4)),
	"Long.BYTES":      constant(jInt, ofInt(8)),
}

// dotted returns a chain of names with dots. If the node has a different form, it returns false.
func dotted(n *node) (string, bool) {
	switch n.op {
	case opName:
		return n.text, true
	case opField:
		if s, ok := dotted(n.kids[0]); ok {
			return s + "." + n.text, true
		}
	}
	return "", false
}

// className returns the class to which a chain of names refers. If the first name is a variable, the chain does not
// refer to a class.
func (c *compiler) className(n *node) (name, written string, ok bool) {
	written, ok = dotted(n)
	if !ok {
		return "", "", false
	}
	first, _, _ := strings.Cut(written, ".")
	if c.find(first) != nil {
		return "", "", false
	}
	return simpleName(written), written, true
}

func (c *compiler) field(n *node) expression {
	if name, written, ok := c.className(n.kids[0]); ok {
		if e, ok := statics[name+"."+n.text]; ok && e.typ != jBad {
			return e
		}
		if name == "" {
			c.unknownName(n.line, written)
			return bad()
		}
		c.errorf(n.line, "%s.%s cannot be resolved or is not a field", written, n.text)
		return bad()
	}
	of := c.expression(n.kids[0])
	switch {
	case of.typ == jBad:
	case of.typ.elem != nil && n.text == "length":
		return expression{typ: jInt, eval: func(f *frame) value {
			a, ok := of.eval(f).r.(*array)
			if !ok {
				f.throwNull("Cannot read the array length", of.nullReason)
			}
			return ofInt(int64(len(a.of)))
		}}
	default:
		c.errorf(n.line, "%s cannot be resolved or is not a field", n.text)
	}
	return bad()
}

// unknownName reports an unknown name.
func (c *compiler) unknownName(line int, written string) {
	if hasPackage(written) && !isHidden(written) {
		panic(unsupported(line, "The class "+written))
	}
	first, _, _ := strings.Cut(written, ".")
	if first != written && c.find(first) == nil {
		c.errorf(line, "%s cannot be resolved to a type", written)
		return
	}
	c.errorf(line, "%s cannot be resolved", written)
}

func hasPackage(name string) bool {
	for _, p := range unsupportedPackages {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

func (c *compiler) index(n *node) expression {
	of, at := c.expression(n.kids[0]), c.expression(n.kids[1])
	if of.typ == jBad || at.typ == jBad {
		return bad()
	}
	if of.typ.elem == nil {
		c.errorf(n.line, "The type of the expression must be an array type but it resolved to %s", of.typ)
		return bad()
	}
	i := c.assigned(n.line, at, jInt)
	place := func(f *frame) *value {
		a, ok := of.eval(f).r.(*array)
		k := i(f).n
		if !ok {
			f.throwNull("Cannot load from array", of.nullReason)
		}
		if k < 0 || k >= int64(len(a.of)) {
			throw("ArrayIndexOutOfBoundsException", "Index %d out of bounds for length %d", k, len(a.of))
		}
		return &a.of[k]
	}
	return expression{typ: of.typ.elem, eval: func(f *frame) value { return *place(f) }, target: place}
}

func (c *compiler) newArray(n *node) expression {
	elem := c.resolve(n.typ)
	size := c.assigned(n.line, c.expression(n.kids[0]), jInt)
	return expression{typ: arrayOf(elem), eval: func(f *frame) value {
		length := size(f).n
		if length < 0 {
			throw("NegativeArraySizeException", "%d", length)
		}
		f.alloc(24 * int(length))
		return ofRef(&array{elem, make([]value, length)})
	}}
}

func (c *compiler) arrayLiteral(n *node) expression {
	t := c.resolve(n.typ)
	if t.elem == nil {
		if t != jBad {
			c.errorf(n.line, "Type mismatch: cannot convert from array to %s", t)
		}
		return bad()
	}
	elems := make([]eval, len(n.kids))
	for i, k := range n.kids {
		elems[i] = c.assigned(k.line, c.expression(k), t.elem)
	}
	return expression{typ: t, eval: func(f *frame) value {
		f.alloc(24 * len(elems))
		a := &array{t.elem, make([]value, len(elems))}
		for i, e := range elems {
			a.of[i] = e(f)
		}
		return ofRef(a)
	}}
}

func (c *compiler) cast(n *node) expression {
	to := c.resolve(n.typ)
	e := c.expression(n.kids[0])
	switch {
	case e.typ == jBad || to == jBad:
		return bad()
	case to.kind != kRef && e.typ.kind != kRef && (to == jBoolean) == (e.typ == jBoolean):
		from, kind := e.typ.kind, to.kind
		if e.constant {
			return constant(to, convert(e.eval(nil), from, kind))
		}
		return expression{typ: to, eval: func(f *frame) value { return convert(e.eval(f), from, kind) }}
	case convertible(e.typ, to):
		return expression{typ: to, eval: c.coerce(e, to), nullReason: e.nullReason}
	case e.typ.kind != kRef || to.kind != kRef && to.boxed().kind != kRef:
	case to.kind != kRef: // a cast of an Object, such as (int)
		if e.typ.name != "Object" && e.typ.name != "Number" && e.typ.name != "Comparable" {
			break
		}
		checked := expression{typ: to.boxed(), eval: check(e.eval, to.boxed()), nullReason: e.nullReason}
		u := c.unbox(checked)
		return expression{typ: to, eval: u.eval}
	case extends(to.name, e.typ.name) || e.typ.name == "Iterable" || e.typ.name == "Collection",
		to.name == "CharSequence" || to.name == "Comparable":
		return expression{typ: to, eval: check(e.eval, to), nullReason: e.nullReason}
	}
	c.errorf(n.line, "Cannot cast from %s to %s", e.typ, to)
	return bad()
}

// check throws an exception if a reference is not an instance of a class.
func check(inner eval, to *jtype) eval {
	return func(f *frame) value {
		v := inner(f)
		if v.r != nil && !isA(v.r, to) {
			throw("ClassCastException", "class %s cannot be cast to class %s", fullName(classOf(v.r)),
				fullName(to.name))
		}
		return v
	}
}

func fullName(name string) string {
	if c, ok := classes[name]; ok {
		return c.in + "." + strings.ReplaceAll(name, ".", "$")
	}
	return name
}

func (c *compiler) instance(n *node) expression {
	e, to := c.expression(n.kids[0]), c.resolve(n.typ)
	if e.typ == jBad || to == jBad {
		return bad()
	}
	return expression{typ: jBoolean, eval: func(f *frame) value {
		r := e.eval(f).r
		return ofBool(r != nil && isA(r, to))
	}}
}

func (c *compiler) conditional(n *node) expression {
	condition := c.condition(n.kids[0])
	yes, no := c.expression(n.kids[1]), c.expression(n.kids[2])
	if yes.typ == jBad || no.typ == jBad {
		return bad()
	}
	t := c.common(yes, no)
	if t == nil {
		c.errorf(n.line, "Incompatible conditional operand types %s and %s", yes.typ, no.typ)
		return bad()
	}
	a, b := c.coerce(yes, t), c.coerce(no, t)
	return expression{typ: t, eval: func(f *frame) value {
		if condition(f).n != 0 {
			return a(f)
		}
		return b(f)
	}}
}

// common returns the type of a conditional expression with the alternatives a and b.
func (c *compiler) common(a, b expression) *jtype {
	ua, ub := a.typ.unboxed(), b.typ.unboxed()
	switch {
	case a.typ.String() == b.typ.String():
		return a.typ
	case ua != nil && ub != nil && ua == ub:
		return ua
	case ua != nil && ub != nil && ua.numeric() && ub.numeric():
		if fitsConstant(a, ub) {
			return ub
		}
		if fitsConstant(b, ua) {
			return ua
		}
		return promote(ua, ub)
	case a.typ == jNull:
		return b.typ.boxed()
	case b.typ == jNull:
		return a.typ.boxed()
	}
	a.typ, b.typ = a.typ.boxed(), b.typ.boxed()
	switch {
	case assignable(a.typ, b.typ):
		return b.typ
	case assignable(b.typ, a.typ):
		return a.typ
	}
	return jObject
}

// fitsConstant reports whether e is a constant int that fits a smaller integer type.
func fitsConstant(e expression, to *jtype) bool {
	return e.constant && e.typ == jInt && to.integral() && to.kind < kInt &&
		narrow(e.eval(nil).n, to.kind) == e.eval(nil)
}

// promote returns the type that is used to evaluate a binary numeric operation.
func promote(a, b *jtype) *jtype {
	switch {
	case a == jDouble || b == jDouble:
		return jDouble
	case a == jFloat || b == jFloat:
		return jFloat
	case a == jLong || b == jLong:
		return jLong
	}
	return jInt
}
