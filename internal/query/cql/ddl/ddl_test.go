// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// TestDDL runs the scripts in testdata. The command "cql" executes statements and prints the results. A statement ends
// at the end of a line or at a semicolon at the end of a line. use=ks sets the session's keyspace for the rest of the
// file.
func TestDDL(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		e := newTestExecutor()
		keyspace := ""
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			for _, arg := range d.CmdArgs {
				if arg.Key == "use" {
					keyspace = strings.Join(arg.Vals, "")
				}
			}
			var b strings.Builder
			for _, cql := range strings.Split(d.Input, ";\n") {
				if cql = strings.TrimSuffix(strings.TrimSpace(cql), ";"); cql != "" {
					run(&b, e, cql, keyspace)
				}
			}
			return b.String()
		})
	})
}

func run(b *strings.Builder, e *Executor, cql, keyspace string) {
	stmt, _, err := parser.Parse(cql)
	if err != nil {
		fmt.Fprintf(b, "syntax error: %v\n", err)
		return
	}
	if d, ok := stmt.(*parser.Describe); ok {
		rows, err := e.Describe(d, keyspace)
		if err != nil {
			fmt.Fprintln(b, strings.Join(describeError(err, false), " "))
			return
		}
		for _, r := range rows.Rows {
			var values []string
			for i, v := range r {
				text := string(v)
				if typ := rows.Columns[i].Type; typ.Kind != cqltype.Text {
					text = typ.Format(v)
				}
				values = append(values, text)
			}
			fmt.Fprintln(b, strings.Join(values, " | "))
		}
		return
	}
	r, err := e.Execute(context.Background(), stmt, keyspace, Actor{}, nil)
	switch {
	case err != nil:
		fmt.Fprintln(b, strings.Join(describeError(err, false), " "))
	case r.Change == nil:
		fmt.Fprintln(b, "nothing")
	default:
		fmt.Fprintln(b, strings.TrimSpace(r.Change.Change+" "+r.Change.Target+" "+r.Change.Keyspace+" "+r.Change.Name))
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(b, "  warning:", w)
	}
}

// TestDescribeRecreates checks (DD2) for each release. The output of DESCRIBE KEYSPACE .. WITH INTERNALS must create an
// equal keyspace.
func TestDescribeRecreates(t *testing.T) {
	for _, rel := range []*compat.Release{compat.Cassandra40, compat.Cassandra50} {
		t.Run(rel.Name, func(t *testing.T) { describeRecreates(t, rel) })
	}
}

func describeRecreates(t *testing.T, rel *compat.Release) {
	e := newTestExecutor()
	e.opts.Release = rel
	var b strings.Builder
	for _, cql := range []string{
		`CREATE KEYSPACE "K s" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
		`CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} AND ` +
			`durable_writes = false AND cosmosdb_provisioned_throughput = 400`,
		`CREATE TYPE ks.z (a int, "B c" frozen<list<text>>)`,
		`CREATE TYPE ks.a (z frozen<z>, m map<int, text>)`,
		`CREATE TABLE ks.t (k1 int, k2 text, c1 int, c2 z, f vector<float, 3>, g list<frozen<vector<text, 2>>>,
			PRIMARY KEY ((k1, k2), c1))`,
		`CREATE TABLE ks.u (k1 int, k2 text, c1 frozen<z>, "C 2" int, s int static, l list<frozen<a>> static, v z, w int, x frozen<a>,
			PRIMARY KEY ((k1, k2), c1, "C 2"))
			WITH CLUSTERING ORDER BY (c1 DESC, "C 2" ASC) AND comment = 'it''s' AND extensions = {'e': '0x0102'}
			AND speculative_retry = 'MIN(99p,50ms)'
			AND compression = {'enabled': 'false'} AND cosmosdb_cell_level_timestamp = true AND gc_grace_seconds = 0 AND cdc = true
			AND storage_cap_gb = 0.25 AND automatic_merges = false AND allow_auto_snapshot = 'no'
			AND incremental_backups = false AND memtable = 'default'`,
		`ALTER TABLE ks.u DROP w`, `ALTER TABLE ks.u DROP s`, `ALTER TABLE ks.u ADD w int`, `ALTER TABLE ks.u DROP x`,
		`CREATE TABLE ks.c (k int PRIMARY KEY, "N" counter)`,
		`CREATE TABLE ks.d (k int, c int, v int, PRIMARY KEY (k, c)) WITH COMPACT STORAGE`,
		`CREATE INDEX "I x" ON ks.u ("C 2")`, `CREATE INDEX ON ks.u (v)`, `CREATE INDEX ON ks.u (w)`,
		`CREATE INDEX ON ks.t (k2)`,
	} {
		run(&b, e, cql, "")
	}
	again := newTestExecutor()
	stmt, _, _ := parser.Parse("DESCRIBE KEYSPACE ks WITH INTERNALS")
	rows, err := e.Describe(stmt.(*parser.Describe), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows.Rows {
		for _, cql := range strings.SplitAfter(string(r[3]), ";\n") {
			var out strings.Builder
			run(&out, again, cql, "")
			if !strings.HasPrefix(out.String(), "CREATED") && !strings.HasPrefix(out.String(), "UPDATED") {
				t.Errorf("%s\n%s", cql, &out)
			}
		}
	}
	want, got := e.catalog.Snapshot().Keyspace("ks"), again.catalog.Snapshot().Keyspace("ks")
	if len(want.Tables) != 4 || len(want.Types) != 2 {
		t.Fatalf("only %v: the test proves nothing\n%s", slices.Sorted(maps.Keys(want.Tables)), &b)
	}
	for _, name := range slices.Sorted(maps.Keys(want.Tables)) {
		a := createTable(want, want.Tables[name], true, rel)
		if b := createTable(got, got.Tables[name], true, rel); a != b {
			t.Errorf("recreated as\n%s\nwant\n%s", b, a)
		}
	}
	if a, b := createKeyspace(want), createKeyspace(got); a != b {
		t.Errorf("recreated as %s, want %s", b, a)
	}
}
