// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/fulltext"
	"github.com/ilion-db/ilion/internal/model/meter"
)

// texts are items with texts and vectors.
func texts(t testing.TB) []document.Value {
	return []document.Value{
		parseItem(t, `{"_rid":"1","id":"1","t":"The red bicycle of a mountain","v":[1,0],"de":{"t":"Die roten Häuser"}}`),
		parseItem(t, `{"_rid":"2","id":"2","t":"Red bicycles, red skateboards and red helmets","v":[0.9,0.1]}`),
		parseItem(t, `{"_rid":"3","id":"3","t":"A mountain is not a hill","v":[0,1]}`),
		parseItem(t, `{"_rid":"4","id":"4","t":7,"v":[0.5,0.5]}`),
		parseItem(t, `{"_rid":"5","id":"5","t":""}`),
	}
}

// run returns the results of a query over items, in pages.
func results(t testing.TB, s *Schema, query string, items []document.Value, page int) string {
	t.Helper()
	q, err := s.Compile(query, []Parameter{{"@k", document.StringValue("bicycle")},
		{"@v", parseItem(t, `[1,0]`)}, {"@w", parseItem(t, `[2,1]`)}, {"@list", parseItem(t, `["red","hill"]`)}})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var got []string
	run := Run{Page: page}
	for range 100 {
		if run.After, err = q.Run(context.Background(), rowsOf(items), run, func(v document.Value) error {
			got = append(got, v.String())
			return nil
		}); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if run.After == nil {
			break
		}
		if run.After, err = ParseContinuation(run.After.String()); err != nil {
			t.Fatal(err)
		}
	}
	return strings.ReplaceAll(strings.Join(got, " "), `"`, "")
}

// TestFullText checks the results of conditions with full-text functions.
func TestFullText(t *testing.T) {
	s := new(Schema)
	german, _ := fulltext.ParseLanguage("de-DE")
	s.SetLanguage(document.Path{"de", "t"}, german)
	for _, c := range [][2]string{
		{"FullTextContains(c.t, 'bicycle')", "1 2"},
		{"fulltextcontains(c.t, @k)", "1 2"},
		{"FullTextContains(c.t, 'RED BICYCLE')", "1 2"},
		{"FullTextContains(c.t, 'bicycle red')", "2"},
		{"FullTextContains(c.t, 'the')", ""},
		{"NOT FullTextContains(c.t, 'mountain')", "2 5"},
		{"FullTextContains(c.t, {'term': 'bicicle', 'distance': 1})", "1 2"},
		{"FullTextContains(c.t, {'term': 'bicicle', 'distance': 0})", ""},
		{"FullTextContainsAll(c.t, 'red', 'mountain')", "1"},
		{"FullTextContainsAll(c.t, 'red', 'red', 'the')", "1 2"},
		{"FullTextContainsAll(c.t, 'the', 'of')", ""},
		{"FullTextContainsAny(c.t, 'hill', 'helmet')", "2 3"},
		{"FullTextContainsAny(c.t, {term: 'hilly', distance: 2}, 'red helmet')", "2 3"},
		{"FullTextContains(c.t, 'red') AND FullTextContainsAny(c.t, 'hill', 'skateboard')", "2"},
		{"FullTextContains(c.de.t, 'haus')", "1"},
		{"FullTextContains(c.de.t, 'rot') OR FullTextContains(c.t, 'hill')", "1 3"},
		{"EXISTS(SELECT VALUE 1 FROM x IN c.de WHERE FullTextContains(x, 'hill'))", ""},
	} {
		if got := results(t, s, "SELECT VALUE c.id FROM c WHERE "+c[0], texts(t), 0); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
}

// TestRank checks the order of items by scores and by combinations of scores, and the pages of these queries.
func TestRank(t *testing.T) {
	for _, c := range [][2]string{
		{"SELECT TOP 10 VALUE c.id FROM c ORDER BY RANK FullTextScore(c.t, 'red', 'helmet')", "2 1 3 5"},
		{"SELECT TOP 2 VALUE c.id FROM c ORDER BY RANK FullTextScore(c.t, 'mountain')", "3 1"},
		{"SELECT TOP 1 c.id, c.t FROM c ORDER BY RANK FullTextScore(c.t, 'hill')", "{id:3,t:A mountain is not a hill}"},
		{"SELECT VALUE c.id FROM c ORDER BY RANK FullTextScore(c.t, @list)", "3 2 1 5"},
		{"SELECT VALUE c.id FROM c ORDER BY RANK FullTextScore(c.t, ['hill', {term: 'rod', distance: 1}])", "3 2 1 5"},
		{"SELECT VALUE c.id FROM c ORDER BY RANK FullTextScore(c.t, 'hill') OFFSET 1 LIMIT 2", "1 2"},
		{"SELECT VALUE c.id FROM c WHERE FullTextContains(c.t, 'mountain') ORDER BY RANK FullTextScore(c.t, 'red')", "1 3"},
		{"SELECT VALUE c.missing FROM c ORDER BY RANK FullTextScore(c.t, 'red')", ""},
		{"SELECT VALUE c.id FROM c ORDER BY RANK VectorDistance(c.v, @v)", "1 2 4 3"},
		{"SELECT VALUE c.id FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'hill'), VectorDistance(c.v, [1, 0]))", "1 2 3 4 5"},
		{"SELECT VALUE c.id FROM c ORDER BY RANK RRF(VectorDistance(c.v, @v), FullTextScore(c.t, 'hill'), [0, 1])",
			"3 1 2 5 4"},
		{"SELECT TOP 1 VALUE c.id FROM c ORDER BY RANK RRF(VectorDistance(c.v, @v), FullTextScore(c.t, 'hill'), @w)", "1"},
		{"SELECT VALUE c.id FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'red'), FullTextScore(c.t, 'mountain'))",
			"2 3 1 5"},
		{"SELECT rank.id AS rank FROM rank ORDER BY rank.id", "{rank:1} {rank:2} {rank:3} {rank:4} {rank:5}"},
		{"SELECT c.id AS rank FROM c ORDER BY rank DESC", "{rank:5} {rank:4} {rank:3} {rank:2} {rank:1}"},
	} {
		for _, page := range []int{0, 1, 2} {
			if got := results(t, new(Schema), c[0], texts(t), page); got != c[1] {
				t.Errorf("%s in pages of %d: %s, want %s", c[0], page, got, c[1])
			}
		}
	}
}

// TestFullTextErrors checks which calls of full-text functions are rejected.
func TestFullTextErrors(t *testing.T) {
	for _, c := range [][2]string{
		{"SELECT FullTextContains(c.t) FROM c", "it takes 2"},
		{"SELECT FullTextContains(c.t, 'a', 'b') FROM c", "it takes 2"},
		{"SELECT FullTextContains(c.t, c.k) FROM c", "must be constants"},
		{"SELECT FullTextContainsAny(c.t, 'a', 7) FROM c", "must be strings"},
		{"SELECT FullTextContains(c.t, {term: 'a', distance: 3}) FROM c", "must be strings"},
		{"SELECT FullTextContains(c.t, {term: 'a', distance: 1.5}) FROM c", "must be strings"},
		{"SELECT FullTextContains(c.t, {term: 'a'}) FROM c", "must be strings"},
		{"SELECT FullTextContains(c.t, ['a']) FROM c", "must be strings"},
		{"SELECT FullTextScore(c.t, 'a') FROM c", "only in the ORDER BY RANK clause"},
		{"SELECT c.id FROM c WHERE FullTextScore(c.t, 'a') > 1", "only in the ORDER BY RANK clause"},
		{"SELECT c.id FROM c ORDER BY FullTextScore(c.t, 'a')", "only in the ORDER BY RANK clause"},
		{"SELECT RRF(1, 2) FROM c", "only in the ORDER BY RANK clause"},
		{"SELECT c.id FROM c ORDER BY RANK c.id", "requires a call"},
		{"SELECT c.id FROM c ORDER BY RANK FullTextScore(c.t)", "takes 2 or more"},
		{"SELECT c.id FROM c ORDER BY RANK FullTextScore('t', 'a')", "must be a path"},
		{"SELECT c.id FROM c ORDER BY RANK FullTextScore(d.t, 'a')", "must be a path"},
		{"SELECT c.id FROM c ORDER BY RANK FullTextScore(c.t, [])", "1 to 200 keywords"},
		{"SELECT c.id FROM c ORDER BY RANK FullTextScore(c.t, 1)", "must be strings"},
		{"SELECT c.id FROM c ORDER BY RANK FullTextScore(c.t, 'a') DESC", "Syntax error"},
		{"SELECT c.id FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'a'))", "2 to 16 scores"},
		{"SELECT c.id FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'a'), [1])", "2 to 16 scores"},
		{"SELECT c.id FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'a'), c.n)", "last argument of RRF"},
		{"SELECT c.id FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'a'), FullTextScore(c.t, 'b'), [1])",
			"last argument of RRF"},
		{"SELECT c.id FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'a'), RRF(FullTextScore(c.t, 'b')))", "requires a call"},
		{"SELECT c.id FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'a'), VectorDistance(c.v))", "takes 2 to 4"},
		{"SELECT DISTINCT c.id FROM c ORDER BY RANK FullTextScore(c.t, 'a')", "cannot be combined"},
		{"SELECT c.id FROM c GROUP BY c.id ORDER BY RANK FullTextScore(c.t, 'a')", "cannot be combined"},
		{"SELECT c.id FROM c JOIN x IN c.l ORDER BY RANK FullTextScore(c.t, 'a')", "must read whole items"},
		{"SELECT x FROM x IN c.l ORDER BY RANK FullTextScore(x.t, 'a')", "must read whole items"},
		{"SELECT (SELECT VALUE x FROM x IN c.l ORDER BY RANK FullTextScore(x.t, 'a')) FROM c", "in a subquery"},
		{"SELECT c.id FROM c ORDER BY RANK _FullTextScore(c.t, ['a'], 1, 1, [1])", "requires a call"},
		{"SELECT _FullTextScore(c.t, ['a'], 1, c.n, [1]) FROM c", "statistics"},
	} {
		if _, err := Compile(c[0], nil); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %q", c[0], err, c[1])
		}
	}
	if err := new(Schema).AddComputed("p", "SELECT VALUE FullTextContains(c.t, 'a') FROM c"); err == nil {
		t.Error("a computed property calls a full-text function")
	}
}

// TestRankPlan executes a hybrid query as a client does: it fills the placeholders of the plan with the sums of the
// statistics of two ranges, and executes the component queries over each range.
func TestRankPlan(t *testing.T) {
	const query = "SELECT TOP 3 c.id FROM c WHERE c.id != '9' " +
		"ORDER BY RANK RRF(VectorDistance(c.v, @v), FullTextScore(c.t, 'red', 'hill'), [1, 2])"
	parameters := []Parameter{{"@v", parseItem(t, `[1,0]`)}}
	q, err := Compile(query, parameters)
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		Hybrid struct {
			GlobalStatisticsQuery string
			ComponentQueryInfos   []struct {
				RewrittenQuery, Unused      string
				OrderBy, OrderByExpressions []string
				Top                         int
				HasNonStreamingOrderBy      bool
			}
			ComponentWeights         []float64
			Take                     int
			RequiresGlobalStatistics bool
		} `json:"hybridSearchQueryInfo"`
		QueryRanges []PlanRange
	}
	if err := json.Unmarshal(Plan(q, nil), &plan); err != nil {
		t.Fatal(err)
	}
	h := &plan.Hybrid
	if !h.RequiresGlobalStatistics || h.Take != 3 || len(h.ComponentQueryInfos) != 2 || len(plan.QueryRanges) != 1 ||
		fmt.Sprint(h.ComponentWeights) != "[1 2]" {
		t.Fatalf("%s", Plan(q, nil))
	}
	ranges := [][]document.Value{texts(t)[:2], texts(t)[2:]}
	execute := func(text string, items []document.Value) (out []document.Value) {
		part, err := Compile(text, parameters)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if _, err := part.Run(context.Background(), rowsOf(items), Run{}, func(v document.Value) error {
			out = append(out, v.Clone())
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	var statistics []document.Value
	for _, items := range ranges {
		statistics = append(statistics, execute(h.GlobalStatisticsQuery, items)...)
	}
	s := q.bound.ranking.statistics(statistics)[1]
	if fmt.Sprint(s) != "{5 11 [2 1]}" {
		t.Errorf("the statistics are %v: %v", s, statistics)
	}
	var got [2][]document.Value
	for i, c := range h.ComponentQueryInfos {
		text := strings.NewReplacer("{documentdb-formattableorderbyquery-filter}", "true",
			"{documentdb-formattablehybridsearchquery-totaldocumentcount}", fmt.Sprint(s.Documents),
			"{documentdb-formattablehybridsearchquery-totalwordcount-1}", fmt.Sprint(s.Words),
			"{documentdb-formattablehybridsearchquery-hitcountsarray-1}", "[2,1]").Replace(c.RewrittenQuery)
		if !c.HasNonStreamingOrderBy || c.Top != depthMin || len(c.OrderByExpressions) != 1 ||
			c.OrderBy[0] != "Descending" {
			t.Errorf("component %d: %+v", i, c)
		}
		for _, items := range ranges {
			got[i] = append(got[i], execute(text, items)...)
		}
	}
	var ids []string
	for _, v := range q.bound.ranking.fuse(got[:])[:3] {
		ids = append(ids, v.Get("payload").Get("payload").Get("id").Str())
	}
	direct := results(t, nil, query, texts(t), 0)
	if merged := fmt.Sprintf("{id:%s}", strings.Join(ids, "} {id:")); merged != direct {
		t.Errorf("the client's result is %s, want %s", merged, direct)
	}
	const euclidean = "VectorDistance(c.v, [1], true, {distanceFunction: 'euclidean'})"
	for text, want := range map[string]string{
		"SELECT c.id FROM c ORDER BY RANK " + euclidean:                             "Ascending",
		"SELECT c.id FROM c ORDER BY RANK FullTextScore(c.t, 'a') OFFSET 2 LIMIT 3": `"take":3`,
		"SELECT * FROM c ORDER BY RANK FullTextScore(c.t, 'b')":                     `"take":null`,
	} {
		q, err := Compile(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if plan := string(Plan(q, nil)); !strings.Contains(plan, want) {
			t.Errorf("%s: %s", text, plan)
		}
		if again, err := Compile(q.String(), nil); err != nil || again.String() != q.String() {
			t.Errorf("%s was printed as %s (%v)", text, q, err)
		}
	}
}

// TestFullTextBounds checks that the work and the memory of long texts and many keywords are counted.
func TestFullTextBounds(t *testing.T) {
	long := parseItem(t, `{"t":"`+strings.Repeat("zyxwvutsr ", 20_000)+`"}`)
	many := strings.Repeat("'zyxwvutsr a', ", 9999) + "'a'"
	fuzzy := ""
	for i := range 100 {
		fuzzy += fmt.Sprintf("{'term':'zyx%03dabc','distance':2}, ", i)
	}
	fuzzy += "'a'"
	for _, c := range []struct {
		text         string
		steps, bytes int64
		want         string
	}{
		{"FullTextContains(c.t, 'a')", 100_000, 0, "exceeds"},
		{"FullTextContains(c.t, 'a')", 0, 1 << 20, "memory"},
		{"FullTextContainsAny(c.t, " + many + ")", 0, 0, ""},
		{"FullTextContainsAny(c.t, " + fuzzy + ")", 1_000_000, 0, "exceeds"},
	} {
		q, err := Compile("SELECT VALUE 1 FROM c WHERE "+c.text, nil)
		if err != nil {
			t.Fatal(err)
		}
		m := meter.New(context.Background(), meter.Limits{Steps: c.steps, Bytes: c.bytes})
		_, err = q.Run(context.Background(), rowsOf([]document.Value{long}), Run{Meter: m}, func(document.Value) error {
			return nil
		})
		m.Close()
		if c.want == "" && err != nil || c.want != "" && err == nil {
			t.Errorf("%.60s: %v, want %q", c.text, err, c.want)
		}
	}
}
