// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/fulltext"
)

// Totals describes the texts at a path in all items of a container. Documents is the number of items, and Words is the
// number of terms of their texts.
type Totals struct{ Documents, Words float64 }

// TotalsExactMax is the maximum number of items for which Totals is exact. For more items, Words is estimated from
// TotalsExactMax items.
const TotalsExactMax = 1000

// rankRun is an execution of a query with ORDER BY RANK.
type rankRun struct {
	q *Query
	*ranking
	RankHooks
	statistics []fulltext.Statistics
}

// readStatistics reads the statistics of the components. If an index finds the texts of all components, only the items
// with the keywords are read.
func (x *rankRun) readStatistics() error {
	text := x.q.statisticsQuery()
	if text == "" {
		return nil
	}
	indexed := true
	for i := range x.components {
		indexed = indexed && (x.components[i].text == nil || x.finds(i))
	}
	if !indexed {
		found, err := x.Execute(RankQuery{Text: text, Global: true})
		x.statistics = x.ranking.statistics(found)
		return err
	}
	x.statistics = make([]fulltext.Statistics, len(x.components))
	for i := range x.components {
		c := &x.components[i]
		if c.text == nil {
			continue
		}
		totals, err := x.Totals(x.q.textPath(c), func() (Totals, error) { return x.totals(c) })
		if err != nil {
			return err
		}
		s := Select{From: x.q.tree.From, Where: c.matches(), Value: true, Items: []Item{{c.hits(), ""}}}
		found, err := x.Execute(RankQuery{Text: s.String(), Global: true})
		if err != nil {
			return err
		}
		st := fulltext.Statistics{Documents: totals.Documents, Words: totals.Words}
		for _, v := range found {
			for n := range v.Elements() {
				st.Hits = append(st.Hits, n.Float())
			}
		}
		x.statistics[i] = st
	}
	return nil
}

// totals computes the totals of the texts of a component.
func (x *rankRun) totals(c *rankComponent) (t Totals, err error) {
	words := &Call{Name: "_FullTextWordCount", Args: []Expr{c.text}}
	s := Select{From: x.q.tree.From, Value: true, Items: []Item{{words, ""}},
		Top: &Literal{Value: document.IntegerValue(TotalsExactMax + 1)}}
	counts, err := x.Execute(RankQuery{Text: s.String(), Global: true})
	if err != nil {
		return t, err
	}
	for _, n := range counts {
		t.Words += n.Float()
	}
	if t.Documents = float64(len(counts)); len(counts) <= TotalsExactMax {
		return t, nil
	}
	one := &Literal{Value: document.IntegerValue(1)}
	s = Select{From: x.q.tree.From, Value: true, Items: []Item{{&Call{Name: "COUNT", Args: []Expr{one}}, ""}}}
	all, err := x.Execute(RankQuery{Text: s.String(), Global: true})
	if err != nil || len(all) != 1 {
		return t, err
	}
	return Totals{all[0].Float(), t.Words / t.Documents * all[0].Float()}, nil
}

// component returns the items with the best scores of a component, in the order of their scores.
func (x *rankRun) component(n int) (best []document.Value, err error) {
	s, _ := x.q.componentQuery(n, x.statistics, false)
	if !x.finds(n) {
		return x.Execute(RankQuery{Text: s.String()})
	}
	where, c := s.Where, &x.components[n]
	s.Where = also(where, c.matches())
	if best, err = x.Execute(RankQuery{Text: s.String()}); err != nil {
		return nil, err
	}
	// The scores of all other items are 0, so they follow in any order.
	s.Where, s.OrderBy = also(where, &Unary{Op: "NOT", X: c.matches()}), nil
	if s.Top != nil {
		left := x.q.constant(s.Top) - int64(len(best))
		if left <= 0 {
			return best, nil
		}
		s.Top = &Literal{Value: document.IntegerValue(left)}
	}
	rest, err := x.Execute(RankQuery{Text: s.String()})
	return append(best, rest...), err
}

// also combines two conditions, of which the first may be nil.
func also(x, y Expr) Expr {
	if x == nil {
		return y
	}
	return &Binary{Op: "AND", X: x, Y: y}
}

// finds reports whether an index finds the items with the keywords of a component.
func (x *rankRun) finds(n int) bool {
	c := &x.components[n]
	if c.text == nil || x.Finds == nil {
		return false
	}
	a := &analysis{parameters: x.q.parameters, schema: x.q.schema}
	if !a.inputs(x.q.tree, true) {
		return false
	}
	f := a.fullText(c.matches())
	return f != nil && x.Finds(f)
}

// matches returns the condition that a text contains one of the keywords.
func (c *rankComponent) matches() *Call {
	call := &Call{Name: "FullTextContainsAny", Args: []Expr{c.text}}
	for _, k := range c.keywords {
		call.Args = append(call.Args, &Literal{Value: k})
	}
	return call
}

// hits returns the number of items with each keyword.
func (c *rankComponent) hits() Expr {
	hits := &ArrayExpr{}
	for _, k := range c.keywords {
		hits.Elements = append(hits.Elements, &Call{Name: "COUNTIF", Args: []Expr{
			&Call{Name: "FullTextContains", Args: []Expr{c.text, &Literal{Value: k}}}}})
	}
	return hits
}

// textPath returns the path of the texts of a component.
func (q *Query) textPath(c *rankComponent) document.Path {
	root, _ := q.container()
	path, _ := (&analysis{root: root, parameters: q.parameters, schema: q.schema}).path(c.text)
	return path
}
