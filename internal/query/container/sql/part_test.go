// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/document"
)

// partOf returns the partial result of rows. The result may omit the last rows if the query does not need them.
func partOf(t *rapid.T, q *Query, run Run, rows []Row) Row {
	p, err := q.Part(context.Background(), run)
	if err != nil {
		t.Fatal(err)
	}
	last := rows[0].Place
	for _, r := range rows {
		r.Ordered = !q.Sorts()
		last = r.Place
		more, err := p.Add(r)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
	}
	return Row{Place: last, Partial: p.Partial()}
}

// TestPartsAreTheWhole checks that any combination of single items and partial results yields the same text as one run
// over all items, with pages of any size and with pauses. A part that needs no more items must contain all results that
// the page can use.
func TestPartsAreTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := randomItems(t)
		q := mustCompile(t, rapid.SampledFrom(lawQueries).Draw(t, "query"))
		if !q.Parts() {
			t.Fatalf("%s has no parts", q)
		}
		var rows []Row
		for r := range rowsOf(items) {
			rows = append(rows, r)
		}
		allPages(t, q, items, func(after *Continuation) (Run, func(func(Row, error) bool)) {
			run := Run{Page: rapid.IntRange(1, 6).Draw(t, "page"), After: after}
			return run, func(yield func(Row, error) bool) {
				left := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Place < after.Start() })
				for first := true; len(left) > 0; first = false {
					if !first && q.Streams() && rapid.IntRange(0, 3).Draw(t, "pause") == 0 {
						yield(Row{}, ErrPause)
						return
					}
					if n := rapid.IntRange(0, len(left)).Draw(t, "part"); n > 0 {
						part := partOf(t, q, run, left[:n])
						if !yield(part, nil) {
							return
						}
						left = slices.DeleteFunc(left, func(r Row) bool { return r.Place <= part.Place })
						continue
					}
					if !yield(left[0], nil) {
						return
					}
					left = left[1:]
				}
			}
		})
	})
}

// TestBare checks which queries return the same results for items without system properties.
func TestBare(t *testing.T) {
	for text, want := range map[string]bool{
		"SELECT VALUE COUNT(1) FROM c":                                         true,
		"SELECT c.a, SUM(c.b.n) AS s FROM c WHERE c.x = 1 GROUP BY c.a":        true,
		"SELECT VALUE t FROM c JOIN t IN c.tags WHERE c['a'] > 1 ORDER BY c.n": true,
		"SELECT VALUE t FROM t IN c.tags":                                      true,
		"SELECT VALUE x.a FROM x":                                              true,
		"SELECT VALUE EXISTS(SELECT VALUE 1 FROM t IN c.tags) FROM c":          true,
		"SELECT * FROM c":                                                false,
		"SELECT VALUE c FROM c":                                          false,
		"SELECT * FROM c.a":                                              true,
		"SELECT c FROM c WHERE c.a = 1":                                  false,
		"SELECT VALUE c.a FROM c WHERE c._ts > 1":                        false,
		"SELECT VALUE c.a FROM c ORDER BY c._ts":                         false,
		"SELECT VALUE c['_etag'] FROM c":                                 false,
		"SELECT VALUE c[CONCAT('_', 'ts')] FROM c":                       false,
		"SELECT VALUE MAX(c._ts) FROM c":                                 false,
		"SELECT VALUE x FROM x IN c":                                     false,
		"SELECT VALUE t FROM t IN c._rid":                                false,
		"SELECT VALUE d.a FROM (SELECT VALUE c FROM c) d":                false,
		"SELECT VALUE ARRAY_LENGTH(ARRAY(SELECT VALUE c)) FROM c":        false,
		"SELECT VALUE EXISTS(SELECT VALUE 1 WHERE c._ts > 0) FROM c":     false,
		"SELECT VALUE {'a': c.a, 'b': (SELECT VALUE c.b._ts)} FROM c":    true,
		"SELECT VALUE c.a FROM c WHERE IS_OBJECT(c)":                     false,
		"SELECT VALUE ROOT.a FROM ROOT WHERE ROOT.a > 1 ORDER BY ROOT.b": true,
	} {
		if got := mustCompile(t, text).Bare(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestPartsAreBounded checks that a part fails if one item has too many rows. The part must report Enough if many items
// together have too many rows or use too much memory. Queries with user-defined functions must not have parts.
func TestPartsAreBounded(t *testing.T) {
	large := make([]document.Value, 2000)
	for i := range large {
		large[i] = document.NumberValue(float64(i))
	}
	of := func(elements []document.Value) document.Value {
		return document.ObjectValue([]document.Member{{Name: "t", Value: document.ArrayValue(elements)}})
	}
	begin := func(text string) *Collector {
		c, err := mustCompile(t, text).Part(context.Background(), Run{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := begin("SELECT VALUE COUNT(1) FROM c JOIN x IN c.t JOIN y IN c.t")
	if _, err := c.Add(Row{Item: of(large)}); err == nil {
		t.Error("four million rows of one item are evaluated")
	}
	c = begin("SELECT VALUE COUNT(1) FROM c JOIN x IN c.t")
	n := 0
	for ; !c.Enough() && n < 1000; n++ {
		if _, err := c.Add(Row{Item: of(large)}); err != nil {
			t.Fatal(err)
		}
	}
	if n < 2 || n == 1000 {
		t.Errorf("it has enough after %d items", n)
	}
	c = begin("SELECT VALUE x FROM c JOIN x IN c.t ORDER BY x")
	for n = 0; !c.Enough() && n < 1000; n++ {
		if _, err := c.Add(Row{Item: of(large[:1000])}); err != nil {
			t.Fatal(err)
		}
	}
	if n < 2 || n > 100 {
		t.Errorf("it keeps the rows of %d items", n)
	}
	if mustCompile(t, "SELECT VALUE udf.f(c.a) FROM c").Parts() || mustCompile(t, "SELECT VALUE 1").Parts() {
		t.Error("functions are called elsewhere")
	}
}
