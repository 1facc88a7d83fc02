// SPDX-License-Identifier: Apache-2.0

//go:build integration

package function

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/testnode"
)

// TestFunctionMasks checks user-defined functions as masks on two nodes of a cluster, with the results of Cassandra
// 5.0.5. A role without permission to see a column must receive the result of the mask function instead of the value,
// even if the value is null. This rule applies to rows, rejected conditions, and transactions, and requires no EXECUTE
// permission. A replaced function must apply immediately, even to prepared statements. A function that throws must
// reveal no value. The test also expects Cassandra's messages for functions that cannot be masks and for dropping a
// function that is a mask.
func TestFunctionMasks(t *testing.T) {
	c := startCluster(t)
	boss := testnode.Driver(t, c.CQL(0), "boss", "b")
	answer := func(s *gocql.Session, text string) string {
		t.Helper()
		var got []string
		iter := s.Query(text).Iter()
		var row []any
		for _, c := range iter.Columns() {
			if c.TypeInfo.Type() == gocql.TypeBoolean {
				row = append(row, new(bool))
			} else {
				row = append(row, new(*string))
			}
		}
		for len(row) > 0 && iter.Scan(row...) {
			for _, v := range row {
				switch v := v.(type) {
				case *bool:
					got = append(got, fmt.Sprint(*v))
				case **string:
					got = append(got, *cmp.Or(*v, new("null")))
				}
			}
		}
		if err := iter.Close(); err != nil {
			return err.Error()
		}
		return strings.Join(got, " ")
	}
	expect := func(s *gocql.Session, text, want string) {
		t.Helper()
		if got := answer(s, text); got != want {
			t.Errorf("%s:\n got %q\nwant %q", text, got, want)
		}
	}
	const function = " CALLED ON NULL INPUT RETURNS text LANGUAGE java AS "
	for _, text := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE FUNCTION other.f (x text)" + function + "'return x;'",
		"CREATE FUNCTION ks.size (x text)" + function + "'return \"R\" + (x == null ? 0 : x.length());'",
		"CREATE FUNCTION ks.fixed (x text, n int) RETURNS NULL ON NULL INPUT RETURNS text LANGUAGE java AS 'return \"F\" + n;'",
		"CREATE FUNCTION ks.script (x text) CALLED ON NULL INPUT RETURNS text LANGUAGE javascript AS '\"J\"'",
		"CREATE FUNCTION ks.thrower (x text)" + function + "'throw new RuntimeException(\"no\");'",
		"CREATE FUNCTION ks.number (x text) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return 1;'",
		"CREATE FUNCTION ks.joined (s text, x text)" + function + "'return x;'",
		"CREATE AGGREGATE ks.folded (text) SFUNC joined STYPE text",
		"CREATE TABLE ks.t (k text PRIMARY KEY, v text MASKED WITH ks.size(), w text MASKED WITH ks.fixed(7), " +
			"x text MASKED WITH ks.script())",
		"INSERT INTO ks.t (k, v, w, x) VALUES ('a', 'secret', 'hidden', 'x')",
		"CREATE ROLE low WITH LOGIN = true AND PASSWORD = 'l'",
		"GRANT SELECT ON ks.t TO low", "GRANT MODIFY ON ks.t TO low",
	} {
		expect(boss, text, "")
	}
	low := testnode.Driver(t, c.CQL(1), "low", "l")
	const all = "SELECT k, v, w, x FROM ks.t WHERE k = 'a'"
	expect(low, all, "a R6 F7 J")
	expect(boss, all, "a secret hidden x")
	expect(low, "INSERT INTO ks.t (k) VALUES ('a') IF NOT EXISTS", "false a R6 F7 J")
	expect(low, "BEGIN TRANSACTION SELECT v, w FROM ks.t WHERE k = 'a'; COMMIT TRANSACTION", "R6 F7")
	expect(boss, "INSERT INTO ks.t (k) VALUES ('b')", "")
	expect(low, "SELECT v, w FROM ks.t WHERE k = 'b'", "R0 null")

	const refused = "Masking functions can only be attached to table columns if they return the same data type as the masked " +
		"column."
	for mask, want := range map[string]string{
		"ks.number()": "Masking function ks.number() return type is int. This is different to the type of the masked column v " +
			"of type text. " + refused,
		"other.f()":   "Masking function other.f() doesn't belong to the same keyspace as the table ks.n",
		"ks.folded()": "Aggregate function ks.folded() cannot be used for masking table columns",
		"ks.fixed()":  "Invalid number of arguments in call to function ks.fixed: 2 required but 1 provided",
		"ks.nosuch()": "Unable to find masking function for v, no declared function matches the signature ks.nosuch()",
	} {
		expect(boss, "CREATE TABLE ks.n (k text PRIMARY KEY, v text MASKED WITH "+mask+")", want)
	}
	for _, name := range []string{"ks.size", "ks.size(text)"} {
		expect(boss, "DROP FUNCTION "+name, "Function '"+name+"' is still referenced by column masks in tables t")
	}
	expect(boss, "SELECT function_keyspace, function_name FROM system_schema.column_masks WHERE keyspace_name = 'ks'",
		"ks size ks fixed ks script")

	expect(boss, "CREATE OR REPLACE FUNCTION ks.size (x text)"+function+"'return \"new\";'", "")
	eventually.True(t, "the function masks anew", func() bool { return answer(low, all) == "a new F7 J" })
	expect(boss, "ALTER TABLE ks.t ALTER v MASKED WITH ks.thrower()", "")
	throws := func() bool { return strings.Contains(answer(low, all), "RuntimeException: no") }
	eventually.True(t, "the function throws", throws)
	var failure *gocql.RequestErrFunctionFailure
	if err := low.Query(all).Exec(); !errors.As(err, &failure) || failure.Function != "thrower" {
		t.Errorf("a mask that throws: %v", err)
	}
	expect(boss, "DROP FUNCTION ks.size", "")
	expect(boss, "ALTER TABLE ks.t ALTER v DROP MASKED", "")
	eventually.True(t, "the column is not masked", func() bool { return answer(low, all) == "a secret F7 J" })
}
