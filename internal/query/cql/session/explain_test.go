// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// explainedAs is a result row of EXPLAIN. The value -1 represents an unknown price.
type explainedAs struct {
	plan, index          string
	partitions           int
	least, likely, most  float64
	charged              float64
	warnings             []string
	failure              error
	planOnly, mostUnsure bool
}

func (w *fixture) explain(r Request) (e explainedAs) {
	r.Payload = []Payload{{Key: []byte("RequestCharge"), Value: []byte{1}}}
	method := (*Session).Query
	if r.Text == nil {
		method = (*Session).Execute
	}
	out := w.run(w.client, method, r)
	e.failure, e.warnings, e.charged = out.Err, out.Warnings, chargeOf(out)
	if out.Err != nil {
		return e
	}
	c := cells(out)
	number := func(s string) float64 {
		if s == "null" {
			return -1
		}
		return math.Float64frombits(binary.BigEndian.Uint64([]byte(s)))
	}
	e.plan, e.index = c[0], c[1]
	if e.planOnly = c[2] == "null"; !e.planOnly {
		e.partitions = int(binary.BigEndian.Uint32([]byte(c[2])))
	}
	e.least, e.likely, e.most = number(c[3]), number(c[4]), number(c[5])
	e.mostUnsure = c[5] == "null"
	return e
}

// TestExplain checks the description, the index, the number of physical partitions, and the price that EXPLAIN returns.
// It also checks that EXPLAIN has no effect and the expected cost.
func TestExplain(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int, c int, v text, s text static, n int, PRIMARY KEY (k, c))")
	w.query(t, "CREATE INDEX by_n ON ks.t (n)")
	w.query(t, "CREATE TABLE ks.counters (k int PRIMARY KEY, n counter)")
	w.query(t, "CREATE TABLE ks.lists (k int PRIMARY KEY, l list<int>, n int)")
	w.query(t, "INSERT INTO ks.lists (k, l) VALUES (1, [1, 2])")
	kb := strings.Repeat("v", 1000)
	for c := range 10 {
		w.query(t, "INSERT INTO ks.t (k, c, v, n) VALUES (1, "+string(rune('0'+c))+", '"+kb+"', 7)")
	}
	for _, c := range []struct {
		text         string
		level        dberr.Consistency
		plan, index  string
		partitions   int
		least, most  float64
		cost, likely float64
		size         int32
	}{
		{text: "SELECT v FROM ks.t WHERE k = 1 AND c = 1", plan: "one row of ks.t: k = 1 AND c = 1", partitions: 1,
			least: 1, most: 1, cost: 1},
		{text: "SELECT v FROM ks.t WHERE k = 1 AND c = 1", level: dberr.Serial, partitions: 1, least: 2, most: 2,
			plan: "one row of ks.t: k = 1 AND c = 1", cost: 1},
		{text: "SELECT v FROM ks.t WHERE k = 1 AND c > 4", plan: "a slice of one partition of ks.t: k = 1 AND c > 4",
			partitions: 1, least: 1.458, most: 1.458, cost: 1.08},
		{text: "SELECT v FROM ks.t WHERE k = 1 LIMIT 3", plan: "one partition of ks.t: k = 1; limit 3", partitions: 1,
			least: 1.246, most: 1.246, cost: 1.04},
		{text: "SELECT v FROM ks.t WHERE k = 1 AND c = 1 AND v = 'x' ALLOW FILTERING",
			plan: "one row of ks.t: k = 1 AND c = 1; filtered by v = 'x'", partitions: 1, least: 1, most: 1, cost: 1},
		{text: "SELECT v FROM ks.t WHERE n = 7", index: "by_n",
			plan: "index by_n of ks.t in all physical partitions; filtered by n = 7", partitions: 2, least: 6.1, most: 6.2, cost: 2.18},
		{text: "SELECT v FROM ks.t WHERE k = 1", size: 4, plan: "one partition of ks.t: k = 1; one page of 4 rows",
			partitions: 1, least: 1.355, most: 1.355, cost: 1.06},
		{text: "SELECT count(*) FROM ks.t", plan: "all of ks.t; aggregated into one row", partitions: 2, least: 6.1,
			most: 6.2, cost: 2.18},
		{text: "INSERT INTO ks.t (k, c, n) VALUES (9, 9, 9)", plan: "writes 1 row of 1 partition; 1 index entry",
			index: "by_n", partitions: 1, least: 5.5, most: 5.5},
		{text: "DELETE FROM ks.t WHERE k = 1", plan: "writes 1 row of 1 partition", partitions: 1, least: 5, most: 5},
		{text: "UPDATE ks.t SET v = 'v' WHERE k = 1 AND c = 1 IF n = 7", partitions: 1, least: 2.0, most: 7.0, cost: 1,
			likely: 7, plan: "writes 1 row of 1 partition; its conditions are currently met"},
		{text: "UPDATE ks.t SET v = 'v' WHERE k = 1 AND c = 1 IF n = 8", partitions: 1, least: 2.0, most: 7.0, cost: 1,
			likely: 2, plan: "writes 1 row of 1 partition; its conditions are currently not met"},
		{text: "UPDATE ks.counters SET n = n + 1 WHERE k = 1", partitions: 1, least: 6, most: 6, cost: 1,
			plan: "writes 1 row of 1 partition; reads 1 row first"},
		{text: "UPDATE ks.lists SET l[0] = 7, n = 3 WHERE k = 1", partitions: 1, least: 6, most: 6, cost: 1,
			plan: "writes 1 row of 1 partition; reads 1 row first"},
		{text: "BEGIN BATCH INSERT INTO ks.t (k, c) VALUES (5, 6); INSERT INTO ks.t (k, c) VALUES (6, 6); " +
			"INSERT INTO ks.t (k, c) VALUES (7, 6); INSERT INTO ks.t (k, c) VALUES (8, 6); APPLY BATCH",
			plan: "writes 4 rows of 4 partitions", partitions: 2, least: 20, most: 20},
		{text: "SELECT * FROM system.local", plan: "all of system.local"},
	} {
		e := w.explain(Request{Text: []byte("EXPLAIN " + c.text), Consistency: c.level, PageSize: c.size})
		if e.failure != nil {
			t.Errorf("%s: %v", c.text, e.failure)
			continue
		}
		likely := c.likely
		if likely == 0 {
			likely = e.least
		}
		off := max(math.Abs(e.least-c.least), math.Abs(e.most-c.most), math.Abs(e.likely-likely))
		if e.plan != c.plan || e.index != cmp.Or(c.index, "null") || e.partitions != c.partitions || off > 0.1 ||
			math.Abs(e.charged-c.cost) > 1e-9 {
			t.Errorf("%s: %+v", c.text, e)
		}
	}
	if r := w.query(t, "SELECT k FROM ks.t WHERE k = 9"); r.RowCount != 0 {
		t.Error("EXPLAIN of an INSERT has inserted")
	}
	if got := cells(w.query(t, "SELECT v FROM ks.t WHERE k = 1 AND c = 1")); got[0] != kb {
		t.Error("EXPLAIN of an UPDATE has updated")
	}
	for text, want := range map[string]string{
		"EXPLAIN SELECT * FROM ks.nothing":                                         "does not exist",
		"EXPLAIN TRUNCATE ks.t":                                                    "line 1:8",
		"EXPLAIN UPDATE ks.lists SET l[7] = 7 WHERE k = 1":                         "out of bound",
		"EXPLAIN SELECT * FROM ks.t WHERE v = 'x'":                                 "ALLOW FILTERING",
		"EXPLAIN INSERT INTO system_schema.keyspaces (keyspace_name) VALUES ('x')": "",
	} {
		if err := w.try(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestExplainWithValues checks that EXPLAIN has the same markers as the explained statement and uses the bound values.
// If no values are bound, EXPLAIN must return the plan and a warning that the price depends on the values.
func TestExplainWithValues(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
	w.query(t, "INSERT INTO ks.t (k, v) VALUES (1, '"+strings.Repeat("v", 100<<10-17)+"')")
	for _, text := range []string{"SELECT v FROM ks.t WHERE k = ?", "INSERT INTO ks.t (k) VALUES (?)"} {
		st := w.prepared(t, w.client, "EXPLAIN "+text)
		if len(st.Bind) != 1 || len(st.PKIndexes) != 1 || len(st.Result.Columns) != 6 {
			t.Fatalf("%+v", st)
		}
		want := map[int32]float64{1: 10, 2: 1}
		if strings.HasPrefix(text, "INSERT") {
			want = map[int32]float64{1: 5, 2: 5}
		}
		for k, price := range want {
			e := w.explain(Request{ID: st.ID, Values: [][]byte{i32(k)}})
			if e.failure != nil || math.Abs(e.least-price) > 1e-9 || e.least != e.most {
				t.Errorf("%s of %d: %+v", text, k, e)
			}
			e = w.explain(Request{Text: []byte("EXPLAIN " + text), Values: [][]byte{i32(k)}})
			if e.failure != nil || math.Abs(e.least-price) > 1e-9 {
				t.Errorf("%s of %d, not prepared: %+v", text, k, e)
			}
		}
		for _, r := range []Request{{ID: st.ID}, {Text: []byte("EXPLAIN " + text)}} {
			e := w.explain(r)
			if e.failure != nil || !e.planOnly || !e.mostUnsure || e.least != -1 || len(e.warnings) != 1 ||
				e.plan == "" {
				t.Errorf("%s without values: %+v", text, e)
			}
		}
	}
}

// allowed executes a request with a maximum charge.
func (w *fixture) allowed(r Request, most float64) *Result {
	value := binary.BigEndian.AppendUint64(nil, math.Float64bits(most))
	r.Payload = []Payload{{Key: []byte("MaxRequestCharge"), Value: value}, {Key: []byte("RequestCharge")}}
	method := (*Session).Query
	if r.Text == nil {
		method = (*Session).Batch
	}
	return w.run(w.client, method, r)
}

// TestMaxRequestCharge checks that a request that would exceed its maximum charge is rejected as invalid and has no
// effect. Drivers do not retry invalid requests. A request that costs exactly the maximum must be executed.
func TestMaxRequestCharge(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int, c int, v text, s text static, n int, PRIMARY KEY (k, c))")
	w.query(t, "CREATE TABLE ks.counters (k int PRIMARY KEY, n counter)")
	w.query(t, "CREATE TABLE ks.lists (k int PRIMARY KEY, l list<text>, n int)")
	kb := strings.Repeat("v", 1000)
	for c := range 10 {
		w.query(t, fmt.Sprintf("INSERT INTO ks.t (k, c, v, n) VALUES (1, %d, '%s', 7)", c, kb))
	}
	for k := range 9 {
		w.query(t, fmt.Sprintf("INSERT INTO ks.lists (k, l) VALUES (%d, ['a', '%s'])", k, strings.Repeat(kb, k)))
		w.query(t, fmt.Sprintf("UPDATE ks.counters SET n = n + 1 WHERE k = %d", k))
	}
	everything := func() string {
		return strings.Join(append(append(cells(w.query(t, "SELECT * FROM ks.t")),
			cells(w.query(t, "SELECT * FROM ks.counters"))...), cells(w.query(t, "SELECT * FROM ks.lists"))...), " ")
	}
	before := everything()
	for _, text := range []string{
		"SELECT v FROM ks.t WHERE k = 1 AND c = 1",
		"SELECT v FROM ks.t WHERE k = 1",
		"SELECT v FROM ks.t WHERE k IN (1, 2)",
		"SELECT count(*) FROM ks.t",
		"SELECT k FROM ks.counters",
		"SELECT k FROM ks.t WHERE n = 8 ALLOW FILTERING",
		"SELECT k FROM ks.t WHERE token(k) > 9223372036854775806",
		"INSERT INTO ks.t (k, c, v) VALUES (7, 7, '" + kb + kb + "')",
		"UPDATE ks.t SET s = 's', n = 8 WHERE k = 1 AND c = 1",
		"DELETE FROM ks.t WHERE k IN (1, 2)",
		"UPDATE ks.t SET n = 8 WHERE k = 1 AND c = 1 IF n = 7",
		"UPDATE ks.t SET n = 8 WHERE k = 1 AND c = 1 IF n = 8",
		"INSERT INTO ks.t (k, c, v) VALUES (7, 7, 'v') IF NOT EXISTS",
		"UPDATE ks.counters SET n = n + 1 WHERE k = 1",
		"UPDATE ks.lists SET l[0] = 'b' WHERE k = 8",
		"BEGIN UNLOGGED BATCH INSERT INTO ks.t (k, c) VALUES (7, 7); INSERT INTO ks.t (k, c) VALUES (8, 8); APPLY BATCH",
		"BEGIN BATCH INSERT INTO ks.t (k, c) VALUES (7, 7); INSERT INTO ks.t (k, c) VALUES (8, 8); APPLY BATCH",
		"BEGIN BATCH UPDATE ks.t SET n = 8 WHERE k = 1 AND c = 1 IF n = 7; DELETE FROM ks.t WHERE k = 1 AND c = 2; " +
			"APPLY BATCH",
		"BEGIN COUNTER BATCH UPDATE ks.counters SET n = n + 1 WHERE k = 1; UPDATE ks.counters SET n = n + 1 WHERE k = 2; " +
			"APPLY BATCH",
		"BEGIN BATCH UPDATE ks.lists SET l[0] = 'b' WHERE k = 1; UPDATE ks.lists SET l = l - ['a'] WHERE k = 7; " +
			"INSERT INTO ks.t (k, c) VALUES (7, 7); APPLY BATCH",
	} {
		price := w.explain(Request{Text: []byte("EXPLAIN " + text)})
		if price.failure != nil {
			t.Fatal(price.failure)
		}
		for _, most := range []float64{0.01, price.likely / 2, price.likely - 0.001} {
			err := w.allowed(Request{Text: []byte(text)}, most).Err
			if _, ok := errors.AsType[*dberr.Invalid](err); !ok || !strings.Contains(err.Error(), "MaxRequestCharge") {
				t.Errorf("%.60s for %v of %v: %v", text, most, price.likely, err)
			}
		}
		if everything() != before {
			t.Fatalf("%.60s: something was done", text)
		}
		out := w.allowed(Request{Text: []byte(text)}, price.likely)
		if out.Err != nil || math.Abs(chargeOf(out)-price.likely) > 1e-9 {
			t.Errorf("%.60s for %v: costs %v, %v", text, price.likely, chargeOf(out), out.Err)
		}
		before = everything()
	}
	// Each page is a separate request.
	for c := range 9 {
		w.query(t, fmt.Sprintf("INSERT INTO ks.t (k, c, v) VALUES (60, %d, '%s')", c, kb))
	}
	page := w.allowed(Request{Text: []byte("SELECT v FROM ks.t WHERE k = 60"), PageSize: 2}, 1.2)
	if page.Err != nil || page.RowCount != 2 {
		t.Error(page.Err)
	}
	batch := Request{Statements: []BatchStatement{{Text: []byte("INSERT INTO ks.t (k, c) VALUES (50, 1)")},
		{Text: []byte("INSERT INTO ks.t (k, c) VALUES (51, 1)")}}}
	if err := w.allowed(batch, 9.9).Err; err == nil {
		t.Error("a batch message was not refused")
	}
	if err := w.allowed(batch, 10).Err; err != nil {
		t.Error(err)
	}
	for _, most := range []float64{0, -1, math.NaN()} {
		if err := w.allowed(Request{Text: []byte("SELECT * FROM ks.t")}, most).Err; err == nil {
			t.Errorf("a bound of %v was taken", most)
		}
	}
	r := Request{Text: []byte("SELECT * FROM ks.t"), Payload: []Payload{{Key: []byte("MaxRequestCharge")}}}
	if err := w.run(w.client, (*Session).Query, r).Err; err == nil {
		t.Error("a bound without a number was taken")
	}
	if err := w.allowed(Request{Text: []byte("SELECT * FROM system.local")}, 0.1).Err; err != nil {
		t.Error(err)
	}
}
