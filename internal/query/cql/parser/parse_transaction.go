// SPDX-License-Identifier: Apache-2.0

package parser

import "strings"

// nextIsWord reports whether the next token is the given word. The word must not be a keyword.
func (p *parser) nextIsWord(word string) bool {
	return p.peek(1) == tIdent && strings.EqualFold(p.lex.text[p.ahead[0].begin:p.ahead[0].end], word)
}

// isWord reports whether the current token is the given word. The word must not be a keyword.
func (p *parser) isWord(word string) bool { return p.is(tIdent) && strings.EqualFold(p.text(), word) }

// expectWord skips the given word or fails. The word must not be a keyword.
func (p *parser) expectWord(word string) {
	if !p.isWord(word) {
		p.fail()
		return
	}
	p.advance()
}

// transaction parses the part after BEGIN.
func (p *parser) transaction() Statement {
	p.expectWord("transaction")
	p.references = true
	defer func() { p.references = false }()
	t := &Transaction{}
	for p.isWord("let") {
		t.Lets = append(t.Lets, p.let())
	}
	if p.is(kwSelect) {
		p.transactionSelect(t)
		p.expect(tSemicolon)
	}
	for !p.failed && !p.isWord("commit") {
		t.Steps = append(t.Steps, p.step())
	}
	p.expectWord("commit")
	p.expectWord("transaction")
	return t
}

func (p *parser) let() Let {
	p.expectWord("let")
	l := Let{Name: p.name()}
	p.expect(tEqual)
	p.expect(tOpen)
	l.Select, _ = p.selectStatement().(*Select)
	p.expect(tClose)
	p.expect(tSemicolon)
	return l
}

// transactionSelect parses the SELECT of a transaction. A SELECT without a FROM clause contains only references.
func (p *parser) transactionSelect(t *Transaction) {
	saved := *p
	p.advance()
	list := p.selectors()
	if len(list) > 0 && p.is(tSemicolon) {
		t.Returns = list
		return
	}
	*p = saved
	t.Select, _ = p.selectStatement().(*Select)
}

// step parses either IF .. END IF or the statements up to the next IF.
func (p *parser) step() (s Step) {
	if !p.accept(kwIf) {
		for p.is(kwInsert) || p.is(kwUpdate) || p.is(kwDelete) {
			s.Statements = append(s.Statements, p.stepStatement())
		}
		if len(s.Statements) == 0 {
			p.fail()
		}
		return s
	}
	for {
		s.Conditions = append(s.Conditions, p.compared())
		if !p.accept(kwAnd) {
			break
		}
	}
	p.expectWord("then")
	for !p.failed && (len(s.Statements) == 0 || !p.isWord("end")) {
		s.Statements = append(s.Statements, p.stepStatement())
	}
	p.expectWord("end")
	p.expect(kwIf)
	p.accept(tSemicolon)
	return s
}

func (p *parser) stepStatement() (s Statement) {
	switch p.tok.kind {
	case kwInsert:
		s = p.insert()
	case kwUpdate:
		s = p.update()
	case kwDelete:
		s = p.delete()
	default:
		p.fail()
	}
	p.expect(tSemicolon)
	return s
}

// compared parses one condition of IF.
func (p *parser) compared() (c Comparison) {
	if p.tok.kind.isName() && p.peek(1) == kwIs {
		c.Left = &Column{Name: p.ident()}
	} else {
		c.Left = p.term()
	}
	if !p.accept(kwIs) {
		c.Op = p.comparison()
		c.Right = p.term()
		return c
	}
	if c.Op = IsNull; p.accept(kwNot) {
		c.Op = IsNotNull
	}
	p.expect(kwNull)
	return c
}

// isReference reports whether a reference starts at the current token. A reference has the form name.name and is not
// followed by a parenthesis.
func (p *parser) isReference() bool {
	return p.references && p.tok.kind.isName() && p.peek(1) == tDot && p.peek(2).isName() && p.peek(3) != tOpen
}

// tookSign reports whether the current token is a number that includes the minus sign of a subtraction, as in x.a -1.
func (p *parser) tookSign() bool {
	return p.references && (p.is(tInteger) || p.is(tFloat)) && p.text()[0] == '-'
}

// reference parses name.name.
func (p *parser) reference() Term {
	of := p.ident()
	p.expect(tDot)
	return &Field{Term: &Column{Name: of}, Name: p.name()}
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *Transaction) String() string {
	return printed(func(p *printer) {
		p.put("BEGIN TRANSACTION")
		for _, l := range s.Lets {
			p.put(" LET ", l.Name.String(), " = (", l.Select.String(), ");")
		}
		switch {
		case s.Select != nil:
			p.put(" ", s.Select.String(), ";")
		case s.Returns != nil:
			p.put(" SELECT ")
			p.selectors(s.Returns)
			p.put(";")
		}
		for _, step := range s.Steps {
			if len(step.Conditions) > 0 {
				p.put(" IF ")
				each(p, step.Conditions, " AND ", p.compared)
				p.put(" THEN")
			}
			for _, st := range step.Statements {
				p.put(" ", st.String(), ";")
			}
			p.when(len(step.Conditions) > 0, " END IF")
		}
		p.put(" COMMIT TRANSACTION")
	})
}

func (p *printer) compared(c Comparison) {
	p.term(c.Left)
	p.put(" ", c.Op.String())
	if c.Right != nil {
		p.put(" ")
		p.term(c.Right)
	}
}
