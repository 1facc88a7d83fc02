// SPDX-License-Identifier: Apache-2.0

package java

import (
	"slices"
	"strings"
)

// depthMax is the maximum nesting depth of statements and expressions.
const depthMax = 100

type parser struct {
	tokens []token
	pos    int
	depth  int
}

// parse parses the body of a method. In case of an error, it panics with *Error. Compile recovers from this panic.
func parse(tokens []token) *node {
	p := &parser{tokens: tokens}
	body := &node{op: opBlock, line: 1}
	for p.tok().kind != tEnd {
		body.kids = append(body.kids, p.statement())
	}
	return body
}

func (p *parser) tok() *token { return &p.tokens[p.pos] }

func (p *parser) peek(n int) *token { return &p.tokens[min(p.pos+n, len(p.tokens)-1)] }

func (p *parser) is(text string) bool {
	t := p.tok()
	return t.text == text && (t.kind == tOperator || t.kind == tIdent)
}

func (p *parser) accept(text string) bool {
	if p.is(text) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) expect(text string) {
	if p.accept(text) {
		return
	}
	line := p.tok().line
	if p.pos > 0 {
		line = p.tokens[p.pos-1].line
	}
	if text == ";" {
		panic(at(line, "Syntax error, insert \";\" to complete BlockStatements"))
	}
	if p.tok().kind == tEnd {
		panic(at(line, "Syntax error, insert \"%s\" to complete Expression", text))
	}
	panic(at(p.tok().line, "Syntax error on token \"%s\", %s expected", p.tok().text, text))
}

func (p *parser) unexpected() {
	panic(at(p.tok().line, "Syntax error on token \"%s\", delete this token", p.tok().text))
}

// enter limits the recursion depth of the parser.
func (p *parser) enter() func() {
	if p.depth++; p.depth > depthMax {
		panic(unsupported(p.tok().line, "A body whose parts lie more than 100 deep in each other"))
	}
	return func() { p.depth-- }
}

// unsupportedWords maps the first words of unsupported statements to the names that errors use for the statements.
var unsupportedWords = map[string]string{
	"switch": "switch", "synchronized": "synchronized", "class": "A nested class", "interface": "An interface",
	"enum": "An enum", "assert": "assert", "yield": "yield", "record": "A record", "super": "super", "this": "this",
}

var keywords = []string{"abstract", "assert", "boolean", "break", "byte", "case", "catch", "char", "class", "const",
	"continue", "default", "do", "double", "else", "enum", "extends", "final", "finally", "float", "for", "goto", "if",
	"implements", "import", "instanceof", "int", "interface", "long", "native", "new", "package", "private",
	"protected", "public", "return", "short", "static", "strictfp", "super", "switch", "synchronized", "this", "throw",
	"throws", "transient", "try", "void", "volatile", "while", "true", "false", "null"}

func (p *parser) name() string {
	t := p.tok()
	if t.kind != tIdent || slices.Contains(keywords, t.text) {
		p.unexpected()
	}
	p.pos++
	return t.text
}

func (p *parser) statement() *node {
	defer p.enter()()
	t := p.tok()
	n := &node{line: t.line}
	if t.kind == tOperator {
		switch t.text {
		case "{":
			return p.block()
		case ";":
			p.pos++
			n.op = opEmpty
			return n
		case "@":
			panic(unsupported(t.line, "An annotation"))
		}
	}
	if t.kind != tIdent {
		return p.expressionStatement()
	}
	if what, ok := unsupportedWords[t.text]; ok && p.peek(1).text != "=" && p.peek(1).text != "." {
		panic(unsupported(t.line, what))
	}
	if p.keywordStatement(n) {
		return n
	}
	if p.peek(1).text == ":" && p.peek(1).kind == tOperator {
		panic(unsupported(t.line, "A label"))
	}
	if l := p.local(); l != nil {
		p.expect(";")
		return l
	}
	return p.expressionStatement()
}

// keywordStatement parses a statement that begins with a keyword. If the statement does not begin with a keyword, it
// returns false.
func (p *parser) keywordStatement(n *node) bool {
	t := p.tok()
	switch t.text {
	case "if":
		p.pos++
		n.op = opIf
		n.kids = []*node{p.parenthesized(), p.statement(), nil}
		if p.accept("else") {
			n.kids[2] = p.statement()
		}
	case "while":
		p.pos++
		n.op = opWhile
		n.kids = []*node{p.parenthesized(), p.statement()}
	case "do":
		p.pos++
		n.op = opDo
		body := p.statement()
		p.expect("while")
		n.kids = []*node{p.parenthesized(), body}
		p.expect(";")
	case "for":
		p.pos++
		p.loop(n)
	case "return":
		p.pos++
		n.op = opReturn
		if !p.is(";") {
			n.kids = []*node{p.expression()}
		}
		p.expect(";")
	case "throw":
		p.pos++
		n.op, n.kids = opThrow, []*node{p.expression()}
		p.expect(";")
	case "try":
		p.pos++
		p.try(n)
	case "break", "continue":
		p.pos++
		if n.op = opBreak; t.text == "continue" {
			n.op = opContinue
		}
		if !p.is(";") {
			panic(unsupported(t.line, "A label"))
		}
		p.expect(";")
	default:
		return false
	}
	return true
}

func (p *parser) block() *node {
	n := &node{op: opBlock, line: p.tok().line}
	p.expect("{")
	for !p.accept("}") {
		if p.tok().kind == tEnd {
			panic(at(p.tok().line, "Syntax error, insert \"}\" to complete Block"))
		}
		n.kids = append(n.kids, p.statement())
	}
	return n
}

func (p *parser) expressionStatement() *node {
	n := &node{op: opExpr, line: p.tok().line, kids: []*node{p.expression()}}
	switch e := n.kids[0]; {
	case e.op == opAssign, e.op == opCall, e.op == opNew, e.op == opPostfix,
		e.op == opUnary && (e.text == "++" || e.text == "--"):
	case !p.is(";"):
		p.expect(";")
	default:
		panic(at(n.line, "Syntax error on token \";\", invalid AssignmentOperator"))
	}
	p.expect(";")
	return n
}

func (p *parser) parenthesized() *node {
	p.expect("(")
	e := p.expression()
	p.expect(")")
	return e
}

// loop parses the rest of a for statement.
func (p *parser) loop(n *node) {
	p.expect("(")
	begin := p.pos
	p.accept("final")
	if t := p.typeName(); t != nil && p.tok().kind == tIdent && p.peek(1).text == ":" {
		n.op, n.typ, n.text = opForEach, t, p.name()
		p.expect(":")
		n.kids = []*node{p.expression()}
		p.expect(")")
		n.kids = append(n.kids, p.statement())
		return
	}
	p.pos = begin
	n.op = opFor
	init, update := &node{op: opBlock, line: n.line}, &node{op: opBlock, line: n.line}
	var condition *node
	if !p.is(";") {
		if l := p.local(); l != nil {
			init.kids = []*node{l}
		} else {
			p.expressions(init)
		}
	}
	p.expect(";")
	if !p.is(";") {
		condition = p.expression()
	}
	p.expect(";")
	if !p.is(")") {
		p.expressions(update)
	}
	p.expect(")")
	n.kids = []*node{init, condition, update, p.statement()}
}

func (p *parser) expressions(into *node) {
	for {
		e := p.expression()
		into.kids = append(into.kids, &node{op: opExpr, line: e.line, kids: []*node{e}})
		if !p.accept(",") {
			return
		}
	}
}

func (p *parser) try(n *node) {
	n.op = opTry
	if p.is("(") {
		panic(unsupported(n.line, "try with resources"))
	}
	n.kids = []*node{p.block(), nil}
	for p.is("catch") {
		c := &node{op: opCatch, line: p.tok().line}
		p.pos++
		p.expect("(")
		p.accept("final")
		for {
			t := p.typeName()
			if t == nil {
				p.unexpected()
			}
			c.types = append(c.types, t)
			if !p.accept("|") {
				break
			}
		}
		c.text = p.name()
		p.expect(")")
		c.kids = []*node{p.block()}
		n.kids = append(n.kids, c)
	}
	if p.accept("finally") {
		n.kids[1] = p.block()
	}
	if len(n.kids) == 2 && n.kids[1] == nil {
		panic(at(n.line, "Syntax error, insert \"Finally\" to complete TryStatement"))
	}
}

// local parses a declaration of variables. If the tokens are not a declaration, it returns nil and consumes no tokens.
func (p *parser) local() *node {
	begin := p.pos
	final := p.accept("final")
	n := &node{op: opLocal, line: p.tok().line}
	t := p.typeName()
	if t == nil || p.tok().kind != tIdent || p.is("instanceof") {
		if final {
			p.unexpected()
		}
		p.pos = begin
		return nil
	}
	for {
		of := *t
		d := &node{op: opDeclare, line: p.tok().line, text: p.name(), typ: &of, kids: []*node{nil}}
		for p.accept("[") {
			p.expect("]")
			of.dims++
		}
		if p.accept("=") {
			if p.is("{") {
				d.kids[0] = p.arrayLiteral(&of)
			} else {
				d.kids[0] = p.expression()
			}
		}
		n.kids = append(n.kids, d)
		if !p.accept(",") {
			return n
		}
	}
}

func (p *parser) arrayLiteral(t *typeName) *node {
	defer p.enter()()
	n := &node{op: opArray, line: p.tok().line, typ: t}
	inner := *t
	inner.dims--
	p.expect("{")
	for !p.accept("}") {
		if p.is("{") {
			n.kids = append(n.kids, p.arrayLiteral(&inner))
		} else {
			n.kids = append(n.kids, p.expression())
		}
		if !p.accept(",") && !p.is("}") {
			p.expect("}")
		}
	}
	return n
}

var primitives = []string{"boolean", "byte", "short", "char", "int", "long", "float", "double"}

// typeName parses a type. If the tokens are not a type, it returns nil and consumes no tokens.
func (p *parser) typeName() *typeName {
	begin := p.pos
	t := p.tok()
	if t.kind != tIdent || slices.Contains(keywords, t.text) && !slices.Contains(primitives, t.text) {
		return nil
	}
	n := &typeName{name: t.text, line: t.line}
	p.pos++
	if !slices.Contains(primitives, n.name) {
		for p.is(".") && p.peek(1).kind == tIdent && !slices.Contains(keywords, p.peek(1).text) {
			n.name += "." + p.peek(1).text
			p.pos += 2
		}
		if p.is("<") {
			if args, ok := p.typeArguments(); ok {
				n.args = args
			} else {
				p.pos = begin
				return nil
			}
		}
	}
	for p.is("[") && p.peek(1).text == "]" {
		n.dims++
		p.pos += 2
	}
	return n
}

// typeArguments parses a list of type arguments. If the tokens have a different form, it returns false. The tokens >>
// and >>> may close several lists.
func (p *parser) typeArguments() ([]*typeName, bool) {
	defer p.enter()()
	p.pos++
	args := []*typeName{}
	if p.accept(">") {
		return args, true
	}
	for {
		if p.accept("?") {
			if p.accept("extends") || p.accept("super") {
				if p.typeName() == nil {
					return nil, false
				}
			}
			args = append(args, &typeName{name: "Object", line: p.tok().line})
		} else {
			t := p.typeName()
			if t == nil {
				return nil, false
			}
			args = append(args, t)
		}
		if p.accept(",") {
			continue
		}
		if t := p.tok(); t.kind == tOperator && strings.HasPrefix(t.text, ">>") && strings.Trim(t.text, ">") == "" {
			rest := *t
			rest.text = t.text[1:]
			p.tokens = slices.Concat(p.tokens[:p.pos], []token{{tOperator, ">", t.line}, rest}, p.tokens[p.pos+1:])
		}
		return args, p.accept(">")
	}
}
