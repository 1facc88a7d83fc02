// SPDX-License-Identifier: Apache-2.0

package parser

import "strings"

// ChangeFeedStart is the function in a WHERE clause that makes a SELECT read the change feed. ChangeFeedMode is the
// function that selects the mode of the change feed.
const (
	ChangeFeedStart = "cosmos_changefeed_start_time"
	ChangeFeedMode  = "cosmos_changefeed_mode"
)

// where parses relations joined by AND. In a transaction, a WHERE clause cannot refer to rows that the transaction has
// read.
func (p *parser) where() []Relation {
	references := p.references
	p.references = false
	defer func() { p.references = references }()
	list := make([]Relation, 0, 4)
	for {
		list = append(list, p.relation())
		if !p.accept(kwAnd) {
			return list
		}
	}
}

func (p *parser) relation() Relation {
	switch {
	case p.is(tOpen):
		return p.parenthesisedRelation()
	case p.is(kwToken):
		p.advance()
		r := Relation{Kind: TokenRelation, Columns: p.columnTuple()}
		r.Op = p.comparison()
		r.Value = p.term()
		return r
	}
	r := Relation{Kind: SingleColumn, Columns: []Ident{p.columnName()}}
	switch p.tok.kind {
	case tOpen:
		name := strings.ToLower(r.Columns[0].Name)
		if r.Columns[0].Quoted || name != ChangeFeedStart && name != ChangeFeedMode {
			p.fail()
			return r
		}
		p.advance()
		p.expect(tClose)
		r.Kind, r.Columns[0].Name = ChangeFeedRelation, name
		r.Op = p.comparison()
		r.Value = p.term()
	case tOpenBracket:
		p.advance()
		r.Key = p.term()
		p.expect(tCloseBracket)
		r.Op = p.comparison()
		r.Value = p.term()
	case kwLike:
		p.advance()
		r.Op = Like
		r.Value = p.term()
	case kwIs:
		p.advance()
		r.Op = IsNotNull
		p.expect(kwNot)
		p.expect(kwNull)
	case kwIn:
		p.advance()
		r.Op = In
		r.Value, r.Values = p.inValues()
	case kwContains:
		p.advance()
		r.Op = Contains
		if p.accept(kwKey) {
			r.Op = ContainsKey
		}
		r.Value = p.term()
	default:
		r.Op = p.comparison()
		r.Value = p.term()
	}
	return r
}

// parenthesisedRelation parses (relation) or a relation on a tuple of columns.
func (p *parser) parenthesisedRelation() Relation {
	if second := p.peek(2); second == tComma || second == tClose {
		r := Relation{Kind: MultiColumn, Columns: p.columnTuple()}
		if p.accept(kwIn) {
			r.Op = In
			r.Value, r.Values = p.inTuples()
			return r
		}
		r.Op = p.comparison()
		r.Value = p.tupleOrMarker()
		return r
	}
	ok := p.enter()
	defer p.leave()
	if !ok {
		return Relation{}
	}
	p.expect(tOpen)
	r := p.relation()
	p.expect(tClose)
	return r
}

// columnTuple parses (a, b).
func (p *parser) columnTuple() []Ident {
	p.expect(tOpen)
	list := p.columnNames()
	p.expect(tClose)
	return list
}

// columnNames parses a, b.
func (p *parser) columnNames() []Ident {
	list := make([]Ident, 0, 4)
	for {
		list = append(list, p.columnName())
		if !p.accept(tComma) {
			return list
		}
	}
}

// comparison parses one of = < <= > >= !=.
func (p *parser) comparison() Operator {
	var op Operator
	switch p.tok.kind {
	case tEqual:
		op = Equal
	case tLess:
		op = Less
	case tLessEqual:
		op = LessEqual
	case tGreater:
		op = Greater
	case tGreaterEqual:
		op = GreaterEqual
	case tNotEqual:
		op = NotEqual
	default:
		p.fail()
		return 0
	}
	p.advance()
	return op
}

// inValues parses the part after IN. It returns a marker or a non-nil list of values.
func (p *parser) inValues() (Term, []Term) {
	if p.isMarker() {
		return p.marker(), nil
	}
	if !p.is(tOpen) {
		p.fail()
		return nil, nil
	}
	p.advance()
	values := p.terms(false, tClose)
	if values == nil {
		values = []Term{}
	}
	return nil, values
}

// inTuples parses the part after IN for a tuple of columns. It returns a marker, a list of tuples, or a list of
// markers.
func (p *parser) inTuples() (Term, []Term) {
	if p.isMarker() {
		return p.marker(), nil
	}
	if !p.is(tOpen) {
		p.fail()
		return nil, nil
	}
	p.advance()
	values := []Term{}
	if p.accept(tClose) {
		return nil, values
	}
	markers := p.isMarker()
	for {
		if p.isMarker() != markers {
			p.fail()
			return nil, nil
		}
		values = append(values, p.tupleOrMarker())
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tClose)
	return nil, values
}

func (p *parser) tupleOrMarker() Term {
	if p.isMarker() {
		return p.marker()
	}
	if !p.is(tOpen) {
		p.fail()
		return nil
	}
	p.advance()
	if p.is(tClose) {
		p.fail()
		return nil
	}
	return &TupleLiteral{Elems: p.terms(false, tClose)}
}

// ifClause parses the optional clause IF EXISTS or IF conditions of UPDATE and DELETE.
func (p *parser) ifClause() (exists bool, conditions []Condition) {
	if !p.accept(kwIf) {
		return false, nil
	}
	if p.is(kwExists) && !p.peek(1).isConditionOperator() {
		p.advance()
		return true, nil
	}
	for {
		conditions = append(conditions, p.condition())
		if !p.accept(kwAnd) {
			return false, conditions
		}
	}
}

// isConditionOperator reports whether a token may follow a column in a condition.
func (k kind) isConditionOperator() bool {
	switch k {
	case tEqual, tLess, tLessEqual, tGreater, tGreaterEqual, tNotEqual, kwIn, tOpenBracket, tDot:
		return true
	}
	return false
}

func (p *parser) condition() Condition {
	c := Condition{Column: p.columnName()}
	switch {
	case p.accept(tOpenBracket):
		c.Key = p.term()
		p.expect(tCloseBracket)
	case p.accept(tDot):
		c.Field = p.name()
	}
	if p.accept(kwIn) {
		c.Op = In
		c.Value, c.Values = p.inValues()
		return c
	}
	if c.Key == nil && c.Field.Name == "" && p.accept(kwContains) {
		if c.Op = Contains; p.accept(kwKey) {
			c.Op = ContainsKey
		}
		c.Value = p.term()
		return c
	}
	c.Op = p.comparison()
	c.Value = p.term()
	return c
}
