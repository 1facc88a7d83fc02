// SPDX-License-Identifier: Apache-2.0

package parser

func (p *parser) selectStatement() Statement {
	p.expect(kwSelect)
	s := &Select{}
	if p.is(kwJSON) && p.beginsSelectors(p.peek(1), 2) {
		p.advance()
		s.JSON = true
	}
	if p.is(kwDistinct) && p.beginsSelectors(p.peek(1), 2) {
		p.advance()
		s.Distinct = true
	}
	s.Selectors = p.selectors()
	p.expect(kwFrom)
	s.Table = p.tableName()
	if p.accept(kwWhere) {
		s.Where = p.where()
	}
	if p.accept(kwGroup) {
		p.expect(kwBy)
		s.GroupBy = p.groupBy()
	}
	if p.accept(kwOrder) {
		p.expect(kwBy)
		s.OrderBy = p.orderBy()
	}
	if p.accept(kwPer) {
		p.expect(kwPartition)
		p.expect(kwLimit)
		s.PerPartitionLimit = p.intValue()
	}
	if p.accept(kwLimit) {
		s.Limit = p.intValue()
	}
	if p.accept(kwAllow) {
		p.expect(kwFiltering)
		s.AllowFiltering = true
	}
	if p.is(kwUsing) && p.nextIsWord("timeout") {
		p.advance()
		p.advance()
		s.Timeout = p.timeoutValue()
	}
	if !p.is(tEOF) && !p.is(tSemicolon) && len(s.Where) == 0 && s.Limit == nil && s.PerPartitionLimit == nil &&
		p.is(tIdent) {
		// In SELECT * FROM t JOIN u, Cassandra's parser has not chosen an alternative at this position.
		p.fail()
	}
	return s
}

// beginsSelectors reports whether the token after JSON or DISTINCT starts a list of selectors. Otherwise, JSON or
// DISTINCT is a column name. k is the kind of the token. after is the distance to the following token.
func (p *parser) beginsSelectors(k kind, after int) bool {
	switch k {
	case tStar:
		// The expression json * 2 is a product, but JSON * selects all columns.
		return p.peek(after) == kwFrom
	case tComma, tDot, kwFrom, tPlus, tSlash, tPercent, tClose:
		return false
	case kwAs:
		// In SELECT json AS x, json is a column. In SELECT JSON as FROM t, as is a column.
		next := p.peek(after)
		return next == kwFrom || next == tComma
	}
	return true
}

// selectors parses * or a list of selectors. For *, it returns an empty list.
func (p *parser) selectors() []Selector {
	if p.accept(tStar) {
		return nil
	}
	list := make([]Selector, 0, 4)
	for {
		s := Selector{Term: p.selection()}
		if p.accept(kwAs) {
			s.Alias = p.name()
		}
		list = append(list, s)
		if !p.accept(tComma) {
			return list
		}
	}
}

// modified parses a selector without operators. It consists of a simple term and selections of parts.
func (p *parser) modified() Term { return p.parts(p.simple(true)) }

// parts parses the selections .field, [key], and [from..to] after a selector.
func (p *parser) parts(t Term) Term {
	depth := p.depth
	for (p.is(tDot) || p.is(tOpenBracket)) && p.enter() {
		if p.accept(tDot) {
			t = &Field{Term: t, Name: p.name()}
			continue
		}
		p.advance()
		t = p.elementOrSlice(t)
	}
	p.depth = depth
	return t
}

func (p *parser) elementOrSlice(t Term) Term {
	var from, to Term
	if !p.is(tRange) {
		from = p.term()
		if p.accept(tCloseBracket) {
			return &Element{Term: t, Key: from}
		}
		p.expect(tRange)
		if p.accept(tCloseBracket) {
			return &Slice{Term: t, From: from}
		}
	} else {
		p.advance()
	}
	to = p.term()
	p.expect(tCloseBracket)
	return &Slice{Term: t, From: from, To: to}
}

// columnOrCall parses a column, a function call, or a built-in form with a similar syntax.
func (p *parser) columnOrCall() Term {
	k := p.tok.kind
	if p.peek(1) == tOpen {
		switch k {
		case kwCount:
			if p.peek(2) == tStar {
				p.advance()
				p.advance()
				p.advance()
				p.expect(tClose)
				return &CountRows{}
			}
		case kwWriteTime:
			return p.cellMeta(WriteTime)
		case kwMaxWriteTime:
			return p.cellMeta(MaxWriteTime)
		case kwTTL:
			return p.cellMeta(TTL)
		case kwCast:
			return p.cast(true)
		}
		return p.call(true)
	}
	if k.isName() && p.peek(1) == tDot && p.peek(3) == tOpen {
		return p.call(true)
	}
	return &Column{Name: p.columnName()}
}

func (p *parser) cellMeta(kind CellMetaKind) Term {
	p.advance()
	p.expect(tOpen)
	m := &CellMeta{Kind: kind, Arg: &Column{Name: p.columnName()}}
	m.Arg = p.parts(m.Arg)
	p.expect(tClose)
	return m
}

func (p *parser) cast(selecting bool) Term {
	p.advance()
	p.expect(tOpen)
	c := &Cast{Term: p.sum(selecting)}
	p.expect(kwAs)
	if !p.tok.kind.isNativeType() {
		p.fail()
		return nil
	}
	c.Type = p.typeName()
	p.expect(tClose)
	return c
}

func (p *parser) groupBy() []Term {
	list := make([]Term, 0, 2)
	for {
		list = append(list, p.selection())
		if !p.accept(tComma) {
			return list
		}
	}
}

func (p *parser) orderBy() []Ordering {
	list := make([]Ordering, 0, 2)
	for {
		o := Ordering{Column: p.columnName()}
		if p.accept(kwANN) {
			p.expect(kwOf)
			o.ANN = p.term()
		}
		if !p.accept(kwAsc) {
			o.Descending = p.accept(kwDesc)
		}
		list = append(list, o)
		if !p.accept(tComma) {
			return list
		}
	}
}

// intValue parses an integer or a marker.
func (p *parser) intValue() Term {
	if p.isMarker() {
		return p.marker()
	}
	if !p.is(tInteger) {
		p.fail()
		return nil
	}
	return p.constant()
}
