// SPDX-License-Identifier: Apache-2.0

package parser

// describe parses DESCRIBE.
func (p *parser) describe() Statement {
	p.advance()
	s := &Describe{}
	next := p.peek(1)
	alone := next == tEOF || next == tSemicolon || next == kwWith
	switch k := p.tok.kind; {
	case k == kwFull || k == kwSchema:
		s.Full = p.accept(kwFull)
		p.expect(kwSchema)
		s.Kind = DescribeSchema
	case k == kwKeyspace || k == kwOnly && next == kwKeyspace:
		s.Only = p.accept(kwOnly)
		p.expect(kwKeyspace)
		s.Kind = DescribeKeyspace
		if p.tok.kind.isName() || p.is(tMark) {
			s.Name.Name = p.bindable(keyspaceName)
		}
	case k == kwTable:
		p.advance()
		s.Kind, s.Name = DescribeTable, p.tableName()
	case k == kwIndex:
		p.advance()
		s.Kind, s.Name = DescribeIndex, p.qualified(indexName)
	case k == kwMaterialized:
		p.advance()
		p.expect(kwView)
		s.Kind, s.Name = DescribeView, p.tableName()
	case alone && describeWord(k) != 0:
		s.Kind = describeWord(k)
		p.advance()
	case k == kwType && next != tDot && !alone:
		p.advance()
		s.Kind, s.Name = DescribeType, p.userTypeName()
	case k == kwFunction && next != tDot && !alone:
		p.advance()
		s.Kind, s.Name = DescribeFunction, p.functionName()
	case k == kwAggregate && next != tDot && !alone:
		p.advance()
		s.Kind, s.Name = DescribeAggregate, p.functionName()
	default:
		s.Kind, s.Name = DescribeGeneric, p.qualified(tableName)
	}
	if p.accept(kwWith) {
		p.expect(kwInternals)
		s.Internals = true
	}
	return s
}

// describeWord returns the kind of a DESCRIBE statement that consists of a single word, or 0.
func describeWord(k kind) DescribeKind {
	switch k {
	case kwCluster:
		return DescribeCluster
	case kwKeyspaces:
		return DescribeKeyspaces
	case kwTables:
		return DescribeTables
	case kwTypes:
		return DescribeTypes
	case kwFunctions:
		return DescribeFunctions
	case kwAggregates:
		return DescribeAggregates
	}
	return 0
}
