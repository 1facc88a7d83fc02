// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/vector"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// Read executes a read for a Verifier.
func (w *fixture) Read(ctx context.Context, c *command.Read, v command.Visitor) error {
	return w.coordinator.Read(ctx, c, v)
}

type result chan error

// Done implements command.Completion.
func (c result) Done(o command.Outcome) { c <- o.Err }

// damage writes directly to a view at a row with numeric keys.
func (w *fixture) damage(name string, key, clustering []int32, change func(b *row.Builder)) {
	w.t.Helper()
	t := w.catalog.Snapshot().Table("ks", name)
	var b row.Builder
	b.Reset(row.Unstamped)
	change(&b)
	m := command.Mutation{Table: t.ID, SchemaVersion: t.Revision}
	number := func(n int32) []byte { return []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)} }
	m.Key = number(key[0])
	op := command.Op{Kind: command.OpRow, Operand: b.Append(nil)}
	for i, n := range clustering {
		op.Clustering = t.Clustering[i].Type.AppendKey(op.Clustering, number(n), t.Clustering[i].Desc)
	}
	m.Token, m.Ops = t.Token(m.Key), []command.Op{op}
	done := make(result, 1)
	w.coordinator.Write(context.Background(), []command.Mutation{m}, coordinator.WriteOptions{Level: dberr.Quorum,
		Type: "SIMPLE"}, done)
	if err := <-done; err != nil {
		w.t.Fatal(err)
	}
}

// pages reads all pages of a verification and returns the sorted differences.
func pages(t *testing.T, page func(from view.At) (*view.Page, error)) (found []string, rows int) {
	t.Helper()
	for from := (&view.At{}); from != nil; {
		p, err := page(*from)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range p.Differences {
			found = append(found, fmt.Sprintf("%s: %s, repaired %v", d.Row, d.What, d.Repaired))
		}
		rows += p.Rows
		from = p.Next
	}
	slices.Sort(found)
	return found, rows
}

// TestVerifyView checks that every kind of damage to a view is found, described, and repaired for all page sizes. A
// correct view must have no differences.
func TestVerifyView(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"own": "v, k, c", "base": "c, k"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, true)
			w.must("CREATE TABLE t (k int, c int, v int, w int, m map<int, int>, PRIMARY KEY (k, c))")
			w.must("CREATE MATERIALIZED VIEW m AS SELECT * FROM t WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL " +
				"PRIMARY KEY (" + key + ")")
			const n = 60
			for i := range n {
				w.must(fmt.Sprintf("INSERT INTO t (k, c, v, w, m) VALUES (%d, %d, 7, %d, {1: %d}) USING TTL %d", i/3, i%3,
					i, i, 1000+i))
			}
			w.settle()
			f := &view.Verifier{Rows: w, Clock: fakeclock.Func(w.now), Pauses: []time.Duration{time.Millisecond,
				20 * time.Millisecond}}
			limit := 7
			verify := func() ([]string, int) {
				return pages(t, func(from view.At) (*view.Page, error) {
					return f.View(context.Background(), w.catalog.Snapshot().Keyspaces["ks"], "m", from, limit)
				})
			}
			if found, rows := verify(); len(found) > 0 || rows != 2*n {
				t.Fatalf("%d rows looked at, want %d, found %q", rows, 2*n, found)
			}
			at := func(k, c int32) (key, clustering []int32) {
				if name == "own" {
					return []int32{7}, []int32{k, c}
				}
				return []int32{c}, []int32{k}
			}
			table := w.catalog.Snapshot().Table("ks", "m")
			damage := func(k, c int32, change func(b *row.Builder)) {
				key, clustering := at(k, c)
				w.damage("m", key, clustering, change)
			}
			damage(3, 1, func(b *row.Builder) { b.DeleteRow(w.now().Unix()) })
			damage(90, 2, func(b *row.Builder) { b.Live(0, 0) })
			damage(4, 0, func(b *row.Builder) {
				b.Cell(table.ByName["w"].ID, nil, []byte{0, 0, 0, 9}, 0, row.NoExpiry)
			})
			damage(5, 2, func(b *row.Builder) { b.DeleteColumn(table.ByName["m"].ID, 0, w.now().Unix()) })
			want := "k = 3 AND c = 1: the row is missing from the view, repaired false | " +
				"k = 4 AND c = 0: column w has a different value in the view, repaired false | " +
				"k = 5 AND c = 2: column m has a different value in the view, repaired false | " +
				"k = 90 AND c = 2: the view contains an unexpected row, repaired false"
			if found, _ := verify(); strings.Join(found, " | ") != want {
				t.Fatalf("found %q", found)
			}
			limit, f.Repair = 1000, true
			f.Pauses = []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, 3 * time.Second}
			if found, _ := verify(); strings.Join(found, " | ") != strings.ReplaceAll(want, "false", "true") {
				t.Fatalf("repaired %q", found)
			}
			if found, rows := verify(); len(found) > 0 || rows != 2*n {
				t.Fatalf("%d rows looked at after the repair, want %d, found %q", rows, 2*n, found)
			}
		})
	}
}

// TestVerifyIndex checks that missing index entries are found and repaired for each kind of index and column.
func TestVerifyIndex(t *testing.T) {
	t.Parallel()
	w := newFixture(t, true)
	w.must("CREATE TABLE t (k int, c int, s int static, v int, m map<int, int>, PRIMARY KEY (k, c))")
	for _, column := range []string{"s", "v", "c"} {
		w.must("CREATE INDEX i_" + column + " ON t (" + column + ")")
	}
	w.must("CREATE INDEX i_m ON t (values(m))")
	w.must("CREATE INDEX sai ON t (v) USING 'sai'")
	w.must("CREATE INDEX sai_s ON t (s) USING 'sai'")
	w.must("CREATE INDEX sai_m ON t (entries(m)) USING 'sai'")
	w.must("CREATE INDEX sai_c ON t (c) USING 'sai'")
	w.must("CREATE TABLE u (k int PRIMARY KEY, v int)")
	w.must("CREATE INDEX sai_u ON u (v) USING 'sai'")
	w.must("CREATE TABLE near (k int, c int, v vector<float, 2>, PRIMARY KEY (k, c))")
	w.must("CREATE INDEX sai_near ON near (v) USING 'sai'")
	lists := vector.NewLists(vector.Cosine, 2)
	lists.Generation = 1
	_, of := w.catalog.Snapshot().Keyspaces["ks"].Index("sai_near")
	change := &schema.SetLists{Index: of.ID, Lists: schema.Lists{lists}}
	if _, _, err := w.Apply(t.Context(), change, ""); err != nil {
		t.Fatal(err)
	}
	const n = 30
	for i := range n {
		w.must(fmt.Sprintf("INSERT INTO u (k, v) VALUES (%d, %d)", i, i%4))
		w.must(fmt.Sprintf("INSERT INTO near (k, c, v) VALUES (%d, %d, [%d, 1])", i/3, i, i))
		w.must(fmt.Sprintf("INSERT INTO t (k, c, s, v, m) VALUES (%d, %d, %d, %d, {1: %d})", i/3, i%3, i/3, i%4, i))
	}
	for name, rows := range map[string]int{"i_s": n / 3, "i_v": n, "i_c": n, "i_m": n, "sai": n, "sai_s": n / 3,
		"sai_m": n, "sai_c": n, "sai_u": n, "sai_near": n} {
		table, ix := w.catalog.Snapshot().Keyspaces["ks"].Index(name)
		f := &view.Verifier{Rows: w, Clock: fakeclock.Func(w.now), Pauses: []time.Duration{time.Millisecond}}
		verify := func() (found []string, rows int) {
			return pages(t, func(from view.At) (*view.Page, error) {
				return f.Index(context.Background(), table, ix, expr.IndexOps, from, 7)
			})
		}
		if found, looked := verify(); len(found) > 0 || looked != rows {
			t.Errorf("%s: %d rows looked at, want %d, found %q", name, looked, rows, found)
		}
		if err := w.store.DropIndex(ix.ID); err != nil {
			t.Fatal(err)
		}
		if found, _ := verify(); len(found) != rows {
			t.Errorf("%s: %d rows are not found by an empty index, want %d: %q", name, len(found), rows, found)
		}
		f.Repair = true
		if found, _ := verify(); len(found) != rows || !strings.HasSuffix(found[0], "repaired true") {
			t.Errorf("%s: %d rows repaired, want %d", name, len(found), rows)
		}
		if found, _ := verify(); len(found) > 0 {
			t.Errorf("%s: %d rows differ after the repair", name, len(found))
		}
	}
}

// barrier executes the reads of a Verifier. Point reads wait for one another.
type barrier struct {
	*fixture
	want    int
	mu      sync.Mutex
	waiting int
	met     chan struct{}
}

func (m *barrier) Read(ctx context.Context, c *command.Read, v command.Visitor) error {
	if c.Key != nil {
		m.mu.Lock()
		if m.waiting++; m.waiting == m.want {
			close(m.met)
		}
		m.mu.Unlock()
		select {
		case <-m.met:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return m.fixture.Read(ctx, c, v)
}

// TestRowsAreComparedTogether checks that the rows of a page are compared concurrently. The test covers views and
// indexes. An error in one row must end the page.
func TestRowsAreComparedTogether(t *testing.T) {
	t.Parallel()
	w := newFixture(t, true)
	w.must("CREATE TABLE t (k int PRIMARY KEY, v int)")
	w.must("CREATE INDEX iv ON t (v)")
	for i := range 20 {
		w.must(fmt.Sprintf("INSERT INTO t (k, v) VALUES (%d, %d)", i, i))
	}
	table, ix := w.catalog.Snapshot().Keyspaces["ks"].Index("iv")
	rows := &barrier{fixture: w, want: 10, met: make(chan struct{})}
	f := &view.Verifier{Rows: rows, Clock: fakeclock.Func(w.now), Pauses: []time.Duration{time.Millisecond}}
	p, err := f.Index(t.Context(), table, ix, expr.IndexOps, view.At{}, 20)
	if err != nil || p.Rows != 20 || len(p.Differences) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	_, err = f.Index(t.Context(), table, ix, func(*schema.Table, *schema.Index, []byte, []byte, *row.Row) ([]command.Op,
		error) {
		return nil, errors.New("broken")
	}, view.At{}, 20)
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("the error of a row: %v", err)
	}
}
