// SPDX-License-Identifier: Apache-2.0

package java

import "slices"

// levels holds the binary operators in ascending order of precedence.
var levels = [][]string{{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<", ">", "<=", ">=", "instanceof"},
	{"<<", ">>", ">>>"}, {"+", "-"}, {"*", "/", "%"}}

var assignments = []string{"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", ">>>="}

func (p *parser) expression() *node {
	defer p.enter()()
	left := p.conditional()
	t := p.tok()
	if t.kind == tOperator && slices.Contains(assignments, t.text) {
		p.pos++
		return &node{op: opAssign, line: t.line, text: t.text, kids: []*node{left, p.expression()}}
	}
	if t.kind == tOperator && (t.text == "->" || t.text == "::") {
		panic(unsupported(t.line, "A lambda expression"))
	}
	return left
}

func (p *parser) conditional() *node {
	c := p.binary(0)
	line := p.tok().line
	if !p.accept("?") {
		return c
	}
	yes := p.expression()
	p.expect(":")
	defer p.enter()()
	return &node{op: opConditional, line: line, kids: []*node{c, yes, p.conditional()}}
}

// chainMax is the maximum number of consecutive operators with the same precedence. Each operator adds a level to the
// tree.
const chainMax = 1000

func (p *parser) binary(level int) *node {
	if level == len(levels) {
		return p.unary()
	}
	left := p.binary(level + 1)
	for n := 0; ; n++ {
		t := p.tok()
		if t.kind == tString || t.kind == tChar || !slices.Contains(levels[level], t.text) {
			return left
		}
		if n == chainMax {
			panic(unsupported(t.line, "An expression with more than 1000 operators"))
		}
		p.pos++
		if t.text == "instanceof" {
			typ := p.typeName()
			if typ == nil {
				p.unexpected()
			}
			if p.tok().kind == tIdent {
				panic(unsupported(t.line, "A pattern after instanceof"))
			}
			left = &node{op: opInstanceof, line: t.line, kids: []*node{left}, typ: typ}
			continue
		}
		left = &node{op: opBinary, line: t.line, text: t.text, kids: []*node{left, p.binary(level + 1)}}
	}
}

func (p *parser) unary() *node {
	defer p.enter()()
	t := p.tok()
	if t.kind == tOperator {
		switch t.text {
		case "-":
			if next := p.peek(1); next.kind == tNumber { // -2147483648 is a literal
				p.pos += 2
				return p.suffixes(&node{op: opLiteral, line: t.line, text: "-" + next.text,
					typ: &typeName{name: "number"}})
			}
			fallthrough
		case "+", "!", "~", "++", "--":
			p.pos++
			return &node{op: opUnary, line: t.line, text: t.text, kids: []*node{p.unary()}}
		case "(":
			if c := p.cast(); c != nil {
				return c
			}
		}
	}
	return p.suffixes(p.primary())
}

// cast parses an expression of the form (type) expression. If the parentheses contain an expression, it returns nil and
// consumes no tokens.
func (p *parser) cast() *node {
	begin := p.pos
	line := p.tok().line
	p.pos++
	t := p.typeName()
	if t != nil && p.accept(")") {
		next := p.tok()
		primitive := t.dims == 0 && slices.Contains(primitives, t.name)
		if p.is("->") {
			panic(unsupported(line, "A lambda expression"))
		}
		operand := next.kind == tIdent && next.text != "instanceof" || next.kind == tNumber || next.kind == tString ||
			next.kind == tChar || next.text == "(" || next.text == "!" || next.text == "~"
		if primitive || operand {
			return &node{op: opCast, line: line, typ: t, kids: []*node{p.unary()}}
		}
	}
	p.pos = begin
	return nil
}

func (p *parser) primary() *node {
	t := p.tok()
	n := &node{op: opLiteral, line: t.line, text: t.text}
	switch t.kind {
	case tNumber:
		p.pos++
		n.typ = &typeName{name: "number"}
		return n
	case tString:
		p.pos++
		n.typ = &typeName{name: "String"}
		return n
	case tChar:
		p.pos++
		n.typ = &typeName{name: "char"}
		return n
	case tOperator:
		if t.text == "(" {
			if p.peek(1).text == ")" {
				panic(unsupported(t.line, "A lambda expression"))
			}
			return p.parenthesized()
		}
		p.unexpected()
	case tEnd:
		panic(at(t.line, "Syntax error, insert \"Expression\" to complete Expression"))
	}
	switch t.text {
	case "true", "false":
		p.pos++
		n.typ = &typeName{name: "boolean"}
	case "null":
		p.pos++
		n.typ = &typeName{name: "null"}
	case "new":
		p.pos++
		return p.creation(t.line)
	default:
		if what, ok := unsupportedWords[t.text]; ok && slices.Contains(keywords, t.text) {
			panic(unsupported(t.line, what))
		}
		if slices.Contains(primitives, t.text) {
			panic(unsupported(t.line, t.text+".class"))
		}
		n.op, n.text = opName, p.name()
		if p.is("(") {
			n.op, n.kids = opCall, append([]*node{nil}, p.arguments()...)
		}
	}
	return n
}

func (p *parser) creation(line int) *node {
	t := p.typeName()
	if t == nil {
		p.unexpected()
	}
	if t.dims > 0 {
		return p.arrayLiteral(t)
	}
	if p.accept("[") {
		n := &node{op: opNewArray, line: line, typ: t, kids: []*node{p.expression()}}
		p.expect("]")
		if p.is("[") {
			panic(unsupported(line, "An array of arrays"))
		}
		return n
	}
	n := &node{op: opNew, line: line, typ: t, kids: p.arguments()}
	if p.is("{") {
		panic(unsupported(line, "An anonymous class"))
	}
	return n
}

func (p *parser) arguments() []*node {
	p.expect("(")
	var args []*node
	for !p.accept(")") {
		args = append(args, p.expression())
		if !p.accept(",") && !p.is(")") {
			p.expect(")")
		}
	}
	return args
}

func (p *parser) suffixes(n *node) *node {
	for count := 0; ; count++ {
		t := p.tok()
		if t.kind != tOperator {
			return n
		}
		if count == chainMax {
			panic(unsupported(t.line, "An expression with more than 1000 operators"))
		}
		switch t.text {
		case ".":
			p.pos++
			if p.is("<") || p.is("new") || p.is("class") || p.is("this") || p.is("super") {
				panic(unsupported(t.line, "."+p.tok().text))
			}
			name := p.name()
			if p.is("(") {
				n = &node{op: opCall, line: t.line, text: name, kids: append([]*node{n}, p.arguments()...)}
			} else {
				n = &node{op: opField, line: t.line, text: name, kids: []*node{n}}
			}
		case "[":
			p.pos++
			n = &node{op: opIndex, line: t.line, kids: []*node{n, p.expression()}}
			p.expect("]")
		case "++", "--":
			p.pos++
			n = &node{op: opPostfix, line: t.line, text: t.text, kids: []*node{n}}
		case "::":
			panic(unsupported(t.line, "A method reference"))
		default:
			return n
		}
	}
}
