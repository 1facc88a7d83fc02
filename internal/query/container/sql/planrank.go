// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"encoding/json"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/fulltext"
)

// hybridInfo is the information for clients that execute a query with ORDER BY RANK. The names are defined by the
// protocol.
type hybridInfo struct {
	GlobalStatisticsQuery    string     `json:"globalStatisticsQuery"`
	ComponentQueryInfos      []planInfo `json:"componentQueryInfos"`
	ComponentWithoutPayload  []planInfo `json:"componentWithoutPayloadQueryInfos"`
	ProjectionQueryInfo      *planInfo  `json:"projectionQueryInfo"`
	ComponentWeights         []float64  `json:"componentWeights"`
	Skip                     *int64     `json:"skip"`
	Take                     *int64     `json:"take"`
	RequiresGlobalStatistics bool       `json:"requiresGlobalStatistics"`
}

// Placeholders that clients replace with statistics. The number is the number of the component.
const (
	documentsPlaceholder = "{documentdb-formattablehybridsearchquery-totaldocumentcount}"
	wordsPlaceholder     = "{documentdb-formattablehybridsearchquery-totalwordcount-%d}"
	hitsPlaceholder      = "{documentdb-formattablehybridsearchquery-hitcountsarray-%d}"
)

// The scores of items that have no score. JSON has no infinite numbers.
const (
	worstDescending = -1e300
	worstAscending  = 1e300
)

// planRank returns the query plan of a query with ORDER BY RANK.
func (q *Query) planRank(ranges []PlanRange) []byte {
	r := q.bound.ranking
	info := hybridInfo{GlobalStatisticsQuery: q.statisticsQuery(), ComponentWithoutPayload: []planInfo{},
		ComponentWeights: []float64{}}
	info.RequiresGlobalStatistics = info.GlobalStatisticsQuery != ""
	if r.weighted {
		info.ComponentWeights = r.weights
	}
	if q.bound.offset > 0 || q.tree.Offset != nil {
		info.Skip = &q.bound.offset
	}
	if q.bound.limit >= 0 {
		info.Take = &q.bound.limit
	}
	for i := range r.components {
		s, component := q.componentQuery(i, nil, true)
		component.RewrittenQuery = s.String()
		info.ComponentQueryInfos = append(info.ComponentQueryInfos, component)
	}
	out, _ := json.Marshal(struct {
		Version int         `json:"partitionedQueryExecutionInfoVersion"`
		Info    hybridInfo  `json:"hybridSearchQueryInfo"`
		Ranges  []PlanRange `json:"queryRanges"`
	}{2, info, ranges})
	return out
}

// statisticsQuery returns the query for the statistics of all texts, or "" if no component needs statistics.
func (q *Query) statisticsQuery() string {
	var texts []Expr
	for _, c := range q.bound.ranking.components {
		if c.text == nil {
			continue
		}
		words := &Call{Name: "SUM", Args: []Expr{&Call{Name: "_FullTextWordCount", Args: []Expr{c.text}}}}
		texts = append(texts, object(ObjectMember{"totalWordCount", words}, ObjectMember{"hitCounts", c.hits()}))
	}
	if texts == nil {
		return ""
	}
	count := &Call{Name: "COUNT", Args: []Expr{&Literal{Value: document.IntegerValue(1)}}}
	s := Select{From: q.tree.From, Items: []Item{{count, "documentCount"},
		{&ArrayExpr{Elements: texts}, "fullTextStatistics"}}}
	return s.String()
}

// componentQuery returns the query for the items with the best scores of a component. If statistics is nil, the query
// contains placeholders. filter adds the placeholder of a condition.
func (q *Query) componentQuery(n int, statistics []fulltext.Statistics, filter bool) (*Select, planInfo) {
	r := q.bound.ranking
	var scores []Expr
	for i := range r.components {
		scores = append(scores, r.components[i].score(i, statistics))
	}
	worst := func(i int) Expr {
		v := worstAscending
		if r.components[i].descending {
			v = worstDescending
		}
		return &Binary{Op: "??", X: scores[i], Y: &Literal{Value: document.NumberValue(v)}}
	}
	all := &ArrayExpr{}
	for i := range scores {
		all.Elements = append(all.Elements, worst(i))
	}
	info := newPlanInfo()
	info.HasNonStreamingOrderBy = true
	s := &Select{From: q.tree.From, Where: q.tree.Where,
		OrderBy: []Order{{Expr: scores[n], Descending: r.components[n].descending}}}
	if most := q.Most(); most >= 0 {
		if len(r.components) > 1 {
			most = max(most, depthMin)
		}
		s.Top, info.Top = &Literal{Value: document.IntegerValue(most)}, &most
	}
	rid := Expr(&Member{Of: &Name{Name: inputAlias(s)}, Name: "_rid"})
	s.Items = []Item{{rid, "_rid"}, {items([]Expr{scores[n]}), "orderByItems"},
		{object(ObjectMember{"payload", payloadOf(q.tree, nil)}, ObjectMember{"componentScores", all}), "payload"}}
	if filter {
		placeholder := Expr(&Name{Name: orderFilter})
		if s.Where != nil {
			placeholder = &Binary{Op: "AND", X: s.Where, Y: placeholder}
		}
		s.Where = placeholder
	}
	direction := "Ascending"
	if r.components[n].descending {
		direction = "Descending"
	}
	info.OrderBy = append(info.OrderBy, direction)
	info.OrderByExpressions = append(info.OrderByExpressions, string(scores[n].appendTo(nil)))
	return s, info
}

// score returns the expression for the score of component n.
func (c *rankComponent) score(n int, statistics []fulltext.Statistics) Expr {
	if c.text == nil {
		return c.expr
	}
	keywords := &Literal{Value: document.ArrayValue(c.keywords)}
	if statistics == nil {
		return &Call{Name: "_FullTextScore", Args: []Expr{c.text, keywords, &Name{Name: documentsPlaceholder},
			&Name{Name: fmt.Sprintf(wordsPlaceholder, n)}, &Name{Name: fmt.Sprintf(hitsPlaceholder, n)}}}
	}
	s := &statistics[n]
	hits := make([]document.Value, len(s.Hits))
	for i, h := range s.Hits {
		hits[i] = document.NumberValue(h)
	}
	return &Call{Name: "_FullTextScore", Args: []Expr{c.text, keywords,
		&Literal{Value: document.NumberValue(s.Documents)}, &Literal{Value: document.NumberValue(s.Words)},
		&Literal{Value: document.ArrayValue(hits)}}}
}
