// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/document"
)

// lawQueries contains a query for each kind of evaluation and some combinations of kinds.
var lawQueries = []string{
	"SELECT * FROM c",
	"SELECT VALUE c.a FROM c WHERE c.a > 1",
	"SELECT c.id, t FROM c JOIN t IN c.t WHERE t != 2",
	"SELECT VALUE c.id FROM c OFFSET 3 LIMIT 7",
	"SELECT TOP 4 VALUE c.id FROM c WHERE IS_DEFINED(c.a)",
	"SELECT VALUE [c.id, c.a] FROM c ORDER BY c.a",
	"SELECT VALUE [c.id, c.a, c.b] FROM c ORDER BY c.a DESC, c.b",
	"SELECT VALUE c.id FROM c ORDER BY c.b DESC OFFSET 2 LIMIT 5",
	"SELECT c.id, t FROM c JOIN t IN c.t ORDER BY t",
	"SELECT DISTINCT VALUE c.a FROM c",
	"SELECT DISTINCT c.a, c.b FROM c ORDER BY c.a OFFSET 1 LIMIT 4",
	"SELECT DISTINCT TOP 3 VALUE t FROM c JOIN t IN c.t",
	"SELECT COUNT(1) AS n, SUM(c.n) AS s, AVG(c.n) AS a, MIN(c.a) AS lo, MAX(c.a) AS hi, COUNT(c.a) AS d, COUNTIF(c.n > 0) AS i FROM c",
	"SELECT c.a, COUNT(1) AS n, SUM(c.n) AS s FROM c GROUP BY c.a",
	"SELECT c.a, c.b, MIN(c.id) AS m FROM c GROUP BY c.a, c.b ORDER BY c.b DESC OFFSET 1 LIMIT 6",
	"SELECT DISTINCT VALUE COUNT(1) FROM c GROUP BY c.a",
}

// randomItems draws items whose properties are often missing and have various types.
func randomItems(t *rapid.T) []document.Value {
	scalar := rapid.SampledFrom([]string{"", "null", "true", "false", "0", "1", "1.0", "2", "3.5", `"1"`, `"x"`, `"é"`,
		"[1]", "[1,2]", `{"k":1}`})
	var out []document.Value
	for i := range rapid.IntRange(0, 25).Draw(t, "items") {
		var b strings.Builder
		fmt.Fprintf(&b, `{"id":"%d"`, i)
		for _, name := range []string{"a", "b"} {
			if s := scalar.Draw(t, name); s != "" {
				fmt.Fprintf(&b, `,"%s":%s`, name, s)
			}
		}
		if n := rapid.IntRange(-5, 5).Draw(t, "n"); n != 5 {
			fmt.Fprintf(&b, `,"n":%d`, n)
		}
		if n := rapid.IntRange(-1, 3).Draw(t, "t"); n >= 0 {
			fmt.Fprintf(&b, `,"t":%s`, []string{"[]", "[1]", "[2,1]", "[1,1,3]"}[n])
		}
		v, _ := document.Parse([]byte(b.String()+"}"), document.Limits{})
		out = append(out, v)
	}
	return out
}

// runAll returns all results of a query.
func runAll(t *rapid.T, q *Query, items []document.Value, run Run) (results []string, next *Continuation) {
	source := func(yield func(Row, error) bool) {
		for r := range rowsOf(items) {
			if r.Place >= run.After.Start() && !yield(r, nil) {
				return
			}
		}
	}
	next, err := q.Run(context.Background(), source, run, func(v document.Value) error {
		results = append(results, v.String())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return results, next
}

func mustCompile(t interface{ Fatal(...any) }, text string, params ...Parameter) *Query {
	q, err := Compile(text, params)
	if err != nil {
		t.Fatal(text, err)
	}
	return q
}

// TestPartsMerge checks QS3. The merged partial results of any number of collectors in any order must equal the
// results of one run over all items. The key of a group may be printed as either 1 or 1.0.
func TestPartsMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := randomItems(t)
		q := mustCompile(t, rapid.SampledFrom(lawQueries).Draw(t, "query"))
		run := Run{Page: rapid.SampledFrom([]int{0, 1, 3, 100}).Draw(t, "page")}
		want, wantNext := runAll(t, q, items, run)
		parts := make([]*Collector, rapid.IntRange(1, 4).Draw(t, "parts"))
		for i := range parts {
			parts[i], _ = q.Collect(context.Background(), run)
		}
		for r := range rowsOf(items) {
			if _, err := rapid.SampledFrom(parts).Draw(t, "part").Add(r); err != nil {
				t.Fatal(err)
			}
		}
		whole, _ := q.Collect(context.Background(), run)
		for _, p := range rapid.Permutation(parts).Draw(t, "order") {
			if err := whole.Merge(p.Partial()); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		next, err := whole.Finish(func(v document.Value) error {
			got = append(got, v.String())
			return nil
		})
		// A page may end before items without results. A run over all items knows that no further results follow.
		all, _ := runAll(t, q, items, Run{})
		ended := next == nil && (wantNext == nil || len(all) == len(got))
		if err != nil || !slices.EqualFunc(got, want, same) || next == nil != ended || next != nil && wantNext == nil {
			t.Fatalf("%s over %v\n got %v, more %v, %v\nwant %v, more %v", q, items, got, next != nil, err, want,
				wantNext != nil)
		}
	})
}

// same reports whether two texts represent equal values.
func same(a, b string) bool {
	return document.Equal(document.View([]byte(a)), document.View([]byte(b)))
}

// TestPagesAreTheWhole checks QS5. Pages of any size, with pauses of the source, must contain each result exactly
// once.
func TestPagesAreTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := randomItems(t)
		q := mustCompile(t, rapid.SampledFrom(lawQueries).Draw(t, "query"))
		allPages(t, q, items, func(after *Continuation) (Run, func(func(Row, error) bool)) {
			pause := rapid.IntRange(1, 30).Draw(t, "pause")
			source := func(yield func(Row, error) bool) {
				n := 0
				for r := range rowsOf(items) {
					if r.Place < after.Start() {
						continue
					}
					if n++; n > pause+1 && q.Streams() {
						yield(Row{}, ErrPause)
						return
					}
					if !yield(r, nil) {
						return
					}
				}
			}
			return Run{Page: rapid.IntRange(1, 5).Draw(t, "page"), After: after}, source
		})
	})
}

// allPages runs a query page by page. The function page returns the source of each page. allPages fails unless the
// pages together contain the results of one run over all items.
func allPages(t *rapid.T, q *Query, items []document.Value,
	page func(after *Continuation) (Run, func(func(Row, error) bool))) {
	want, _ := runAll(t, q, items, Run{})
	var got []string
	var after *Continuation
	for range 200 {
		run, source := page(after)
		next, err := q.Run(context.Background(), source, run, func(v document.Value) error {
			got = append(got, v.String())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if next == nil {
			if !slices.Equal(got, want) {
				t.Fatalf("%s over %v\n got %v\nwant %v", q, items, got, want)
			}
			return
		}
		if after, err = ParseContinuation(next.String()); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("%s does not end", q)
}

// TestOrderIsTotal checks that ORDER BY returns each item with the property once, ordered by type and value.
func TestOrderIsTotal(t *testing.T) {
	up := mustCompile(t, "SELECT VALUE c FROM c ORDER BY c.a")
	down := mustCompile(t, "SELECT VALUE c FROM c ORDER BY c.a DESC")
	rapid.Check(t, func(t *rapid.T) {
		items := randomItems(t)
		defined := 0
		for _, v := range items {
			if v.Get("a").IsDefined() {
				defined++
			}
		}
		for i, q := range []*Query{up, down} {
			results, _ := runAll(t, q, items, Run{})
			if len(results) != defined {
				t.Fatalf("%d results of %d items", len(results), defined)
			}
			for j := 1; j < len(results); j++ {
				c := document.Compare(document.View([]byte(results[j-1])).Get("a"),
					document.View([]byte(results[j])).Get("a"))
				if i == 0 && c > 0 || i == 1 && c < 0 {
					t.Fatalf("%s before %s", results[j-1], results[j])
				}
			}
		}
	})
}

// may reports whether an item has the properties of a filter.
func (f *Filter) may(v document.Value) bool {
	switch f.Op {
	case "AND":
		return !slices.ContainsFunc(f.Of, func(of *Filter) bool { return !of.may(v) })
	case "OR":
		return slices.ContainsFunc(f.Of, func(of *Filter) bool { return of.may(v) })
	}
	for _, s := range f.Path {
		if v = v.Get(s.Name); s.Elements {
			return true
		}
	}
	return v.IsDefined()
}

// TestKeysLeaveNothingOut checks that each item that satisfies the WHERE clause has one of the keys and satisfies the
// filter.
func TestKeysLeaveNothingOut(t *testing.T) {
	where := []string{"c.a = 1", "c.a = '1'", "c.a IN (1, 'x', true)", "c.a IN (2) AND c.b = 1",
		"(c.a = 1 AND c.b = 2) OR (c.a = 'x')",
		"IS_NULL(c.a)", "NOT IS_DEFINED(c.a) AND c.b = 1", "c.a = 1 OR c.b = 1", "c.n > 1 AND c.a = null",
		"c.a = {'k': 1}", "c.a = [1]",
		"c.a = 1 AND c.a = 2", "c.a BETWEEN 1 AND 3 AND STARTSWITH(c.b, 'x')"}
	paths := []document.Path{{"a"}, {"b"}}
	rapid.Check(t, func(t *rapid.T) {
		q := mustCompile(t, "SELECT VALUE c FROM c WHERE "+rapid.SampledFrom(where).Draw(t, "where"))
		keys, pinned := q.Keys(paths)
		results, _ := runAll(t, q, randomItems(t), Run{})
		for _, text := range results {
			v := document.View([]byte(text))
			if pinned && !slices.ContainsFunc(keys, func(k Key) bool {
				for i, c := range k.Components {
					if !document.Equal(c, paths[i].KeyOf(v)) {
						return false
					}
				}
				return !k.HasID || v.Get("id").Str() == k.ID
			}) {
				t.Fatalf("%s has none of the keys %v of %s", text, keys, q)
			}
			if f := q.Filter(); f != nil && !f.may(v) {
				t.Fatalf("%s does not satisfy %v of %s", text, filterText(f), q)
			}
		}
	})
}
