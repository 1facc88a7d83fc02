// SPDX-License-Identifier: Apache-2.0

package sql

import "github.com/ilion-db/ilion/internal/model/document"

// levels contains the binary operators in ascending order of precedence. The precedence of AND and NOT is between OR
// and the comparisons. Unary operators have the highest precedence.
var levels = [][]string{
	{"|"}, {"^"}, {"&"},
	{"=", "!=", "<>", "<", "<=", ">", ">=", "IN", "BETWEEN", "LIKE", "NOT"},
	{"<<", ">>", ">>>"}, {"+", "-", "||"}, {"*", "/", "%"},
}

// expr parses an expression, starting with condition ? a : b, which has the lowest precedence.
func (p *parser) expr() (Expr, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	x, err := p.coalesce()
	if err != nil {
		return nil, err
	}
	if ok, err := p.symbol("?"); !ok || err != nil {
		return x, err
	}
	then, err := p.expr()
	if err != nil {
		return nil, err
	}
	if err := p.expect(":"); err != nil {
		return nil, err
	}
	other, err := p.expr()
	return &Ternary{p.since(x), x, then, other}, err
}

// since returns the text from the beginning of e to the last token.
func (p *parser) since(e Expr) span { return span{e.at().start, p.last} }

// leftToRight parses operands that are separated by a left-associative operator.
func (p *parser) leftToRight(op string, isWord bool, operand func() (Expr, error)) (Expr, error) {
	x, err := operand()
	for err == nil {
		if isWord && !p.isWord(op) || !isWord && !p.isSymbol(op) {
			return x, nil
		}
		if err = p.advance(); err != nil {
			break
		}
		var y Expr
		if y, err = operand(); err == nil {
			x = &Binary{p.since(x), op, x, y}
		}
	}
	return nil, err
}

func (p *parser) coalesce() (Expr, error) { return p.leftToRight("??", false, p.or) }
func (p *parser) or() (Expr, error)       { return p.leftToRight("OR", true, p.and) }
func (p *parser) and() (Expr, error)      { return p.leftToRight("AND", true, p.not) }

func (p *parser) not() (Expr, error) {
	if !p.isWord("NOT") {
		return p.binary(0)
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	start := p.t.start
	if err := p.advance(); err != nil {
		return nil, err
	}
	x, err := p.not()
	return &Unary{span{start, p.last}, "NOT", x}, err
}

// binary parses an expression whose operators have at least the given precedence level.
func (p *parser) binary(level int) (Expr, error) {
	if level == len(levels) {
		return p.unary()
	}
	x, err := p.binary(level + 1)
	for err == nil {
		op := p.operator(level)
		if op == "" {
			return x, nil
		}
		if op == "IN" || op == "BETWEEN" || op == "LIKE" || op == "NOT" {
			x, err = p.relation(x, level)
			continue
		}
		if err = p.advance(); err != nil {
			break
		}
		var y Expr
		if y, err = p.binary(level + 1); err == nil {
			if op == "<>" {
				op = "!="
			}
			x = &Binary{p.since(x), op, x, y}
		}
	}
	return nil, err
}

// operator returns the operator at t if it has the given level, or "" otherwise.
func (p *parser) operator(level int) string {
	text := p.t.text
	switch p.t.class {
	case tokenSymbol:
	case tokenWord:
		text = p.t.word
	default:
		return ""
	}
	for _, op := range levels[level] {
		if op == text {
			return op
		}
	}
	return ""
}

// relation parses [NOT] IN, BETWEEN, or LIKE after x.
func (p *parser) relation(x Expr, level int) (Expr, error) {
	no, err := p.word("NOT")
	if err != nil {
		return nil, err
	}
	op := p.t.word
	if p.t.class != tokenWord || op != "IN" && op != "BETWEEN" && op != "LIKE" {
		return nil, p.unexpected()
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	switch op {
	case "IN":
		if err := p.expect("("); err != nil {
			return nil, err
		}
		list, err := p.list(true)
		if err == nil {
			err = p.expect(")")
		}
		return &In{p.since(x), x, list, no}, err
	case "BETWEEN":
		low, err := p.binary(level + 1)
		if err != nil {
			return nil, err
		}
		if err := p.expectWord("AND"); err != nil {
			return nil, err
		}
		high, err := p.binary(level + 1)
		return &Between{p.since(x), x, low, high, no}, err
	}
	pattern, err := p.binary(level + 1)
	if err != nil {
		return nil, err
	}
	var escape Expr
	if ok, err := p.word("ESCAPE"); err != nil {
		return nil, err
	} else if ok {
		if escape, err = p.binary(level + 1); err != nil {
			return nil, err
		}
	}
	return &Like{p.since(x), x, pattern, escape, no}, nil
}

func (p *parser) unary() (Expr, error) {
	if p.t.class != tokenSymbol || p.t.text != "-" && p.t.text != "+" && p.t.text != "~" {
		x, err := p.primary()
		if err != nil {
			return nil, err
		}
		return p.postfix(x)
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	start, op := p.t.start, p.t.text
	if err := p.advance(); err != nil {
		return nil, err
	}
	x, err := p.unary()
	if err != nil {
		return nil, err
	}
	if l, ok := x.(*Literal); ok && op == "-" && l.Value.Kind() == document.Number && l.Value.Float() >= 0 {
		v := document.NumberValue(-l.Value.Float())
		if n, ok := l.Value.Int(); ok {
			v = document.IntegerValue(-n)
		}
		return &Literal{span{start, p.last}, v}, nil
	}
	return &Unary{span{start, p.last}, op, x}, nil
}

// postfix parses .name and [index] after x.
func (p *parser) postfix(x Expr) (Expr, error) {
	for n := 0; ; n++ {
		if n > depthMax {
			return nil, failure(p.text, p.t.span, codeBound, "A path has more than %d steps.", depthMax)
		}
		if ok, err := p.symbol("."); err != nil {
			return nil, err
		} else if ok {
			if p.t.class != tokenWord {
				return nil, p.unexpected()
			}
			name := p.t.text
			if err := p.advance(); err != nil {
				return nil, err
			}
			x = &Member{p.since(x), x, name}
			continue
		}
		if ok, err := p.symbol("["); !ok || err != nil {
			return x, err
		}
		at, err := p.expr()
		if err != nil {
			return nil, err
		}
		if err := p.expect("]"); err != nil {
			return nil, err
		}
		if l, ok := at.(*Literal); ok && l.Value.Kind() == document.String {
			x = &Member{p.since(x), x, l.Value.Str()}
		} else {
			x = &Index{p.since(x), x, at}
		}
	}
}
