// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// Clients create and drop these tables during a run. Column k is the key, column v sometimes has an index, and column
// x is added and dropped.
const keyspace = "ks"

var (
	tableNames = []string{"a", "b"}
	tableKeys  = []string{"k0", "k1", "k2", "k3", "k4", "k5"}
)

// change is a kind of schema change.
type change uint8

const (
	createTable change = iota
	dropTable
	addColumn
	dropColumn
	createIndex
	dropIndex
)

func (c change) String() string {
	return [...]string{"create table", "drop table", "add column", "drop column", "create index", "drop index"}[c]
}

// changeEnd is the outcome of a change.
type changeEnd uint8

const (
	unknown changeEnd = iota
	done
	refused
)

// alteration is a schema change that a client requested.
type alteration struct {
	table         string
	change        change
	answer        changeEnd
	called, ended time.Duration
}

// outline describes whether a table exists, and whether it has the column and the index.
type outline struct{ there, column, index bool }

// after returns the outline after a change. ok is false if the change must be rejected.
func (s outline) after(c change) (next outline, ok bool) {
	if c == createTable {
		return outline{there: true}, !s.there
	}
	next, ok = s, s.there
	switch c {
	case dropTable:
		next = outline{}
	case addColumn:
		next.column, ok = true, ok && !s.column
	case dropColumn:
		next.column, ok = false, ok && s.column
	case createIndex:
		next.index, ok = true, ok && !s.index
	case dropIndex:
		next.index, ok = false, ok && s.index
	}
	return next, ok
}

// shapes models the schema of a table. Changes take effect in sequence, and invalid changes are rejected.
var shapes = porcupine.NondeterministicModel{
	Init: func() []any { return []any{outline{there: true}} },
	Step: func(state, in, out any) []any {
		s := state.(outline)
		next, ok := s.after(in.(change))
		switch a := out.(changeEnd); {
		case a == unknown && ok:
			return []any{s, next}
		case a == unknown, a == refused && !ok:
			return []any{s}
		case a == done && ok:
			return []any{next}
		}
		return nil
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprint(in, " ", out) },
}

// of returns the schema change for a table.
func (c change) of(n *node, table string) schema.Change {
	var id schema.UUID
	for i := range id {
		id[i] = byte(n.w.Rand.Uint32())
	}
	stamp := schema.Stamp{Version: id, At: n.Wall().UnixMicro()}
	number := &schema.TypeSpec{Kind: cqltype.Bigint}
	switch c {
	case createTable:
		return &schema.CreateTable{
			Stamp: stamp, ID: id, Keyspace: keyspace, Name: table, PartitionKey: []string{"k"},
			Columns: []schema.ColumnSpec{{Name: "k", Type: &schema.TypeSpec{Kind: cqltype.Text}},
				{Name: "v", Type: number}},
		}
	case dropTable:
		return &schema.DropTable{Stamp: stamp, Keyspace: keyspace, Name: table}
	case addColumn:
		return &schema.AlterTable{Stamp: stamp, Keyspace: keyspace, Name: table, Op: schema.AddColumns,
			Add: []schema.ColumnSpec{{Name: "x", Type: number}}}
	case dropColumn:
		return &schema.AlterTable{Stamp: stamp, Keyspace: keyspace, Name: table, Op: schema.DropColumns,
			Drop: []string{"x"}}
	case createIndex:
		return &schema.CreateIndex{Stamp: stamp, Keyspace: keyspace, Table: table, Name: "i" + table,
			Targets: []schema.TargetSpec{{Column: "v"}}}
	}
	return &schema.DropIndex{Stamp: stamp, Keyspace: keyspace, Name: "i" + table}
}

// firstTables creates the initial tables, each in two partitions.
func (w *simulation) firstTables(s *meta.State) (*meta.State, error) {
	replication := []schema.Entry{{Key: "class", Value: "SimpleStrategy"}, {Key: "replication_factor", Value: "1"}}
	changes := []schema.Change{&schema.CreateKeyspace{
		Name: keyspace, Properties: []schema.Property{{Name: "replication", IsMap: true, Map: replication}},
	}}
	for _, name := range tableNames {
		changes = append(changes, createTable.of(w.nodes[0], name))
	}
	out := *s
	out.Schema = catalog.WithSystem(out.Schema)
	for _, c := range changes {
		var err error
		if out.Schema, _, err = schema.Apply(out.Schema, c); err != nil {
			return nil, err
		}
	}
	for i, name := range tableNames {
		m, err := out.Topology.CutTable(out.Schema.Table(keyspace, name).ID, w.pieces(i))
		if err != nil {
			return nil, err
		}
		out.Topology = m
	}
	return &out, nil
}

// startSchema starts clients that change the schema from time to time and write to the tables.
func (n *node) startSchema() {
	w := n.w
	if !w.plan.With.Schema {
		return
	}
	n.Spawn(func(t *simenv.Task) {
		for t.Sleep(w.Between(500*time.Millisecond, 7*time.Second)) && !w.finished && !w.Calm {
			if n.state().Version > 0 { // a node without metadata accepts no clients
				n.alter(t)
			}
		}
	})
	n.Spawn(func(t *simenv.Task) {
		c := &client{w: w, n: n, t: t, id: 100 + n.ID, last: map[string]uint64{}}
		for t.Sleep(w.Between(time.Millisecond, 250*time.Millisecond)) && !w.finished {
			if table := n.cat.Snapshot().Table(keyspace, tableNames[w.Rand.IntN(len(tableNames))]); table != nil {
				c.visit(table)
			}
		}
	})
}

// alter requests a change that usually fits the schema that the node knows.
func (n *node) alter(t *simenv.Task) {
	w := n.w
	name := tableNames[w.Rand.IntN(len(tableNames))]
	var s outline
	if table := n.cat.Snapshot().Table(keyspace, name); table != nil {
		s = outline{true, table.Column("x") != nil, len(table.Indexes) > 0}
	}
	// Indexes are created and dropped more often than other objects.
	c := []change{createIndex, createIndex, createIndex, createIndex, dropIndex, addColumn, dropColumn, createTable,
		dropTable}[w.Rand.IntN(9)]
	if _, ok := s.after(c); !ok && !w.OneIn(8) {
		switch {
		case !s.there:
			c = createTable
		case s.index:
			c = dropIndex
		default:
			c = createIndex
		}
	}
	if c == createIndex && w.OneIn(2) {
		n.loseCoordinator()
	}
	n.changeTable(t, name, c)
}

// changeTable requests a change of a table.
func (n *node) changeTable(t *simenv.Task, name string, c change) {
	w := n.w
	a := &alteration{table: name, change: c, called: w.Now}
	w.hist.alterations = append(w.hist.alterations, a)
	_, _, err := n.changer.Apply(context.Background(), c.of(n, name), "")
	a.ended = w.Now
	switch {
	case t.Dead():
		return
	case err == nil:
		a.answer = done
		w.counts.Changes++
	case isRefusal(err):
		a.answer = refused
		w.counts.Changes++
	}
	w.Note("node %d: %v %s: %v", n.ID, c, name, err)
}

// isRefusal reports whether an error states that a change is not valid for the schema.
func isRefusal(err error) bool {
	var (
		invalid *dberr.Invalid
		config  *dberr.Config
		exists  *dberr.AlreadyExists
	)
	return errors.As(err, &invalid) || errors.As(err, &config) || errors.As(err, &exists)
}

// loseCoordinator ends another node's process during a batch that the process has just started. Other nodes must then
// replay the batch.
func (n *node) loseCoordinator() {
	w := n.w
	other := w.nodes[w.Rand.IntN(nodeCount)]
	if w.Calm || other == n || other.coord == nil || other.Paused > w.Now {
		return
	}
	other.Spawn(func(t *simenv.Task) {
		c := &client{w: w, n: other, t: t, id: 300 + len(w.hist.ops), last: map[string]uint64{}}
		if table := other.cat.Snapshot().Table(keyspace, tableNames[w.Rand.IntN(len(tableNames))]); table != nil {
			c.tableBatch(table)
		}
	})
	other.AfterLife(w.Between(0, 30*time.Millisecond), func() {
		other.crash()
		w.After(w.Between(50*time.Millisecond, 3*time.Second), other.restart)
	})
}

// visit makes a request to a table.
func (c *client) visit(t *schema.Table) {
	w := c.w
	one := func() string { return nameOf(t, tableKeys[w.Rand.IntN(len(tableKeys))]) }
	switch d := w.Rand.IntN(16); {
	case d < 5:
		o := &op{client: c.id, kind: opWrite, key: one(), called: w.Now, value: w.hist.newValue()}
		c.inTable(t, o, []*op{o})
	case d < 8 && w.plan.With.Batches:
		c.tableBatch(t)
	case d < 11:
		o := &op{client: c.id, kind: opRead, key: one(), called: w.Now}
		c.inTable(t, o, []*op{o})
	case d < 12 && w.OneIn(4):
		c.truncateTable(t)
	default:
		for range len(tableKeys) {
			if value := c.last[one()]; value != 0 {
				c.find(t, value)
				break
			}
		}
	}
}

func (c *client) truncateTable(t *schema.Table) {
	w := c.w
	o := &op{client: c.id, kind: opTruncate, called: w.Now}
	// Each write is recorded twice, because a coordinator truncates again if it does not know the outcome.
	for _, k := range tableKeys {
		for range 2 {
			o.parts = append(o.parts, &op{client: c.id, kind: opTruncate, key: nameOf(t, k), called: w.Now})
		}
	}
	c.inTable(t, o, o.parts)
}

func (c *client) tableBatch(t *schema.Table) {
	w := c.w
	o := &op{client: c.id, kind: opBatch, called: w.Now}
	first := w.Rand.IntN(len(tableKeys))
	for _, i := range []int{first, (first + 1 + w.Rand.IntN(len(tableKeys)-1)) % len(tableKeys)} {
		o.parts = append(o.parts, &op{client: c.id, kind: opWrite, key: nameOf(t, tableKeys[i]), called: w.Now,
			value: w.hist.newValue()})
	}
	c.inTable(t, o, o.parts)
}

// find looks for a value through the index if the index is complete. The history contains a lookup for each key.
func (c *client) find(t *schema.Table, value uint64) {
	w := c.w
	for _, ix := range t.SortedIndexes() {
		if value == 0 || c.n.builder.Building(ix) {
			continue
		}
		o := &op{client: c.id, kind: opFind, called: w.Now, old: value}
		for _, k := range tableKeys {
			o.parts = append(o.parts, &op{client: c.id, kind: opFind, key: nameOf(t, k), called: w.Now, old: value})
		}
		o.index = ix.ID
		c.inTable(t, o, o.parts)
		return
	}
}

// inTable executes an operation. parts represents it in the history.
func (c *client) inTable(t *schema.Table, o *op, parts []*op) {
	w := c.w
	for _, part := range parts {
		w.hist.add(part)
	}
	a := c.askTable(t, o, parts)
	s := w.newest().Schema
	gone := s.TableByID(t.ID) == nil
	if _, ix := s.IndexByID(o.index); o.index != 0 && ix == nil {
		gone = true // the index may be dropped during the read, which may then find nothing
	}
	switch {
	case c.t.Dead():
		w.counts.Unknown++
	case a.err == nil && !gone:
		c.finishTable(o, parts, &a)
	case o.kind != opRead && o.kind != opFind && (gone || errors.Is(a.err, coordinator.ErrUnknownTable)):
		w.counts.Unknown++
	case c.nothingDone(o, a.err):
		for _, part := range parts {
			w.hist.drop(part)
		}
	default:
		w.counts.Unknown++
	}
}

func (c *client) finishTable(o *op, parts []*op, a *answer) {
	w := c.w
	for _, part := range parts {
		part.ended, part.done = w.Now, true
		found, seen := a.viewer.found[nameOfKey(part.key)]
		switch part.kind {
		case opRead:
			part.value = found.value
			c.last[part.key] = part.value
		case opFind:
			part.applied = seen && found.value == o.old
		case opWrite:
			c.last[part.key] = part.value
		}
	}
	switch o.kind {
	case opBatch:
		w.counts.Batches++
	case opFind:
		w.counts.Finds++
	}
	w.counts.Acked++
	w.Note("client %d: %v in table %s", o.client, o.kind, parts[0].key)
}

// replanMax is the maximum number of times that a statement is planned again because the table has changed.
const replanMax = 50

// askTable sends an operation, planned for the schema that the node knows, to the node's coordinator. If the schema
// has changed, askTable plans and sends the operation again.
func (c *client) askTable(t *schema.Table, o *op, parts []*op) (a answer) {
	n, ctx, now := c.n, context.Background(), c.n.Wall().Unix()
	for range replanMax {
		switch o.kind {
		case opRead, opFind:
			a = answer{viewer: viewer{st: c.t, found: map[string]cell{}, column: t.Column("v").ID}}
			r := &command.Read{Table: t.ID, Level: dberr.Quorum, Now: now, Dropped: t.Hidden()}
			if o.kind == opRead {
				r.Key = []byte(nameOfKey(o.key))
				r.Token = token.Hash(r.Key)
			} else {
				r.Range, r.Index = token.Full, &command.IndexLookup{Index: o.index, Value: bytesOf(o.old)}
			}
			a.err = n.coord.Read(ctx, r, &a.viewer)
			return a
		case opTruncate:
			var indexes []uint32
			for _, ix := range t.SortedIndexes() {
				indexes = append(indexes, ix.ID)
			}
			a.err = n.coord.Truncate(ctx, t.ID, indexes...)
			return a
		}
		ms := make([]command.Mutation, len(parts))
		for i, part := range parts {
			if ms[i], a.err = planned(n.cat.Snapshot(), t.ID, part); a.err != nil {
				return a
			}
		}
		responded := false
		a = answer{}
		end := ending(func(_ *command.CASResult, err error) { responded, a.err = true, err })
		n.coord.Write(ctx, ms, coordinator.WriteOptions{Level: dberr.Quorum, Atomic: o.kind == opBatch, Type: "BATCH"},
			end)
		if err := c.t.Wait(func() bool { return responded }, responseTimeout); err != nil && !responded {
			a.err = err
			if !c.t.Dead() {
				c.w.Fail("client %d: %v has no response: %v", c.id, o.kind, err)
			}
			return a
		}
		if !errors.Is(a.err, coordinator.ErrStaleSchema) || !c.t.Sleep(20*time.Millisecond) {
			return a
		}
		c.w.counts.Stale++
	}
	a.err = &dberr.Overloaded{} // the operation was rejected every time
	return a
}

// planned returns the mutation of a bound statement: a row with its index entries.
func planned(s *schema.Schema, table uint32, o *op) (command.Mutation, error) {
	t := s.TableByID(table)
	if t == nil {
		return command.Mutation{}, coordinator.ErrUnknownTable
	}
	var b row.Builder
	b.Reset(row.Unstamped)
	b.Cell(t.Column("v").ID, nil, bytesOf(o.value), 0, row.NoExpiry)
	if x := t.Column("x"); x != nil {
		b.Cell(x.ID, nil, bytesOf(o.value), 0, row.NoExpiry)
	}
	key := []byte(nameOfKey(o.key))
	c := &command.Conditional{Mutation: command.Mutation{
		Table: table, Token: token.Hash(key), Key: key, Ops: []command.Op{{Operand: b.Append(nil)}},
	}}
	err := write.Replan(s, c)
	return c.Mutation, err
}

// nameOf returns the name of a table's key in the history. nameOfKey returns the key.
func nameOf(t *schema.Table, key string) string { return fmt.Sprintf("t%06d/%s", t.ID, key) }

func nameOfKey(name string) string { return name[len(name)-2:] }

// newest returns the newest metadata state that any node knows.
func (w *simulation) newest() *meta.State {
	newest := meta.Empty()
	for _, n := range w.nodes {
		if s := n.state(); s.Version > newest.Version {
			newest = s
		}
	}
	return newest
}

// lastFinds reads all rows of the tables that exist at the end. It also finds each value through the tables' indexes.
func (w *simulation) lastFinds() {
	for _, name := range tableNames {
		t := w.newest().Schema.Table(keyspace, name)
		if t == nil {
			continue
		}
		n := w.nodes[w.Rand.IntN(nodeCount)]
		n.Spawn(func(task *simenv.Task) {
			c := &client{w: w, n: n, t: task, id: lastReader, last: map[string]uint64{}}
			for _, k := range tableKeys {
				o := &op{client: lastReader, kind: opRead, key: nameOf(t, k), called: w.Now}
				w.hist.last = append(w.hist.last, o)
				c.inTable(t, o, []*op{o})
			}
			for _, ix := range t.SortedIndexes() {
				if n.builder.Building(ix) {
					w.Fail("index %d of table %s is not complete at the end", ix.ID, name)
				}
			}
			for _, k := range tableKeys {
				c.find(t, c.last[nameOf(t, k)])
			}
		})
	}
}

// checkSchema checks at the end of a run that all nodes have the same schema. The responses to all changes must be
// consistent with one order of the changes.
func (w *simulation) checkSchema() {
	newest := w.newest()
	for _, n := range w.nodes {
		if got := n.cat.Snapshot(); got.Version != newest.Schema.Version || got.Revision != newest.Schema.Revision {
			w.Fail("node %d has schema %x, revision %d; the newest is %x, %d", n.ID, got.Version, got.Revision,
				newest.Schema.Version,
				newest.Schema.Revision)
		}
	}
	if left := slices.Collect(maps.Keys(newest.Building)); len(left) > 0 {
		w.Fail("indexes %v are not built at the end", left)
	}
	for _, name := range tableNames {
		var ops []porcupine.Operation
		for i, a := range w.hist.alterations {
			if a.table != name {
				continue
			}
			call, end := a.called, a.ended
			switch a.answer {
			case unknown:
				end = 1 << 62
			case refused:
				call = 0 // the node may have an outdated schema
			}
			ops = append(ops, porcupine.Operation{ClientId: i, Input: a.change, Call: int64(call), Output: a.answer,
				Return: int64(end)})
		}
		model := shapes.ToModel()
		if porcupine.CheckOperationsTimeout(model, ops, 10*time.Second) == porcupine.Illegal {
			w.Fail("no order of the changes of table %s explains their results", name)
			for _, a := range w.hist.alterations {
				w.Note("%+v", *a)
			}
		}
	}
}
