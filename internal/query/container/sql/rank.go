// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/fulltext"
)

// Limits of ORDER BY RANK: the scores of a query, and the keywords of a score.
const (
	componentsMax    = 16
	scoreKeywordsMax = 200
)

// ranking is the clause ORDER BY RANK. A query with this clause is replaced with other queries: one query computes the
// statistics of all documents, and one query for each component returns the items with the best scores of this
// component. If there are several components, the scores are converted to ranks and combined (Reciprocal Rank Fusion).
type ranking struct {
	components []rankComponent
	weights    []float64 // one for each component
	weighted   bool      // the query specifies the weights
}

// rankComponent is a score of an item. text is nil if the score is a VectorDistance.
type rankComponent struct {
	expr       Expr // the score, if it does not depend on statistics
	text       Expr
	keywords   []document.Value
	descending bool
}

// Ranks reports whether the query has the clause ORDER BY RANK. Rank executes such a query.
func (q *Query) Ranks() bool { return q.bound.ranking != nil }

// rank binds ORDER BY RANK.
func (b *binder) rank(s *Select, q *boundQuery, top bool) error {
	e := s.OrderBy[0].Expr
	switch _, whole := (&Query{tree: s}).container(); {
	case !top:
		return b.fail(e.at(), codeBound, "ORDER BY RANK is not allowed in a subquery.")
	case !whole || len(s.From) != 1 || s.From[0].Each:
		return b.fail(e.at(), codeBound, "A query with ORDER BY RANK must read whole items: FROM cannot contain JOIN, a path, "+
			"or a subquery.")
	case q.grouped || s.Distinct:
		return b.fail(e.at(), codeBound, "ORDER BY RANK cannot be combined with DISTINCT, GROUP BY, or aggregates.")
	}
	r := &ranking{}
	parts := []Expr{e}
	call, ok := e.(*Call)
	if ok && !call.UDF && strings.EqualFold(call.Name, fusionName) {
		var err error
		if parts, err = b.weights(r, call); err != nil {
			return err
		}
	}
	for _, part := range parts {
		c, err := b.component(part)
		if err != nil {
			return err
		}
		r.components = append(r.components, c)
		if !r.weighted {
			r.weights = append(r.weights, 1)
		}
	}
	q.ranking = r
	return nil
}

// weights reads the weights of RRF, which are its last argument if it is an array, and returns the other arguments.
func (b *binder) weights(r *ranking, x *Call) ([]Expr, error) {
	scores := x.Args
	if n := len(scores); n > 0 {
		if _, isCall := scores[n-1].(*Call); !isCall {
			last, err := b.expr(scores[n-1])
			if err != nil {
				return nil, err
			}
			c, ok := last.(constNode)
			if ok && c.value.Kind() == document.Array {
				scores = scores[:n-1]
				r.weighted = true
				for v := range c.value.Elements() {
					if ok = ok && v.Kind() == document.Number; ok {
						r.weights = append(r.weights, v.Float())
					}
				}
			}
			if !ok || !r.weighted || len(r.weights) != len(scores) {
				return nil, b.fail(x.span, codeArguments, "The last argument of RRF must be an array with one "+
					"number for each score.")
			}
		}
	}
	if len(scores) < 2 || len(scores) > componentsMax {
		return nil, b.fail(x.span, codeArguments, "The RRF function combines 2 to %d scores, not %d.", componentsMax,
			len(scores))
	}
	return scores, nil
}

// component binds a score.
func (b *binder) component(e Expr) (c rankComponent, err error) {
	x, ok := e.(*Call)
	switch {
	case ok && !x.UDF && strings.EqualFold(x.Name, vectorDistanceName):
		if _, err := b.expr(x); err != nil {
			return c, err
		}
		c.expr = x
		c.descending, _ = b.vectorOrder(x)
		return c, nil
	case !ok || x.UDF || !strings.EqualFold(x.Name, scoreName):
		return c, b.fail(e.at(), codeArguments, "ORDER BY RANK requires a call of FullTextScore, VectorDistance, or RRF. The "+
			"arguments of RRF are calls of FullTextScore and VectorDistance.")
	case len(x.Args) < 2:
		return c, b.fail(x.span, codeArguments, "The %s function has %d argument(s) here; it takes 2 or more.", scoreName,
			len(x.Args))
	}
	if _, ok := b.itemPath(x.Args[0]); !ok {
		return c, b.fail(x.Args[0].at(), codeArguments, "The first argument of FullTextScore must be a path of a stored "+
			"property.")
	}
	if _, err := b.expr(x.Args[0]); err != nil {
		return c, err
	}
	c.text, c.descending = x.Args[0], true
	if c.keywords, err = b.keywordValues(x, x.Args[1:], true); err != nil {
		return c, err
	}
	if n := len(c.keywords); n < 1 || n > scoreKeywordsMax {
		return c, b.fail(x.span, codeArguments, "The FullTextScore function has 1 to %d keywords, not %d.",
			scoreKeywordsMax, n)
	}
	return c, nil
}

// RankQuery is a query that is executed for a query with ORDER BY RANK. It has the same parameters.
type RankQuery struct {
	Text string
	// Global reports whether the query reads the whole container, regardless of the scope of the request.
	Global bool
}

// depthMin is the minimum number of items of each component that RRF combines. An item that is not among these items of
// any component is not part of the result.
const depthMin = 100

// RankHooks executes the queries that replace a query with ORDER BY RANK.
type RankHooks struct {
	// Execute returns all results of another query, with memory that remains valid.
	Execute func(RankQuery) ([]document.Value, error)
	// Finds reports whether an index finds the items that satisfy a filter. A nil Finds means that no index exists.
	Finds func(*Filter) bool
	// Totals returns the result of compute, or an earlier result for the texts at the path. It is not nil if Finds is
	// not nil.
	Totals func(path document.Path, compute func() (Totals, error)) (Totals, error)
}

// Rank executes a query with ORDER BY RANK. Rank passes the results of the page to sink and returns the beginning of
// the next page, or nil after the last page. Each page executes all queries again.
func (q *Query) Rank(run Run, h RankHooks, sink func(document.Value) error) (*Continuation, error) {
	skip := q.bound.offset
	if a := run.After; a != nil {
		if a.query != q.id {
			return nil, errForeign
		}
		skip = a.skip
	}
	end := q.Most()
	if end >= 0 && skip >= end {
		return nil, nil
	}
	x := &rankRun{q: q, ranking: q.bound.ranking, RankHooks: h}
	if err := x.readStatistics(); err != nil {
		return nil, err
	}
	results := make([][]document.Value, len(x.components))
	for i := range results {
		var err error
		if results[i], err = x.component(i); err != nil {
			return nil, err
		}
	}
	return q.rankedPage(x.fuse(results), skip, end, run, sink)
}

// rankedPage returns the results from skip to end that fit on the page.
func (q *Query) rankedPage(ranked []document.Value, skip, end int64, run Run,
	sink func(document.Value) error) (*Continuation, error) {
	if end < 0 || end > int64(len(ranked)) {
		end = int64(len(ranked))
	}
	size, count := 0, 0
	for i := skip; i < end; i++ {
		v := ranked[i].Get("payload").Get("payload")
		if !v.IsDefined() {
			continue
		}
		size += v.TextSize() + 1
		if count > 0 && (run.Page > 0 && count == run.Page || run.PageBytes > 0 && size > run.PageBytes) {
			return &Continuation{query: q.id, skip: i, left: -1}, nil
		}
		count++
		if err := sink(v); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// rankOver executes a query with ORDER BY RANK over a source, which yields all items each time.
func (q *Query) rankOver(ctx context.Context, source Source, run Run, sink func(document.Value) error) (*Continuation,
	error) {
	parameters := make([]Parameter, 0, len(q.parameters))
	for name, v := range q.parameters {
		parameters = append(parameters, Parameter{name, v})
	}
	return q.Rank(run, RankHooks{Execute: func(r RankQuery) (out []document.Value, err error) {
		part, err := q.schema.Compile(r.Text, parameters)
		if err != nil {
			return nil, err
		}
		each := Run{Functions: run.Functions, Now: run.Now, Bounds: run.Bounds, Meter: run.Meter}
		_, err = part.Run(ctx, source, each, func(v document.Value) error {
			out = append(out, v.Clone())
			if m := run.Meter; m != nil {
				return m.Keep(v.TextSize())
			}
			return nil
		})
		return out, err
	}}, sink)
}

// statistics reads the results of the statistics query. The statistics of a component without a text are zero.
func (r *ranking) statistics(results []document.Value) []fulltext.Statistics {
	out := make([]fulltext.Statistics, len(r.components))
	for _, v := range results {
		n := 0
		for i := range r.components {
			if r.components[i].text == nil {
				continue
			}
			of := v.Get("fullTextStatistics").Index(n)
			n++
			s := &out[i]
			s.Documents += v.Get("documentCount").Float()
			s.Words += of.Get("totalWordCount").Float()
			if s.Hits == nil {
				s.Hits = make([]float64, len(r.components[i].keywords))
			}
			for k := range s.Hits {
				s.Hits[k] += of.Get("hitCounts").Index(k).Float()
			}
		}
	}
	return out
}

// rankedItem is an item in the results of the component queries.
type rankedItem struct {
	value  document.Value
	rid    string
	scores []float64
	ranks  []int
	total  float64
}

// rankConstant is the constant of Reciprocal Rank Fusion.
const rankConstant = 60

// fuse combines the results of the component queries in the order of the query.
func (r *ranking) fuse(results [][]document.Value) []document.Value {
	if len(results) == 1 {
		return results[0]
	}
	var items []*rankedItem
	known := map[string]bool{}
	for _, list := range results {
		for _, v := range list {
			rid := v.Get("_rid").Str()
			if known[rid] {
				continue
			}
			known[rid] = true
			x := &rankedItem{value: v, rid: rid, ranks: make([]int, len(results))}
			for s := range v.Get("payload").Get("componentScores").Elements() {
				x.scores = append(x.scores, s.Float())
			}
			items = append(items, x)
		}
	}
	for i, c := range r.components {
		slices.SortFunc(items, func(a, b *rankedItem) int {
			if c.descending {
				return cmp.Compare(b.scores[i], a.scores[i])
			}
			return cmp.Compare(a.scores[i], b.scores[i])
		})
		rank := 1
		for n, x := range items {
			if n > 0 && x.scores[i] != items[n-1].scores[i] {
				rank++
			}
			x.ranks[i] = rank
			x.total += r.weights[i] / float64(rankConstant+rank)
		}
	}
	slices.SortFunc(items, func(a, b *rankedItem) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.rid, b.rid))
	})
	out := make([]document.Value, len(items))
	for i, x := range items {
		out[i] = x.value
	}
	return out
}

// errForeign is the error for a continuation of another query.
var errForeign = &Error{Code: codeArguments, Message: "The continuation belongs to another query, or the " +
	"query's parameters have changed."}
