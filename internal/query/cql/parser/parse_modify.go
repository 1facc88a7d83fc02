// SPDX-License-Identifier: Apache-2.0

package parser

func (p *parser) insert() Statement {
	p.expect(kwInsert)
	p.expect(kwInto)
	s := &Insert{Table: p.tableName()}
	switch {
	case p.accept(kwJSON):
		s.JSON = p.jsonValue()
		if p.accept(kwDefault) {
			s.DefaultUnset = p.accept(kwUnset)
			if !s.DefaultUnset {
				p.expect(kwNull)
			}
		}
	case p.is(tOpen):
		s.Columns = p.columnTuple()
		p.expect(kwValues)
		p.expect(tOpen)
		if p.is(tClose) {
			p.fail()
			return nil
		}
		s.Values = p.terms(false, tClose)
	default:
		p.fail()
		return nil
	}
	s.IfNotExists = p.ifNotExists()
	s.Using = p.using()
	return s
}

func (p *parser) jsonValue() Term {
	switch p.tok.kind {
	case tString, tDollar:
		return p.constant()
	case tMark, tColon:
		return p.marker()
	}
	p.fail()
	return nil
}

// using parses the optional clause USING TIMESTAMP t AND TTL t AND TIMEOUT t. The order of the parts is arbitrary.
func (p *parser) using() Using {
	var u Using
	if !p.accept(kwUsing) {
		return u
	}
	for {
		switch {
		case p.accept(kwTimestamp):
			p.usingTimestamp(&u)
		case p.accept(kwTTL):
			p.override(u.TTL, "TTL")
			u.TTLFirst = false
			u.TTL = p.intValue()
		case p.isWord("timeout"):
			p.usingTimeout(&u)
		default:
			p.fail()
			return u
		}
		if !p.accept(kwAnd) {
			return u
		}
	}
}

// usingOfDelete parses the optional clause USING TIMESTAMP t AND TIMEOUT t. The order of the parts is arbitrary.
func (p *parser) usingOfDelete() Using {
	var u Using
	if !p.accept(kwUsing) {
		return u
	}
	for {
		if p.isWord("timeout") {
			p.usingTimeout(&u)
		} else {
			p.expect(kwTimestamp)
			p.usingTimestamp(&u)
		}
		if u.Timeout == nil && !(p.is(kwAnd) && p.nextIsWord("timeout")) || !p.accept(kwAnd) {
			return u
		}
	}
}

func (p *parser) usingTimestamp(u *Using) {
	p.override(u.Timestamp, "TIMESTAMP")
	u.TTLFirst = u.TTL != nil
	u.Timestamp = p.intValue()
}

func (p *parser) usingTimeout(u *Using) {
	p.override(u.Timeout, "TIMEOUT")
	p.advance()
	u.Timeout, u.TimeoutAfter = p.timeoutValue(), 0
	for _, earlier := range []Term{u.Timestamp, u.TTL} {
		if earlier != nil {
			u.TimeoutAfter++
		}
	}
}

// timeoutValue parses a constant or a marker. The planner checks whether the value is a duration.
func (p *parser) timeoutValue() Term {
	if p.isMarker() {
		return p.marker()
	}
	if c := p.constant(); c != nil {
		return c
	}
	p.fail()
	return nil
}

// override rejects a repeated part of USING if the earlier value is a marker. Otherwise, the earlier marker would have
// no effect.
func (p *parser) override(earlier Term, what string) {
	if _, marker := earlier.(*Marker); marker {
		p.refuse("Multiple definition for %s in the USING clause", what)
	}
}

func (p *parser) update() Statement {
	p.expect(kwUpdate)
	s := &Update{Table: p.tableName()}
	s.Using = p.using()
	if !p.is(kwSet) {
		p.fail()
		return nil
	}
	p.advance()
	s.Assignments = make([]Assignment, 0, 4)
	var index map[string]*assigned
	for {
		a := p.assignment()
		p.checkAssignment(s.Assignments, &index, &a)
		s.Assignments = append(s.Assignments, a)
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(kwWhere)
	s.Where = p.where()
	s.IfExists, s.Conditions = p.ifClause()
	return s
}

// assigned describes the earlier assignments of an UPDATE to one column.
type assigned struct {
	whole  bool
	fields map[string]bool
}

// checkAssignment rejects the assignment a if an earlier assignment sets the whole column or the same field. If the
// number of earlier assignments is large, checkAssignment creates an index of these assignments.
func (p *parser) checkAssignment(earlier []Assignment, index *map[string]*assigned, a *Assignment) {
	const few = 16
	if len(earlier) < few {
		for i := range earlier {
			if e := &earlier[i]; e.Column.Name == a.Column.Name && e.conflicts(a) {
				p.refuse("Multiple incompatible setting of column %s", a.Column.Name)
				return
			}
		}
		return
	}
	if *index == nil {
		*index = make(map[string]*assigned)
		for i := range earlier {
			indexAssignment(*index, &earlier[i])
		}
	}
	if !indexAssignment(*index, a) {
		p.refuse("Multiple incompatible setting of column %s", a.Column.Name)
	}
}

// conflicts reports whether two assignments to the same column conflict.
func (a *Assignment) conflicts(b *Assignment) bool {
	return a.Kind == SetColumn || b.Kind == SetColumn || a.Kind == SetField && b.Kind == SetField &&
		a.Field.Name == b.Field.Name
}

// indexAssignment adds the assignment a to index. It reports whether a is compatible with the assignments in the index.
func indexAssignment(index map[string]*assigned, a *Assignment) bool {
	done, found := index[a.Column.Name]
	if !found {
		done = &assigned{}
		index[a.Column.Name] = done
	}
	ok := !found || !done.whole && a.Kind != SetColumn
	done.whole = done.whole || a.Kind == SetColumn
	if a.Kind == SetField {
		ok = ok && !done.fields[a.Field.Name]
		if done.fields == nil {
			done.fields = make(map[string]bool)
		}
		done.fields[a.Field.Name] = true
	}
	return ok
}

func (p *parser) assignment() Assignment {
	a := Assignment{Column: p.columnName()}
	switch p.tok.kind {
	case tOpenBracket:
		p.advance()
		a.Kind = SetElement
		a.Key = p.term()
		p.expect(tCloseBracket)
		p.expect(tEqual)
		a.Value = p.term()
	case tDot:
		p.advance()
		a.Kind = SetField
		a.Field = p.name()
		p.expect(tEqual)
		a.Value = p.term()
	case tPlusEqual:
		p.advance()
		a.Kind = AddTo
		a.Value = p.term()
	case tMinusEqual:
		p.advance()
		a.Kind = SubtractFrom
		a.Value = p.term()
	case tEqual:
		p.advance()
		p.assignedValue(&a)
	default:
		p.fail()
	}
	return a
}

// assignedValue parses the part after `c =`. It is a value, c + value, c - value, or value + c. In c -1, the sign is
// part of the number.
func (p *parser) assignedValue(a *Assignment) {
	second := p.peek(1)
	if p.tok.kind.isName() && (second == tPlus || second == tMinus || second == tInteger) {
		column := p.ident()
		switch {
		case p.accept(tPlus):
			a.Kind = AddTo
			p.sameColumn(a, column, "X = X +<value>")
		case p.accept(tMinus):
			a.Kind = SubtractFrom
			p.sameColumn(a, column, "X = X -<value>")
		case p.text()[0] == '-':
			a.Kind = AddTo
			p.sameColumn(a, column, "X = X - <value>")
		default:
			p.fail()
			return
		}
		a.Value = p.term()
		return
	}
	a.Value = p.term()
	a.Kind = SetColumn
	if p.accept(tPlus) {
		a.Kind = Prepend
		p.sameColumn(a, p.columnName(), "X = <value> + X")
	}
}

func (p *parser) sameColumn(a *Assignment, column Ident, form string) {
	if column.Name != a.Column.Name {
		p.refuse("Only expressions of the form %s are supported.", form)
	}
}

func (p *parser) delete() Statement {
	p.expect(kwDelete)
	s := &Delete{}
	for p.tok.kind.isName() || p.is(tEmptyQuoted) {
		s.Targets = append(s.Targets, p.deleteTarget())
		if !p.accept(tComma) {
			break
		}
		if !p.tok.kind.isName() && !p.is(tEmptyQuoted) {
			p.fail()
		}
	}
	p.expect(kwFrom)
	s.Table = p.tableName()
	s.Using = p.usingOfDelete()
	p.expect(kwWhere)
	s.Where = p.where()
	s.IfExists, s.Conditions = p.ifClause()
	return s
}

func (p *parser) deleteTarget() DeleteTarget {
	t := DeleteTarget{Column: p.columnName()}
	switch {
	case p.accept(tOpenBracket):
		t.Key = p.term()
		p.expect(tCloseBracket)
	case p.accept(tDot):
		t.Field = p.name()
	}
	return t
}

func (p *parser) batch() Statement {
	p.expect(kwBegin)
	if p.isWord("transaction") {
		return p.transaction()
	}
	b := &Batch{}
	switch {
	case p.accept(kwUnlogged):
		b.Kind = Unlogged
	case p.accept(kwCounter):
		b.Kind = Counter
	}
	p.expect(kwBatch)
	b.Using = p.using()
	for {
		switch p.tok.kind {
		case kwInsert:
			b.Statements = append(b.Statements, p.insert())
		case kwUpdate:
			b.Statements = append(b.Statements, p.update())
		case kwDelete:
			b.Statements = append(b.Statements, p.delete())
		default:
			p.expect(kwApply)
			p.expect(kwBatch)
			return b
		}
		p.accept(tSemicolon)
	}
}
