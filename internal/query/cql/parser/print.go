// SPDX-License-Identifier: Apache-2.0

package parser

import (
	"slices"
	"strings"
)

// QuoteIdentifier returns name as a CQL identifier. If required, it quotes the identifier.
func QuoteIdentifier(name string) string {
	if isBare(name) {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// QuoteString returns s as a string literal.
func QuoteString(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// isBare reports whether name needs no quotes. Such a name consists of lower-case letters, digits, and underscores, and
// is not a reserved word.
func isBare(name string) bool {
	if name == "" || classes[name[0]]&classLetter == 0 {
		return false
	}
	var h uint32
	for i := 0; i < len(name); i++ {
		c := name[i]
		if classes[c]&classWord == 0 || 'A' <= c && c <= 'Z' {
			return false
		}
		h = hashByte(h, c)
	}
	return len(name) < keywordLenMin || len(name) > keywordLenMax || lookupKeyword(name, h).isName()
}

// String prints the identifier. If the identifier was quoted in the statement or requires quotes, String quotes it.
func (id Ident) String() string {
	if id.Quoted {
		return `"` + strings.ReplaceAll(id.Name, `"`, `""`) + `"`
	}
	return QuoteIdentifier(id.Name)
}

// String prints [keyspace.]name.
func (q QualifiedName) String() string {
	if q.HasKeyspace() {
		return q.Keyspace.String() + "." + q.Name.String()
	}
	return q.Name.String()
}

// String prints the type as CQL.
func (t *TypeName) String() string {
	var p printer
	p.typeName(t)
	return p.String()
}

// printer builds CQL text.
type printer struct{ buf []byte }

func (p *printer) String() string { return string(p.buf) }

func (p *printer) put(parts ...string) {
	for _, s := range parts {
		p.buf = append(p.buf, s...)
	}
}

// when prints s only if yes is true.
func (p *printer) when(yes bool, s string) {
	if yes {
		p.put(s)
	}
}

func (p *printer) ident(id Ident)          { p.put(id.String()) }
func (p *printer) name(q QualifiedName)    { p.put(q.String()) }
func (p *printer) str(s string)            { p.put(QuoteString(s)) }
func (p *printer) idents(list []Ident)     { each(p, list, ", ", p.ident) }
func (p *printer) terms(list []Term)       { each(p, list, ", ", p.term) }
func (p *printer) types(list []*TypeName)  { each(p, list, ", ", p.typeName) }
func (p *printer) strings(list []string)   { each(p, list, ", ", p.str) }
func (p *printer) columnTuple(ids []Ident) { p.put("("); p.idents(ids); p.put(")") }

// each prints the elements of a list. It prints a separator between two elements.
func each[T any](p *printer, list []T, separator string, print func(T)) {
	for i, x := range list {
		if i > 0 {
			p.put(separator)
		}
		print(x)
	}
}

// function prints the name of a function. The name may be a word that other names cannot use without quotes.
func (p *printer) function(q QualifiedName) {
	if q.HasKeyspace() {
		p.ident(q.Keyspace)
		p.put(".")
	}
	p.localFunction(q.Name)
}

func (p *printer) localFunction(id Ident) {
	if !id.Quoted && id.Name == "token" {
		p.put(id.Name)
		return
	}
	p.ident(id)
}

func (p *printer) typeName(t *TypeName) {
	p.when(t.Frozen, "frozen<")
	switch t.Kind {
	case NativeType:
		p.put(t.Name)
	case CustomType:
		p.str(t.Name)
	case UserType:
		p.name(t.User)
	case ListType:
		p.put("list<")
	case SetType:
		p.put("set<")
	case MapType:
		p.put("map<")
	case TupleType:
		p.put("tuple<")
	case VectorType:
		p.put("vector<")
	}
	if len(t.Params) > 0 {
		p.types(t.Params)
		if t.Kind == VectorType {
			p.put(", ", itoa(t.Dimension))
		}
		p.put(">")
	}
	p.when(t.Frozen, ">")
}

func (p *printer) term(t Term) {
	switch t := t.(type) {
	case *Constant:
		p.constant(*t)
	case *Null:
		p.put("null")
	case *Marker:
		if t.Name == "" {
			p.put("?")
		} else {
			p.put(":", QuoteIdentifier(t.Name))
		}
	case *FunctionCall:
		p.function(t.Name)
		p.put("(")
		p.terms(t.Args)
		p.put(")")
	case *TypeHint:
		p.put("(")
		p.typeName(t.Type)
		p.put(")")
		p.term(t.Term)
	case *Arithmetic:
		p.term(t.Left)
		p.put(" ", string(rune(t.Op)), " ")
		p.term(t.Right)
	case *Negate:
		p.negate(t.Term)
	case *ListLiteral:
		p.put("[")
		p.terms(t.Elems)
		p.put("]")
	case *SetLiteral:
		p.put("{")
		p.terms(t.Elems)
		p.put("}")
	case *MapLiteral:
		p.put("{")
		each(p, t.Entries, ", ", func(e MapEntry) { p.term(e.Key); p.put(": "); p.term(e.Value) })
		p.put("}")
	case *UDTLiteral:
		p.put("{")
		each(p, t.Fields, ", ", func(f FieldValue) { p.ident(f.Name); p.put(": "); p.term(f.Value) })
		p.put("}")
	case *TupleLiteral:
		p.put("(")
		p.terms(t.Elems)
		p.put(")")
	default:
		p.selector(t)
	}
}

// selector prints the terms that occur only in a SELECT clause.
func (p *printer) selector(t Term) {
	switch t := t.(type) {
	case *Column:
		p.ident(t.Name)
	case *Paren:
		p.put("(")
		p.term(t.Term)
		p.put(")")
	case *CountRows:
		p.put("count(*)")
	case *CellMeta:
		p.put([...]string{WriteTime: "writetime(", MaxWriteTime: "maxwritetime(", TTL: "ttl("}[t.Kind])
		p.term(t.Arg)
		p.put(")")
	case *Cast:
		p.put("cast(")
		p.term(t.Term)
		p.put(" AS ")
		p.typeName(t.Type)
		p.put(")")
	case *Field:
		p.term(t.Term)
		p.put(".")
		p.ident(t.Name)
	case *Element:
		p.term(t.Term)
		p.put("[")
		p.term(t.Key)
		p.put("]")
	case *Slice:
		p.term(t.Term)
		p.put("[")
		if t.From != nil {
			p.term(t.From)
		}
		p.put("..")
		if t.To != nil {
			p.term(t.To)
		}
		p.put("]")
	}
}

// negate prints a minus sign and t. If the lexer would otherwise read a number or a comment, negate adds a space.
func (p *printer) negate(t Term) {
	p.put("-")
	at := len(p.buf)
	p.term(t)
	if at == len(p.buf) {
		return
	}
	switch c := p.buf[at]; {
	case c == '-', c == 'P', c == 'N', c == 'I', classes[c]&classDigit != 0:
		p.buf = slices.Insert(p.buf, at, ' ')
	}
}

func (p *printer) constant(c Constant) {
	if c.Kind == StringConstant {
		p.str(c.Text)
		return
	}
	p.put(c.Text)
}
