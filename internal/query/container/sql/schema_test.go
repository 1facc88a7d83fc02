// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
)

// properties returns computed properties from pairs of a name and a query.
func properties(t *testing.T, pairs ...string) *Schema {
	t.Helper()
	c := new(Schema)
	for i := 0; i < len(pairs); i += 2 {
		if err := c.AddComputed(pairs[i], pairs[i+1]); err != nil {
			t.Fatal(pairs[i], err)
		}
	}
	return c
}

// TestComputed checks that computed properties have their values in every clause, and that they hide stored properties
// except in SELECT *.
func TestComputed(t *testing.T) {
	t.Parallel()
	computed := properties(t,
		"lower", "SELECT VALUE LOWER(c.name) FROM c",
		"name", "SELECT VALUE CONCAT(x.name, '!') FROM items x",
		"size", "SELECT VALUE {w: root.w, h: root.w * 2} FROM root",
		"tags", "SELECT VALUE StringSplit(c.list, ',') FROM c",
		"month", "SELECT VALUE DateTimePart('m', TimestampToDateTime(c._ts * 1000)) FROM c",
		"nothing", "SELECT VALUE c.nothing FROM c")
	items := []document.Value{parseItem(t, `{"id":"1","name":"Ada","w":1,"list":"a,b","_ts":1700000000}`),
		parseItem(t, `{"id":"2","name":"bob","w":2,"list":"b","_ts":1702592000,"nothing":1}`)}
	const ada = `{"id":"1","name":"Ada","w":1,"list":"a,b","_ts":1700000000}`
	for _, c := range [][2]string{
		{"SELECT c.lower, c.name FROM c", `{"lower":"ada","name":"Ada!"} {"lower":"bob","name":"bob!"}`},
		{"SELECT VALUE c FROM c WHERE c.lower = 'ada'", ada},
		{"SELECT * FROM c WHERE c['lower'] = 'ada'", ada},
		{"SELECT VALUE p.size.h FROM products p", `2 4`},
		{"SELECT VALUE c.id FROM c ORDER BY c.size.w DESC", `"2" "1"`},
		{"SELECT c.month, COUNT(1) AS n FROM c GROUP BY c.month",
			`{"month":11,"n":1} {"month":12,"n":1}`},
		{"SELECT VALUE t FROM c JOIN t IN c.tags", `"a" "b" "b"`},
		{"SELECT VALUE t FROM t IN c.tags", `"a" "b" "b"`},
		{"SELECT VALUE s.h FROM c.size s", `2 4`},
		{"SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(c.tags,'a')", `"1"`},
		{"SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 'a')", `"1"`},
		{"SELECT VALUE SUM(c.size.w) FROM c", `3`},
		{"SELECT VALUE c.nothing FROM c", `1`},
		{"SELECT VALUE c.w.lower FROM c", ``},
		{"SELECT VALUE x.lower FROM (SELECT VALUE {lower: 'X'} FROM c) x", `"X" "X"`},
	} {
		query, want := c[0], c[1]
		q, err := computed.Compile(query, nil)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		var got []string
		if _, err := q.Run(context.Background(), rowsOf(items), Run{}, func(v document.Value) error {
			got = append(got, v.String())
			return nil
		}); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s (%v)", query, strings.Join(got, " "), want, err)
		}
		if strings.Contains(query, "c.w.lower") || strings.HasPrefix(query, "SELECT VALUE x.") {
			continue
		}
		// The index contains only stored properties.
		if q.Filter() != nil || q.SortPaths() != nil {
			t.Errorf("%s: an index serves it: %+v, %v", query, q.Filter(), q.SortPaths())
		}
	}
	// An index can still serve conditions on stored properties.
	q, err := computed.Compile("SELECT VALUE c.lower FROM c WHERE c.w = 1 AND c.name = 'Ada!'", nil)
	if err != nil {
		t.Fatal(err)
	}
	if f := q.Filter(); f == nil || f.Op != "=" || f.Path[0].Name != "w" {
		t.Errorf("the filter of a stored and a computed property is %+v", f)
	}
	if keys, ok := q.Keys([]document.Path{{"name"}}); ok {
		t.Errorf("a computed property restricts the partition key to %v", keys)
	}
	bare, err := computed.Compile("SELECT VALUE c.month FROM c", nil)
	if err != nil || bare.Bare() {
		t.Errorf("a query does not read _ts, which its computed property needs (%v)", err)
	}
}

// TestComputedDefinitions checks which definitions are rejected.
func TestComputedDefinitions(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"SELECT VALUE":                              "Syntax error",
		"SELECT c.a FROM c":                         "the form SELECT VALUE",
		"SELECT * FROM c":                           "the form SELECT VALUE",
		"SELECT VALUE 1":                            "the form SELECT VALUE",
		"SELECT VALUE c.a FROM c WHERE c.a":         "the form SELECT VALUE",
		"SELECT VALUE t FROM c JOIN t IN c.t":       "the form SELECT VALUE",
		"SELECT VALUE t FROM t IN c.t":              "the form SELECT VALUE",
		"SELECT VALUE a FROM c.a":                   "the form SELECT VALUE",
		"SELECT TOP 1 VALUE c.a FROM c":             "the form SELECT VALUE",
		"SELECT DISTINCT VALUE c.a FROM c":          "the form SELECT VALUE",
		"SELECT VALUE c.a FROM c OFFSET 0 LIMIT 1":  "the form SELECT VALUE",
		"SELECT VALUE c.a FROM c ORDER BY c.a":      "the form SELECT VALUE",
		"SELECT VALUE c.a FROM c GROUP BY c.a":      "the form SELECT VALUE",
		"SELECT VALUE SUM(c.a) FROM c":              "the form SELECT VALUE",
		"SELECT VALUE (SELECT VALUE 1) FROM c":      "cannot contain a subquery",
		"SELECT VALUE ALL(SELECT VALUE 1) FROM c":   "cannot contain a subquery",
		"SELECT VALUE c.a + @p FROM c":              "cannot contain a parameter",
		"SELECT VALUE [udf.f(c.a)] FROM c":          "cannot call 'f'",
		"SELECT VALUE c.a + rand() FROM c":          "cannot call 'rand'",
		"SELECT VALUE GetCurrentTicks() FROM c":     "cannot call 'GetCurrentTicks'",
		"SELECT VALUE ST_DISTANCE(c.a, c.b) FROM c": "cannot call 'ST_DISTANCE'",
		"SELECT VALUE d.a FROM c":                   "could not be resolved",
		"SELECT VALUE NOSUCH(c.a) FROM c":           "not a recognized",
		"SELECT VALUE c.a FROM c -- twice":          "more than once",
	} {
		c := properties(t, "twice", "SELECT VALUE 1 FROM c")
		name := "p"
		if strings.Contains(query, "twice") {
			name = "twice"
		}
		if err := c.AddComputed(name, query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}
