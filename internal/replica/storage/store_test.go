// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openMem opens a store in memory, which is closed at the end of the test.
func openMem(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(vfs.NewMem(), "db", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func apply(t testing.TB, s *Store, ms ...command.Mutation) {
	t.Helper()
	if err := s.Apply(ms...); err != nil {
		t.Fatal(err)
	}
}

// mutation returns a mutation with one operand. build fills the operand's builder.
func mutation(pk, ck string, ts int64, build func(b *row.Builder)) command.Mutation {
	return mutationOf(command.OpRow, pk, ck, ts, build)
}

func mutationOf(kind command.OpKind, pk, ck string, ts int64, build func(b *row.Builder)) command.Mutation {
	var b row.Builder
	b.Reset(ts)
	build(&b)
	return command.Mutation{
		Table: testTable, Token: token.Hash([]byte(pk)), Key: []byte(pk), Timestamp: ts,
		Ops: []command.Op{{Kind: kind, Clustering: []byte(ck), Operand: bytes.Clone(b.Bytes())}},
	}
}

func insert(pk, ck string, ts int64) command.Mutation {
	return mutation(pk, ck, ts, func(b *row.Builder) {
		b.Live(0, 0)
		b.Cell(1, nil, []byte("v"), 0, 0)
	})
}

func remove(pk, ck string, ts, at int64) command.Mutation {
	return mutation(pk, ck, ts, func(b *row.Builder) { b.DeleteRow(at) })
}

func readAll(t testing.TB, s *Store, r command.Read) []string {
	t.Helper()
	var c collector
	if r.Table == 0 {
		r.Table = testTable
	}
	if err := s.Read(context.Background(), &r, &c); err != nil {
		t.Fatal(err)
	}
	return c.lines
}

func readOne(t testing.TB, s *Store, pk string) []string {
	t.Helper()
	return readAll(t, s, command.Read{Key: []byte(pk), Token: token.Hash([]byte(pk)), Now: 1})
}

// TestUpdateReadsNothing checks that updating one of five columns, with an index on it, reads nothing and allocates
// little memory.
func TestUpdateReadsNothing(t *testing.T) {
	s := openMem(t, Options{})
	apply(t, s, mutation("k", "", 1, func(b *row.Builder) {
		b.Live(0, 0)
		for c := range uint32(5) {
			b.Cell(c+1, nil, []byte("v"), 0, 0)
		}
	}))
	before := s.Metrics()
	m := mutation("k", "", 2, func(b *row.Builder) { b.Cell(3, nil, []byte("new"), 0, 0) })
	m.Ops = append(m.Ops, command.Op{Kind: command.OpIndex, Index: testIndex, Value: []byte("new")})
	ms := []command.Mutation{m}
	allocs := testing.AllocsPerRun(200, func() {
		if err := s.Apply(ms...); err != nil {
			t.Fatal(err)
		}
	})
	after := s.Metrics()
	if after.Gets != before.Gets || after.Iterators != before.Iterators || after.HeaderSeeks != before.HeaderSeeks {
		t.Errorf("a write read: %+v, before %+v", after, before)
	}
	if after.Operands != before.Operands+201 || allocs > 1 && !raced {
		t.Errorf("%d operands, %v allocations each", after.Operands-before.Operands, allocs)
	}
	if got, want := fmt.Sprint(readOne(t, s, "k")[1:]),
		`[  "" live@1 1""="v"@1 2""="v"@1 3""="new"@2 4""="v"@1 5""="v"@1 ]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// silent is a visitor that allocates nothing.
type silent struct{ rows int }

func (v *silent) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}
func (v *silent) Row([]byte, *row.Row) (command.Step, error) { v.rows++; return command.More, nil }

// TestPointReadAllocates checks that reading one row makes at most two allocations, with and without clustering columns
// and headers.
func TestPointReadAllocates(t *testing.T) {
	if invariant.Enabled {
		t.Skip("checks allocate")
	}
	for _, c := range []struct {
		name       string
		clustering int
		headers    bool
	}{{"get", 0, false}, {"iterator", 1, false}, {"header", 1, true}} {
		t.Run(c.name, func(t *testing.T) {
			s := openMem(t, Options{})
			s.InstallTable(Table{ID: testTable, Clustering: c.clustering})
			ck := strings.Repeat("c", c.clustering)
			apply(t, s, insert("k", ck, 5))
			if c.headers {
				apply(t, s, mutationOf(command.OpHeader, "k", "", 1, func(b *row.Builder) { b.DeleteRow(1) }))
			}
			r := command.Read{Table: testTable, Key: []byte("k"), Token: token.Hash([]byte("k")), Now: 1}
			if c.clustering > 0 {
				r.Slices = []command.Slice{{Start: []byte("c"), End: []byte("d")}}
			}
			var v silent
			allocs := testing.AllocsPerRun(200, func() {
				if err := s.Read(context.Background(), &r, &v); err != nil {
					t.Fatal(err)
				}
			})
			if v.rows != 201 || allocs > 2 && !raced {
				t.Errorf("%d rows, %v allocations", v.rows, allocs)
			}
			if m := s.Metrics(); (m.Gets > 0) != (c.clustering == 0) || (m.HeaderSeeks > 0) != c.headers {
				t.Errorf("%d gets, %d iterators, %d header seeks", m.Gets, m.Iterators, m.HeaderSeeks)
			}
		})
	}
}

// TestHeaderFlagOutlivesCrash checks that a header that survives a crash is visible. In the log, the flag for headers
// precedes the header.
func TestHeaderFlagOutlivesCrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s, err := Open(fs, "db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.InstallTable(Table{ID: testTable})
	apply(t, s, insert("k", "", 1), mutationOf(command.OpHeader, "k", "", 2, func(b *row.Builder) { b.DeleteRow(1) }))
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(crashed, "db", Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.InstallTable(Table{ID: testTable})
	if got := readOne(t, s, "k"); len(got) > 0 {
		t.Errorf("deleted partition exists again: %v", got)
	}
}

// TestSystemKeys checks that system keys, metas, and dedupe records can be stored and found, and are separate from
// rows.
func TestSystemKeys(t *testing.T) {
	s := openMem(t, Options{})
	if err := s.Set(keys.MetaID, []byte("schema/2"), []byte("two")); err != nil {
		t.Fatal(err)
	}
	b := s.NewBatch()
	b.Set(keys.MetaID, []byte("schema/1"), nil)
	b.Set(keys.MetaID, []byte("other"), []byte("x"))
	m := keys.NewMeta(7, keys.Span{Table: testTable})
	b.PutMeta(&m)
	id := command.DedupeID{Coordinator: [16]byte{1}, Sequence: 9}
	b.PutDedupe(testTable, 5, []byte("pk"), id, []byte("result"))
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Close()
	var got []string
	if err := s.Scan(keys.MetaID, []byte("schema/"), func(sub, value []byte) error {
		got = append(got, fmt.Sprintf("%s=%s", sub, value))
		return nil
	}); err != nil || fmt.Sprint(got) != "[schema/1= schema/2=two]" {
		t.Errorf("%v %v", got, err)
	}
	if v, err := s.Get(keys.MetaID, []byte("none")); v != nil || err != nil {
		t.Errorf("%q %v", v, err)
	}
	if m, ok, err := s.Meta(7); !ok || err != nil || m.Applied != keys.InitialApplied {
		t.Errorf("%+v %v %v", m, ok, err)
	}
	if _, ok, err := s.Meta(8); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
	if v, err := s.Dedupe(testTable, 5, []byte("pk"), id); string(v) != "result" || err != nil {
		t.Errorf("%q %v", v, err)
	}
	if got := readAll(t, s, command.Read{}); len(got) > 0 {
		t.Errorf("a dedupe record was read as a row: %v", got)
	}
}

// TestTruncate checks that a span is emptied for all timestamps, including its index entries. Other index entries must
// remain.
func TestTruncate(t *testing.T) {
	s := openMem(t, Options{})
	at := func(tok token.Token, ts int64) command.Mutation {
		m := insert(fmt.Sprint(tok), "", ts)
		m.Token = tok
		m.Ops = append(m.Ops, command.Op{Kind: command.OpIndex, Index: testIndex, Value: []byte("v")})
		return m
	}
	apply(t, s, at(-10, 1<<60), at(10, 1))
	left := keys.TokenSpan(testTable, token.Between(token.Min, 0))
	if err := s.Truncate(left, []uint32{testIndex}); err != nil {
		t.Fatal(err)
	}
	look := command.Read{Index: &command.IndexLookup{Index: testIndex, Value: []byte("v")}}
	if got := readAll(t, s, look); len(got) != 2 || !strings.Contains(got[0], "partition 10") {
		t.Errorf("%v", got)
	}
	apply(t, s, at(-10, 1)) // with a timestamp older than the truncated data
	if got := readAll(t, s, command.Read{}); len(got) != 4 {
		t.Errorf("%v", got)
	}
	if err := s.Truncate(keys.Span{Table: testTable}, []uint32{testIndex}); err != nil {
		t.Fatal(err)
	}
	if got := append(readAll(t, s, command.Read{}), readAll(t, s, look)...); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// TestTruncateKeepsDedupeRecords checks that results of conditional writes survive a truncation of all or part of the
// table. A replica that was installed from a snapshot must also have these results. They must be swept as usual, and
// removed with the replica.
func TestTruncateKeepsDedupeRecords(t *testing.T) {
	s := openOwned(t, 1<<40)
	const start = 1_000_000
	decide := func(s *Store, n uint64, tok token.Token, second int64) {
		b := s.NewBatch()
		defer b.Close()
		m := insert(fmt.Sprint(tok), "", second*1e6)
		m.Token = tok
		if err := b.Mutate(&m); err != nil {
			t.Fatal(err)
		}
		b.PutDedupe(testTable, tok, m.Key, command.DedupeID{Sequence: n}, []byte("applied"))
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	known := func(s *Store, n uint64, tok token.Token) bool {
		v, err := s.Dedupe(testTable, tok, []byte(fmt.Sprint(tok)), command.DedupeID{Sequence: n})
		if err != nil {
			t.Fatal(err)
		}
		return string(v) == "applied"
	}
	decide(s, 1, -10, start)
	decide(s, 2, -10, start+100) // this record has another note
	decide(s, 3, 10, start)
	all := keys.Span{Table: testTable}
	other := openMem(t, Options{})
	other.InstallTable(Table{ID: testTable, Clustering: 1, GCGrace: 1 << 40})
	if err := other.InstallSnapshot(context.Background(), keys.Span{}, bytes.NewReader(snapshotBytes(t, s, 1)),
		nil); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s, other} {
		for _, span := range []keys.Span{keys.TokenSpan(testTable, token.Between(token.Min, 0)), all} {
			if err := s.Truncate(span, nil); err != nil {
				t.Fatal(err)
			}
			if !known(s, 1, -10) || !known(s, 2, -10) || !known(s, 3, 10) {
				t.Errorf("truncated %v: known are %t, %t, %t", span, known(s, 1, -10), known(s, 2, -10),
					known(s, 3, 10))
			}
		}
		if got := readAll(t, s, command.Read{}); len(got) > 0 {
			t.Errorf("rows after a truncation: %v", got)
		}
		sweepDue(t, s, start+120+dedupeDueSeconds+1, true)
		if known(s, 1, -10) || !known(s, 2, -10) || known(s, 3, 10) {
			t.Errorf("swept: known are %t, %t, %t", known(s, 1, -10), known(s, 2, -10), known(s, 3, 10))
		}
		b := s.NewBatch()
		b.Remove(all, nil)
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		b.Close()
		if known(s, 2, -10) {
			t.Error("a record is left of a replica that left")
		}
	}
}

// failureObserver receives the failures of a store.
type failureObserver chan error

func (c failureObserver) Failed(err error)           { c <- err }
func (c failureObserver) BackgroundFailed(err error) { c <- err }
func (failureObserver) Stalled(bool, string)         {}
func (failureObserver) DiskFull(bool, int)           {}
func (failureObserver) DiskOut(uint64, uint64)       {}

// diskObserver records when the disk becomes full and when it has space again.
type diskObserver struct {
	unobserved
	full []bool
}

func (o *diskObserver) DiskFull(full bool, _ int) { o.full = append(o.full, full) }

// TestDiskFull checks that writes are rejected below the minimum free space, and that deletes are rejected below a
// fifth of that minimum. System keys, truncation, and reads must never be rejected. The free space must be checked
// often enough that a small disk never becomes full between two checks.
func TestDiskFull(t *testing.T) {
	const total = 1000 << 20
	var free atomic.Int64
	free.Store(52 << 20)
	var events diskObserver
	s := openMem(t, Options{
		DiskUsage: func(string) (vfs.DiskUsage, error) {
			return vfs.DiskUsage{AvailBytes: uint64(free.Load()), TotalBytes: total}, nil
		},
		Observer: &events,
	})
	apply(t, s, insert("k", "", 1))
	free.Store(49 << 20)
	s.checkDisk()
	if err := s.Apply(insert("k", "", 2)); !errors.Is(err, ErrDiskFull) {
		t.Errorf("a write was accepted: %v", err)
	}
	apply(t, s, remove("k", "", 3, 1))
	free.Store(9 << 20)
	s.checkDisk()
	if err := s.Apply(remove("k", "", 4, 1)); !errors.Is(err, ErrDiskCritical) {
		t.Errorf("a delete was accepted: %v", err)
	}
	if err := s.Set(keys.MetaID, []byte("a"), nil); err != nil {
		t.Error(err)
	}
	if err := s.Truncate(keys.Span{Table: testTable}, nil); err != nil {
		t.Error(err)
	}
	if got := readOne(t, s, "k"); len(got) > 0 {
		t.Errorf("deleted row: %v", got)
	}
	free.Store(52 << 20)
	s.checkDisk()
	apply(t, s, insert("k", "", 5))
	if fmt.Sprint(events.full) != "[true false]" {
		t.Errorf("events %v", events.full)
	}
	large := mutation("large", "", 6, func(b *row.Builder) { b.Cell(1, nil, make([]byte, 100_000), 0, row.NoExpiry) })
	for err := error(nil); err == nil; free.Add(-300_000) { // a written byte uses three bytes
		if err = s.Apply(large); err != nil && !errors.Is(err, ErrDiskFull) {
			t.Fatal(err)
		}
		if free.Load() < 40<<20 {
			t.Fatal("the disk became full between two checks")
		}
	}
}

// TestOpenRefusals checks that the error for a directory that cannot be opened states the reason in one line.
func TestOpenRefusals(t *testing.T) {
	write := func(dir, name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	create := func(dir string) {
		s, err := Open(vfs.Default, dir, Options{Identity: Identity{Cluster: [16]byte{7}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		prep func(t *testing.T, dir string)
		o    Options
		want string
	}{
		{"foreign", func(_ *testing.T, dir string) {
			write(dir, "notes.txt", "x")
		}, Options{}, `it is not a data directory: it contains "notes.txt"`},
		{"newer", func(_ *testing.T, dir string) {
			write(dir, identityFile, "ilion store\nformat 3\n")
		}, Options{}, "this directory was written by a newer version of Ilion (format 3); this version supports 2"},
		{"older", func(_ *testing.T, dir string) {
			write(dir, identityFile, "ilion store\nformat 1\n")
		}, Options{}, "an older version of Ilion wrote it (format 1), " +
			"which cannot be upgraded to this version (format 2)"},
		{"damaged identity", func(_ *testing.T, dir string) {
			write(dir, identityFile, "???")
		}, Options{}, "the identity file is damaged"},
		{"before the first release", func(t *testing.T, dir string) {
			create(dir)
			id, err := os.ReadFile(filepath.Join(dir, identityFile))
			if err != nil {
				t.Fatal(err)
			}
			write(dir, identityFile, string(id[:strings.LastIndex(string(id), "sum ")]))
		}, Options{}, "a version before the first release wrote it"},
		{"lost data", func(_ *testing.T, dir string) {
			create(dir)
			id, _ := os.ReadFile(filepath.Join(dir, identityFile))
			_ = os.RemoveAll(dir)
			_ = os.Mkdir(dir, 0o755)
			write(dir, identityFile, string(id))
		}, Options{}, "its identity file exists but its data is missing"},
		{"other cluster", func(_ *testing.T, dir string) {
			create(dir)
		}, Options{Identity: Identity{Cluster: [16]byte{8}}}, "it belongs to another cluster"},
		{"locked", func(t *testing.T, dir string) {
			s, err := Open(vfs.Default, dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
		}, Options{}, "another process uses it"},
		{"read-only and empty", func(*testing.T, string) {}, Options{ReadOnly: true},
			"the directory is empty, and a read-only store cannot be created"},
		{"not a directory", func(_ *testing.T, dir string) {
			_ = os.Remove(dir)
			write(filepath.Dir(dir), filepath.Base(dir), "x")
		}, Options{}, "not a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			c.prep(t, dir)
			s, err := Open(vfs.Default, dir, c.o)
			if err == nil {
				_ = s.Close()
				t.Fatal("it opened")
			}
			if text := err.Error(); !strings.Contains(text, c.want) || strings.Contains(text, "\n") ||
				!strings.Contains(text, dir) {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

// TestReopen checks that the identity and rows survive closing the store. An interrupted creation must be resumed, and
// a checkpoint must be a valid store.
func TestReopen(t *testing.T) {
	fs := vfs.NewMem()
	if err := makeDir(fs, "a/b/db"); err != nil {
		t.Fatal(err)
	}
	if err := writeTemp(fs, "a/b/db", Identity{}.complete(feature.Newest)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(fs, "a/b/db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := s.Identity()
	apply(t, s, insert("k", "", 1))
	if err := s.Checkpoint("a/copy"); err != nil {
		t.Fatal(err)
	}
	if err := s.SetIdentity([16]byte{9}, id.Node); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for dir, cluster := range map[string][16]byte{"a/b/db": {9}, "a/copy": id.Cluster} {
		s, err := Open(fs, dir, Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		got := s.Identity()
		if got.Cluster != cluster || got.Node != id.Node || !got.Created.Equal(id.Created) ||
			len(readOne(t, s, "k")) != 2 {
			t.Errorf("%s: %+v, was %+v", dir, got, id)
		}
		if err := s.Apply(insert("k", "", 2)); !errors.Is(err, ErrReadOnly) {
			t.Errorf("read-only: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestUnstamped checks that an operand without a timestamp is rejected.
func TestUnstamped(t *testing.T) {
	s := openMem(t, Options{})
	if err := s.Apply(insert("k", "", row.Unstamped)); !errors.Is(err, ErrUnstamped) {
		t.Error(err)
	}
}

// TestRefusedOperands checks that an operand that could never be merged is rejected, and that the store continues.
func TestRefusedOperands(t *testing.T) {
	s := openMem(t, Options{})
	bad := insert("k", "", 1)
	bad.Ops[0].Operand = bad.Ops[0].Operand[:len(bad.Ops[0].Operand)-1]
	if err := s.Apply(bad); !errors.Is(err, row.ErrCorrupt) {
		t.Errorf("a truncated operand: %v", err)
	}
	long := insert(strings.Repeat("k", keys.MaxLen+1), "", 1)
	if err := s.Apply(long); err == nil {
		t.Error("an invalid partition key was accepted")
	}
	apply(t, s, insert(strings.Repeat("k", keys.MaxLen), "", 1))
	if got := readAll(t, s, command.Read{}); len(got) != 2 {
		t.Errorf("%d lines", len(got))
	}
}

// failing is a visitor that returns an error. The same error from the store would indicate damage.
type failing struct{ silent }

func (failing) Row([]byte, *row.Row) (command.Step, error) { return command.More, row.ErrCorrupt }

// TestVisitorError checks that an error of the visitor is returned unchanged and does not stop the store.
func TestVisitorError(t *testing.T) {
	s := openMem(t, Options{})
	apply(t, s, insert("k", "", 1))
	if err := s.Read(context.Background(), &command.Read{Table: testTable}, &failing{}); err != row.ErrCorrupt {
		t.Error(err)
	}
	if got := readOne(t, s, "k"); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// TestContext checks that a long read ends with its context.
func TestContext(t *testing.T) {
	s := openMem(t, Options{})
	for i := range 2 * contextEvery {
		apply(t, s, insert("k", fmt.Sprintf("%04d", i), 1))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var v silent
	err := s.Read(ctx, &command.Read{Table: testTable, Key: []byte("k"), Token: token.Hash([]byte("k"))}, &v)
	if !errors.Is(err, context.Canceled) || v.rows >= 2*contextEvery {
		t.Errorf("%d rows, %v", v.rows, err)
	}
}

// TestContextAmongLargeRows checks that the context is checked after each large row, because the caller may need a long
// time to process the row.
func TestContextAmongLargeRows(t *testing.T) {
	s := openMem(t, Options{})
	for i := range 10 {
		apply(t, s, mutation("k", fmt.Sprint(i), 1, func(b *row.Builder) {
			b.Cell(1, nil, make([]byte, largeLook), 0, 0)
		}))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var v silent
	err := s.Read(ctx, &command.Read{Table: testTable, Key: []byte("k"), Token: token.Hash([]byte("k"))}, &v)
	if !errors.Is(err, context.Canceled) || v.rows > 1 {
		t.Errorf("%d rows, %v", v.rows, err)
	}
}

// TestEstimate checks that the number of partitions is exact for small numbers and close for large numbers.
func TestEstimate(t *testing.T) {
	s := openMem(t, Options{})
	var ms []command.Mutation
	for i := range 20_000 {
		ms = append(ms, insert(fmt.Sprint(i), "", 1))
		if i == 99 || i == 19_999 {
			apply(t, s, ms...)
			ms = nil
			e, err := s.Estimate(keys.Span{Table: testTable})
			if n := float64(i + 1); err != nil || float64(e.Partitions) < 0.7*n || float64(e.Partitions) > 1.3*n {
				t.Errorf("%v: %+v %v", n, e, err)
			}
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	whole := keys.Span{Table: testTable}
	passage, counted, passages := PartitionWalk{Now: 1, Max: 7000}, 0, 0
	for more := true; more; passages++ {
		var err error
		if more, err = s.WalkPartitions(t.Context(), whole, &passage, func(token.Token,
			int64) {
			counted++
		}); err != nil {
			t.Fatal(err)
		}
	}
	if counted != 20_000 || passages != 3 {
		t.Errorf("counted %d in %d calls", counted, passages)
	}
	half := keys.TokenSpan(testTable, token.Between(0, token.Max))
	if e, err := s.Estimate(half); err != nil || e.Bytes == 0 || e.Partitions < 7000 || e.Partitions > 13000 {
		t.Errorf("%+v %v", e, err)
	}
	if e, err := s.Estimate(keys.Span{Table: testTable + 9}); err != nil || e.Partitions != 0 {
		t.Errorf("%+v %v", e, err)
	}
}

// TestEstimateOfLargeRows checks that the estimated number of partitions is accurate even if the sample contains only a
// few rows at each position.
func TestEstimateOfLargeRows(t *testing.T) {
	s := openMem(t, Options{})
	for i := range 1000 {
		apply(t, s, mutation(fmt.Sprint(i), "", 1, func(b *row.Builder) {
			b.Live(0, 0)
			b.Cell(1, nil, make([]byte, sampleBytes/2), 0, 0)
		}))
	}
	if e, err := s.Estimate(keys.Span{Table: testTable}); err != nil || e.Partitions < 700 || e.Partitions > 1300 {
		t.Errorf("%+v %v, want 1000", e, err)
	}
}

func readBytes(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeBytes(t testing.TB, fs vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestFirstHeaderIsNotTorn checks that concurrent readers see a batch that deletes a range and inserts a row completely
// or not at all. The deletion is the first deletion in the table. Each round uses a new table, either with clustering
// columns or without. In a table without clustering columns, a Get finds the only row.
func TestFirstHeaderIsNotTorn(t *testing.T) {
	s := openMem(t, Options{})
	for i := range uint32(3_000) {
		table, flat := testTable+10+i, i%2 == 1
		of := func(m command.Mutation) command.Mutation {
			m.Table = table
			return m
		}
		before, after := insert("k", "a", 1), insert("k", "b", 3)
		deletion := mutationOf(command.OpHeader, "k", "", 2, func(b *row.Builder) {
			b.DeleteRange([]byte("a"), []byte("b"), 1)
		})
		if flat { // the row has its second column only if the partition's deletion came first
			s.InstallTable(Table{ID: table})
			before = mutation("k", "", 1, func(b *row.Builder) { b.Cell(1, nil, []byte("a"), 0, 0) })
			after = mutation("k", "", 3, func(b *row.Builder) { b.Cell(2, nil, []byte("b"), 0, 0) })
			deletion = mutationOf(command.OpHeader, "k", "", 2, func(b *row.Builder) { b.DeleteRow(1) })
		}
		apply(t, s, of(before))
		var begun, ended atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			begun.Store(true)
			for last := false; !last; {
				last = ended.Load()
				var v cellCounter
				if err := s.Read(t.Context(), &command.Read{Table: table, Key: before.Key, Token: before.Token, Now: 1},
					&v); err != nil || v != 1 {
					t.Errorf("table %d: %d cells, %v", table, v, err)
					return
				}
			}
		}()
		for !begun.Load() {
			runtime.Gosched()
		}
		apply(t, s, of(deletion), of(after))
		ended.Store(true)
		<-done
		if t.Failed() {
			return
		}
	}
}

// cellCounter is a visitor that counts cells.
type cellCounter int

func (*cellCounter) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

func (c *cellCounter) Row(_ []byte, r *row.Row) (command.Step, error) {
	*c += cellCounter(len(r.Cells))
	return command.More, nil
}
