// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"fmt"

	"github.com/ilion-db/ilion/internal/model/document"
)

// Select is a query or sub-query.
type Select struct {
	span
	Distinct      bool
	Top           Expr // or nil, as are Where, Offset and Limit
	Star, Value   bool
	Items         []Item // one with Value, none with Star
	From          []Input
	Where         Expr
	GroupBy       []Expr
	OrderBy       []Order
	Offset, Limit Expr
}

// Item is what is selected, and under which name.
type Item struct {
	Expr  Expr
	Alias string // "" where none is written
}

// Order is an expression to sort by.
type Order struct {
	Expr       Expr
	Descending bool
}

// Input is a source of values: the container, a part of what another input has, or a sub-query.
type Input struct {
	span
	Alias string // "" where none is written
	// Each has the elements of the arrays that Of is: alias IN of.
	Each bool
	Of   Expr // a Name, Member or Index, or a Subquery
}

// Expr is an expression.
type Expr interface {
	at() span
	appendTo(dst []byte) []byte
}

// The expressions.
type (
	// Literal is a constant; Undefined is one, too.
	Literal struct {
		span
		Value document.Value
	}
	// Placeholder is a value that comes with the query: @name.
	Placeholder struct {
		span
		Name string // with @
	}
	// Name is an input.
	Name struct {
		span
		Name string
	}
	// Member is a property: of.name or of["name"].
	Member struct {
		span
		Of   Expr
		Name string
	}
	// Index is an element or property whose index or name is computed: of[at].
	Index struct {
		span
		Of, At Expr
	}
	// Unary is -x, +x, ~x or NOT x.
	Unary struct {
		span
		Op string
		X  Expr
	}
	// Binary is x op y, with the operator in upper case.
	Binary struct {
		span
		Op   string
		X, Y Expr
	}
	// Ternary is condition ? yes : no.
	Ternary struct {
		span
		If, Then, Else Expr
	}
	// In is x [NOT] IN (list).
	In struct {
		span
		X    Expr
		List []Expr
		Not  bool
	}
	// Between is x [NOT] BETWEEN low AND high.
	Between struct {
		span
		X, Low, High Expr
		Not          bool
	}
	// Like is x [NOT] LIKE pattern [ESCAPE escape].
	Like struct {
		span
		X, Pattern, Escape Expr // Escape may be nil
		Not                bool
	}
	// Call is a function: of the language, or of the container with udf. before its name.
	Call struct {
		span
		Name string // as it stands
		UDF  bool
		Args []Expr
	}
	// ObjectExpr makes an object.
	ObjectExpr struct {
		span
		Members []ObjectMember
	}
	// ArrayExpr makes an array.
	ArrayExpr struct {
		span
		Elements []Expr
	}
	// Subquery is a query in parentheses.
	Subquery struct {
		span
		Kind  SubqueryKind
		Query *Select
	}
)

// ObjectMember is a member of an ObjectExpr.
type ObjectMember struct {
	Name string
	Expr Expr
}

// SubqueryKind says what is asked of a sub-query.
type SubqueryKind uint8

// The kinds: its only value, whether it has a value, all its values.
const (
	Scalar SubqueryKind = iota
	Exists
	Array
)

// aliasOf is the name under which an expression is selected if no other is written, or "".
func aliasOf(e Expr) string {
	switch e := e.(type) {
	case *Name:
		return e.Name
	case *Member:
		return e.Name
	}
	return ""
}

// names are those of the members that a list of expressions makes: $1, $2 .. of those that have none.
func (s *Select) names() []string {
	out, unnamed := make([]string, len(s.Items)), 0
	for i := range s.Items {
		if out[i] = s.Items[i].Alias; out[i] == "" {
			out[i] = aliasOf(s.Items[i].Expr)
		}
		if out[i] == "" {
			unnamed++
			out[i] = fmt.Sprintf("$%d", unnamed)
		}
	}
	return out
}
