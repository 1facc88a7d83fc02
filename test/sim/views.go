// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/ddl"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// This file contains the workload of a base table and its materialized views. The first view has a regular column in
// its key, the second view has only key columns, the third view has a WHERE clause, and the fourth view is created
// while clients write. The clients write with all kinds of statements. At the end, each view must match the base table
// (viewcheck.go).
const (
	seen      = "seen"
	lateView  = "late"
	viewKeys  = 3 // partition keys of the base table, starting at 0
	viewRows  = 4 // clustering keys of each partition
	viewPause = 90 * time.Millisecond
)

var viewTables = []string{
	"CREATE KEYSPACE seen WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
	"CREATE TABLE base (k int, c int, s int static, v int, w int, x int, m map<int, int>, PRIMARY KEY (k, c))",
	"CREATE MATERIALIZED VIEW by_v AS SELECT k, c, v, w, m FROM base WHERE v IS NOT NULL AND k IS NOT NULL AND " +
		"c IS NOT NULL PRIMARY KEY (v, k, c)",
	"CREATE MATERIALIZED VIEW by_c AS SELECT k, c, v FROM base WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)",
	"CREATE MATERIALIZED VIEW some AS SELECT k, c, w FROM base WHERE w IS NOT NULL AND k IS NOT NULL AND c >= 1 AND " +
		"c < 3 PRIMARY KEY (k, w, c)",
}

const lateText = "CREATE MATERIALIZED VIEW late AS SELECT k, c, v, w FROM base WHERE w IS NOT NULL AND v IS NOT NULL " +
	"AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY ((w, c), k)"

type viewDraft struct{ cat *catalog.Catalog }

// Apply implements ddl.Store. It changes only the catalog.
func (d viewDraft) Apply(_ context.Context, c schema.Change, _ string) (*schema.Schema, []schema.Event, error) {
	s, events, err := schema.Apply(d.cat.Snapshot(), c)
	if err == nil {
		d.cat.Publish(s, events...)
	}
	return s, events, err
}

// define executes a statement that changes the schema.
func define(cat *catalog.Catalog, store ddl.Store, clock sched.Clock, text string) error {
	stmt, _, err := parser.Parse(text)
	if err != nil {
		return err
	}
	_, err = ddl.New(cat, store, ddl.Options{Clock: clock}).Execute(context.Background(), stmt, seen, ddl.Actor{}, nil)
	return err
}

// firstViews creates the initial tables, each in two partitions.
func (w *simulation) firstViews(s *meta.State) (*meta.State, error) {
	out := *s
	cat := catalog.New(schema.New(), func() catalog.NodeInfo { return catalog.NodeInfo{} })
	cat.Publish(catalog.WithSystem(out.Schema))
	for _, text := range viewTables {
		if err := define(cat, viewDraft{cat}, w.nodes[0], text); err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
	}
	out.Schema = cat.Snapshot()
	for i, t := range out.Schema.Keyspaces[seen].SortedTables() {
		m, err := out.Topology.CutTable(t.ID, w.pieces(i))
		if err != nil {
			return nil, err
		}
		out.Topology = m
	}
	return &out, nil
}

// keepViews creates the components that maintain views on a node, as package node does.
func (n *node) keepViews() {
	if !n.w.plan.With.Views {
		return
	}
	s := n.Scheduler()
	n.views = view.New(view.Options{Coordinator: n.coord, Catalog: n.cat, Host: n.parts,
		Clock: n.peers, Log: slog.New(slog.DiscardHandler), Workers: 4, Sched: s})
	n.parts.SetViews(n.views)
	s.Go(func() { n.views.Run(context.Background()) })
}

// entries returns the entries of a row in an index that is being built.
func (n *node) entries(t *schema.Table, ix *schema.Index, key, clustering []byte, r *row.Row) ([]command.Op, error) {
	if ks := n.cat.Snapshot().Keyspaces[t.Keyspace]; ix.Kind == schema.ViewKind && ks != nil {
		return view.Entries(ks, t, ix, clustering, r)
	}
	return expr.IndexOps(t, ix, key, clustering, r)
}

// startViews starts clients of the base table on a node, and a task that creates one more view.
func (n *node) startViews() {
	w := n.w
	if !w.plan.With.Views {
		return
	}
	for range 2 {
		n.Spawn(func(t *simenv.Task) {
			c := &viewClient{n: n, t: t, executor: write.NewExecutor(n.coord, write.Options{})}
			for t.Sleep(w.Between(time.Millisecond, viewPause)) && !w.finished {
				c.execute(w.viewStatement())
			}
		})
	}
	n.Spawn(func(t *simenv.Task) {
		for t.Sleep(w.Between(2*time.Second, 9*time.Second)) && !w.finished && !w.Calm {
			if ks := n.cat.Snapshot().Keyspaces[seen]; ks != nil && ks.Tables[lateView] == nil {
				w.Note("node %d: %s: %v", n.ID, lateView, define(n.cat, n.changer, n, lateText))
			}
		}
	})
}

// viewClient writes to the base table.
type viewClient struct {
	n        *node
	t        *simenv.Task
	executor *write.Executor
}

// answered is a write.Completion.
type answered func(err error)

// Written implements write.Completion.
func (f answered) Written(o *write.Outcome) { f(o.Err) }

// baseNames looks up the tables of a schema.
type baseNames struct{ s *schema.Schema }

// Release implements write.Names.
func (b baseNames) Release() *compat.Release { return compat.Cassandra50 }

// Functions implements write.Names.
func (b baseNames) Functions() *expr.Functions { return nil }

// Table implements write.Names.
func (b baseNames) Table(name parser.QualifiedName) (*schema.Keyspace, *schema.Table, error) {
	ks := b.s.Keyspaces[seen]
	if ks == nil || ks.Tables[name.Name.Name] == nil {
		return nil, nil, coordinator.ErrUnknownTable
	}
	return ks, ks.Tables[name.Name.Name], nil
}

// execute executes a statement that is planned for the schema that the node knows. It plans the statement again when
// the schema has changed. The outcome is not checked, because views must match the base regardless of the outcome.
func (c *viewClient) execute(text string) {
	w := c.n.w
	for range replanMax {
		err := c.executeOnce(text)
		switch {
		case c.t.Dead():
			return
		case errors.Is(err, coordinator.ErrStaleSchema) && c.t.Sleep(20*time.Millisecond):
			continue
		case err == nil:
			w.counts.BaseWrites++
		}
		w.Note("node %d: %s: %v", c.n.ID, text, err)
		return
	}
}

func (c *viewClient) executeOnce(text string) error {
	stmt, markers, err := parser.Parse(text)
	if err != nil {
		c.n.w.Fail("%s: %v", text, err)
		return err
	}
	names := baseNames{c.n.cat.Snapshot()}
	r := &write.Request{Level: dberr.Quorum, Serial: dberr.Serial}
	r.Now = c.n.peers.Wall()
	responded := false
	done := answered(func(e error) { responded, err = true, e })
	if batch, ok := stmt.(*parser.Batch); ok {
		b, err := write.PrepareBatch(batch, names, len(markers))
		if err != nil {
			return err
		}
		c.executor.ExecuteBatch(context.Background(), b, r, done)
	} else {
		ks, t, err := names.Table(parser.ModifiedTable(stmt))
		if err != nil {
			return err
		}
		p, err := write.Prepare(compat.Cassandra50, stmt, ks, t, len(markers))
		if err != nil {
			return err
		}
		c.executor.Execute(context.Background(), p, r, done)
	}
	if e := c.t.Wait(func() bool { return responded }, responseTimeout); e != nil && !responded {
		if !c.t.Dead() {
			c.n.w.Fail("%s has no response: %v", text, e)
		}
		return e
	}
	return err
}

// viewStatement draws a statement for the base table.
func (w *simulation) viewStatement() string {
	r := w.Rand
	k, c := r.IntN(viewKeys), r.IntN(viewRows)
	at := fmt.Sprintf("WHERE k = %d AND c = %d", k, c)
	value := func() string {
		if r.IntN(5) == 0 {
			return "null"
		}
		return fmt.Sprint(r.IntN(3))
	}
	using := func(ttl bool) string {
		var parts []string
		if r.IntN(5) == 0 {
			parts = append(parts, fmt.Sprintf("TIMESTAMP %d", 1_000_000+r.IntN(2000)))
		}
		if ttl && r.IntN(5) == 0 {
			parts = append(parts, fmt.Sprintf("TTL %d", 1+r.IntN(60)))
		}
		if len(parts) == 0 {
			return ""
		}
		return " USING " + strings.Join(parts, " AND ")
	}
	switch r.IntN(20) {
	case 0, 1, 2:
		return fmt.Sprintf("INSERT INTO base (k, c, v, w) VALUES (%d, %d, %s, %s)%s", k, c, value(), value(),
			using(true))
	case 3:
		return fmt.Sprintf("INSERT INTO base (k, c) VALUES (%d, %d)%s", k, c, using(true))
	case 4, 5, 6:
		return fmt.Sprintf("UPDATE base%s SET v = %s %s", using(true), value(), at)
	case 7, 8:
		return fmt.Sprintf("UPDATE base%s SET w = %s %s", using(true), value(), at)
	case 9:
		return fmt.Sprintf("UPDATE base%s SET x = %s, m[%d] = %d %s", using(true), value(), r.IntN(2), c, at)
	case 10:
		return fmt.Sprintf("UPDATE base SET s = %d WHERE k = %d", r.IntN(9), k)
	case 11:
		return fmt.Sprintf("DELETE v, m FROM base%s %s", using(false), at)
	case 12:
		return fmt.Sprintf("DELETE FROM base%s %s", using(false), at)
	case 13:
		return fmt.Sprintf("DELETE FROM base%s WHERE k = %d AND c >= %d AND c < %d", using(false), k, c, c+2)
	case 14:
		return fmt.Sprintf("DELETE FROM base%s WHERE k = %d", using(false), k)
	case 15:
		return fmt.Sprintf("UPDATE base SET v = %s %s IF w = %d", value(), at, r.IntN(3))
	case 16:
		return fmt.Sprintf("DELETE FROM base %s IF EXISTS", at)
	case 17:
		return fmt.Sprintf("BEGIN BATCH UPDATE base SET v = %s %s; INSERT INTO base (k, c, w) VALUES (%d, %d, %d); "+
			"DELETE w FROM base WHERE k = %d AND c = %d; APPLY BATCH", value(), at, (k+1)%viewKeys, c, r.IntN(3),
			(k+2)%viewKeys, c)
	case 18: // rows that are never written again, so a row that a view build missed stays missing
		return fmt.Sprintf("INSERT INTO base (k, c, v, w) VALUES (%d, %d, 1, 1)", 1000+w.hist.newValue(), c)
	}
	return fmt.Sprintf("BEGIN UNLOGGED BATCH UPDATE base SET v = %s %s; DELETE FROM base WHERE k = %d AND c = %d; "+
		"APPLY BATCH", value(), at, k, (c+1)%viewRows)
}
