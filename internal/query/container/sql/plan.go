// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"encoding/json"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
)

// PlanRange is a range of hexadecimal effective partition keys that a query must read.
type PlanRange struct {
	Min            string `json:"min"`
	Max            string `json:"max"`
	IsMinInclusive bool   `json:"isMinInclusive"`
	IsMaxInclusive bool   `json:"isMaxInclusive"`
}

// planInfo is the information for clients that merge results themselves. The names are defined by the protocol.
type planInfo struct {
	DistinctType            string             `json:"distinctType"`
	Top                     *int64             `json:"top"`
	Offset                  *int64             `json:"offset"`
	Limit                   *int64             `json:"limit"`
	OrderBy                 []string           `json:"orderBy"`
	OrderByExpressions      []string           `json:"orderByExpressions"`
	GroupByExpressions      []string           `json:"groupByExpressions"`
	GroupByAliases          []string           `json:"groupByAliases"`
	Aggregates              []string           `json:"aggregates"`
	GroupByAliasToAggregate map[string]*string `json:"groupByAliasToAggregateType"`
	RewrittenQuery          string             `json:"rewrittenQuery"`
	HasSelectValue          bool               `json:"hasSelectValue"`
	HasNonStreamingOrderBy  bool               `json:"hasNonStreamingOrderBy"`
}

// orderFilter is a placeholder that clients replace with true or with a filter that resumes the query.
const orderFilter = "({documentdb-formattableorderbyquery-filter})"

// Plan returns the response of the query plan endpoint. The response contains the rewritten query for each range, and
// describes how the client must process the results. If ranges is empty, the query reads all ranges.
func Plan(q *Query, ranges []PlanRange) []byte {
	if len(ranges) == 0 {
		ranges = []PlanRange{{"", "FF", true, false}}
	}
	if q.Ranks() {
		return q.planRank(ranges)
	}
	s := *q.tree
	info := newPlanInfo()
	info.HasSelectValue = s.Value
	if s.Distinct {
		info.DistinctType = "Unordered"
		if len(s.OrderBy) > 0 {
			info.DistinctType = "Ordered"
		}
	}
	q.planLimits(&info, &s)
	rewritten := s.Offset != nil
	switch {
	case q.bound.grouped:
		rewritten = planGroups(&info, &s) || rewritten
	case len(s.OrderBy) > 0:
		planOrder(&info, &s)
		rewritten = true
	}
	if rewritten {
		info.RewrittenQuery = s.String()
	}
	out, _ := json.Marshal(struct {
		Version int         `json:"partitionedQueryExecutionInfoVersion"`
		Info    planInfo    `json:"queryInfo"`
		Ranges  []PlanRange `json:"queryRanges"`
	}{2, info, ranges})
	return out
}

func newPlanInfo() planInfo {
	return planInfo{DistinctType: "None", OrderBy: []string{}, OrderByExpressions: []string{},
		GroupByExpressions: []string{}, GroupByAliases: []string{}, Aggregates: []string{},
		GroupByAliasToAggregate: map[string]*string{}}
}

// planLimits removes OFFSET from the rewritten query, because only the merged results determine which results are
// skipped.
func (q *Query) planLimits(info *planInfo, s *Select) {
	if s.Top != nil {
		top := q.constant(s.Top)
		info.Top = &top
	}
	if s.Offset != nil {
		offset, limit := q.constant(s.Offset), q.constant(s.Limit)
		info.Offset, info.Limit = &offset, &limit
		s.Offset = &Literal{Value: document.IntegerValue(0)}
		s.Limit = &Literal{Value: document.IntegerValue(offset + limit)}
	}
}

// constant returns the value of a count, which was validated when the query was bound.
func (q *Query) constant(e Expr) int64 {
	a := &analysis{parameters: q.parameters}
	v, _ := a.constant(e)
	n, _ := v.Int()
	return n
}

func object(members ...ObjectMember) Expr { return &ObjectExpr{Members: members} }

// items returns [{"item": e}, ..].
func items(list []Expr) Expr {
	a := &ArrayExpr{}
	for _, e := range list {
		a.Elements = append(a.Elements, object(ObjectMember{"item", e}))
	}
	return a
}

// planOrder adds the sort values to each result.
func planOrder(info *planInfo, s *Select) {
	var by []Expr
	for _, o := range s.OrderBy {
		direction := "Ascending"
		if o.Descending {
			direction = "Descending"
		}
		info.OrderBy = append(info.OrderBy, direction)
		info.OrderByExpressions = append(info.OrderByExpressions, string(o.Expr.appendTo(nil)))
		by = append(by, o.Expr)
	}
	payload := payloadOf(s, nil)
	rid := Expr(&Member{Of: &Name{Name: "ROOT"}, Name: "_rid"})
	s.Items = []Item{{rid, "_rid"}, {items(by), "orderByItems"}, {payload, "payload"}}
	s.Star, s.Value, s.Distinct = false, false, false
	filter := Expr(&Name{Name: orderFilter})
	if s.Where != nil {
		filter = &Binary{Op: "AND", X: s.Where, Y: filter}
	}
	s.Where = filter
}

// payloadOf combines the selected expressions into one value. item returns the value of each member.
func payloadOf(s *Select, item func(alias string, e Expr) Expr) Expr {
	if s.Star {
		return &Name{Name: inputAlias(s)}
	}
	if s.Value {
		return s.Items[0].Expr
	}
	o, names := &ObjectExpr{}, s.names()
	for i := range s.Items {
		alias, e := names[i], s.Items[i].Expr
		if item != nil {
			e = item(alias, e)
		}
		o.Members = append(o.Members, ObjectMember{alias, e})
	}
	return o
}

func inputAlias(s *Select) string {
	if in := s.From[0]; in.Alias != "" {
		return in.Alias
	}
	return aliasOf(s.From[0].Of)
}

// aggregateNames maps names of aggregates to the names of the protocol.
var aggregateNames = map[string]string{"COUNT": "Count", "COUNTIF": "CountIf", "SUM": "Sum", "AVG": "Average",
	"MIN": "Min",
	"MAX": "Max", "MAKELIST": "MakeList", "MAKESET": "MakeSet"}

// aggregateName returns the protocol's name if an expression is a single aggregate, or "".
func aggregateName(e Expr) string {
	if c, ok := e.(*Call); ok && !c.UDF {
		return aggregateNames[strings.ToUpper(c.Name)]
	}
	return ""
}

// partialOf returns the expression that replaces an aggregate in the rewritten query. The values of this expression
// can be merged.
func partialOf(name string, e Expr) Expr {
	call := func(function string) Expr { return &Call{Name: function, Args: e.(*Call).Args} }
	switch name {
	case "Average":
		return object(ObjectMember{"item", object(ObjectMember{"sum", call("SUM")}, ObjectMember{"count",
			call("COUNT")})})
	case "Min", "Max":
		least := ObjectMember{strings.ToLower(name), e}
		return object(ObjectMember{"item2", object(least, ObjectMember{"count", call("COUNT")})})
	}
	return object(ObjectMember{"item", e})
}

// planGroups replaces aggregates with partial aggregates and adds the key to each group. planGroups reports whether
// the query was rewritten.
func planGroups(info *planInfo, s *Select) bool {
	for _, g := range s.GroupBy {
		info.GroupByExpressions = append(info.GroupByExpressions, string(g.appendTo(nil)))
	}
	if s.Value {
		name := aggregateName(s.Items[0].Expr)
		if name == "" || len(s.GroupBy) > 0 {
			return false
		}
		info.Aggregates = append(info.Aggregates, name)
		s.Items = []Item{{&ArrayExpr{Elements: []Expr{partialOf(name, s.Items[0].Expr)}}, ""}}
		return true
	}
	payload := payloadOf(s, func(alias string, e Expr) Expr {
		info.GroupByAliases = append(info.GroupByAliases, alias)
		name := aggregateName(e)
		if name == "" {
			info.GroupByAliasToAggregate[alias] = nil
			return e
		}
		info.GroupByAliasToAggregate[alias] = &name
		return partialOf(name, e)
	})
	s.Items = []Item{{payload, "payload"}}
	if len(s.GroupBy) > 0 {
		s.Items = []Item{{items(s.GroupBy), "groupByItems"}, {payload, "payload"}}
	}
	return true
}
