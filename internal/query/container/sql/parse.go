// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"slices"
	"strings"
)

// TextMax is the maximum length of a query in bytes.
const TextMax = 512 << 10

// depthMax is the maximum nesting depth of expressions and subqueries. The printed form contains additional parentheses
// and is still accepted by the parser.
const depthMax = 256

// Parse parses a query. Errors are of type *Error. A query may begin with FROM, as in the condition of a patch. Such a
// query selects all items.
func Parse(text string) (*Select, error) {
	if len(text) > TextMax {
		return nil, failure(text, span{}, codeBound, "The query has %d bytes; at most %d are allowed.", len(text),
			TextMax)
	}
	p := &parser{lexer: lexer{text: text}}
	if err := p.advance(); err != nil {
		return nil, err
	}
	s, err := p.query()
	if err != nil {
		return nil, err
	}
	if p.t.class != tokenEnd {
		return nil, p.unexpected()
	}
	return s, nil
}

// parser parses a query with one token of lookahead.
type parser struct {
	lexer
	t     token
	last  int // end of the token before t
	depth int
}

func (p *parser) advance() error {
	p.last = p.t.end
	t, err := p.next()
	p.t = t
	return err
}

// unexpected returns the error for an unexpected token t.
func (p *parser) unexpected() error {
	if p.t.class == tokenEnd {
		return failure(p.text, p.t.span, codeSyntax, "Syntax error, unexpected end of the query.")
	}
	return failure(p.text, p.t.span, codeSyntax, "Syntax error, incorrect syntax near '%s'.", p.text[p.t.start:p.t.end])
}

func (p *parser) isSymbol(s string) bool { return p.t.class == tokenSymbol && p.t.text == s }
func (p *parser) isWord(w string) bool   { return p.t.class == tokenWord && p.t.word == w }

// symbol consumes the given symbol if it is the next token.
func (p *parser) symbol(s string) (bool, error) {
	if !p.isSymbol(s) {
		return false, nil
	}
	return true, p.advance()
}

// word consumes the given word if it is the next token.
func (p *parser) word(w string) (bool, error) {
	if !p.isWord(w) {
		return false, nil
	}
	return true, p.advance()
}

func (p *parser) expect(s string) error {
	ok, err := p.symbol(s)
	if err == nil && !ok {
		err = p.unexpected()
	}
	return err
}

func (p *parser) expectWord(w string) error {
	ok, err := p.word(w)
	if err == nil && !ok {
		err = p.unexpected()
	}
	return err
}

// deeper limits the nesting depth. The caller must decrement depth when it returns.
func (p *parser) deeper() error {
	if p.depth++; p.depth > depthMax {
		return failure(p.text, p.t.span, codeBound, "The query is nested more than %d deep.", depthMax)
	}
	return nil
}

func (p *parser) query() (*Select, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	s := &Select{span: p.t.span}
	if p.isWord("FROM") {
		s.Star = true
	} else if err := p.selection(s); err != nil {
		return nil, err
	}
	if ok, err := p.word("FROM"); err != nil {
		return nil, err
	} else if ok {
		if err := p.from(s); err != nil {
			return nil, err
		}
	}
	if ok, err := p.word("WHERE"); err != nil {
		return nil, err
	} else if ok {
		if s.Where, err = p.expr(); err != nil {
			return nil, err
		}
	}
	if err := p.tail(s); err != nil {
		return nil, err
	}
	s.end = p.last
	return s, nil
}

// selection parses the SELECT clause.
func (p *parser) selection(s *Select) error {
	if err := p.expectWord("SELECT"); err != nil {
		return err
	}
	var err error
	if s.Distinct, err = p.word("DISTINCT"); err != nil {
		return err
	}
	if ok, err := p.word("TOP"); err != nil {
		return err
	} else if ok {
		if s.Top, err = p.count(); err != nil {
			return err
		}
	}
	if !s.Distinct {
		if s.Distinct, err = p.word("DISTINCT"); err != nil {
			return err
		}
	}
	if s.Star, err = p.symbol("*"); err != nil || s.Star {
		return err
	}
	if s.Value, err = p.word("VALUE"); err != nil {
		return err
	}
	for {
		item, err := p.item()
		if err != nil {
			return err
		}
		s.Items = append(s.Items, item)
		if s.Value {
			return nil
		}
		if ok, err := p.symbol(","); !ok || err != nil {
			return err
		}
	}
}

func (p *parser) item() (Item, error) {
	e, err := p.expr()
	if err != nil {
		return Item{}, err
	}
	alias, err := p.alias(true)
	return Item{e, alias}, err
}

// alias parses [AS] name. After AS, any word is a name. A string is also a name if strings is set.
func (p *parser) alias(strings bool) (string, error) {
	as, err := p.word("AS")
	if err != nil {
		return "", err
	}
	ok := p.t.class == tokenWord && (as || !reserved[p.t.word]) || as && strings && p.t.class == tokenString
	if !ok {
		if as {
			return "", p.unexpected()
		}
		return "", nil
	}
	name := p.t.text
	return name, p.advance()
}

// count parses the number of TOP, OFFSET, or LIMIT.
func (p *parser) count() (Expr, error) {
	if p.t.class != tokenNumber && p.t.class != tokenParameter {
		return nil, p.unexpected()
	}
	return p.primary()
}

func (p *parser) from(s *Select) error {
	for {
		in, err := p.input()
		if err != nil {
			return err
		}
		s.From = append(s.From, in)
		if ok, err := p.word("JOIN"); !ok || err != nil {
			return err
		}
	}
}

func (p *parser) input() (Input, error) {
	in := Input{span: p.t.span}
	var err error
	if p.t.class == tokenWord && !reserved[p.t.word] {
		name := &Name{p.t.span, p.t.text}
		if err = p.advance(); err != nil {
			return in, err
		}
		if in.Each, err = p.word("IN"); err != nil {
			return in, err
		}
		if !in.Each {
			if in.Of, err = p.postfix(name); err != nil {
				return in, err
			}
			in.Alias, err = p.alias(false)
			in.end = p.last
			return in, err
		}
		in.Alias = name.Name
	}
	if p.isSymbol("(") {
		if in.Of, err = p.parenthesised(Scalar); err != nil {
			return in, err
		}
		if _, ok := in.Of.(*Subquery); !ok {
			return in, failure(p.text, in.Of.at(), codeSyntax,
				"Syntax error, a sub-query is expected in the FROM clause.")
		}
	} else {
		if p.t.class != tokenWord || reserved[p.t.word] {
			return in, p.unexpected()
		}
		name := &Name{p.t.span, p.t.text}
		if err = p.advance(); err == nil {
			in.Of, err = p.postfix(name)
		}
		if err != nil {
			return in, err
		}
	}
	if !in.Each {
		in.Alias, err = p.alias(false)
	}
	in.end = p.last
	return in, err
}

// tail parses the GROUP BY, ORDER BY, and OFFSET LIMIT clauses.
func (p *parser) tail(s *Select) error {
	if ok, err := p.word("GROUP"); err != nil {
		return err
	} else if ok {
		if err := p.expectWord("BY"); err != nil {
			return err
		}
		if s.GroupBy, err = p.list(false); err != nil {
			return err
		}
	}
	if ok, err := p.word("ORDER"); err != nil {
		return err
	} else if ok {
		if err := p.orders(s); err != nil {
			return err
		}
	}
	if ok, err := p.word("OFFSET"); !ok || err != nil {
		return err
	}
	var err error
	if s.Offset, err = p.count(); err != nil {
		return err
	}
	if err = p.expectWord("LIMIT"); err == nil {
		s.Limit, err = p.count()
	}
	return err
}

func (p *parser) orders(s *Select) error {
	if err := p.expectWord("BY"); err != nil {
		return err
	}
	if ranked, err := p.rank(); err != nil {
		return err
	} else if ranked {
		s.Rank = true
		e, err := p.expr()
		s.OrderBy = []Order{{Expr: e}}
		return err
	}
	for {
		e, err := p.expr()
		if err != nil {
			return err
		}
		o := Order{Expr: e}
		if p.t.class == tokenWord && (p.t.word == "ASC" || p.t.word == "DESC") {
			o.Descending = strings.EqualFold(p.t.word, "DESC")
			if err := p.advance(); err != nil {
				return err
			}
		}
		s.OrderBy = append(s.OrderBy, o)
		if ok, err := p.symbol(","); !ok || err != nil {
			return err
		}
	}
}

// rank consumes the word RANK if an expression follows. Otherwise, the word is a name.
func (p *parser) rank() (bool, error) {
	if !p.isWord("RANK") {
		return false, nil
	}
	before := *p
	if err := p.advance(); err != nil {
		return false, err
	}
	if p.t.class == tokenWord && !reserved[p.t.word] {
		return true, nil
	}
	*p = before
	return false, nil
}

// sharedMin is the minimum length of a list in which equal constants share one expression and one node.
const sharedMin = 64

// list parses comma-separated expressions. If set is true, list omits repeated constants. Otherwise, constants with the
// same text share one expression. A text of 512 KiB can repeat a constant 250,000 times, and each expression takes more
// memory than its text.
func (p *parser) list(set bool) ([]Expr, error) {
	var out []Expr
	var key []byte
	known := valueSet{}
	shared := map[string]*Literal{} // The key is the text of the constant.
	for {
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		if l, ok := e.(*Literal); ok && set && !known.add(&key, l.Value) {
			if ok, err := p.symbol(","); !ok || err != nil {
				return out, err
			}
			continue
		}
		if l, ok := e.(*Literal); ok && !set && len(out) >= sharedMin {
			text := p.text[l.start:l.end]
			if first := shared[text]; first != nil {
				e = first
			} else {
				shared[text] = l
			}
		}
		if len(out) == cap(out) { // append would grow a long list by only a quarter.
			out = slices.Grow(out, max(1, len(out)))
		}
		out = append(out, e)
		if ok, err := p.symbol(","); !ok || err != nil {
			return out, err
		}
	}
}
