// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// wholeTable is the only partition of a table. It has the ID of the table.
func wholeTable(id uint32) *keys.Meta {
	m := keys.NewMeta(uint64(id), keys.TokenSpan(id, token.Range{}))
	return &m
}

// createTable creates a table with one partition, and writes a deletion and a row that expires to it.
func createTable(t *testing.T, s *Store, id uint32) {
	t.Helper()
	s.InstallTable(Table{ID: id, Clustering: 1, GCGrace: 10})
	s.KnowIDs(id + 1)
	b := s.NewBatch()
	defer b.Close()
	b.PutMeta(wholeTable(id))
	expires := mutation("a", "c", 1, func(b *row.Builder) { b.Live(5, 6) })
	deleted := mutationOf(command.OpHeader, "b", "", 1, func(b *row.Builder) { b.DeleteRow(7) })
	for _, m := range []command.Mutation{expires, deleted} {
		if m.Table = id; b.Mutate(&m) != nil {
			t.Fatal("a mutation is rejected")
		}
	}
	b.PutProgress(keys.AppendProgress(nil, &keys.Progress{Partition: uint64(id), Applied: 20, Term: 6}))
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
}

// dropTable drops a table in the same way as a node: it removes the table from the store, and then its replica and
// rows.
func dropTable(t *testing.T, s *Store, id uint32) {
	t.Helper()
	s.ForgetTable(id)
	b := s.NewBatch()
	defer b.Close()
	b.Remove(keys.TokenSpan(id, token.Range{}), nil)
	b.DeleteMeta(uint64(id))
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
}

// flagged returns the number of tables with stored flags.
func flagged(t *testing.T, s *Store) (n int) {
	t.Helper()
	if err := s.Scan(keys.FlagsID, nil, func(_, _ []byte) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDroppedTablesCostNothing checks that a round of background work reads only the live tables after thousands of
// tables were created and dropped. No data about the dropped tables may remain in memory or in the records, even after
// a restart.
func TestDroppedTablesCostNothing(t *testing.T) {
	const first, live, dropped = 2000, 3, 3000
	fs := vfs.NewMem()
	s, err := Open(fs, "db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(live + dropped) {
		createTable(t, s, first+i)
		if i >= live {
			dropTable(t, s, first+i)
		}
	}
	o := SweeperOptions{Node: &testNode{Store: s, now: 9}}
	round := func() (tables, scans uint64) {
		t.Helper()
		tables, scans = s.m.dueTables.Load(), s.spans.scans.Load()
		if err := s.SweepDue(t.Context(), &o); err != nil {
			t.Fatal(err)
		}
		return s.m.dueTables.Load() - tables, s.spans.scans.Load() - scans
	}
	check := func(when string) {
		t.Helper()
		if n := len(*s.byID.Load()); n != live {
			t.Errorf("%s: the store has %d tables", when, n)
		}
		if n := flagged(t, s); n != live {
			t.Errorf("%s: %d tables have stored flags", when, n)
		}
		if p, err := readProgress(s.db); err != nil || len(p) > live {
			t.Errorf("%s: the record of progress has %d partitions (%v)", when, len(p), err)
		}
	}
	if _, scans := round(); scans > 1 {
		t.Errorf("the first round reads the metas %d times", scans)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("after a round")
	if tables, scans := round(); tables != live || scans != 0 {
		t.Errorf("a round looks at %d tables and reads the metas %d times", tables, scans)
	}
	// Remains of a crash between dropping a table and the next round must be removed after the start.
	createTable(t, s, first+live+dropped)
	dropTable(t, s, first+live+dropped)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(fs, "db", Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range uint32(live) {
		s.InstallTable(Table{ID: first + i, Clustering: 1, GCGrace: 10})
	}
	if round(); len(*s.byID.Load()) != live+1 {
		t.Error("a table was removed before the store received the list of tables")
	}
	s.KnowIDs(first + live + dropped + 1)
	round()
	if n := len(*s.byID.Load()); n != live || flagged(t, s) != live {
		t.Errorf("after a restart the store knows %d tables, %d have stored flags", n, flagged(t, s))
	}
}

// TestHeldFollows checks that the cached spans of replicas reflect every change of a meta.
func TestHeldFollows(t *testing.T) {
	s := openMem(t, Options{})
	check := func(want int) {
		t.Helper()
		for range 2 {
			if spans, err := s.localSpans(testTable); err != nil || len(spans) != want {
				t.Errorf("%d spans are held (%v), want %d", len(spans), err, want)
			}
		}
	}
	check(0)
	for i := range 3 {
		m := keys.NewMeta(uint64(i+1), keys.Span{Table: testTable, Begin: []byte{byte(i)}, End: []byte{byte(i + 1)}})
		b := s.NewBatch()
		b.PutMeta(&m)
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		b.Close()
		check(i + 1)
	}
	b := s.NewBatch()
	b.DeleteMeta(2)
	check(3)
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Close()
	check(2)
	s.spans.begun.Add(1) // a change is in progress
	before := s.spans.scans.Load()
	check(2)
	if s.spans.scans.Load() == before {
		t.Error("the cache serves while a change is in progress")
	}
}

// TestProgressIsCompacted checks that the operands of the progress record are replaced when their number is high,
// without losing progress in a crash. A large record must not be replaced for a few operands.
func TestProgressIsCompacted(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s, err := Open(fs, "db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(applied uint64, partitions ...uint64) {
		t.Helper()
		var record []byte
		for _, p := range partitions {
			record = keys.AppendProgress(record, &keys.Progress{Partition: p, Applied: applied, Term: 6})
		}
		b := s.NewBatch()
		defer b.Close()
		b.PutProgress(record)
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	const writes = 40_000
	for i := range uint64(writes) {
		put(i+1, 1+i%7)
		if n := s.progressed.Load(); n >= progressBytes {
			t.Fatalf("%d bytes of operands are left", n)
		}
	}
	check := func() {
		t.Helper()
		p, err := readProgress(s.db)
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint64(7) {
			want := uint64(writes) - 6 + i
			if got := p[1+(want-1)%7].Applied; got != want {
				t.Errorf("partition %d is at %d, want %d", 1+(want-1)%7, got, want)
			}
		}
	}
	check()
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	left := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(left, "db", Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check()
	var many []uint64
	for i := range uint64(20_000) {
		many = append(many, 10+i)
	}
	put(1, many...)
	size := s.progressSize.Load()
	if size < 60_000 {
		t.Fatalf("the record has %d bytes", size)
	}
	before := s.progressed.Load()
	for range 1000 {
		put(2, 10)
	}
	if s.progressed.Load() <= before {
		t.Error("a large record was replaced for few operands")
	}
}
