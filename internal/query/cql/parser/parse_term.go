// SPDX-License-Identifier: Apache-2.0

package parser

import (
	"math"
	"strconv"
	"strings"
)

// term parses a value outside a SELECT clause.
func (p *parser) term() Term { return p.sum(false) }

// selection parses a selector inside a SELECT clause.
func (p *parser) selection() Term { return p.sum(true) }

// sum parses additions and subtractions. Outside a SELECT clause, it stops before the plus sign in `x + c` if c is a
// column, because UPDATE uses this form to prepend to a list.
func (p *parser) sum(selecting bool) Term {
	if !p.enter() {
		p.leave()
		return nil
	}
	depth := p.depth
	left := p.product(selecting)
	for p.is(tPlus) || p.is(tMinus) || !selecting && p.tookSign() {
		if !selecting && p.peek(1).isName() && p.peek(2) != tOpen && p.peek(2) != tDot {
			break
		}
		if !p.enter() {
			break
		}
		op := byte('+')
		if !p.tookSign() {
			op = p.text()[0]
			p.advance()
		}
		left = &Arithmetic{Op: op, Left: left, Right: p.product(selecting)}
	}
	p.depth = depth
	p.leave()
	return left
}

func (p *parser) product(selecting bool) Term {
	depth := p.depth
	left := p.signed(selecting)
	for p.is(tStar) || p.is(tSlash) || p.is(tPercent) {
		if !p.enter() {
			break
		}
		op := p.text()[0]
		p.advance()
		left = &Arithmetic{Op: op, Left: left, Right: p.signed(selecting)}
	}
	p.depth = depth
	return left
}

// signed parses an optional minus sign and a term.
func (p *parser) signed(selecting bool) Term {
	if !p.accept(tMinus) {
		if selecting {
			return p.modified()
		}
		return p.simple(false)
	}
	if !selecting {
		return &Negate{Term: p.simple(false)}
	}
	ok := p.enter()
	defer p.leave()
	if !ok {
		return nil
	}
	return &Negate{Term: p.signed(true)}
}

// simple parses a term without operators. It does not parse selections of parts.
func (p *parser) simple(selecting bool) Term {
	if c := p.constant(); c != nil {
		return c
	}
	switch p.tok.kind {
	case kwNull:
		p.advance()
		return &Null{}
	case tMark, tColon:
		return p.marker()
	case tOpenBracket:
		p.advance()
		return &ListLiteral{Elems: p.terms(selecting, tCloseBracket)}
	case tOpenBrace:
		return p.braces(selecting)
	case tOpen:
		return p.parenthesised(selecting)
	}
	switch {
	case selecting:
		return p.columnOrCall()
	case p.is(kwCast) && p.peek(1) == tOpen:
		return p.cast(false)
	case p.isReference():
		return p.reference()
	}
	return p.call(selecting)
}

// constant parses a constant. If the current token does not start a constant, it returns nil.
func (p *parser) constant() Term {
	c := p.constantValue()
	if c.Kind == 0 {
		return nil
	}
	kept := c // without this copy, c would escape to the heap
	return &kept
}

// constantValue works like constant but does not allocate memory. If the current token does not start a constant, Kind
// is 0.
func (p *parser) constantValue() Constant {
	var c Constant
	switch p.tok.kind {
	case tString, tDollar:
		c.Kind, c.Text = StringConstant, p.stringText()
	case tInteger:
		c.Kind, c.Text = IntegerConstant, p.text()
	case tFloat:
		c.Kind, c.Text = FloatConstant, p.text()
		p.checkFloat(c.Text)
	case kwNaN:
		c.Kind, c.Text = FloatConstant, "NaN"
	case tNegNaN:
		c.Kind, c.Text = FloatConstant, "-NaN"
	case kwInfinity:
		c.Kind, c.Text = FloatConstant, "Infinity"
	case tNegInfinity:
		c.Kind, c.Text = FloatConstant, "-Infinity"
	case kwTrue:
		c.Kind, c.Text = BooleanConstant, "true"
	case kwFalse:
		c.Kind, c.Text = BooleanConstant, "false"
	case tUUID:
		c.Kind, c.Text = UUIDConstant, p.text()
	case tHex:
		c.Kind, c.Text = HexConstant, p.text()
	case tDuration:
		c.Kind, c.Text = DurationConstant, p.text()
	default:
		return c
	}
	p.advance()
	return c
}

// Like Cassandra's parser, checkFloat rejects numbers outside the range of a double. This check also rejects exponents
// that decimals cannot represent.
func (p *parser) checkFloat(s string) {
	if len(s) < 300 && strings.IndexByte(s, 'e') < 0 && strings.IndexByte(s, 'E') < 0 {
		return
	}
	if f, err := strconv.ParseFloat(s, 64); err != nil || math.IsInf(f, 0) {
		line, column := position(p.lex.text, int(p.tok.begin))
		p.refuse("line %d:%d number out of range '%s'", line, column, shorten(s, tFloat))
	}
}

// terms parses a possibly empty comma-separated list of terms up to the closing token.
func (p *parser) terms(selecting bool, closing kind) []Term {
	if p.accept(closing) {
		return nil
	}
	list := make([]Term, 0, 4)
	for {
		list = append(list, p.sum(selecting))
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(closing)
	return list
}

// call parses a function call.
func (p *parser) call(selecting bool) Term {
	f := &FunctionCall{Name: p.functionName()}
	if !p.is(tOpen) {
		p.fail()
		return nil
	}
	p.advance()
	f.Args = p.terms(selecting, tClose)
	return f
}

// braces parses a set, map, or user-defined type literal.
func (p *parser) braces(selecting bool) Term {
	p.expect(tOpenBrace)
	if p.accept(tCloseBrace) {
		return &SetLiteral{}
	}
	if !selecting && p.tok.kind.isName() && p.peek(1) == tColon {
		return p.userTypeLiteral()
	}
	first := p.sum(selecting)
	if !p.is(tColon) {
		set := &SetLiteral{Elems: []Term{first}}
		for p.accept(tComma) {
			set.Elems = append(set.Elems, p.sum(selecting))
		}
		p.expect(tCloseBrace)
		return set
	}
	m := &MapLiteral{}
	for {
		p.expect(tColon)
		m.Entries = append(m.Entries, MapEntry{Key: first, Value: p.sum(selecting)})
		if !p.accept(tComma) {
			break
		}
		first = p.sum(selecting)
	}
	p.expect(tCloseBrace)
	return m
}

func (p *parser) userTypeLiteral() Term {
	u := &UDTLiteral{}
	for {
		name := p.name()
		p.expect(tColon)
		u.Fields = append(u.Fields, FieldValue{Name: name, Value: p.term()})
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tCloseBrace)
	return u
}

// parenthesised parses a type hint, a tuple, or a parenthesized selector.
func (p *parser) parenthesised(selecting bool) Term {
	if hint := p.typeHint(selecting); hint != nil {
		return hint
	}
	p.expect(tOpen)
	if p.is(tClose) {
		p.fail()
		return nil
	}
	elems := p.terms(selecting, tClose)
	if selecting && len(elems) == 1 {
		return &Paren{Term: elems[0]}
	}
	return &TupleLiteral{Elems: elems}
}

// typeHint parses (type)term. If the tokens are not a type hint, it returns nil and restores the position.
func (p *parser) typeHint(selecting bool) Term {
	switch first := p.peek(1); {
	case first == kwSet, first == tString, first.isNativeType(), first.isTypeName():
	default:
		return nil
	}
	// Most parentheses do not contain a type hint. Usually, two tokens are sufficient to detect this case.
	switch p.peek(2) {
	case tClose, tLess, tDot:
	default:
		return nil
	}
	saved := *p
	p.advance()
	typ := p.typeName()
	p.expect(tClose)
	if p.failed || !p.beginsSimple(selecting) {
		*p = saved
		return nil
	}
	ok := p.enter()
	defer p.leave()
	if !ok {
		return nil
	}
	return &TypeHint{Type: typ, Term: p.simple(selecting)}
}

// beginsSimple reports whether the current token can start a term that simple parses.
func (p *parser) beginsSimple(selecting bool) bool {
	switch p.tok.kind {
	case tString, tDollar, tInteger, tFloat, tHex, tUUID, tDuration, tNegNaN, tNegInfinity, kwNaN, kwInfinity, kwTrue,
		kwFalse,
		kwNull, tMark, tColon, tOpenBracket, tOpenBrace, tOpen:
		return true
	case tEmptyQuoted:
		return selecting
	}
	if selecting {
		// In SELECT (k) AS x, AS starts an alias. In (k)as, the type hint (k) precedes the column as.
		return p.tok.kind.isName() && !p.is(kwAs) || p.tok.kind.isFunctionName() && p.peek(1) == tOpen
	}
	next := p.peek(1)
	return p.tok.kind.isFunctionName() && next == tOpen || p.tok.kind.isName() && next == tDot
}
