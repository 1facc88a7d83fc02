// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// functions is the directory of a node with user-defined functions, aggregates, and masks, which feature level 5
// introduced.
var functions = filepath.Join(present, "functions", "alone")

// functionStatements holds statements that create each kind of function. It includes functions in both languages,
// overloads, a replaced function, and a dropped function. Functions take null arguments, collections, user types, and
// vectors. The statements also create aggregates with and without a final function, and columns with masks.
var functionStatements = strings.Split(strings.TrimSpace(`
CREATE KEYSPACE fn WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
CREATE TYPE fn.point (x int, y int);
CREATE FUNCTION fn.twice (v int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS 'return 2 * v;';
CREATE FUNCTION fn.twice (v text) CALLED ON NULL INPUT RETURNS text LANGUAGE javascript AS
	'v === null ? "-" : v + v';
CREATE FUNCTION fn."Sum" (p point) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS
	'return p.getInt("x") + p.getInt("y");';
CREATE FUNCTION fn.longest (l list<text>) CALLED ON NULL INPUT RETURNS int LANGUAGE javascript AS
	$$ var n = 0; for (var i = 0; i < l.length; i++) n = Math.max(n, l[i].length); n; $$;
CREATE FUNCTION fn.first (v vector<float, 2>) RETURNS NULL ON NULL INPUT RETURNS float LANGUAGE java AS
	'return v.get(0);';
CREATE FUNCTION fn.plus (s bigint, v int) CALLED ON NULL INPUT RETURNS bigint LANGUAGE java AS
	'return v == null ? s : s + v;';
CREATE FUNCTION fn.half (s bigint) RETURNS NULL ON NULL INPUT RETURNS double LANGUAGE java AS 'return s / 2.0;';
CREATE OR REPLACE FUNCTION fn.half (s bigint) RETURNS NULL ON NULL INPUT RETURNS double LANGUAGE java AS
	'return s * 0.5;';
CREATE FUNCTION fn.gone (v int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return v;';
DROP FUNCTION fn.gone;
CREATE AGGREGATE fn.total (int) SFUNC plus STYPE bigint INITCOND 0;
CREATE AGGREGATE fn.halved (int) SFUNC plus STYPE bigint FINALFUNC half INITCOND 10;
CREATE TABLE fn.t (k int PRIMARY KEY, v int, x text MASKED WITH DEFAULT, l list<text>,
	p frozen<point>, e vector<float, 2>, m text MASKED WITH mask_inner(1, null, '#'));
INSERT INTO fn.t (k, v, x, l, p, e, m) VALUES (1, 3, 'ab', ['a', 'bcd'], {x: 1, y: 2}, [1.5, 2.5], 'masked');
INSERT INTO fn.t (k) VALUES (2)
`), ";\n")

// functionQuestions holds the statements whose results are in the fixture.
var functionQuestions = []string{
	"SELECT JSON fn.twice(v), fn.twice(x), fn.\"Sum\"(p), fn.longest(l), fn.first(e) FROM fn.t WHERE k = 1",
	"SELECT JSON fn.twice(v), fn.twice(x) FROM fn.t WHERE k = 2",
	"SELECT JSON fn.total(v), fn.halved(v) FROM fn.t",
	"SELECT JSON * FROM fn.t WHERE k = 1",
	"SELECT JSON * FROM system_schema.functions WHERE keyspace_name = 'fn'",
	"SELECT JSON * FROM system_schema.aggregates WHERE keyspace_name = 'fn'",
	"SELECT JSON table_name, column_name, type FROM system_schema.columns WHERE keyspace_name = 'fn'",
}

// TestFunctions opens the directories of builds with user-defined functions, aggregates, and masks. It checks that
// these objects are unchanged and usable.
func TestFunctions(t *testing.T) {
	if *rewrite {
		writeFunctions(t)
	}
	dir := filepath.Join(t.TempDir(), "data")
	if err := unpack(functions+".tar.gz", dir); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(functions + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		run(t, dir, false, func(c *rawclient.Conn) {
			if got := answers(t, c, functionQuestions); got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if _, err := c.Query("DROP FUNCTION fn.half"); err == nil {
				t.Error("a function that an aggregate uses was dropped")
			}
		})
	}
}

// writeFunctions writes the fixture.
func writeFunctions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	if err := os.MkdirAll(filepath.Dir(functions), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, dir, false, func(c *rawclient.Conn) {
		for _, s := range functionStatements {
			if _, err := c.Query(s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
		text := answers(t, c, functionQuestions)
		if err := os.WriteFile(functions+".txt", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	})
	if err := pack(functions+".tar.gz", dir); err != nil {
		t.Fatal(err)
	}
}
