// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"maps"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/fulltext"
)

// Filter is a necessary condition that an index can evaluate. An item that does not satisfy the filter contributes no
// results. An item that satisfies the filter does not necessarily contribute a result.
type Filter struct {
	// Op is AND or OR of Of, TERM, or a condition on the property at Path. The conditions are =, <, <=, >, >=, IN,
	// STARTSWITH, and IS_DEFINED. If the path leads through arrays, at least one of the elements must satisfy the
	// condition.
	Op   string
	Of   []*Filter
	Path []document.Step
	// Values has several elements for IN, none for IS_DEFINED, and one for other conditions.
	Values []document.Value
	// Text, Term, and Language apply to the condition TERM: the text at the path Text has the term.
	Text     document.Path
	Term     string
	Language fulltext.Language
}

// OrderPath is a sort property.
type OrderPath struct {
	Path       document.Path
	Descending bool
}

var mirrored = map[string]string{"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// Filter returns the conditions of the WHERE clause that an index can evaluate, or nil.
func (q *Query) Filter() *Filter {
	a := &analysis{parameters: q.parameters, schema: q.schema}
	if q.tree.Where == nil || !a.inputs(q.tree, true) {
		return nil
	}
	return a.filter(q.tree.Where)
}

// Orders returns the sort properties of the query. Orders returns nil if the query sorts by other expressions, or if
// results and items do not correspond one to one.
func (q *Query) Orders() (out []OrderPath) {
	if q.bound.distinct || len(q.tree.From) != 1 {
		return nil
	}
	return q.SortPaths()
}

// SortPaths returns the sort properties of the query. SortPaths returns nil if the query does not sort or sorts by
// other expressions.
func (q *Query) SortPaths() (out []OrderPath) {
	root, ok := q.container()
	if !ok || q.bound.grouped {
		return nil
	}
	a := &analysis{root: root, parameters: q.parameters, schema: q.schema}
	for _, o := range q.tree.OrderBy {
		path, ok := a.path(o.Expr)
		if !ok {
			return nil
		}
		out = append(out, OrderPath{path, o.Descending})
	}
	return out
}

// Most returns the maximum number of rows that the query needs, including the rows that OFFSET skips. Most returns -1
// if there is no limit.
func (q *Query) Most() int64 {
	if q.bound.limit < 0 {
		return -1
	}
	return q.bound.offset + q.bound.limit
}

// inputs records the part of the item to which each input refers. inputs returns false if the first input is not part
// of the item. top reports whether the query is the outermost query.
func (a *analysis) inputs(s *Select, top bool) bool {
	outer := a.aliases
	if a.aliases = maps.Clone(outer); a.aliases == nil {
		a.aliases = map[string][]document.Step{}
	}
	for i, in := range s.From {
		if top && i == 0 {
			a.aliases[baseOf(in.Of)] = []document.Step{}
		}
		steps, ok := a.steps(in.Of)
		if !ok {
			if i == 0 {
				a.aliases = outer
				return false
			}
			delete(a.aliases, in.Alias) // This input hides an input of the outer query.
			continue
		}
		if in.Each {
			steps = append(slices.Clip(steps), document.Step{Elements: true})
		}
		name := in.Alias
		if name == "" {
			name = aliasOf(in.Of)
		}
		if top && i == 0 && name != baseOf(in.Of) {
			delete(a.aliases, baseOf(in.Of))
		}
		a.aliases[name] = steps
	}
	return len(s.From) > 0
}

// baseOf returns the name at the beginning of a path expression.
func baseOf(e Expr) string {
	for {
		switch x := e.(type) {
		case *Member:
			e = x.Of
			continue
		case *Name:
			return x.Name
		}
		return ""
	}
}

// steps returns the path of an expression that is a stored part of the item.
func (a *analysis) steps(e Expr) ([]document.Step, bool) {
	switch x := e.(type) {
	case *Member:
		of, ok := a.steps(x.Of)
		if len(of) == 0 && a.schema.IsComputed(x.Name) {
			return nil, false
		}
		return append(slices.Clip(of), document.Step{Name: x.Name}), ok
	case *Name:
		of, ok := a.aliases[x.Name]
		return of, ok
	}
	return nil, false
}

// property works like steps, but rejects a reference to the item itself.
func (a *analysis) property(e Expr) ([]document.Step, bool) {
	steps, ok := a.steps(e)
	return steps, ok && len(steps) > 0
}

// combine combines two filters, which must not be used afterward. A nil filter means no condition. For a long chain of
// the same operator, combine takes linear time.
func combine(op string, x, y *Filter) *Filter {
	switch {
	case x == nil && y == nil || op == "OR" && (x == nil || y == nil):
		return nil
	case x == nil:
		return y
	case y == nil:
		return x
	}
	if x.Op != op {
		x = &Filter{Op: op, Of: []*Filter{x}}
	}
	if y.Op == op {
		x.Of = append(x.Of, y.Of...)
	} else {
		x.Of = append(x.Of, y)
	}
	return x
}

func (a *analysis) filter(e Expr) *Filter {
	switch x := e.(type) {
	case *Binary:
		if x.Op == "AND" || x.Op == "OR" {
			return combine(x.Op, a.filter(x.X), a.filter(x.Y))
		}
		return a.comparison(x)
	case *Between:
		if x.Not {
			return nil
		}
		return combine("AND", a.comparison(&Binary{Op: ">=", X: x.X, Y: x.Low}),
			a.comparison(&Binary{Op: "<=", X: x.X, Y: x.High}))
	case *In:
		if x.Not {
			return nil
		}
		return a.oneOf(x.X, x.List)
	case *Call:
		return a.call(x)
	case *Subquery:
		return a.exists(x)
	case *Member:
		if steps, ok := a.property(x); ok {
			return &Filter{Op: "=", Path: steps, Values: []document.Value{document.BooleanValue(true)}}
		}
	}
	return nil
}

func (a *analysis) comparison(x *Binary) *Filter {
	op, ok := mirrored[x.Op]
	if !ok {
		return nil
	}
	for _, side := range []struct {
		x, y Expr
		op   string
	}{{x.X, x.Y, x.Op}, {x.Y, x.X, op}} {
		path, ok1 := a.property(side.x)
		v, ok2 := a.constant(side.y)
		if ok1 && ok2 && v.IsDefined() {
			return &Filter{Op: side.op, Path: path, Values: []document.Value{v}}
		}
	}
	return nil
}

func (a *analysis) oneOf(of Expr, list []Expr) *Filter {
	path, ok := a.property(of)
	if !ok {
		return nil
	}
	f := &Filter{Op: "IN", Path: path, Values: make([]document.Value, 0, len(list))}
	for _, y := range list {
		v, ok := a.constant(y)
		if !ok {
			return nil
		}
		if v.IsDefined() {
			f.Values = append(f.Values, v)
		}
	}
	return f
}

func (a *analysis) call(x *Call) *Filter {
	if x.UDF || len(x.Args) == 0 {
		return nil
	}
	path, ok := a.property(x.Args[0])
	switch name := strings.ToUpper(x.Name); {
	case name == "IS_DEFINED" && ok && len(x.Args) == 1:
		return &Filter{Op: "IS_DEFINED", Path: path}
	case name == "IS_NULL" && ok && len(x.Args) == 1:
		return &Filter{Op: "=", Path: path, Values: []document.Value{document.NullValue}}
	case name == "STARTSWITH" && ok && len(x.Args) == 2:
		if v, ok := a.constant(x.Args[1]); ok && v.Kind() == document.String {
			return &Filter{Op: "STARTSWITH", Path: path, Values: []document.Value{v}}
		}
	case name == containsName || name == containsAllName || name == containsAnyName:
		return a.fullText(x)
	case name == "ARRAY_CONTAINS" && len(x.Args) >= 2:
		return a.arrayContains(x, path, ok)
	}
	return nil
}

// arrayContains analyzes ARRAY_CONTAINS of a property (if isProperty is set) or of a constant.
func (a *analysis) arrayContains(x *Call, path []document.Step, isProperty bool) *Filter {
	if isProperty {
		v, ok := a.constant(x.Args[1])
		if !ok || !v.IsDefined() || v.Kind() >= document.Array {
			return nil
		}
		return &Filter{Op: "=", Path: append(path, document.Step{Elements: true}), Values: []document.Value{v}}
	}
	list, ok1 := a.constant(x.Args[0])
	path, ok2 := a.property(x.Args[1])
	if !ok1 || !ok2 || len(x.Args) > 2 || list.Kind() != document.Array {
		return nil
	}
	return &Filter{Op: "IN", Path: path, Values: slices.Collect(list.Elements())}
}

// exists analyzes EXISTS over a part of the item.
func (a *analysis) exists(x *Subquery) *Filter {
	if x.Kind != Exists || x.Query.Where == nil || !simple(x.Query) {
		return nil
	}
	outer := a.aliases
	defer func() { a.aliases = outer }()
	if !a.inputs(x.Query, false) {
		return nil
	}
	return a.filter(x.Query.Where)
}
