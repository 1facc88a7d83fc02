// SPDX-License-Identifier: Apache-2.0

package parser

import (
	"cmp"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Options holds the limits of the parser. A zero field selects the default.
type Options struct {
	// TextBytesMax limits the length of a statement. The default is 16 MiB, and the maximum is 1 GiB.
	TextBytesMax int
	// MarkersMax limits the number of bind markers. The default and the maximum are 65535, which is the limit of the
	// protocol.
	MarkersMax int
	// Definitions is the word that errors about repeated properties use. The word is definition (the default) or
	// definitions.
	Definitions string
}

const (
	defaultTextBytesMax = 16 << 20
	limitTextBytesMax   = 1 << 30
	limitMarkersMax     = 65535
	// depthMax limits the nesting depth of terms, types, and relations. It also limits the number of chained operators
	// or selections in an expression. The limit prevents stack overflows in functions that traverse the tree. Typical
	// statements have a depth of less than ten.
	depthMax = 200
)

func (o Options) withDefaults() Options {
	if o.TextBytesMax <= 0 {
		o.TextBytesMax = defaultTextBytesMax
	}
	o.TextBytesMax = min(o.TextBytesMax, limitTextBytesMax)
	if o.MarkersMax <= 0 {
		o.MarkersMax = limitMarkersMax
	}
	o.MarkersMax = min(o.MarkersMax, limitMarkersMax)
	o.Definitions = cmp.Or(o.Definitions, "definition")
	return o
}

// Parse parses one statement with the default limits. The statement may end with semicolons. The bind markers are in
// order of appearance, and element m.Index describes the Marker m. If the statement exceeds a limit, the error is a
// *dberr.Invalid. Otherwise, the error is a *dberr.Syntax.
func Parse(text string) (Statement, []BindMarker, error) { return Options{}.Parse(text) }

// Parse parses one statement with the limits in o.
func (o Options) Parse(text string) (Statement, []BindMarker, error) {
	o = o.withDefaults()
	if err := checkLength(text, o.TextBytesMax); err != nil {
		return nil, nil, err
	}
	p := parser{lex: lexer{text: text}, markersMax: o.MarkersMax, definitions: o.Definitions}
	p.advance()
	st := p.statement()
	for p.accept(tSemicolon) {
	}
	p.expectEnd()
	if p.failed {
		return nil, nil, p.failure.build(text)
	}
	return st, p.markers, nil
}

// CountTokens returns the number of tokens in a text up to the first invalid token. It stops soon after the count has
// reached most. Callers use the result to estimate the memory that parsing requires.
func CountTokens(text string, most int) (n int) {
	for l := (lexer{text: text}); n <= most; n++ {
		if k := l.next().kind; k == tEOF || k == tError {
			break
		}
	}
	return n
}

// ParseTerm parses a term of a WHERE or VALUES clause.
func ParseTerm(text string) (Term, []BindMarker, error) {
	if err := checkLength(text, defaultTextBytesMax); err != nil {
		return nil, nil, err
	}
	p := parser{lex: lexer{text: text}, markersMax: limitMarkersMax}
	p.advance()
	t := p.term()
	p.expectEnd()
	if p.failed {
		return nil, nil, p.failure.build(text)
	}
	return t, p.markers, nil
}

// ParseType parses the type of a column definition.
func ParseType(text string) (*TypeName, error) {
	if err := checkLength(text, defaultTextBytesMax); err != nil {
		return nil, err
	}
	p := parser{lex: lexer{text: text}}
	p.advance()
	t := p.typeName()
	p.expectEnd()
	if p.failed {
		return nil, p.failure.build(text)
	}
	return t, nil
}

func checkLength(text string, limit int) error {
	if len(text) > limit {
		return dberr.Invalidf("Statement of %d bytes exceeds the allowed maximum of %d", len(text), limit)
	}
	return nil
}

// parser holds the parser state for one statement. Errors are sticky. After the first error, the current token is tEOF,
// accept always returns false, and all lists end. Therefore, parsing functions do not need to check for errors.
type parser struct {
	definitions string
	lex         lexer
	tok         token
	// ahead holds the tokens after tok that the lexer has already read. aheadLen is the number of these tokens.
	ahead    [4]token
	aheadLen int

	depth int
	// references reports whether terms may refer to rows that a LET has read. It is true in a transaction.
	references bool
	failed     bool
	failure    failure
	markersMax int
	markers    []BindMarker
}

// advance moves to the next token.
func (p *parser) advance() {
	if p.failed {
		return
	}
	if p.aheadLen > 0 {
		p.tok = p.ahead[0]
		p.aheadLen--
		copy(p.ahead[:p.aheadLen], p.ahead[1:])
	} else {
		p.tok = p.lex.next()
	}
	if p.tok.kind == tError {
		p.fail()
	}
}

// peek returns the kind of the n-th token after the current token. n must be between 1 and 4.
func (p *parser) peek(n int) kind {
	if p.failed {
		return tEOF
	}
	for p.aheadLen < n {
		p.ahead[p.aheadLen] = p.lex.next()
		p.aheadLen++
	}
	return p.ahead[n-1].kind
}

func (p *parser) is(k kind) bool { return p.tok.kind == k }

// accept reports whether the current token has the kind k. If so, accept skips the token.
func (p *parser) accept(k kind) bool {
	if p.tok.kind != k || k == tEOF {
		return false
	}
	p.advance()
	return true
}

// expect skips a token of kind k or fails.
func (p *parser) expect(k kind) {
	if p.tok.kind != k {
		p.mismatch(k)
		return
	}
	p.advance()
}

// expectEnd fails unless the text has ended.
func (p *parser) expectEnd() {
	if p.tok.kind != tEOF {
		p.mismatch(tEOF)
	}
}

// text returns the source text of the current token.
func (p *parser) text() string { return p.lex.text[p.tok.begin:p.tok.end] }

// enter increments the nesting depth and reports whether the depth is within the limit. In both cases, the caller must
// call leave.
func (p *parser) enter() bool {
	p.depth++
	if p.depth > depthMax {
		p.refuse("expression is nested deeper than the allowed maximum of %d", depthMax)
	}
	return !p.failed
}

func (p *parser) leave() { p.depth-- }

// statement parses any statement.
func (p *parser) statement() Statement {
	switch p.tok.kind {
	case kwSelect:
		return p.selectStatement()
	case kwInsert:
		return p.insert()
	case kwUpdate:
		return p.update()
	case kwDelete:
		return p.delete()
	case kwBegin:
		return p.batch()
	case kwUse:
		p.advance()
		return &Use{Keyspace: p.bindable(keyspaceName)}
	case kwTruncate:
		p.advance()
		p.accept(kwTable)
		return &Truncate{Table: p.tableName()}
	case kwCreate:
		return p.create()
	case kwAlter:
		return p.alter()
	case kwDrop:
		return p.drop()
	case kwGrant, kwRevoke:
		return p.grantOrRevoke()
	case kwAdd:
		return p.addIdentity()
	case kwList:
		return p.list()
	case kwDescribe, kwDesc:
		return p.describe()
	}
	switch {
	case p.isExplain():
		return p.explain()
	case p.isCall():
		return p.callStatement()
	}
	p.fail()
	return nil
}

// ident returns and skips the identifier at the current token. The token must be a name (kind.isName) or "".
func (p *parser) ident() Ident {
	id := p.identOf(p.tok)
	p.advance()
	return id
}

func (p *parser) identOf(t token) Ident {
	word := p.lex.text[t.begin:t.end]
	if t.kind == tQuoted || t.kind == tEmptyQuoted {
		word = word[1 : len(word)-1]
		if t.escaped {
			word = strings.ReplaceAll(word, `""`, `"`)
		}
		return Ident{Name: word, Quoted: true}
	}
	return Ident{Name: strings.ToLower(word)}
}

// name parses an identifier that is not a reserved word.
func (p *parser) name() Ident {
	if !p.tok.kind.isName() {
		p.fail()
		return Ident{}
	}
	return p.ident()
}

// columnName parses the name of a column in a reference. The name "" is also valid, although no column has this name.
func (p *parser) columnName() Ident {
	if p.tok.kind == tEmptyQuoted {
		return p.ident()
	}
	return p.name()
}

// These kinds of names cannot be bind markers. The texts are from Cassandra's errors.
const (
	keyspaceName = "keyspace names"
	tableName    = "table names"
	indexName    = "index names"
	roleName     = "role names"
)

// bindable parses a name. If the current token starts a bind marker, bindable fails with a specific error text.
func (p *parser) bindable(what string) Ident {
	if p.is(tMark) {
		p.refuse("Bind variables cannot be used for %s", what)
	}
	return p.name()
}

// qualified parses [keyspace.]name.
func (p *parser) qualified(what string) QualifiedName {
	first := p.bindable(what)
	if !p.accept(tDot) {
		return QualifiedName{Name: first}
	}
	return QualifiedName{Keyspace: first, Name: p.bindable(what)}
}

func (p *parser) tableName() QualifiedName { return p.qualified(tableName) }

// functionName parses the name [keyspace.]name of a function.
func (p *parser) functionName() QualifiedName {
	var q QualifiedName
	if p.tok.kind.isName() && p.peek(1) == tDot {
		q.Keyspace = p.ident()
		p.advance()
	}
	q.Name = p.localFunctionName()
	return q
}

func (p *parser) localFunctionName() Ident {
	if !p.tok.kind.isFunctionName() {
		p.fail()
		return Ident{}
	}
	return p.ident()
}

// stringLiteral parses a string and returns its contents.
func (p *parser) stringLiteral() string {
	if !p.is(tString) && !p.is(tDollar) {
		p.mismatch(tString)
		return ""
	}
	s := p.stringText()
	p.advance()
	return s
}

// stringText returns the contents of the string at the current token.
func (p *parser) stringText() string {
	s := p.text()
	if p.is(tDollar) {
		return s[2 : len(s)-2]
	}
	s = s[1 : len(s)-1]
	if p.tok.escaped {
		s = strings.ReplaceAll(s, "''", "'")
	}
	return s
}

// marker parses `?` or `:name`. The current token must start the marker.
func (p *parser) marker() *Marker {
	m := &Marker{Index: len(p.markers)}
	if !p.accept(tMark) {
		p.expect(tColon)
		m.Name = p.name().Name
	}
	if len(p.markers) >= p.markersMax {
		p.refuseBound("Too many markers(?). More than the allowed maximum of %d", p.markersMax)
		return m
	}
	if p.markers == nil {
		p.markers = make([]BindMarker, 0, 8)
	}
	p.markers = append(p.markers, BindMarker{Name: m.Name})
	return m
}

func (p *parser) isMarker() bool { return p.is(tMark) || p.is(tColon) }

// ifNotExists parses the optional clause IF NOT EXISTS.
func (p *parser) ifNotExists() bool {
	if !p.accept(kwIf) {
		return false
	}
	p.expect(kwNot)
	p.expect(kwExists)
	return true
}

// ifExists parses the optional clause IF EXISTS.
func (p *parser) ifExists() bool {
	if !p.accept(kwIf) {
		return false
	}
	p.expect(kwExists)
	return true
}
