// SPDX-License-Identifier: Apache-2.0

package session

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

var explainStatements = flag.Int("explain.statements", 600, "how many statements TestExplainBounds explains and runs")

// The statement kinds have different limits for the ratio of the upper bound to the lower bound.
const (
	pointRead = iota
	sliceRead
	scanRead
	change
)

// statementGenerator generates random statements on the tables of makeTables.
type statementGenerator struct{ *rand.Rand }

func (s statementGenerator) one(of ...string) string { return of[s.IntN(len(of))] }

// value returns a text, which is usually short and sometimes has several kilobytes.
func (s statementGenerator) value() string {
	n := s.IntN(200)
	switch s.IntN(10) {
	case 0:
		n = 1024 + s.IntN(1024)
	case 1:
		n = s.IntN(20_000)
	}
	return "'" + strings.Repeat("v", n) + "'"
}

const (
	wides = 20  // number of logical partitions in ks.wide
	many  = 400 // number of logical partitions in ks.many, in hundreds
)

func (w *fixture) makeTables(t *testing.T, s statementGenerator) {
	t.Helper()
	w.query(t, "CREATE TABLE ks.wide (k int, c int, d int, v text, s text static, n int, "+
		"PRIMARY KEY (k, c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)")
	w.query(t, "CREATE INDEX by_n ON ks.wide (n)")
	w.query(t, "CREATE TABLE ks.counters (k int PRIMARY KEY, n counter)")
	w.query(t, "CREATE TABLE ks.lists (k int PRIMARY KEY, l list<text>, m map<text, text>, n int)")
	w.query(t, "CREATE TABLE ks.many (a int, b int, v text, PRIMARY KEY ((a, b)))")
	for k := range wides {
		for range 1 << s.IntN(8) {
			w.query(t, fmt.Sprintf("INSERT INTO ks.wide (k, c, d, v, n) VALUES (%d, %d, %d, %s, %d)", k, s.IntN(20),
				s.IntN(20), s.value(), s.IntN(5)))
		}
		if k%3 == 0 {
			w.query(t, fmt.Sprintf("UPDATE ks.wide SET s = %s WHERE k = %d", s.value(), k))
		}
		w.query(t, fmt.Sprintf("INSERT INTO ks.lists (k, l, n) VALUES (%d, ['a', 'b', %s], 1)", k, s.value()))
		w.query(t, fmt.Sprintf("UPDATE ks.counters SET n = n + 1 WHERE k = %d", k))
	}
	insert := w.prepared(t, w.client, "INSERT INTO ks.many (a, b, v) VALUES (?, ?, ?)").ID
	for i := range int32(many * 100) {
		v := []byte(strings.Repeat("v", s.IntN(60)))
		r := Request{ID: insert, Values: [][]byte{i32(i % 7), i32(i), v}}
		if err := w.run(w.client, (*Session).Execute, r).Err; err != nil {
			t.Fatal(err)
		}
	}
}

func (s statementGenerator) read() (text string, kind int) {
	k := s.IntN(wides + 2)
	what := s.one("*", "v", "k, c, s", "writetime(v)", "JSON k, v")
	row := fmt.Sprintf("k = %d AND c = %d AND d = %d", k, s.IntN(20), s.IntN(20))
	switch s.IntN(12) {
	case 0, 1, 2:
		return "SELECT " + what + " FROM ks.wide WHERE " + row, pointRead
	case 3:
		return fmt.Sprintf("SELECT * FROM ks.many WHERE a = %d AND b = %d", s.IntN(7), s.IntN(many*100)), pointRead
	case 4:
		return fmt.Sprintf("SELECT %s FROM ks.wide WHERE k = %d AND c %s %d%s", what, k, s.one("=", "<", ">="),
			s.IntN(20), s.one("", " LIMIT 3", " ORDER BY c ASC", " ORDER BY c LIMIT 5")), sliceRead
	case 5:
		return fmt.Sprintf("SELECT %s FROM ks.wide WHERE k = %d AND c IN (%d, %d, 3)%s", what, k, s.IntN(20), s.IntN(20),
			s.one("", " AND d > 7")), sliceRead
	case 6:
		return fmt.Sprintf("SELECT %s FROM ks.wide WHERE k = %d AND %s ALLOW FILTERING", what, k,
			s.one("v = 'v'", "n > 2", "d > 10", "s = 'x'")), sliceRead
	case 7:
		return fmt.Sprintf("SELECT %s FROM ks.wide WHERE k = %d%s", s.one("count(*)", "max(v)", "c, count(n)"), k,
			s.one("", " GROUP BY k, c")), sliceRead
	case 8:
		return fmt.Sprintf("SELECT %s FROM ks.wide WHERE k IN (1, %d, %d) %s", what, k, s.IntN(30),
			s.one("", "LIMIT 7", "PER PARTITION LIMIT 2", "AND c > 3")), scanRead
	case 9:
		what = s.one("DISTINCT k, s", "count(*)", "*", "k, s")
		return "SELECT " + what + " FROM ks.wide" + s.one("", " LIMIT 9"), scanRead
	case 10:
		return fmt.Sprintf("SELECT * FROM ks.wide WHERE n = %d%s", s.IntN(6), s.one("", " AND k = 3", " LIMIT 4",
			" AND d = 3 ALLOW FILTERING")), scanRead
	}
	return "SELECT count(*) FROM ks.many" + s.one("", " WHERE token(a, b) > 0", " WHERE v = 'vvv' ALLOW FILTERING",
		" WHERE token(a, b) > -9000000000000000000 AND token(a, b) < 4000000000000000000"), scanRead
}

func (s statementGenerator) write() string {
	k, c, d := s.IntN(wides+2), s.IntN(20), s.IntN(20)
	row := fmt.Sprintf("k = %d AND c = %d AND d = %d", k, c, d)
	switch s.IntN(15) {
	case 0:
		return fmt.Sprintf("INSERT INTO ks.wide (k, c, d, v, n) VALUES (%d, %d, %d, %s, %d)", k, c, d, s.value(), s.IntN(5))
	case 1:
		return fmt.Sprintf("INSERT INTO ks.wide (k, c, d, s) VALUES (%d, %d, %d, %s) USING TTL 100000", k, c, d, s.value())
	case 2:
		return fmt.Sprintf("UPDATE ks.wide SET v = %s, n = %d WHERE %s", s.value(), s.IntN(5), row)
	case 3:
		return "DELETE " + s.one("", "v, n ") + "FROM ks.wide WHERE " + row
	case 4:
		return fmt.Sprintf("DELETE FROM ks.wide WHERE k = %d AND c > %d", s.IntN(wides+9), 15+s.IntN(5))
	case 5:
		return fmt.Sprintf("UPDATE ks.wide SET v = %s WHERE %s IF %s", s.value(), row,
			s.one("EXISTS", "n = 2", "n IN (1, 2, 3)", "v != 'v'", "s = 'v'", "s = null AND n = 1"))
	case 6:
		return fmt.Sprintf("INSERT INTO ks.wide (k, c, d, v) VALUES (%d, %d, %d, %s) IF NOT EXISTS", k, c, d, s.value())
	case 7:
		return fmt.Sprintf("UPDATE ks.wide SET s = %s WHERE k = %d IF s = %s", s.value(), k, s.one("null", "'v'"))
	case 8:
		return fmt.Sprintf("UPDATE ks.counters SET n = n + 5 WHERE k = %d", k)
	case 9:
		return fmt.Sprintf("UPDATE ks.lists SET l[%d] = %s, n = 7 WHERE k = %d", s.IntN(4), s.value(), k)
	case 10:
		return fmt.Sprintf("UPDATE ks.lists SET l = l %s [%s, 'a'] WHERE k = %d", s.one("+", "-"), s.value(), k)
	case 11:
		return fmt.Sprintf("DELETE l[0], m['x'] FROM ks.lists WHERE k = %d", k)
	case 12:
		return fmt.Sprintf("BEGIN %s INSERT INTO ks.wide (k, c, d, v) VALUES (%d, 1, 1, %s); UPDATE ks.wide SET n = 3, "+
			"s = 'x' WHERE %s; INSERT INTO ks.lists (k, l) VALUES (%d, ['x']); APPLY BATCH", s.one("BATCH",
			"UNLOGGED BATCH"), k, s.value(), row, s.IntN(30))
	case 13:
		return fmt.Sprintf("BEGIN COUNTER BATCH UPDATE ks.counters SET n = n + 1 WHERE k = %d; UPDATE ks.counters "+
			"SET n = n - 1 WHERE k = %d; APPLY BATCH", k, s.IntN(30))
	}
	return fmt.Sprintf("BEGIN BATCH UPDATE ks.wide SET v = %s WHERE %s IF n %s 2; DELETE FROM ks.wide WHERE k = %d AND "+
		"c = 3 AND d = 3; APPLY BATCH", s.value(), row, s.one("=", "<"), k)
}

// TestExplainBounds checks that the actual cost of 99.9% of statements is between the bounds of EXPLAIN. The upper
// bound must not exceed 1.1 times the lower bound for reads of one row, or 3 times the lower bound for slices of a
// logical partition. For a measurement, use -explain.statements=10000.
func TestExplainBounds(t *testing.T) {
	w := newFixture(t, Options{})
	s := statementGenerator{rand.New(rand.NewPCG(9, 2))}
	w.makeTables(t, s)
	var outside, refused, estimated, exact int
	widest := [4]float64{}
	for i := range *explainStatements {
		text, kind := s.write(), change
		if s.IntN(2) == 0 {
			text, kind = s.read()
		}
		r := Request{Text: []byte(text), Consistency: dberr.Quorum, Serial: dberr.Serial}
		if kind == pointRead && s.IntN(4) == 0 {
			r.Consistency = dberr.Serial
		}
		if kind != change && s.IntN(2) == 0 {
			r.PageSize = int32(1 + s.IntN(200))
		}
		short := fmt.Sprintf("%d: %.120s, pages of %d", i, text, r.PageSize)
		asked := r
		asked.Text = []byte("EXPLAIN " + text)
		e := w.explain(asked)
		r.Payload = []Payload{{Key: []byte("RequestCharge")}}
		out := w.run(w.client, (*Session).Query, r)
		if (out.Err == nil) != (e.failure == nil) {
			t.Fatalf("%s: EXPLAIN ends with %v, the statement with %v", short, e.failure, out.Err)
		}
		if out.Err != nil {
			refused++
			continue
		}
		if got := chargeOf(out); got < e.least-1e-9 || got > e.most+1e-9 || e.likely < e.least || e.likely > e.most {
			outside++
			t.Logf("%s: costs %v RU, %v to %v were expected", short, got, e.least, e.most)
		}
		widest[kind] = max(widest[kind], e.most/e.least)
		if exact++; strings.Contains(e.plan, "estimated") {
			exact--
			estimated++
		}
	}
	t.Logf("of %d statements %d cost less or more than EXPLAIN said, %d were refused alike, %d were estimated; "+
		"the bounds are at most %.3f (rows), %.3f (slices), %.3f (scans), %.3f (modifications) times apart",
		*explainStatements, outside, refused, estimated, widest[0], widest[1], widest[2], widest[3])
	if n := exact + estimated; outside*1000 > n || refused*4 > n || estimated == 0 {
		t.Error("that is too much, or nothing was estimated")
	}
	if widest[pointRead] > 1.1 || widest[sliceRead] > 3 {
		t.Error("the bounds are too wide")
	}
}
