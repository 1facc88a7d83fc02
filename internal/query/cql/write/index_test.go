// SPDX-License-Identifier: Apache-2.0

package write

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/vector"
)

// TestListUpdateAddsKeyEntries checks a list update that the leader resolves and that may create the row. The update
// must write the same entries for indexes on key columns as a plain append.
func TestListUpdateAddsKeyEntries(t *testing.T) {
	w := newFixture(t)
	for _, text := range []string{
		"CREATE TABLE t (a int, b int, c int, l list<text>, s list<text> static, PRIMARY KEY ((a, b), c))",
		"CREATE INDEX av ON t (a)", "CREATE INDEX cv ON t (c)",
		"CREATE CUSTOM INDEX bv ON t (b) USING 'sai'", "CREATE CUSTOM INDEX dv ON t (c) USING 'sai'",
	} {
		w.mustDDL(t, text)
	}
	k := &keeper{fixture: w}
	w.executor = NewExecutor(k, Options{})
	entries := func(text string) []string {
		t.Helper()
		if o := w.execute(text, w.request()); o.Err != nil {
			t.Fatalf("%s: %v", text, o.Err)
		}
		c := k.sent[0]
		k.sent = nil
		planned := entriesIn(&c.Mutation)
		if err := Replan(w.catalog.Snapshot(), &c); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(planned, entriesIn(&c.Mutation)); diff != "" {
			t.Errorf("%s (-planned +planned again):\n%s", text, diff)
		}
		return planned
	}
	const row, static = " WHERE a = 1 AND b = 2 AND c = 3", " WHERE a = 1 AND b = 2"
	for _, c := range []struct{ like, text string }{
		{"UPDATE t SET l = l + ['x']" + row, "UPDATE t SET l = l - ['q'], l = l + ['x']" + row},
		{"UPDATE t SET l = l + ['x']" + row, "UPDATE t SET l = l + ['x'], l = l - ['q']" + row},
		{"UPDATE t SET l = l + ['x']" + row, "UPDATE t SET l = ['x'] + l, l = l - ['q']" + row},
		{"UPDATE t SET l = l + ['x']" + row, "UPDATE t SET l = l - ['q'], l = l + ['x']" + row + " IF l = null"},
		{"UPDATE t SET s = s + ['x']" + static, "UPDATE t SET s = s - ['q'], s = s + ['x']" + static},
	} {
		want := entries(c.like)
		if len(want) == 0 {
			t.Fatalf("%s writes no entries", c.like)
		}
		if diff := cmp.Diff(want, entries(c.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.text, diff)
		}
	}
	if got := entries("UPDATE t SET l = l - ['q']" + row); !slices.Equal(got, nil) {
		t.Errorf("removing elements writes the entries %v", got)
	}
}

// TestReplanAddsAllLists checks a batch part that is replanned while a vector index is being rebuilt with new lists.
// The part must also have entries for the old lists, because searches use the old lists until the build is complete.
func TestReplanAddsAllLists(t *testing.T) {
	w := newFixture(t)
	w.mustDDL(t, "CREATE TABLE near (k int PRIMARY KEY, v vector<float, 2>)")
	w.mustDDL(t, "CREATE CUSTOM INDEX nv ON near (v) USING 'sai'")
	var lists schema.Lists
	for _, generation := range []uint32{2, 1} {
		l := vector.NewLists(vector.Cosine, 2)
		l.Generation = generation
		lists = append(lists, l)
	}
	id := w.catalog.Snapshot().Table("ks", "near").Indexes["nv"].ID
	if _, _, err := w.Apply(t.Context(), &schema.SetLists{Index: id, Lists: lists}, ""); err != nil {
		t.Fatal(err)
	}
	k := &keeper{fixture: w}
	w.executor = NewExecutor(k, Options{})
	if o := w.execute("INSERT INTO near (k, v) VALUES (1, [1, 2])", w.request()); o.Err != nil {
		t.Fatal(o.Err)
	}
	c := k.sent[0]
	planned := entriesIn(&c.Mutation)
	if err := Replan(w.catalog.Snapshot(), &c); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(planned, entriesIn(&c.Mutation)); diff != "" || len(planned) != 2 {
		t.Errorf("%d entries (-planned +planned again):\n%s", len(planned), diff)
	}
}
