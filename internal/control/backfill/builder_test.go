// SPDX-License-Identifier: Apache-2.0

package backfill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// fixture is a table ks.t (k text, c text, v text) in a store, with its records.
type fixture struct {
	t        *testing.T
	store    *storage.Store
	records  *meta.Keeper
	required uint64
	before   func() // called between the read and the write of a chunk
	refuse   int    // number of writes that are rejected with ErrAgain or by a throughput limit
	reads    []command.Read
	written  func(ms []command.Mutation) // called with the mutations of each chunk
}

func (w *fixture) Read(ctx context.Context, read *command.Read, v command.Visitor) error {
	w.reads = append(w.reads, *read)
	return w.store.Read(ctx, read, v)
}

func (w *fixture) Write(ctx context.Context, ms []command.Mutation, level dberr.Consistency) (
	[]command.Mutation, error) {
	if w.before != nil {
		w.before()
	}
	if w.written != nil {
		w.written(ms)
	}
	if w.refuse > 0 {
		if w.refuse--; w.refuse%2 == 0 {
			half := len(ms) / 2
			_, err := w.Write(ctx, ms[:half], level)
			return ms[half:], errors.Join(err, &dberr.Overloaded{RetryAfter: time.Millisecond})
		}
		return nil, fmt.Errorf("test: %w", ErrAgain)
	}
	for i := range ms {
		ms[i].Timestamp = 1
		if err := w.store.Apply(ms[i]); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (w *fixture) Require(_ context.Context, _ uint32, revision uint64) error {
	w.required = revision
	return nil
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{t: t}
	var err error
	if w.store, err = storage.Open(vfs.NewMem(), "data", storage.Options{}); err != nil {
		t.Fatal(err)
	}
	scan, change := meta.Standalone(w.store)
	if w.records, err = meta.New(scan, change, meta.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.records.Close()
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	text := &schema.TypeSpec{Kind: cqltype.Text}
	replication := []schema.Entry{{Key: "class", Value: "SimpleStrategy"}, {Key: "replication_factor", Value: "1"}}
	w.apply(
		&schema.CreateKeyspace{Name: "ks",
			Properties: []schema.Property{{Name: "replication", IsMap: true, Map: replication}}},
		&schema.CreateTable{
			Keyspace: "ks", Name: "t", Columns: []schema.ColumnSpec{{Name: "k", Type: text}, {Name: "c", Type: text},
				{Name: "v", Type: text}},
			PartitionKey: []string{"k"}, Clustering: []string{"c"},
		},
	)
	return w
}

// apply records schema changes. New indexes are recorded as being built.
func (w *fixture) apply(changes ...schema.Change) {
	w.t.Helper()
	for _, c := range changes {
		_, err := w.records.Update(w.t.Context(), func(s *meta.State) (*meta.State, error) {
			next, _, err := schema.Apply(s.Schema, c)
			if err != nil {
				return nil, err
			}
			out := *s
			out.Schema = next
			if ix, ok := c.(*schema.CreateIndex); ok {
				return out.WithBuilding(next.Table("ks", "t").Indexes[ix.Name].ID, true), nil
			}
			return &out, nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *fixture) schema() *schema.Schema { return w.records.State().Schema }

func (w *fixture) Snapshot() *schema.Schema { return w.schema() }

// outdated is a catalog without the newest schema.
type outdated struct{ schema *schema.Schema }

func (o outdated) Snapshot() *schema.Schema { return o.schema }

// follower is a Member that does not lead the meta partition. LeadsMeta ends the context of the builder.
type follower struct{ end func() }

func (f follower) LeadsMeta() bool {
	f.end()
	return false
}

func (w *fixture) builder() *Builder {
	return New(Options{
		Metadata: w.records, Table: w, Entries: expr.IndexOps, Catalog: w,
		Log: slog.New(slog.DiscardHandler),
	})
}

// insert writes rows of a partition. Column v of each row equals the partition key.
func (w *fixture) insert(key string, rows int) {
	w.t.Helper()
	table := w.schema().Table("ks", "t")
	m := command.Mutation{Table: table.ID, Token: token.Hash([]byte(key)), Key: []byte(key), Timestamp: 1}
	for i := range rows {
		var b row.Builder
		b.Reset(1)
		b.Live(0, 0)
		b.Cell(table.Column("v").ID, nil, []byte(key), 0, 0)
		clustering := table.Column("c").Type.AppendKey(nil, fmt.Appendf(nil, "%05d", i), false)
		m.Ops = append(m.Ops, command.Op{Clustering: clustering, Operand: b.Append(nil)})
	}
	if err := w.store.Apply(m); err != nil {
		w.t.Fatal(err)
	}
}

// found returns the number of rows that an index finds for a value.
func (w *fixture) found(index uint32, value string) int {
	w.t.Helper()
	v := &counter{}
	err := w.store.Read(w.t.Context(), &command.Read{
		Table: w.schema().Table("ks", "t").ID, Range: token.Full, Index: &command.IndexLookup{Index: index,
			Value: []byte(value)},
		Now: time.Now().Unix(),
	}, v)
	if err != nil {
		w.t.Fatal(err)
	}
	return v.rows
}

type counter struct{ rows int }

func (c *counter) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

func (c *counter) Row([]byte, *row.Row) (command.Step, error) {
	c.rows++
	return command.More, nil
}

func createIndex() *schema.CreateIndex {
	return &schema.CreateIndex{Keyspace: "ks", Table: "t", Name: "i", Targets: []schema.TargetSpec{{Column: "v"}}}
}

// TestBuildFindsEveryRow checks that a build misses no row at the end of a chunk: within a partition, at its end,
// between many small partitions, and when a chunk must be retried.
func TestBuildFindsEveryRow(t *testing.T) {
	w := newFixture(t)
	want := map[string]int{"one": 1, "short": chunkRows - 1, "exact": chunkRows, "over": chunkRows + 1,
		"wide": 3*chunkRows + 7}
	for key, n := range want {
		w.insert(key, n)
	}
	for i := range 2*chunkRows + 3 {
		key := fmt.Sprint("p", i)
		want[key] = 1
		w.insert(key, 1)
	}
	w.apply(createIndex())
	table := w.schema().Table("ks", "t")
	index := table.Indexes["i"]
	w.refuse = 2
	b := w.builder()
	b.Build(t.Context(), index.ID)
	if b.Building(index) {
		t.Fatal("the index is still to be built")
	}
	if w.required != table.Revision {
		t.Errorf("mutations of revision %d and later are required, want %d", w.required, table.Revision)
	}
	for key, n := range want {
		if got := w.found(index.ID, key); got != n {
			t.Errorf("%s: the index finds %d rows of %d", key, got, n)
		}
	}
}

// TestBuildTooEarly checks B2 for an index that is in the metadata but not yet in the schema of this node. The build
// must not consider the index dropped.
func TestBuildTooEarly(t *testing.T) {
	w := newFixture(t)
	w.insert("a", 1)
	before := w.schema()
	w.apply(createIndex())
	index := w.schema().Table("ks", "t").Indexes["i"]
	b := w.builder()
	b.Catalog = outdated{before}
	b.Build(t.Context(), index.ID)
	if !b.Building(index) {
		t.Error("an index that was not built counts as built")
	}
	b.Catalog = w
	b.Build(t.Context(), index.ID)
	if b.Building(index) || w.found(index.ID, "a") != 1 {
		t.Error("the index was not built")
	}
}

// TestBuildOfDroppedIndex checks that a build ends when its index is dropped, and that the index is removed from
// Building.
func TestBuildOfDroppedIndex(t *testing.T) {
	w := newFixture(t)
	w.insert("a", 2*chunkRows)
	w.apply(createIndex())
	index := w.schema().Table("ks", "t").Indexes["i"]
	w.before = func() {
		w.before = nil
		w.apply(&schema.DropIndex{Keyspace: "ks", Name: "i"})
	}
	b := w.builder()
	b.Build(t.Context(), index.ID)
	if b.Building(index) {
		t.Error("a dropped index is still to be built")
	}
}

// TestAnotherNodeBuilds checks that only the responsible node builds, and that Await returns when the index is ready.
func TestAnotherNodeBuilds(t *testing.T) {
	w := newFixture(t)
	w.insert("a", 1)
	b := w.builder()
	ctx, cancel := context.WithCancel(t.Context())
	b.Member = follower{cancel}
	w.records.Subscribe(func(_, _ *meta.State) { b.Wake() })
	w.apply(createIndex())
	index := w.schema().Table("ks", "t").Indexes["i"]
	b.Run(ctx)
	if !b.Building(index) {
		t.Error("another node's index was built")
	}
	b.Member = nil
	ctx, cancel = context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { b.Run(ctx); close(done) }()
	for b.Building(index) {
		b.Await(ctx, []*schema.Index{index})
	}
	cancel()
	<-done
	if w.found(index.ID, "a") != 1 {
		t.Error("the index does not find the row")
	}
}

// TestBuildGoesOn checks that an interrupted build resumes at the last saved position, on any node. A build with
// another policy restarts. Every node reports the progress.
func TestBuildGoesOn(t *testing.T) {
	w := newFixture(t)
	rows := map[string]int{"wide": 2*chunkRows + 7}
	for i := range 3 * chunkRows {
		rows[fmt.Sprint("p", i)] = 1
	}
	for key, n := range rows {
		w.insert(key, n)
	}
	w.apply(createIndex())
	index := w.schema().Table("ks", "t").Indexes["i"]
	some := func(chunks int) {
		ctx, cancel := context.WithCancel(t.Context())
		w.before = func() {
			if chunks--; chunks < 0 {
				cancel()
			}
		}
		b := w.builder()
		b.SavePause = time.Nanosecond
		b.Build(ctx, index.ID)
	}
	some(2)
	first := w.records.State().Builds[index.ID]
	if first == nil || first.Rows == 0 || w.builder().Progress(index) != first.Percent() {
		t.Fatalf("noted is %+v, shown %d %%", first, w.builder().Progress(index))
	}
	w.reads = nil
	some(1)
	if w.reads[0].AfterToken != first.Token || !bytes.Equal(w.reads[0].AfterKey, first.Key) {
		t.Errorf("it resumes after %d %q, want %d %q", w.reads[0].AfterToken, w.reads[0].AfterKey, first.Token,
			first.Key)
	}
	// The saved progress of another policy cannot be used.
	other := *w.records.State().Builds[index.ID]
	other.Policy = "other"
	if _, err := w.records.Update(t.Context(), func(s *meta.State) (*meta.State, error) {
		return s.WithBuild(index.ID, &other), nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := w.builder().Progress(index); n != 0 {
		t.Errorf("by another policy %d %% are shown", n)
	}
	w.reads = nil
	some(1 << 20)
	if w.reads[0].AfterKey != nil {
		t.Error("the progress of another policy was used")
	}
	if w.builder().Building(index) || w.records.State().Builds[index.ID] != nil {
		t.Error("it is still to be built")
	}
	for key, n := range rows {
		if got := w.found(index.ID, key); got != n {
			t.Errorf("%s: the index finds %d rows of %d", key, got, n)
		}
	}
}

// TestBuildIsBoundedInBytes checks that the bytes of a chunk's entries exceed the limit by no more than the entries of
// one row. Mutations and the rows of a chunk are also bounded in bytes. The index must be complete.
func TestBuildIsBoundedInBytes(t *testing.T) {
	w := newFixture(t)
	const rows, perRow, size = 40, 10, 60_000
	w.insert("k", rows)
	w.insert("l", 3)
	w.apply(createIndex())
	index := w.schema().Table("ks", "t").Indexes["i"]
	b := w.builder()
	b.Entries = func(_ *schema.Table, ix *schema.Index, _, clustering []byte, _ *row.Row) ([]command.Op, error) {
		var ops []command.Op
		for i := range perRow {
			value := append(bytes.Repeat([]byte{'v'}, size), byte('a'+i))
			ops = append(ops, command.Op{Kind: command.OpIndex, Index: ix.ID, Clustering: clustering, Value: value})
		}
		return ops, nil
	}
	entries := 0
	w.written = func(ms []command.Mutation) {
		total := 0
		for _, m := range ms {
			bytes := 0
			for _, op := range m.Ops {
				bytes += len(op.Value)
				entries++
			}
			if total += bytes; bytes == 0 || bytes > mutationBytes {
				t.Errorf("a mutation has %d bytes in %d entries", bytes, len(m.Ops))
			}
		}
		if total > chunkEntryBytes+perRow*(size+1) {
			t.Errorf("a chunk has %d bytes", total)
		}
	}
	b.Build(t.Context(), index.ID)
	if b.Building(index) || entries != (rows+3)*perRow {
		t.Errorf("%d entries were written, building %v", entries, b.Building(index))
	}
	// Rows without entries end a chunk when their size reaches the limit.
	large := bytes.Repeat([]byte("x"), 1<<20)
	v := &visitor{entries: func(*schema.Table, *schema.Index, []byte, []byte, *row.Row) ([]command.Op, error) {
		return nil, nil
	}, table: w.schema().Table("ks", "t"), index: index}
	v.begin(&command.Read{})
	if _, err := v.Partition(1, []byte("k"), nil); err != nil {
		t.Fatal(err)
	}
	seen, step := 0, command.More
	for ; step == command.More && seen < 100; seen++ {
		step, _ = v.Row([]byte("c"), &row.Row{Cells: []row.Cell{{Value: large}}})
	}
	if seen != chunkRowBytes>>20 {
		t.Errorf("a chunk has %d rows of 1 MiB", seen)
	}
}

// TestBuildEntersNewestLists checks that building new lists of a vector index writes only entries of the new lists.
// The entries of the older lists are complete.
func TestBuildEntersNewestLists(t *testing.T) {
	entries := func(*schema.Table, *schema.Index, []byte, []byte, *row.Row) ([]command.Op, error) {
		return []command.Op{{Value: []byte("newest")}, {Value: []byte("older")}}, nil
	}
	w := newFixture(t)
	for lists, want := range map[int]int{0: 2, 1: 2, 2: 1} {
		ix := &schema.Index{Lists: make(schema.Lists, lists)}
		v := &visitor{entries: entries, table: w.schema().Table("ks", "t"), index: ix}
		v.begin(&command.Read{})
		if _, err := v.Partition(1, []byte("k"), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Row([]byte("c"), &row.Row{}); err != nil {
			t.Fatal(err)
		}
		if ops := v.mutations[0].Ops; len(ops) != want || string(ops[0].Value) != "newest" {
			t.Errorf("with %d lists: %d entries", lists, len(ops))
		}
	}
}
