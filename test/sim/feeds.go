// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/ddl"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/read"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/test/fakeclock"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// This file contains the workload of CQL tables with cdc = true. Clients write to the tables with all kinds of CQL
// statements, which are parsed, bound, and executed as in a session. Every value is written only once, so a value
// identifies its write.

const feedSchema = `CREATE TABLE log.t (k text, c int, s bigint static, v bigint, w bigint, PRIMARY KEY (k, c))
	WITH cdc = true AND gc_grace_seconds = 1;
CREATE TABLE log.n (k text PRIMARY KEY, n counter) WITH cdc = true`

// fleeting is the only key whose cells expire.
const fleeting = "q3"

var loggedKeys = []string{"q0", "q1", "q2", fleeting}

// loggedRows is the number of rows of each key.
const loggedRows = 4

// feedRun holds the state of the tables and followers of a run.
type feedRun struct {
	tables    []*schema.Table
	writes    []*feedWrite
	followers []*rowFollower
	uuids     *cqltype.TimeUUIDs
	// last holds the final rows by table, in row order.
	last map[string][]feedLine
}

// loggedRow identifies a row by its keys as the feed shows them. c is empty for the static row.
type loggedRow struct{ k, c string }

// feedWrite is a statement with the values that it leaves in rows. A feed must contain each value once if the
// statement was executed.
type feedWrite struct {
	client        int
	text          string
	wrote         map[loggedRow]uint64
	adds          string // the counter that the statement increments
	done, applied bool
	called, ended time.Duration
}

func (f *feedWrite) String() string {
	return fmt.Sprintf("client %d %s [%v %v] done %v applied %v", f.client, f.text, f.called, f.ended, f.done,
		f.applied)
}

// firstFeeds creates the initial tables, each in two partitions.
func (w *simulation) firstFeeds(s *meta.State) (*meta.State, error) {
	out := *s
	out.Schema = catalog.WithSystem(out.Schema)
	replication := []schema.Entry{{Key: "class", Value: "SimpleStrategy"}, {Key: "replication_factor", Value: "1"}}
	at := &drafting{schema: out.Schema}
	if _, _, err := at.Apply(context.Background(), &schema.CreateKeyspace{Name: "log",
		Properties: []schema.Property{{Name: "replication", IsMap: true, Map: replication}}}, ""); err != nil {
		return nil, err
	}
	cat := catalog.New(at.schema, func() catalog.NodeInfo { return catalog.NodeInfo{} })
	executor := ddl.New(cat, at, ddl.Options{
		Release: compat.Cassandra50, Clock: fakeclock.Func(w.Time), UUID: func() (id schema.UUID) {
			binary.BigEndian.PutUint64(id[:], w.Rand.Uint64())
			return id
		}})
	for _, text := range splitStatements(feedSchema) {
		stmt, _, err := parser.Parse(text)
		if err == nil {
			_, err = executor.Execute(context.Background(), stmt, "", ddl.Actor{}, nil)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
	}
	out.Schema = at.schema
	for i, name := range []string{"t", "n"} {
		t := out.Schema.Table("log", name)
		m, err := out.Topology.CutTable(t.ID, w.pieces(i))
		if err != nil {
			return nil, err
		}
		out.Topology, w.feeds.tables = m, append(w.feeds.tables, t)
	}
	w.feeds.uuids = cqltype.NewTimeUUIDs([6]byte{1}, 1)
	return &out, nil
}

func splitStatements(text string) (out []string) {
	for begin, i := 0, 0; i <= len(text); i++ {
		if i == len(text) || text[i] == ';' {
			out, begin = append(out, text[begin:i]), i+1
		}
	}
	return out
}

// drafting executes DDL before the cluster exists.
type drafting struct{ schema *schema.Schema }

// Apply implements ddl.Store.
func (d *drafting) Apply(_ context.Context, c schema.Change, _ string) (*schema.Schema, []schema.Event, error) {
	next, events, err := schema.Apply(d.schema, c)
	if err == nil {
		d.schema = next
	}
	return d.schema, events, err
}

// startFeeds starts clients of the tables and readers of their feeds on a node.
func (n *node) startFeeds() {
	w := n.w
	for i := range 2 {
		n.Spawn(func(t *simenv.Task) {
			c := &feedClient{n: n, t: t, id: 500 + 2*n.ID + i, last: map[loggedRow]uint64{}}
			for t.Sleep(w.Between(time.Millisecond, 150*time.Millisecond)) && !w.finished {
				if n.state().Version > 0 {
					c.execute(c.draw())
				}
			}
		})
	}
	n.startFollowing()
}

// feedClient is a client of the tables. last is the value that the client wrote last.
type feedClient struct {
	n    *node
	t    *simenv.Task
	id   int
	last map[loggedRow]uint64
}

// draw chooses a statement.
func (c *feedClient) draw() *feedWrite {
	w := c.n.w
	f := &feedWrite{client: c.id, wrote: map[loggedRow]uint64{}}
	switch key := loggedKeys[w.Rand.IntN(len(loggedKeys))]; w.Rand.IntN(12) {
	case 0:
		f.adds = key
		f.text = fmt.Sprintf("UPDATE log.n SET n = n + 1 WHERE k = '%s'", key)
	case 1, 2:
		f.text = c.conditional(f, key)
	case 3, 4:
		f.text = "BEGIN " + []string{"", "UNLOGGED "}[w.Rand.IntN(2)] + "BATCH "
		other := loggedKeys[w.Rand.IntN(len(loggedKeys))]
		first := w.Rand.IntN(loggedRows)
		f.text += c.one(f, key, first, w.Rand.IntN(4)) + "; " +
			c.one(f, other, (first+1)%loggedRows, w.Rand.IntN(4)) + "; APPLY BATCH"
	default:
		f.text = c.one(f, key, w.Rand.IntN(loggedRows), w.Rand.IntN(11))
	}
	return f
}

// one returns a statement about one key. The first four kinds write to one row.
func (c *feedClient) one(f *feedWrite, k string, row, kind int) string {
	w := c.n.w
	id, value := loggedRow{k, fmt.Sprint(row)}, w.hist.newValue()
	using, old := "", w.OneIn(3)
	if old {
		using = fmt.Sprintf(" USING TIMESTAMP %d", 1+w.Rand.IntN(1000))
	}
	if kind < 4 && !old {
		f.wrote[id] = value
	}
	live := ""
	if k == fleeting && w.OneIn(2) {
		delete(f.wrote, id) // the value may have expired by the leader's clock when the condition is evaluated
		live = fmt.Sprintf(" USING TTL %d", 1+w.Rand.IntN(5))
		if old {
			live = fmt.Sprintf("%s AND TTL %d", using, 1+w.Rand.IntN(5))
		}
	} else if old {
		live = using
	}
	switch kind {
	case 0, 1:
		if old { // the marker of a row must be as new as its cells
			delete(f.wrote, id)
			return fmt.Sprintf("UPDATE log.t%s SET v = %d WHERE k = '%s' AND c = %d", live, value, k, row)
		}
		return fmt.Sprintf("INSERT INTO log.t (k, c, v, w) VALUES ('%s', %d, %d, %[3]d)%s", k, row, value, live)
	case 2:
		return fmt.Sprintf("UPDATE log.t%s SET v = %d WHERE k = '%s' AND c = %d", live, value, k, row)
	case 3:
		delete(f.wrote, id)
		return fmt.Sprintf("UPDATE log.t%s SET v = null, w = %d WHERE k = '%s' AND c = %d", live, value, k, row)
	case 4:
		return fmt.Sprintf("DELETE v FROM log.t%s WHERE k = '%s' AND c = %d", using, k, row)
	case 5:
		return fmt.Sprintf("DELETE FROM log.t%s WHERE k = '%s' AND c = %d", using, k, row)
	case 6:
		return fmt.Sprintf("DELETE FROM log.t%s WHERE k = '%s' AND c >= %d AND c < %d", using, k, row,
			row+1+w.Rand.IntN(3))
	case 7:
		if using == "" {
			f.wrote[loggedRow{k, "-"}] = value
		}
		return fmt.Sprintf("UPDATE log.t%s SET s = %d WHERE k = '%s'", using, value, k)
	case 8:
		return fmt.Sprintf("DELETE FROM log.t%s WHERE k = '%s'", using, k)
	case 9:
		return fmt.Sprintf("DELETE s FROM log.t%s WHERE k = '%s'", using, k)
	}
	f.wrote[id], f.wrote[loggedRow{k, "-"}] = value, value
	return fmt.Sprintf("INSERT INTO log.t (k, c, s, v, w) VALUES ('%s', %d, %d, %[3]d, %[3]d)", k, row, value)
}

// conditional returns a conditional statement about one row.
func (c *feedClient) conditional(f *feedWrite, k string) string {
	w := c.n.w
	row := w.Rand.IntN(loggedRows)
	id, value := loggedRow{k, fmt.Sprint(row)}, w.hist.newValue()
	if w.OneIn(4) {
		return fmt.Sprintf("DELETE FROM log.t WHERE k = '%s' AND c = %d IF EXISTS", k, row)
	}
	f.wrote[id] = value
	if old := c.last[id]; old != 0 && w.OneIn(2) {
		return fmt.Sprintf("UPDATE log.t SET v = %d WHERE k = '%s' AND c = %d IF v = %d", value, k, row, old)
	}
	return fmt.Sprintf("INSERT INTO log.t (k, c, v, w) VALUES ('%s', %d, %d, %[3]d) IF NOT EXISTS", k, row, value)
}

// execute executes a statement on the node and records its outcome.
func (c *feedClient) execute(f *feedWrite) {
	w := c.n.w
	f.called = w.Now
	w.feeds.writes = append(w.feeds.writes, f)
	o, err := c.n.modify(c.t, f.text)
	if f.ended = w.Now; c.t.Dead() {
		w.counts.Unknown++
		return
	}
	if err == nil {
		f.done, f.applied = true, o.columns == nil || o.applied
		w.counts.FeedWrites++
		for id, value := range f.wrote {
			if f.applied {
				c.last[id] = value
			}
		}
		w.Note("%v", f)
		return
	}
	var (
		late        *dberr.WriteTimeout
		unavailable *dberr.Unavailable
		overloaded  *dberr.Overloaded
	)
	switch {
	case errors.As(err, &unavailable), errors.As(err, &overloaded):
		f.done = !strings.Contains(f.text, "UNLOGGED") // an unlogged batch over several keys may be applied in part
	case errors.As(err, &late), errors.Is(err, sched.ErrEnded):
		w.counts.Unknown++
		f.done = w.plan.Bugs.HastyFate
	default:
		w.Fail("%v: %v", f, err)
	}
}

// statementEnd is the outcome of a statement.
type statementEnd struct {
	responded bool
	err       error
	applied   bool
	columns   []write.Column
}

// Written implements write.Completion.
func (e *statementEnd) Written(o *write.Outcome) {
	e.responded, e.err, e.applied, e.columns = true, o.Err, o.Applied, o.Columns
}

// inSchema looks up the tables of statements in the schema that a node knows.
type inSchema struct{ schema *schema.Schema }

// Release implements write.Names.
func (inSchema) Release() *compat.Release { return compat.Cassandra50 }

// Functions implements write.Names.
func (inSchema) Functions() *expr.Functions { return nil }

// Table implements write.Names.
func (s inSchema) Table(name parser.QualifiedName) (*schema.Keyspace, *schema.Table, error) {
	if t := s.schema.Table(name.Keyspace.Name, name.Name.Name); t != nil {
		return s.schema.Keyspace(name.Keyspace.Name), t, nil
	}
	return nil, nil, coordinator.ErrUnknownTable
}

// modify executes a modification. It plans the statement again when the schema changes.
func (n *node) modify(t *simenv.Task, text string) (o *statementEnd, err error) {
	for range replanMax {
		if o, err = n.modifyOnce(t, text); !errors.Is(err, coordinator.ErrStaleSchema) ||
			!t.Sleep(20*time.Millisecond) {
			return o, err
		}
		n.w.counts.Stale++
	}
	return o, &dberr.WriteTimeout{} // part of a batch may have been applied
}

func (n *node) modifyOnce(t *simenv.Task, text string) (*statementEnd, error) {
	ctx, names := context.Background(), inSchema{n.cat.Snapshot()}
	stmt, _, err := parser.Parse(text)
	if err != nil {
		return nil, err
	}
	r := &write.Request{Bindings: expr.Bindings{Now: n.peers.Wall(), UUIDs: n.w.feeds.uuids}, Level: dberr.Quorum,
		Serial: dberr.Serial}
	end := &statementEnd{}
	if b, ok := stmt.(*parser.Batch); ok {
		plan, err := write.PrepareBatch(b, names, 0)
		if err != nil {
			return nil, err
		}
		n.writes.ExecuteBatch(ctx, plan, r, end)
	} else {
		ks, table, err := names.Table(parser.ModifiedTable(stmt))
		if err != nil {
			return nil, err
		}
		plan, err := write.Prepare(compat.Cassandra50, stmt, ks, table, 0)
		if err != nil {
			return nil, err
		}
		n.writes.Execute(ctx, plan, r, end)
	}
	if err := t.Wait(func() bool { return end.responded }, responseTimeout); err != nil && !end.responded {
		if !t.Dead() {
			n.w.Fail("%s has no response: %v", text, err)
		}
		return nil, err
	}
	return end, end.err
}

// feedLine is a row of a result by column name. A dash represents null.
type feedLine map[string]string

// query reads a page of a SELECT.
func (n *node) query(text string, size int, state []byte) (rows []feedLine, next []byte, err error) {
	stmt, _, err := parser.Parse(text)
	if err != nil {
		return nil, nil, err
	}
	sel := stmt.(*parser.Select)
	ks, table, err := inSchema{n.cat.Snapshot()}.Table(sel.Table)
	if err != nil {
		return nil, nil, err
	}
	plan, err := read.Prepare(compat.Cassandra50, sel, ks, table, 0)
	if err != nil {
		return nil, nil, err
	}
	now, page := n.peers.Wall(), &read.Page{}
	err = plan.Execute(context.Background(), n.coord, &expr.Bindings{Now: now}, read.Options{Level: dberr.Quorum,
		PageSize: size, PagingState: state, Now: now.Unix(), Clock: n.peers, Deadline: now.Add(time.Minute)}, page)
	if err != nil {
		return nil, nil, err
	}
	cells := page.Cells
	for range page.Rows {
		line := feedLine{}
		for _, c := range plan.Columns() {
			size := int32(binary.BigEndian.Uint32(cells))
			if cells = cells[4:]; size < 0 {
				line[c.Name] = "-"
				continue
			}
			line[c.Name], cells = c.Type.Format(cells[:size]), cells[size:]
		}
		rows = append(rows, line)
	}
	return rows, page.PagingState, nil
}
