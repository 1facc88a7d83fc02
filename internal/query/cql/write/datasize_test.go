// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestDataSizes compares batch sizes with sizes that were measured in Cassandra 5.0.5. Each batch also contains a row
// of 6,070 bytes in a different partition. The size of this row is subtracted from the batch size.
func TestDataSizes(t *testing.T) {
	w := newFixture(t)
	for _, s := range []string{"CREATE TYPE ks.u (a int, b text)", "CREATE TABLE ks.b (k text PRIMARY KEY, v text)",
		"CREATE TABLE ks.t (k text, c text, d int, s text static, i int, x text, l list<text>, st set<text>, " +
			"m map<text, int>, u u, f frozen<list<text>>, PRIMARY KEY (k, c, d))",
		"CREATE TABLE ks.cs (k text PRIMARY KEY, v text) WITH COMPACT STORAGE",
		"CREATE TABLE ks.cc (k text, c text, v text, PRIMARY KEY (k, c)) WITH COMPACT STORAGE",
		"CREATE TABLE ks.n (k text, c text, n counter, o counter, PRIMARY KEY (k, c))"} {
		w.mustDDL(t, s)
	}
	e := NewExecutor(w, Options{BatchBytesMax: 60000})
	pad := "INSERT INTO b (k, v) VALUES ('a', '" + strings.Repeat("x", 6000) + "')"
	const where = " WHERE k = 'b' AND c = 'c' AND d = 1"
	shown := regexp.MustCompile(`of size (\d+)`)
	for text, want := range map[string]int{
		"INSERT INTO b (k, v) VALUES ('b', '')":                                               70,
		"INSERT INTO b (k) VALUES ('b')":                                                      50,
		"UPDATE b SET v = 'abc' WHERE k = 'b'":                                                73,
		"UPDATE b SET v = null WHERE k = 'b'":                                                 70,
		"UPDATE b USING TTL 100 SET v = '' WHERE k = 'b'":                                     70,
		"INSERT INTO b (k, v) VALUES ('b', '') USING TTL 100":                                 82,
		"DELETE FROM b WHERE k = 'b'":                                                         29,
		"DELETE FROM t WHERE k = 'b' AND c = 'c'":                                             47,
		"DELETE FROM t" + where:                                                               55,
		"DELETE FROM t WHERE k = 'b' AND c > 'c'":                                             46,
		"DELETE FROM t WHERE k = 'b' AND c > 'c' AND c < 'dd'":                                48,
		"INSERT INTO t (k, c, d) VALUES ('bbbb', 'cccc', 1)":                                  58,
		"INSERT INTO t (k, c, d, s) VALUES ('b', 'c', 1, '')":                                 75,
		"INSERT INTO t (k, s) VALUES ('b', '')":                                               49,
		"INSERT INTO t (k, c, d, l) VALUES ('b', 'c', 1, ['', '', 'abc'])":                    178,
		"UPDATE t SET l = l + ['', '']" + where:                                               139,
		"UPDATE t USING TTL 100 SET l = ['']" + where:                                         103,
		"UPDATE t SET st = st + {'abc'}" + where:                                              90,
		"UPDATE t SET st = null" + where:                                                      67,
		"UPDATE t SET m['abc'] = 1" + where:                                                   94,
		"DELETE m['abc'] FROM t" + where:                                                      90,
		"INSERT INTO t (k, c, d, m) VALUES ('b', 'c', 1, {'a': 1, 'b': 2})":                   117,
		"INSERT INTO t (k, c, d, u) VALUES ('b', 'c', 1, {a: 1, b: 'x'})":                     116,
		"UPDATE t SET u.b = 'x'" + where:                                                      90,
		"INSERT INTO t (k, c, d, f) VALUES ('b', 'c', 1, [''])":                               83,
		"INSERT INTO cs (k, v) VALUES ('b', '')":                                              49,
		"DELETE FROM cs WHERE k = 'b'":                                                        29,
		"INSERT INTO cc (k, c, v) VALUES ('b', 'c', '')":                                      71,
		"UPDATE b SET v = '' WHERE k = 'b'; UPDATE b SET v = 'abc' WHERE k = 'b'":             73,
		"INSERT INTO b (k, v) VALUES ('b', ''); INSERT INTO t (k, c, d) VALUES ('b', 'c', 1)": 125,
		"DELETE FROM t WHERE k = 'b' AND c = 'c'; DELETE FROM t WHERE k = 'b' AND c = 'd'":    61,
	} {
		o, size := &outcome{}, -1
		e.ExecuteItems(context.Background(), 0, items(t, w, pad+"; "+text), w.request(), o)
		if m := shown.FindStringSubmatch(strings.Join(o.Warnings, "\n")); o.Err == nil && m != nil {
			size, _ = strconv.Atoi(m[1])
		}
		if size != 6070+want {
			t.Errorf("%s: %d, want %d (%v)", text, size-6070, want, o.Err)
		}
	}
	o, many := &outcome{}, []string(nil)
	for i := range 100 {
		many = append(many, "UPDATE n SET n = n + 1, o = o + 1 WHERE k = '"+strconv.Itoa(i)+"' AND c = 'ccc'")
	}
	e.ExecuteItems(context.Background(), 2, items(t, w, strings.Join(many, "; ")), w.request(), o)
	if got := strings.Join(o.Warnings, "\n"); !strings.Contains(got, "of size 16500,") {
		t.Errorf("counters: %q, %v", got, o.Err)
	}
}

// items parses statements and returns them as batch items.
func items(t *testing.T, w *fixture, text string) (out []BatchItem) {
	t.Helper()
	for _, s := range strings.Split(text, "; ") {
		plan, err := w.prepare(s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		out = append(out, BatchItem{Plan: plan})
	}
	return out
}
