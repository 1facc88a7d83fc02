// SPDX-License-Identifier: Apache-2.0

//go:build integration

package attack

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/test/process"
)

// answerMax is the maximum time for any response. The timeouts of the node are up to 5 s. answerMax is longer because
// the machine may be busy.
const answerMax = 12 * time.Second

// many joins n texts that format creates from their numbers.
func many(n int, separator, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(separator)
		}
		if strings.Contains(format, "%") {
			fmt.Fprintf(&b, format, i)
		} else {
			b.WriteString(format)
		}
	}
	return b.String()
}

// TestDeadlines checks A10 and A3. A client must get a response or an error within the timeouts, regardless of the
// work that its statement requires. During that time, the node must serve other clients.
func TestDeadlines(t *testing.T) {
	v := startVictim(t)
	v.do(
		"CREATE TABLE ks.n (k int PRIMARY KEY, i varint, d decimal, l list<varint>, t text, b blob)",
		"CREATE TABLE ks.c (k int PRIMARY KEY, l list<int>, s set<int>, m map<int, int>, f frozen<list<int>>)",
		"CREATE TABLE ks.p (a int, b int, c int, v int, PRIMARY KEY (a, b, c))",
		"INSERT INTO ks.n (k, i, d) VALUES (1, "+strings.Repeat("9", 30_000)+", blobAsDecimal(0xc465360001))",
		"INSERT INTO ks.n (k, d) VALUES (2, blobAsDecimal(0x7fffffff01))",
		"INSERT INTO ks.c (k, l, s, m) VALUES (1, ["+many(20_000, ",", "%d")+"], {"+many(20_000, ",", "%d")+"}, {"+
			many(20_000, ",", "%[1]d:%[1]d")+"})",
	)
	numbers := many(60, ",", strings.Repeat("7", 30_000))
	integers := many(20_000, ",", "%d")
	v.observe()
	for name, text := range map[string]string{
		"a long varint": "INSERT INTO ks.n (k, i) VALUES (3, " + strings.Repeat("9", 5_000_000) + ")",
		"a long hexadecimal number": "INSERT INTO ks.n (k, i) VALUES (3, blobAsVarint(0x7f" +
			strings.Repeat("ff", 4_000_000) + "))",
		"a list of long numbers":     "INSERT INTO ks.n (k, l) VALUES (4, [" + numbers + "])",
		"them in JSON":               "SELECT JSON * FROM ks.n",
		"JSON of long numbers":       `INSERT INTO ks.n JSON '{"k": 5, "l": [` + numbers + `]}'`,
		"JSON of one long number":    `INSERT INTO ks.n JSON '{"k": 5, "i": ` + strings.Repeat("9", 5_000_000) + `}'`,
		"JSON nested deeply":         `INSERT INTO ks.n JSON '` + strings.Repeat("[", 1_000_000) + `'`,
		"JSON of one key many times": `INSERT INTO ks.c JSON '{"k": 6, "m": {` + many(200_000, ",", `"1": %d`) + `}}'`,
		"a cast to text":             "SELECT cast(i AS text), cast(d AS text) FROM ks.n",
		"a power":                    "SELECT i" + strings.Repeat(" * i", 2_000) + " FROM ks.n",
		"an exponent and one":        "SELECT d + 1, d - 1, d % 3 FROM ks.n",
		"a quotient of exponents":    "SELECT d / 3, 3 / d FROM ks.n",
		"a square of exponents":      "SELECT d * d FROM ks.n",
		"an exponent as an integer":  "SELECT cast(d AS varint), cast(d AS double), cast(d AS bigint) FROM ks.n",
		"sums of exponents":          "SELECT sum(d), avg(d), max(d), min(d) FROM ks.n",
		"a product of INs": "SELECT * FROM ks.p WHERE a IN (" + many(1_000, ",", "%d") + ") AND b IN (" +
			many(1_000, ",", "%d") + ") AND c IN (" + many(1_000, ",", "%d") + ")",
		"a DELETE of INs": "DELETE FROM ks.p WHERE a IN (" + many(1_000, ",", "%d") + ") AND b IN (" +
			many(1_000, ",", "%d") + ") AND c IN (" + many(1_000, ",", "%d") + ")",
		"a list without a list":   "UPDATE ks.c SET l = l - [" + integers + "] WHERE k = 1",
		"a list of list elements": "UPDATE ks.c SET " + many(5_000, ",", "l[%[1]d]=%[1]d") + " WHERE k = 1",
		"conditions on elements":  "UPDATE ks.c SET f = null WHERE k = 1 IF " + many(5_000, " AND ", "l[%[1]d]=%[1]d"),
		"conditions on entries":   "UPDATE ks.c SET f = null WHERE k = 1 IF " + many(5_000, " AND ", "m[%[1]d]=%[1]d"),
		"a condition on a list": "UPDATE ks.c SET f = null WHERE k = 1 IF l IN (" + many(20, ",", "["+integers+"]") +
			")",
		"entries selected": "SELECT " + many(3_000, ",", "m[%d]") + " FROM ks.c",
		"filters for elements": "SELECT k FROM ks.c WHERE " + many(3_000, " AND ", "l CONTAINS %d") +
			" ALLOW FILTERING",
		"a filter for many values": "SELECT a FROM ks.p WHERE v IN (" + integers + ") ALLOW FILTERING",
		"a set of many elements":   "UPDATE ks.c SET s = {" + integers + "," + integers + "} WHERE k = 2",
		"many literals":            "INSERT INTO ks.c (k, f) VALUES (3, [" + many(2_000_000, ",", "1") + "])",
		"many selectors":           "SELECT " + many(500_000, ",", "k") + " FROM ks.c",
		"many relations":           "SELECT * FROM ks.p WHERE " + many(200_000, " AND ", "a = 1"),
		"many statements": "BEGIN UNLOGGED BATCH " + many(20_000, "; ",
			"INSERT INTO ks.p (a, b, c) VALUES (1, 2, %d)") +
			" APPLY BATCH",
		"many columns": "CREATE TABLE ks.w1 (k int PRIMARY KEY, " + many(100_000, ",", "c%d int") + ")",
		"many fields":  "CREATE TYPE ks.u1 (" + many(100_000, ",", "c%d int") + ")",
		"many key columns": "CREATE TABLE ks.w2 (" + many(5_000, ",", "c%d int") + ", PRIMARY KEY (" +
			many(5_000, ",", "c%d") + "))",
		"as many as allowed": "CREATE TABLE ks.w (k int PRIMARY KEY, " + many(5_000, ",", "c%d int") + ")",
		"a nested type": "CREATE TABLE ks.w3 (k int PRIMARY KEY, v " + strings.Repeat("frozen<list<", 5_000) +
			"int" + strings.Repeat(">>", 5_000) + ")",
		"a nested term": "SELECT " + strings.Repeat("(", 100_000) + "1" + strings.Repeat(")", 100_000) +
			" FROM ks.c",
	} {
		v.answers(name, text)
	}
	v.answers("all of many columns", "SELECT * FROM ks.w")
	v.answers("many columns in JSON", "SELECT JSON * FROM ks.w")
	v.answers("more columns", "ALTER TABLE ks.w ADD ("+many(4_000, ",", "d%d int")+")")
	v.answers("fewer columns", "ALTER TABLE ks.w DROP ("+many(3_000, ",", "d%d")+")")
	v.endure()
}

// answers runs a statement, which must get a response or an error. The process may use at most answerMax of CPU time
// for the statement. The limit applies to CPU time because CPU time does not depend on other processes.
func (v *victim) answers(name, text string) {
	v.t.Helper()
	c := v.dial()
	defer c.Close()
	began := v.CPU(v.t)
	_, err := c.Query(text)
	took, said := v.CPU(v.t)-began, "done"
	if e := (*cqlwire.Error)(nil); errors.As(err, &e) {
		said = e.Message[:min(len(e.Message), 100)]
	} else if err != nil {
		v.t.Errorf("%s: no response: %.200v", name, err)
	}
	if took > time.Second {
		v.t.Logf("%s: %s, %s", name, took, said)
	}
	if took > answerMax {
		v.t.Errorf("%s: response after %s of CPU time", name, took)
	}
}

// TestTypeBomb checks that the node does not expand a series of types in which each type contains the previous type
// twice.
func TestTypeBomb(t *testing.T) {
	v := startVictim(t)
	v.do("CREATE TYPE ks.t0 (a int)")
	v.observe()
	for i := range 40 { // the last types are rejected
		v.answers("a type", fmt.Sprintf("CREATE TYPE ks.t%d (a frozen<t%d>, b frozen<t%d>)", i+1, i, i))
	}
	for i := 14; i > 10; i-- {
		v.answers("a table", fmt.Sprintf("CREATE TABLE ks.b%d (k int PRIMARY KEY, v frozen<t%d>)", i, i))
		v.answers("its rows", fmt.Sprintf("SELECT * FROM ks.b%d", i))
	}
	c := v.dial()
	defer c.Close()
	process.Do(t, c, "SELECT * FROM system_schema.tables", "SELECT * FROM system_schema.columns",
		"SELECT * FROM system_schema.types")
	v.endure()
}
