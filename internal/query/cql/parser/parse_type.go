// SPDX-License-Identifier: Apache-2.0

package parser

import (
	"strconv"
	"strings"
)

// reservedTypeNames lists words that cannot be names of user-defined types.
var reservedTypeNames = [...]string{"byte", "complex", "enum", "date", "interval", "macaddr", "bitstring"}

// typeName parses a type.
func (p *parser) typeName() *TypeName {
	ok := p.enter()
	defer p.leave()
	if !ok {
		return nil
	}
	k := p.tok.kind
	switch {
	case k == tString || k == tDollar:
		return &TypeName{Kind: CustomType, Name: p.stringLiteral()}
	case k == kwSet || p.peek(1) == tLess:
		if t := p.parameterised(); t != nil {
			return t
		}
	case k.isNativeType() && p.peek(1) != tDot:
		t := &TypeName{Kind: NativeType, Name: strings.ToLower(p.text())}
		p.advance()
		return t
	}
	return &TypeName{Kind: UserType, User: p.userTypeName()}
}

// parameterised parses a type with parameters. If the current token does not start a parameterized type, it returns
// nil.
func (p *parser) parameterised() *TypeName {
	t := &TypeName{}
	switch p.tok.kind {
	case kwFrozen:
		return p.frozen()
	case kwVector:
		return p.vector()
	case kwList:
		t.Kind = ListType
	case kwSet:
		t.Kind = SetType
	case kwMap:
		t.Kind = MapType
	case kwTuple:
		t.Kind = TupleType
	default:
		return nil
	}
	p.advance()
	p.expect(tLess)
	t.Params = append(t.Params, p.typeName())
	switch t.Kind {
	case MapType:
		p.expect(tComma)
		t.Params = append(t.Params, p.typeName())
	case TupleType:
		for p.accept(tComma) {
			t.Params = append(t.Params, p.typeName())
		}
	}
	p.expect(tGreater)
	return t
}

func (p *parser) frozen() *TypeName {
	p.advance()
	p.expect(tLess)
	t := p.typeName()
	if t == nil {
		return &TypeName{}
	}
	if t.Kind == NativeType {
		p.refuse("frozen<> is only allowed on collections, tuples, and user-defined types (got %s)", t.Name)
	}
	t.Frozen = true
	p.expect(tGreater)
	return t
}

func (p *parser) vector() *TypeName {
	t := &TypeName{Kind: VectorType}
	p.advance()
	p.expect(tLess)
	t.Params = append(t.Params, p.typeName())
	p.expect(tComma)
	if p.is(tInteger) {
		n, err := strconv.ParseInt(p.text(), 10, 32)
		if err != nil {
			p.refuse("vectors may only have positive dimensions; given %s", p.text())
		}
		t.Dimension = int(n)
	}
	p.expect(tInteger)
	p.expect(tGreater)
	return t
}

// userTypeName parses the name [keyspace.]name of a user-defined type.
func (p *parser) userTypeName() QualifiedName {
	var q QualifiedName
	if p.tok.kind.isName() && p.peek(1) == tDot {
		q.Keyspace = p.ident()
		p.advance()
	}
	if !p.tok.kind.isTypeName() {
		p.fail()
		return q
	}
	if p.is(tIdent) {
		for _, name := range reservedTypeNames {
			if strings.EqualFold(p.text(), name) {
				p.refuse("Invalid (reserved) user type name %s", p.text())
				return q
			}
		}
	}
	q.Name = p.ident()
	return q
}

// typeList parses a possibly empty comma-separated list of types up to the closing parenthesis.
func (p *parser) typeList() []*TypeName {
	if p.accept(tClose) {
		return nil
	}
	var list []*TypeName
	for {
		list = append(list, p.typeName())
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tClose)
	return list
}
