// SPDX-License-Identifier: Apache-2.0

package sql

import "github.com/ilion-db/ilion/internal/model/document"

// constants contains the words that represent values.
var constants = map[string]document.Value{"NULL": document.NullValue, "TRUE": document.BooleanValue(true),
	"FALSE": document.BooleanValue(false), "UNDEFINED": {}}

func (p *parser) primary() (Expr, error) {
	t := p.t
	switch t.class {
	case tokenNumber:
		return &Literal{t.span, t.number}, p.advance()
	case tokenString:
		return &Literal{t.span, document.StringValue(t.text)}, p.advance()
	case tokenParameter:
		return &Placeholder{t.span, t.text}, p.advance()
	case tokenSymbol:
		switch t.text {
		case "(":
			return p.parenthesised(Scalar)
		case "{":
			return p.object()
		case "[":
			return p.array()
		}
	case tokenWord:
		if v, ok := constants[t.word]; ok {
			return &Literal{t.span, v}, p.advance()
		}
		if t.word == "EXISTS" || t.word == "ARRAY" {
			if err := p.advance(); err != nil {
				return nil, err
			}
			return p.subquery(t)
		}
		if !reserved[t.word] {
			return p.nameOrCall()
		}
	}
	return nil, p.unexpected()
}

// subquery parses the query after the word t.
func (p *parser) subquery(t token) (Expr, error) {
	if !p.isSymbol("(") {
		return nil, p.unexpected()
	}
	e, err := p.parenthesised(subqueryWords[t.word])
	if err != nil {
		return nil, err
	}
	s, ok := e.(*Subquery)
	if !ok {
		return nil, failure(p.text, e.at(), codeSyntax, "Syntax error, %s needs a sub-query.", t.word)
	}
	s.start = t.start
	return s, nil
}

// parenthesised parses an expression or a subquery in parentheses.
func (p *parser) parenthesised(kind SubqueryKind) (Expr, error) {
	start := p.t.start
	if err := p.expect("("); err != nil {
		return nil, err
	}
	if p.isWord("SELECT") {
		q, err := p.query()
		if err == nil {
			err = p.expect(")")
		}
		return &Subquery{span{start, p.last}, kind, q}, err
	}
	e, err := p.expr()
	if err == nil {
		err = p.expect(")")
	}
	return e, err
}

func (p *parser) nameOrCall() (Expr, error) {
	t := p.t
	if err := p.advance(); err != nil {
		return nil, err
	}
	call := &Call{span: t.span, Name: t.text}
	if t.word == "UDF" && p.isSymbol(".") {
		if err := p.advance(); err != nil {
			return nil, err
		}
		if p.t.class != tokenWord {
			return nil, p.unexpected()
		}
		call.Name, call.UDF = p.t.text, true
		if err := p.advance(); err != nil {
			return nil, err
		}
		if !p.isSymbol("(") {
			return nil, p.unexpected()
		}
	}
	if !p.isSymbol("(") {
		return &Name{t.span, t.text}, nil
	}
	if _, ok := subqueryWords[t.word]; ok && !call.UDF {
		return p.subquery(t)
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	var err error
	if !p.isSymbol(")") {
		if call.Args, err = p.list(false); err != nil {
			return nil, err
		}
	}
	err = p.expect(")")
	call.end = p.last
	return call, err
}

func (p *parser) object() (Expr, error) {
	o := &ObjectExpr{span: p.t.span}
	if err := p.advance(); err != nil {
		return nil, err
	}
	for !p.isSymbol("}") {
		if p.t.class != tokenWord && p.t.class != tokenString {
			return nil, p.unexpected()
		}
		name := p.t.text
		if err := p.advance(); err != nil {
			return nil, err
		}
		if err := p.expect(":"); err != nil {
			return nil, err
		}
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		o.Members = append(o.Members, ObjectMember{name, e})
		if ok, err := p.symbol(","); err != nil {
			return nil, err
		} else if !ok {
			break
		}
	}
	err := p.expect("}")
	o.end = p.last
	return o, err
}

func (p *parser) array() (Expr, error) {
	a := &ArrayExpr{span: p.t.span}
	if err := p.advance(); err != nil {
		return nil, err
	}
	var err error
	if !p.isSymbol("]") {
		if a.Elements, err = p.list(false); err != nil {
			return nil, err
		}
	}
	err = p.expect("]")
	a.end = p.last
	return a, err
}
