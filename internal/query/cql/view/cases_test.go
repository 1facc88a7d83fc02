// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/query/cql/session"
)

// TestCases checks the behavior of views that Cassandra's documentation describes. It compares the contents of views
// after each statement in testdata/cases.txt.
//
// The directive cql executes statements and prints rejections. Each line contains one statement. When no hint is due,
// cql prints the changed tables among the tables in show=(..). wait=N advances the clock by N seconds. places=V removes
// the unused places of a view and prints the number of remaining places.
func TestCases(t *testing.T) {
	t.Parallel()
	w := newFixture(t, true)
	last := map[string]string{}
	datadriven.RunTest(t, "testdata/cases.txt", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for _, a := range d.CmdArgs {
			switch a.Key {
			case "wait":
				var seconds int64
				a.Scan(t, 0, &seconds)
				w.ahead.Add(seconds * int64(time.Second))
			case "places":
				if err := w.store.SweepEntries(context.Background(), w.now().Unix(), func(int) {}); err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&out, "%d places\n", w.places(a.Vals[0]))
			}
		}
		show := func() {
			w.settle()
			for _, a := range d.CmdArgs {
				if a.Key != "show" {
					continue
				}
				for _, table := range a.Vals {
					if now := w.shown(table); now != last[table] {
						fmt.Fprintf(&out, "  %s: %s\n", table, now)
						last[table] = now
					}
				}
			}
		}
		show()
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSpace(line)
			fmt.Fprintln(&out, line)
			if r := w.query(line); r.Err != nil {
				fmt.Fprintf(&out, "  refused: %v\n", r.Err)
			}
			show()
		}
		return out.String()
	})
}

// shown returns the rows of a table. The order of the rows and columns is the table order.
func (w *fixture) shown(table string) string {
	w.t.Helper()
	t := w.catalog.Snapshot().Table("ks", table)
	if t == nil {
		return "is not there"
	}
	n := 0
	for range t.Columns() {
		n++
	}
	lines := rows(w.must("SELECT * FROM "+table), n)
	slices.Sort(lines)
	if len(lines) == 0 {
		return "nothing"
	}
	return strings.Join(lines, " | ")
}

// TestRoundsPassOver checks that rows for an unwritable part of a view do not delay other rows. The rows may be in the
// same chunk of hints or in different chunks.
func TestRoundsPassOver(t *testing.T) {
	t.Parallel()
	w := newFixture(t, false)
	w.must("CREATE TABLE t (k int PRIMARY KEY, v int)")
	w.must("CREATE MATERIALIZED VIEW m AS SELECT * FROM t WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)")
	const n = 1800
	for k := range n {
		w.must(fmt.Sprintf("INSERT INTO t (k, v) VALUES (%d, %d)", k, k%3))
	}
	refuses := func(m *command.Mutation) bool { return m.Key[3] == 0 }
	w.refuses.Store(&refuses)
	count := func() int { return w.must("SELECT * FROM m").RowCount }
	w.keeper.Round(context.Background(), 0)
	if got := count(); got != n*2/3 {
		t.Errorf("%d rows are in the view after one round, want %d", got, n*2/3)
	}
	w.refuses.Store(nil)
	w.settle()
	if got := count(); got != n {
		t.Errorf("%d rows are in the view in the end, want %d", got, n)
	}
}

// TestRangesPassOver checks that deleted partitions are not delayed by rows for an unwritable part of a view.
func TestRangesPassOver(t *testing.T) {
	t.Parallel()
	w := newFixture(t, false)
	w.must("CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))")
	w.must("CREATE MATERIALIZED VIEW m AS SELECT * FROM t WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL " +
		"PRIMARY KEY (v, k, c)")
	const n = 20
	each := func(format string) {
		for k := range n {
			w.must(fmt.Sprintf(format, k))
		}
	}
	each("INSERT INTO t (k, c, v) VALUES (%[1]d, 1, %[1]d)")
	w.settle()
	each("DELETE FROM t WHERE k = %d")
	refuses := func(m *command.Mutation) bool { return m.Key[3]%2 == 0 }
	w.refuses.Store(&refuses)
	w.keeper.Round(context.Background(), 0)
	var r *session.Result
	if r = w.must("SELECT * FROM m"); r.RowCount != n/2 {
		t.Errorf("%d rows are in the view after one round, want %d", r.RowCount, n/2)
	}
	w.refuses.Store(nil)
	w.settle()
	if r = w.must("SELECT * FROM m"); r.RowCount != 0 {
		t.Errorf("%d rows are in the view in the end", r.RowCount)
	}
}
