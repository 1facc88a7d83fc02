// SPDX-License-Identifier: Apache-2.0

package parser

import "strings"

// create parses the statements that start with CREATE.
func (p *parser) create() Statement {
	p.expect(kwCreate)
	replace := false
	if p.accept(kwOr) {
		p.expect(kwReplace)
		replace = true
		if !p.is(kwFunction) && !p.is(kwAggregate) {
			p.fail()
			return nil
		}
	}
	object := p.tok
	p.advance()
	switch object.kind {
	case kwKeyspace, kwSchema:
		s := &CreateKeyspace{IfNotExists: p.ifNotExists(), Name: p.bindable(keyspaceName)}
		p.expect(kwWith)
		s.Properties = p.properties()
		return s
	case kwTable:
		return p.createTable()
	case kwType:
		return p.createType()
	case kwCustom:
		p.expect(kwIndex)
		return p.createIndex(true)
	case kwIndex:
		return p.createIndex(false)
	case kwMaterialized:
		p.expect(kwView)
		return p.createView()
	case kwFunction:
		return p.createFunction(replace)
	case kwAggregate:
		return p.createAggregate(replace)
	case kwTrigger:
		s := &CreateTrigger{IfNotExists: p.ifNotExists(), Name: p.name()}
		p.expect(kwOn)
		s.Table = p.tableName()
		p.expect(kwUsing)
		s.Class = p.stringLiteral()
		return s
	case kwRole:
		return &CreateRole{IfNotExists: p.ifNotExists(), Role: p.roleName(), Options: p.roleOptions()}
	case kwUser:
		return &CreateRole{User: true, IfNotExists: p.ifNotExists(), Role: p.userName(), Options: p.userOptions()}
	}
	p.stop(failure{tok: object})
	return nil
}

func (p *parser) createType() Statement {
	s := &CreateType{IfNotExists: p.ifNotExists(), Name: p.userTypeName()}
	p.expect(tOpen)
	for {
		s.Fields = append(s.Fields, FieldDef{Name: p.name(), Type: p.typeName()})
		if !p.moreColumns() {
			break
		}
	}
	p.expect(tClose)
	return s
}

// moreColumns skips commas and reports whether another column follows. As in Cassandra, commas before the closing
// parenthesis are accepted.
func (p *parser) moreColumns() bool {
	if !p.is(tComma) {
		return false
	}
	for p.accept(tComma) {
	}
	return !p.is(tClose)
}

func (p *parser) createIndex(custom bool) Statement {
	s := &CreateIndex{Custom: custom, IfNotExists: p.ifNotExists()}
	if !p.is(kwOn) {
		s.Name = p.qualified(indexName)
	}
	p.expect(kwOn)
	s.Table = p.tableName()
	p.expect(tOpen)
	for !p.is(tClose) {
		s.Targets = append(s.Targets, p.indexTarget())
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tClose)
	if p.accept(kwUsing) {
		s.HasClass, s.Class = true, p.stringLiteral()
	}
	s.Properties = p.with()
	return s
}

func (p *parser) indexTarget() IndexTarget {
	var t IndexTarget
	if p.peek(1) == tOpen {
		switch p.tok.kind {
		case kwValues:
			t.Kind = IndexValues
		case kwKeys:
			t.Kind = IndexKeys
		case kwEntries:
			t.Kind = IndexEntries
		case kwFull:
			t.Kind = IndexFull
		}
	}
	if t.Kind == IndexColumn {
		t.Column = p.columnName()
		return t
	}
	p.advance()
	p.expect(tOpen)
	t.Column = p.columnName()
	p.expect(tClose)
	return t
}

func (p *parser) createView() Statement {
	s := &CreateView{IfNotExists: p.ifNotExists(), Name: p.tableName()}
	p.expect(kwAs)
	p.expect(kwSelect)
	s.Selectors = p.selectors()
	p.expect(kwFrom)
	s.Table = p.tableName()
	if p.accept(kwWhere) {
		s.Where = p.where()
	}
	p.expect(kwPrimary)
	p.expect(kwKey)
	s.PrimaryKey = p.primaryKey()
	s.Options = p.tableOptions()
	return s
}

func (p *parser) createFunction(replace bool) Statement {
	s := &CreateFunction{OrReplace: replace, IfNotExists: p.ifNotExists(), Name: p.functionName()}
	p.expect(tOpen)
	for !p.is(tClose) {
		s.Args = append(s.Args, FieldDef{Name: p.name(), Type: p.typeName()})
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tClose)
	if p.accept(kwReturns) {
		p.expect(kwNull)
	} else {
		p.expect(kwCalled)
		s.CalledOnNullInput = true
	}
	p.expect(kwOn)
	p.expect(kwNull)
	p.expect(kwInput)
	p.expect(kwReturns)
	s.Returns = p.typeName()
	p.expect(kwLanguage)
	if !p.is(tIdent) {
		p.mismatch(tIdent)
		return nil
	}
	s.Language = strings.ToLower(p.text())
	p.advance()
	p.expect(kwAs)
	s.Body = p.stringLiteral()
	return s
}

func (p *parser) createAggregate(replace bool) Statement {
	s := &CreateAggregate{OrReplace: replace, IfNotExists: p.ifNotExists(), Name: p.functionName()}
	p.expect(tOpen)
	s.Args = p.typeList()
	p.expect(kwSFunc)
	s.StateFunc = p.localFunctionName()
	p.expect(kwSType)
	s.StateType = p.typeName()
	if p.accept(kwFinalFunc) {
		s.FinalFunc = p.localFunctionName()
	}
	if p.accept(kwInitCond) {
		s.InitCond = p.term()
	}
	return s
}

// alter parses the statements that start with ALTER.
func (p *parser) alter() Statement {
	p.expect(kwAlter)
	object := p.tok
	p.advance()
	switch object.kind {
	case kwKeyspace, kwSchema:
		s := &AlterKeyspace{IfExists: p.ifExists(), Name: p.bindable(keyspaceName)}
		p.expect(kwWith)
		s.Properties = p.properties()
		return s
	case kwTable:
		return p.alterTable()
	case kwType:
		return p.alterType()
	case kwMaterialized:
		p.expect(kwView)
		s := &AlterView{IfExists: p.ifExists(), Name: p.tableName()}
		p.expect(kwWith)
		s.Properties = p.properties()
		return s
	case kwRole:
		return &AlterRole{IfExists: p.ifExists(), Role: p.roleName(), Options: p.roleOptions()}
	case kwUser:
		return &AlterRole{User: true, IfExists: p.ifExists(), Role: p.userName(), Options: p.userOptions()}
	}
	p.stop(failure{tok: object})
	return nil
}

func (p *parser) alterType() Statement {
	s := &AlterType{IfExists: p.ifExists(), Name: p.userTypeName()}
	switch {
	case p.accept(kwAdd):
		s.Kind = AddField
		s.IfField = p.ifNotExists()
		s.Field = FieldDef{Name: p.name(), Type: p.typeName()}
	case p.accept(kwRename):
		s.Kind = RenameFields
		s.IfField = p.ifExists()
		s.Renames = p.renames()
	case p.accept(kwAlter):
		s.Kind = AlterFieldType
		s.IfField = p.ifExists()
		s.Field.Name = p.name()
		p.expect(kwType)
		s.Field.Type = p.typeName()
	default:
		p.fail()
	}
	return s
}

// renames parses a TO b AND c TO d.
func (p *parser) renames() []Rename {
	var list []Rename
	for {
		r := Rename{From: p.name()}
		p.expect(kwTo)
		r.To = p.name()
		list = append(list, r)
		if !p.accept(kwAnd) {
			return list
		}
	}
}

// drop parses the statements that start with DROP.
func (p *parser) drop() Statement {
	p.expect(kwDrop)
	object := p.tok
	p.advance()
	switch object.kind {
	case kwKeyspace, kwSchema:
		return &DropKeyspace{IfExists: p.ifExists(), Name: p.bindable(keyspaceName)}
	case kwTable:
		return &DropTable{IfExists: p.ifExists(), Name: p.tableName()}
	case kwType:
		return &DropType{IfExists: p.ifExists(), Name: p.userTypeName()}
	case kwIndex:
		return &DropIndex{IfExists: p.ifExists(), Name: p.qualified(indexName)}
	case kwMaterialized:
		p.expect(kwView)
		return &DropView{IfExists: p.ifExists(), Name: p.tableName()}
	case kwFunction:
		s := &DropFunction{IfExists: p.ifExists(), Name: p.functionName()}
		s.HasArgs, s.Args = p.signature()
		return s
	case kwAggregate:
		s := &DropAggregate{IfExists: p.ifExists(), Name: p.functionName()}
		s.HasArgs, s.Args = p.signature()
		return s
	case kwTrigger:
		s := &DropTrigger{IfExists: p.ifExists(), Name: p.name()}
		p.expect(kwOn)
		s.Table = p.tableName()
		return s
	case kwRole:
		return &DropRole{IfExists: p.ifExists(), Role: p.roleName()}
	case kwUser:
		return &DropRole{User: true, IfExists: p.ifExists(), Role: p.userName()}
	}
	if p.isIdentity(object) {
		return &DropIdentity{IfExists: p.ifExists(), Identity: p.identity().Name}
	}
	p.stop(failure{tok: object})
	return nil
}

// signature parses the optional argument types of DROP FUNCTION and DROP AGGREGATE.
func (p *parser) signature() (given bool, args []*TypeName) {
	if !p.accept(tOpen) {
		return false, nil
	}
	return true, p.typeList()
}
