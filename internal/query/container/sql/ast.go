// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"fmt"

	"github.com/ilion-db/ilion/internal/model/document"
)

// Select is a query or subquery.
type Select struct {
	span
	Distinct      bool
	Top           Expr // Top, Where, Offset, and Limit may be nil
	Star, Value   bool
	Items         []Item // A query with Value has one item. A query with Star has no items.
	From          []Input
	Where         Expr
	GroupBy       []Expr
	OrderBy       []Order
	Rank          bool // ORDER BY RANK, with a single element in OrderBy
	Offset, Limit Expr
}

// Item is a selected expression and its name.
type Item struct {
	Expr  Expr
	Alias string // empty if the query does not specify a name
}

// Order is a sort expression.
type Order struct {
	Expr       Expr
	Descending bool
}

// Input is a source of values. It is the container, a part of another input, or a subquery.
type Input struct {
	span
	Alias string // empty if the query does not specify an alias
	// Each iterates over the elements of the arrays in Of: alias IN of.
	Each bool
	Of   Expr // a Name, Member, Index, or Subquery
}

// Expr is an expression.
type Expr interface {
	at() span
	appendTo(dst []byte) []byte
}

// These are the kinds of expressions.
type (
	// Literal is a constant. Undefined is also a constant.
	Literal struct {
		span
		Value document.Value
	}
	// Placeholder is a query parameter such as @name.
	Placeholder struct {
		span
		Name string // name, including the @
	}
	// Name is an input.
	Name struct {
		span
		Name string
	}
	// Member is a property such as of.name or of["name"].
	Member struct {
		span
		Of   Expr
		Name string
	}
	// Index is an element or property with a computed index or name, such as of[at].
	Index struct {
		span
		Of, At Expr
	}
	// Unary is -x, +x, ~x, or NOT x.
	Unary struct {
		span
		Op string
		X  Expr
	}
	// Binary is x op y. The operator is in upper case.
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
	// Call is a call of a built-in function, or of a user-defined function with the prefix udf.
	Call struct {
		span
		Name string // as written in the query
		UDF  bool
		Args []Expr
	}
	// ObjectExpr constructs an object.
	ObjectExpr struct {
		span
		Members []ObjectMember
	}
	// ArrayExpr constructs an array.
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

// SubqueryKind is the use of a subquery.
type SubqueryKind uint8

// These are the kinds of subqueries. A subquery is a single value, or is used with the word before its parenthesis.
const (
	Scalar SubqueryKind = iota
	Exists
	Array
	All
	First
	Last
)

// subqueryWords contains the words before a subquery. Except for EXISTS and ARRAY, they are also names if no
// parenthesis follows.
var subqueryWords = map[string]SubqueryKind{"EXISTS": Exists, "ARRAY": Array, "ALL": All, "FIRST": First, "LAST": Last}

// String returns the word before the parenthesis.
func (k SubqueryKind) String() string {
	return [...]string{"", "EXISTS", "ARRAY", "ALL", "FIRST", "LAST"}[k]
}

// aliasOf returns the default name of a selected expression, or "".
func aliasOf(e Expr) string {
	switch e := e.(type) {
	case *Name:
		return e.Name
	case *Member:
		return e.Name
	}
	return ""
}

// names returns the member names of the select list. Expressions without a name receive the names $1, $2, and so on.
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
