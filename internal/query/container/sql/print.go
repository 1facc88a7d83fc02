// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
)

// String returns the query's text in one line with all parentheses.
func (s *Select) String() string { return string(s.appendTo(nil)) }

func (s *Select) appendTo(b []byte) []byte {
	b = append(b, "SELECT "...)
	if s.Distinct {
		b = append(b, "DISTINCT "...)
	}
	if s.Top != nil {
		b = append(s.Top.appendTo(append(b, "TOP "...)), ' ')
	}
	if s.Value {
		b = append(b, "VALUE "...)
	}
	if s.Star {
		b = append(b, '*')
	}
	for i, item := range s.Items {
		b = item.Expr.appendTo(comma(b, i))
		if item.Alias != "" {
			b = appendAlias(append(b, " AS "...), item.Alias)
		}
	}
	b = s.appendFrom(b)
	if s.Where != nil {
		b = s.Where.appendTo(append(b, " WHERE "...))
	}
	for i, e := range s.GroupBy {
		if i == 0 {
			b = append(b, " GROUP BY "...)
		}
		b = e.appendTo(comma(b, i))
	}
	for i, o := range s.OrderBy {
		if i == 0 {
			b = append(b, " ORDER BY "...)
		}
		if s.Rank {
			b = o.Expr.appendTo(append(b, "RANK "...))
			break
		}
		b = o.Expr.appendTo(comma(b, i))
		if o.Descending {
			b = append(b, " DESC"...)
		} else {
			b = append(b, " ASC"...)
		}
	}
	if s.Offset != nil {
		b = s.Offset.appendTo(append(b, " OFFSET "...))
		b = s.Limit.appendTo(append(b, " LIMIT "...))
	}
	return b
}

func (s *Select) appendFrom(b []byte) []byte {
	for i, in := range s.From {
		if i == 0 {
			b = append(b, " FROM "...)
		} else {
			b = append(b, " JOIN "...)
		}
		if in.Each {
			b = append(append(b, in.Alias...), " IN "...)
		}
		b = in.Of.appendTo(b)
		if !in.Each && in.Alias != "" {
			b = append(append(b, " AS "...), in.Alias...)
		}
	}
	return b
}

// comma appends a separator unless i is 0.
func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ", "...)
	}
	return b
}

// isWord reports whether a name is valid without quotes.
func isWord(s string) bool {
	for i, r := range s {
		if i == 0 && !isWordStart(r) || !isWordPart(r) {
			return false
		}
	}
	return s != "" && !reserved[strings.ToUpper(s)]
}

func appendAlias(b []byte, name string) []byte {
	if isWord(name) {
		return append(b, name...)
	}
	return document.AppendString(b, name)
}

// The precedence levels determine where parentheses are required. The parser's levels start at precLevel.
const (
	precTernary = iota
	precCoalesce
	precOr
	precAnd
	precNot
	precLevel
	precUnary   = precLevel + 7
	precPrimary = precUnary + 1
)

// precRelation is the precedence of comparisons.
const precRelation = precLevel + 3

func precedence(e Expr) int {
	switch e := e.(type) {
	case *Ternary:
		return precTernary
	case *Unary:
		if e.Op == "NOT" {
			return precNot
		}
		return precUnary
	case *In, *Between, *Like:
		return precRelation
	case *Literal:
		if isNegative(e) {
			return precUnary
		}
	case *Binary:
		switch e.Op {
		case "??":
			return precCoalesce
		case "OR":
			return precOr
		case "AND":
			return precAnd
		}
		for i, level := range levels {
			if slices.Contains(level, e.Op) {
				return precLevel + i
			}
		}
	}
	return precPrimary
}

func isNegative(e Expr) bool {
	l, ok := e.(*Literal)
	return ok && l.Value.Kind() == document.Number && l.Value.Float() < 0
}

// appendOperand appends an expression, in parentheses if its precedence is lower than prec.
func appendOperand(b []byte, e Expr, prec int) []byte {
	if precedence(e) < prec {
		return append(e.appendTo(append(b, '(')), ')')
	}
	return e.appendTo(b)
}

// appendBase appends the base of a path step. A number needs parentheses because the period would become part of it.
func appendBase(b []byte, e Expr) []byte {
	if _, ok := e.(*Literal); ok {
		return append(e.appendTo(append(b, '(')), ')')
	}
	return appendOperand(b, e, precPrimary)
}

func (e *Literal) appendTo(b []byte) []byte {
	if !e.Value.IsDefined() {
		return append(b, "undefined"...)
	}
	return e.Value.Append(b)
}

func (e *Placeholder) appendTo(b []byte) []byte { return append(b, e.Name...) }
func (e *Name) appendTo(b []byte) []byte        { return append(b, e.Name...) }

func (e *Member) appendTo(b []byte) []byte {
	b = appendBase(b, e.Of)
	if isWord(e.Name) {
		return append(append(b, '.'), e.Name...)
	}
	return append(document.AppendString(append(b, '['), e.Name), ']')
}

func (e *Index) appendTo(b []byte) []byte {
	return append(e.At.appendTo(append(appendBase(b, e.Of), '[')), ']')
}

func (e *Unary) appendTo(b []byte) []byte {
	b = append(b, e.Op...)
	inner, ok := e.X.(*Unary)
	// Two adjacent minus signs would start a comment.
	if e.Op == "NOT" || ok && inner.Op != "NOT" || isNegative(e.X) {
		b = append(b, ' ')
	}
	return appendOperand(b, e.X, precedence(e))
}

func (e *Binary) appendTo(b []byte) []byte {
	prec := precedence(e)
	b = append(appendOperand(b, e.X, prec), ' ')
	b = append(append(b, e.Op...), ' ')
	return appendOperand(b, e.Y, prec+1)
}

func (e *Ternary) appendTo(b []byte) []byte {
	b = appendOperand(b, e.If, precCoalesce)
	b = e.Then.appendTo(append(b, " ? "...))
	return e.Else.appendTo(append(b, " : "...))
}

func not(b []byte, yes bool) []byte {
	if yes {
		return append(b, " NOT"...)
	}
	return b
}

func (e *In) appendTo(b []byte) []byte {
	b = append(not(appendOperand(b, e.X, precRelation), e.Not), " IN ("...)
	return append(appendList(b, e.List), ')')
}

func appendList(b []byte, list []Expr) []byte {
	for i, x := range list {
		b = x.appendTo(comma(b, i))
	}
	return b
}

func (e *Between) appendTo(b []byte) []byte {
	b = append(not(appendOperand(b, e.X, precRelation), e.Not), " BETWEEN "...)
	b = appendOperand(b, e.Low, precRelation+1)
	return appendOperand(append(b, " AND "...), e.High, precRelation+1)
}

func (e *Like) appendTo(b []byte) []byte {
	b = append(not(appendOperand(b, e.X, precRelation), e.Not), " LIKE "...)
	b = appendOperand(b, e.Pattern, precRelation+1)
	if e.Escape != nil {
		b = appendOperand(append(b, " ESCAPE "...), e.Escape, precRelation+1)
	}
	return b
}

func (e *Call) appendTo(b []byte) []byte {
	if e.UDF {
		b = append(b, "udf."...)
	}
	b = append(append(b, e.Name...), '(')
	return append(appendList(b, e.Args), ')')
}

func (e *ObjectExpr) appendTo(b []byte) []byte {
	b = append(b, '{')
	for i, m := range e.Members {
		b = document.AppendString(comma(b, i), m.Name)
		b = m.Expr.appendTo(append(b, ": "...))
	}
	return append(b, '}')
}

func (e *ArrayExpr) appendTo(b []byte) []byte {
	return append(appendList(append(b, '['), e.Elements), ']')
}

func (e *Subquery) appendTo(b []byte) []byte {
	b = append(b, e.Kind.String()...)
	return append(e.Query.appendTo(append(b, '(')), ')')
}
