// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

const requireLimit = time.Minute

// outcome is a completion that delivers the outcome.
type outcome chan error

// Done implements command.Completion.
func (c outcome) Done(o command.Outcome) { c <- o.Err }

// newTruncated returns a fixture with a base table and two views.
func newTruncated(t *testing.T) *fixture {
	w := newFixture(t, true)
	w.must("CREATE TABLE t (k int PRIMARY KEY, v int)")
	w.must("CREATE MATERIALIZED VIEW tv AS SELECT * FROM t WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)")
	w.must("CREATE MATERIALIZED VIEW tk AS SELECT * FROM t WHERE k IS NOT NULL PRIMARY KEY (k)")
	return w
}

// inViews fails the test unless both views contain exactly the given values of k.
func (w *fixture) inViews(when string, want ...string) {
	w.t.Helper()
	for _, name := range []string{"tv", "tk"} {
		got := rows(w.must("SELECT k FROM "+name), 1)
		if slices.Sort(got); !slices.Equal(got, want) {
			w.t.Errorf("%s: view %s has k = %v, want %v", when, name, got, want)
		}
	}
}

// TestTruncateEmptiesViews checks that the views of a table are empty when TRUNCATE returns. A delivery that was read
// before TRUNCATE and arrives later must have no effect.
func TestTruncateEmptiesViews(t *testing.T) {
	w := newTruncated(t)
	for k := range 300 {
		w.must(fmt.Sprintf("INSERT INTO t (k, v) VALUES (%d, %d)", k, k%7))
	}
	w.settle()
	var late []command.Mutation
	views := w.catalog.Snapshot().Keyspaces["ks"].ViewsOf("t")
	hold := func(m *command.Mutation) bool {
		if !slices.ContainsFunc(views, func(v *schema.Table) bool { return v.ID == m.Table }) {
			return false
		}
		var held command.Mutation
		if err := command.DecodeMutation(&held, command.AppendMutation(nil, m)); err != nil {
			t.Error(err)
		}
		late = append(late, held)
		return true
	}
	w.refuses.Store(&hold)
	w.must("INSERT INTO t (k, v) VALUES (1, 100)")
	w.refuses.Store(nil)
	w.must("TRUNCATE t")
	w.inViews("after TRUNCATE")
	if len(late) == 0 {
		t.Fatal("no delivery was held")
	}
	for i := range late {
		done := make(outcome, 1)
		w.coordinator.Write(t.Context(), late[i:i+1], coordinator.WriteOptions{Level: dberr.Quorum}, done)
		if err := <-done; !errors.Is(err, coordinator.ErrStaleSchema) {
			t.Errorf("a late delivery: %v", err)
		}
	}
	w.settle()
	w.inViews("after late deliveries")
	w.must("INSERT INTO t (k, v) VALUES (2, 2)")
	w.settle()
	w.inViews("after an INSERT", "2")
}

// insertingChanger inserts a row before it renews views.
type insertingChanger struct{ *fixture }

func (w insertingChanger) RenewViews(ctx context.Context, keyspace, table string) (*schema.Schema, error) {
	w.must("INSERT INTO t (k, v) VALUES (2, 2)")
	w.settle()
	s, _, err := w.Apply(ctx, &schema.RenewViews{Keyspace: keyspace, Table: table}, "")
	return s, err
}

// brokenChanger cannot change the schema.
type brokenChanger struct{ err error }

func (b brokenChanger) RenewViews(context.Context, string, string) (*schema.Schema, error) {
	return nil, b.err
}

// TestWriteWhileTruncated writes a row after the base table has been truncated. The row is delivered to the views
// before the views are truncated. At the end of the test, the views must contain the row.
func TestWriteWhileTruncated(t *testing.T) {
	w := newTruncated(t)
	w.must("INSERT INTO t (k, v) VALUES (1, 1)")
	w.settle()
	x := view.Truncation{Tables: w.coordinator, Limit: requireLimit, Now: w.now().Unix(),
		Schema: insertingChanger{w}}
	if err := x.Run(t.Context(), w.catalog.Snapshot().Keyspaces["ks"].Tables["t"]); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.inViews("after TRUNCATE", "2")
}

// TestUnfinishedTruncate checks a TRUNCATE that cannot truncate the views. The error must instruct the client to repeat
// TRUNCATE. The second TRUNCATE must empty the views.
func TestUnfinishedTruncate(t *testing.T) {
	w := newTruncated(t)
	w.must("INSERT INTO t (k, v) VALUES (1, 1)")
	w.settle()
	broken := errors.New("no quorum")
	x := view.Truncation{Tables: w.coordinator, Limit: requireLimit, Now: w.now().Unix(),
		Schema: brokenChanger{broken}}
	err := x.Run(t.Context(), w.catalog.Snapshot().Keyspaces["ks"].Tables["t"])
	const want = "Error during truncate: table ks.t is truncated, but not all of its materialized views are: no quorum. " +
		"Run TRUNCATE again"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	w.must("TRUNCATE t")
	w.inViews("after another TRUNCATE")
}
