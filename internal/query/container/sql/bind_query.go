// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"math"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
)

// boundQuery is a query or subquery that is ready for execution.
type boundQuery struct {
	inputs []boundInput
	where  node // may be nil
	// groups contains the GROUP BY expressions. groupSlots contains the slots for their values.
	groups     []node
	groupSlots []int
	aggregates []boundAggregate
	grouped    bool // the query has GROUP BY or an aggregate
	orders     []boundOrder
	distinct   bool
	project    node
	offset     int64
	limit      int64 // minimum of TOP and LIMIT, or -1 if there is no limit
	ranking    *ranking
}

type boundInput struct {
	slot int
	each bool
	of   node        // either of
	sub  *boundQuery // set if of is nil
}

type boundOrder struct {
	node       node
	descending bool
}

// plain reports whether each row immediately yields its result.
func (q *boundQuery) plain() bool { return !q.grouped && !q.distinct && len(q.orders) == 0 }

// query binds a query in the scope of the binder. top reports whether the query is the outermost query or is in the
// FROM clause of the outermost query.
func (b *binder) query(s *Select, top bool) (*boundQuery, error) {
	q := &boundQuery{limit: -1}
	outer := b.scope
	b.scope = &scope{outer: outer, slots: map[string]int{}}
	defer func() { b.scope = outer }()
	err := b.from(s, q, top)
	if err != nil {
		return nil, err
	}
	if s.Where != nil {
		if q.where, err = b.expr(s.Where); err != nil {
			return nil, err
		}
	}
	if err := b.grouping(s, q); err != nil {
		return nil, err
	}
	if q.project, err = b.projection(s, q); err != nil {
		return nil, err
	}
	if s.Rank {
		err = b.rank(s, q, top)
	} else {
		err = b.orders(s, q)
	}
	if err != nil {
		return nil, err
	}
	if g := b.scope.groups; g != nil {
		q.aggregates = g.aggregates
	}
	q.distinct = s.Distinct
	return q, b.limits(s, q)
}

// from binds the inputs.
func (b *binder) from(s *Select, q *boundQuery, top bool) (err error) {
	for i, in := range s.From {
		bound := boundInput{each: in.Each}
		name := in.Alias
		b.scope.items = top && i == 0
		if sub, ok := in.Of.(*Subquery); ok {
			bound.sub, err = b.query(sub.Query, top && i == 0)
			if err == nil && top && i == 0 && usesContainer(sub.Query) && !simple(sub.Query) {
				err = b.fail(sub.span, codeBound, "A subquery of the whole container in FROM can contain only SELECT, FROM and WHERE. "+
					"Sort, group and limit in the outer query.")
			}
		} else {
			bound.of, err = b.expr(in.Of)
			if name == "" {
				name = aliasOf(in.Of)
			}
		}
		b.scope.items = false
		if err != nil {
			return err
		}
		bound.slot = b.slot()
		if bound.of == (rootNode{}) && !in.Each {
			if b.roots == nil {
				b.roots = map[int]bool{}
			}
			b.roots[bound.slot] = true
			b.whole--
		}
		if _, ok := b.scope.slots[name]; ok && name != "" {
			return b.fail(in.span, codeIdentifier, "The input alias '%s' is specified more than once in the FROM clause.", name)
		}
		if name != "" {
			b.scope.slots[name] = bound.slot
		}
		q.inputs = append(q.inputs, bound)
	}
	return nil
}

// usesContainer reports whether the first input of a query is the container, as opposed to a constant.
func usesContainer(s *Select) bool {
	if len(s.From) == 0 {
		return false
	}
	if sub, ok := s.From[0].Of.(*Subquery); ok {
		return usesContainer(sub.Query)
	}
	return true
}

// simple reports whether the result of a query over all items is the concatenation of its results for the individual
// items.
func simple(s *Select) bool {
	return !s.Distinct && s.Top == nil && s.Offset == nil && len(s.OrderBy) == 0 && len(s.GroupBy) == 0 &&
		!hasAggregate(s)
}

// hasAggregate reports whether the SELECT or ORDER BY clause contains an aggregate, ignoring subqueries.
func hasAggregate(s *Select) bool {
	for _, item := range s.Items {
		if containsAggregate(item.Expr) {
			return true
		}
	}
	for _, o := range s.OrderBy {
		if containsAggregate(o.Expr) {
			return true
		}
	}
	return false
}

// containsAggregate reports whether an expression contains an aggregate, ignoring subqueries.
func containsAggregate(e Expr) (found bool) {
	walk(e, func(e Expr) bool {
		if c, ok := e.(*Call); ok && !c.UDF && aggregateKinds[strings.ToUpper(c.Name)] != aggregateNone {
			found = true
		}
		return !found
	})
	return found
}

// walk visits an expression and its parts, excluding subqueries. walk skips the parts of expressions for which visit
// returns false.
func walk(e Expr, visit func(Expr) bool) {
	if !visit(e) {
		return
	}
	var parts []Expr
	switch e := e.(type) {
	case *Member:
		parts = []Expr{e.Of}
	case *Index:
		parts = []Expr{e.Of, e.At}
	case *Unary:
		parts = []Expr{e.X}
	case *Binary:
		parts = []Expr{e.X, e.Y}
	case *Ternary:
		parts = []Expr{e.If, e.Then, e.Else}
	case *In:
		parts = append([]Expr{e.X}, e.List...)
	case *Between:
		parts = []Expr{e.X, e.Low, e.High}
	case *Like:
		parts = []Expr{e.X, e.Pattern}
	case *Call:
		parts = e.Args
	case *ArrayExpr:
		parts = e.Elements
	case *ObjectExpr:
		for _, m := range e.Members {
			parts = append(parts, m.Expr)
		}
	}
	for _, p := range parts {
		walk(p, visit)
	}
}

// grouping binds GROUP BY. After grouping returns, only groups and aggregates have values.
func (b *binder) grouping(s *Select, q *boundQuery) error {
	if len(s.GroupBy) == 0 && !hasAggregate(s) {
		return nil
	}
	if s.Star {
		return b.fail(s.span, codeStar, "'SELECT *' is not valid with GROUP BY. Name the selected expressions.")
	}
	q.grouped = true
	g := &grouping{slots: map[string]int{}}
	for _, e := range s.GroupBy {
		n, err := b.expr(e)
		if err != nil {
			return err
		}
		slot := b.slot()
		q.groups, q.groupSlots = append(q.groups, n), append(q.groupSlots, slot)
		g.slots[string(e.appendTo(nil))] = slot
	}
	b.scope.groups = g
	return nil
}

// projection binds the SELECT clause.
func (b *binder) projection(s *Select, q *boundQuery) (node, error) {
	if s.Star {
		if len(q.inputs) != 1 {
			return nil, b.fail(s.span, codeStar, "'SELECT *' is only valid with a single input set.")
		}
		if b.roots[q.inputs[0].slot] {
			b.whole++
		}
		return slotNode{q.inputs[0].slot}, nil
	}
	if s.Value {
		return b.expr(s.Items[0].Expr)
	}
	o := &objectNode{names: s.names()}
	for _, item := range s.Items {
		n, err := b.expr(item.Expr)
		if err != nil {
			return nil, err
		}
		o.values = append(o.values, n)
	}
	return b.fold(o, o.values...), nil
}

// orders binds ORDER BY. A name that is not an input refers to a selected expression. A query with aggregates and
// without GROUP BY has a single result. Its ORDER BY clause is checked and then ignored, because clients append such a
// clause to every paged query.
func (b *binder) orders(s *Select, q *boundQuery) error {
	for i := range s.OrderBy {
		o := &s.OrderBy[i]
		e := o.Expr
		if name, ok := e.(*Name); ok {
			if _, _, input := b.resolve(name.Name); !input {
				for _, item := range s.Items {
					if item.Alias == name.Name {
						e = item.Expr
					}
				}
			}
		}
		one := q.grouped && len(q.groups) == 0
		if descending, ok := b.vectorOrder(e); ok {
			o.Descending = descending
		}
		groups := b.scope.groups
		if one && !containsAggregate(e) {
			b.scope.groups = nil
		}
		n, err := b.expr(e)
		b.scope.groups = groups
		if err != nil {
			return err
		}
		if !one {
			q.orders = append(q.orders, boundOrder{n, o.Descending})
		}
	}
	return nil
}

// limits evaluates TOP, OFFSET, and LIMIT.
func (b *binder) limits(s *Select, q *boundQuery) error {
	for _, l := range []struct {
		e    Expr
		name string
		set  func(n int64)
	}{
		{s.Offset, "OFFSET", func(n int64) { q.offset = n }},
		{s.Limit, "LIMIT", func(n int64) { q.limit = n }},
		{s.Top, "TOP", func(n int64) {
			if q.limit < 0 || n < q.limit {
				q.limit = n
			}
		}},
	} {
		if l.e == nil {
			continue
		}
		n, err := b.expr(l.e)
		if err != nil {
			return err
		}
		c, _ := n.(constNode)
		count, ok := c.value.Int()
		if c.value.Kind() != document.Number || !ok || count < 0 || count > math.MaxInt32 {
			return b.fail(l.e.at(), codeNumber, "%s must be an integer from 0 to %d.", l.name, math.MaxInt32)
		}
		l.set(count)
	}
	return nil
}

func (b *binder) subquery(x *Subquery) (node, error) {
	q, err := b.query(x.Query, false)
	if err != nil {
		return nil, err
	}
	return &subqueryNode{kind: x.Kind, query: q}, nil
}
