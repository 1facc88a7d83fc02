// SPDX-License-Identifier: Apache-2.0

package parser

func (p *parser) createTable() Statement {
	s := &CreateTable{IfNotExists: p.ifNotExists(), Name: p.tableName()}
	if !p.is(tOpen) {
		p.fail()
		return nil
	}
	p.advance()
	for {
		if p.accept(kwPrimary) {
			p.expect(kwKey)
			s.PrimaryKeys = append(s.PrimaryKeys, p.primaryKey())
		} else {
			s.Columns = append(s.Columns, p.columnDef(true))
		}
		if !p.moreColumns() {
			break
		}
	}
	p.expect(tClose)
	s.Options = p.tableOptions()
	return s
}

// columnDef parses a column definition. inline reports whether PRIMARY KEY is permitted.
func (p *parser) columnDef(inline bool) ColumnDef {
	c := ColumnDef{Name: p.name()}
	c.Type = p.typeName()
	c.Static = p.accept(kwStatic)
	if p.is(kwMasked) {
		c.Mask = p.mask()
	}
	if inline && p.accept(kwPrimary) {
		p.expect(kwKey)
		c.PrimaryKey = true
	}
	p.guessComma()
	return c
}

// guessComma fails and suggests a comma if the next column follows without a comma.
func (p *parser) guessComma() {
	if !p.tok.kind.isName() {
		return
	}
	if next := p.peek(1); next.isName() || next == kwSet || next == tString {
		p.failHint("missing ',' before " + shorten(p.text(), tIdent))
	}
}

// primaryKey parses ((a, b), c) or (a, c).
func (p *parser) primaryKey() PrimaryKey {
	var k PrimaryKey
	p.expect(tOpen)
	if p.accept(tOpen) {
		k.Partition = p.names()
		p.expect(tClose)
	} else {
		k.Partition = []Ident{p.name()}
	}
	if p.accept(tComma) {
		k.Clustering = p.names()
	}
	p.expect(tClose)
	return k
}

// names parses a, b.
func (p *parser) names() []Ident {
	var list []Ident
	for {
		list = append(list, p.name())
		if !p.accept(tComma) {
			return list
		}
	}
}

// mask parses MASKED WITH DEFAULT or MASKED WITH f(args).
func (p *parser) mask() *Mask {
	p.expect(kwMasked)
	p.expect(kwWith)
	m := &Mask{}
	if p.accept(kwDefault) {
		return m
	}
	m.Function = p.functionName()
	p.expect(tOpen)
	m.Args = p.terms(false, tClose)
	return m
}

func (p *parser) alterTable() Statement {
	s := &AlterTable{IfExists: p.ifExists(), Name: p.tableName()}
	switch p.tok.kind {
	case kwAdd:
		p.advance()
		s.Kind = AddColumns
		s.IfColumn = p.ifNotExists()
		s.Added = p.addedColumns()
	case kwDrop:
		p.advance()
		p.dropColumns(s)
	case kwRename:
		p.advance()
		s.Kind = RenameColumns
		s.IfColumn = p.ifExists()
		s.Renames = p.renames()
	case kwWith:
		p.advance()
		s.Kind = AlterOptions
		s.Properties = p.properties()
	case kwAlter:
		p.advance()
		p.alterColumn(s)
	default:
		p.fail()
	}
	return s
}

func (p *parser) addedColumns() []ColumnDef {
	if !p.accept(tOpen) {
		return []ColumnDef{p.columnDef(false)}
	}
	var list []ColumnDef
	for {
		list = append(list, p.columnDef(false))
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tClose)
	return list
}

func (p *parser) dropColumns(s *AlterTable) {
	if p.is(kwCompact) && p.peek(1) == kwStorage {
		p.advance()
		p.advance()
		s.Kind = DropCompactStorage
		return
	}
	s.Kind = DropColumns
	s.IfColumn = p.ifExists()
	if p.accept(tOpen) {
		s.Dropped = p.names()
		p.expect(tClose)
	} else {
		s.Dropped = []Ident{p.name()}
	}
	if p.accept(kwUsing) {
		p.expect(kwTimestamp)
		if !p.is(tInteger) {
			p.mismatch(tInteger)
			return
		}
		s.DropTimestamp = p.constant()
	}
}

func (p *parser) alterColumn(s *AlterTable) {
	s.IfColumn = p.ifExists()
	s.Column = p.name()
	switch {
	case p.is(kwMasked):
		s.Kind = MaskColumn
		s.Mask = p.mask()
	case p.accept(kwDrop):
		p.expect(kwMasked)
		s.Kind = UnmaskColumn
	default:
		p.expect(kwType)
		s.Kind = AlterColumnType
		s.Type = p.typeName()
	}
}
