// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// quarters holds the spans of four physical partitions of the test table, with the IDs 1 to 4.
var quarters = func() (list [5]keys.Span) {
	for i := range uint64(4) {
		list[i+1] = keys.TokenSpan(testTable, token.Range{Begin: i << 62, Limit: (i + 1) << 62})
	}
	return list
}()

// joined returns the span from the beginning of one span to the end of another.
func joined(a, b keys.Span) keys.Span { return keys.Span{Table: a.Table, Begin: a.Begin, End: b.End} }

// openParts opens a store in which the test table and its index are installed.
func openParts(t testing.TB, fs vfs.FS, o Options) *Store {
	t.Helper()
	o.MemtableBytes, o.CacheBytes = 1<<20, 1<<20
	s, err := Open(fs, "db", o)
	if err != nil {
		t.Fatal(err)
	}
	s.InstallTable(testTableInfo())
	return s
}

func testTableInfo() Table {
	return Table{ID: testTable, Clustering: 1, Indexes: []Index{{ID: testIndex, Holds: func(*row.Row, []byte) bool {
		return true
	}}}}
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// createPartition stores the metadata of a new partition.
func createPartition(t testing.TB, s *Store, id uint64, span keys.Span) {
	t.Helper()
	b := s.NewBatch()
	defer b.Close()
	m := keys.NewMeta(id, span)
	b.PutMeta(&m)
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
}

// write writes entries to a partition like a log. Every entry contains operands, an index entry, and a dedupe record,
// and is counted in the meta.
func write(t testing.TB, s *Store, id uint64, entries int, version int64) {
	t.Helper()
	m, ok, err := s.Meta(id)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for i := range entries {
		writeEntry(t, s, &m, i, version)
	}
}

func writeEntry(t testing.TB, s *Store, m *keys.Meta, i int, version int64) {
	t.Helper()
	pk := keyIn(m.Span, i/4)
	b := s.NewBatch()
	defer b.Close()
	value := fmt.Sprintf("v%d-%d", version, i%3)
	mu := mutation(pk, fmt.Sprintf("ck%d", i%4), version*1e6+int64(i), func(b *row.Builder) {
		b.Live(0, 0)
		b.Cell(1, nil, []byte(value), 0, 0)
		b.Cell(2+uint32(i%2), nil, bytes.Repeat([]byte{byte(i)}, 30), 0, 0)
	})
	mu.Ops = append(mu.Ops, command.Op{Kind: command.OpIndex, Index: testIndex, Value: []byte(value),
		Clustering: mu.Ops[0].Clustering})
	if i%5 == 0 {
		mu.Ops = append(mu.Ops, mutationOf(command.OpHeader, pk, "", mu.Timestamp, func(b *row.Builder) {
			b.DeleteRange([]byte("x"), nil, 1)
		}).Ops...)
	}
	if err := b.Mutate(&mu); err != nil {
		t.Fatal(err)
	}
	if i%3 == 0 {
		b.PutDedupe(testTable, mu.Token, mu.Key, command.DedupeID{Sequence: uint64(i)}, []byte(value))
	}
	m.Applied++
	b.PutMeta(m)
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
}

// keyIn returns the i-th partition key in a span.
func keyIn(span keys.Span, i int) string {
	for n := 0; ; n++ {
		if pk := fmt.Sprintf("key%d", n); span.Holds(keys.At(token.Hash([]byte(pk)), []byte(pk))) {
			if i--; i < 0 {
				return pk
			}
		}
	}
}

func capture(t testing.TB, s *Store, id uint64) *SnapshotFile {
	t.Helper()
	p, err := s.CaptureSnapshot(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func stream(p *SnapshotFile) io.Reader { return io.NewSectionReader(p, 0, p.Size()) }

// snapshotBytes captures a partition into memory.
func snapshotBytes(t testing.TB, s *Store, id uint64) []byte {
	t.Helper()
	p := capture(t, s, id)
	b, err := io.ReadAll(stream(p))
	if err = errors.Join(err, p.Close()); err != nil || int64(len(b)) != p.Size() {
		t.Fatalf("%d bytes of %d: %v", len(b), p.Size(), err)
	}
	return b
}

func hashOf(t testing.TB, s *Store, span keys.Span) uint64 {
	t.Helper()
	h, err := s.HashSpan(span)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// indexed returns every row of a span that has a value, read through the index.
func indexed(t testing.TB, s *Store, span keys.Span, value string) []string {
	t.Helper()
	return readAll(t, s, command.Read{Range: span.Tokens(), Now: 1, Index: &command.IndexLookup{Index: testIndex,
		Value: []byte(value)}})
}

// everything returns all keys and values of a store, except the node's own keys.
func everything(t testing.TB, s *Store) []string {
	t.Helper()
	it, err := s.db.NewIter(&pebble.IterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for it.First(); it.Valid(); it.Next() {
		id, nobody := keys.ID(it.Key()), bytes.Equal(it.Value(), keys.BeginProgress(nil))
		if id != keys.TombstoneCacheID && (id != keys.ProgressID || !nobody) {
			out = append(out, fmt.Sprintf("%x=%x", it.Key(), it.Value()))
		}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		t.Fatal(err)
	}
	return out
}

// leftFiles lists the files in the directory of temporary files.
func leftFiles(t testing.TB, s *Store) []string {
	t.Helper()
	names, err := s.fs.List(s.fs.PathJoin(s.dir, snapshotDir))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// place moves a store's content to a place: 0 is the memtable, 1 is an sstable, and 2 is the lowest level.
func place(t testing.TB, s *Store, how int) {
	t.Helper()
	var err error
	switch how {
	case 1:
		err = s.Flush()
	case 2:
		err = s.Compact(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotCarriesPartition checks that the receiver of a snapshot has the sender's rows, headers, dedupe records,
// index entries, flag, and meta. The test covers different previous states of the receiver and different places of the
// keys in both stores. Other partitions of the receiver must be unchanged.
func TestSnapshotCarriesPartition(t *testing.T) {
	owns := map[string]keys.Span{
		"nothing": {}, "the same": quarters[2], "more": joined(quarters[2], quarters[3]),
		"less":             keys.TokenSpan(testTable, token.Range{Begin: 5 << 60, Limit: 6 << 60}),
		"what lies before": keys.TokenSpan(testTable, token.Range{Begin: 3 << 60, Limit: 4 << 60}),
		"what lies apart":  quarters[4], "another table": {Table: testTable + 7},
	}
	for name, own := range owns {
		for how := range 9 {
			t.Run(fmt.Sprintf("%s/%d", name, how), func(t *testing.T) { carry(t, own, how%3, how/3) })
		}
	}
}

func carry(t *testing.T, own keys.Span, from, to int) {
	a, b := openParts(t, vfs.NewMem(), Options{}), openParts(t, vfs.NewMem(), Options{})
	defer closeStore(t, a)
	defer closeStore(t, b)
	createPartition(t, a, 2, quarters[2])
	createPartition(t, a, 1, quarters[1])
	write(t, a, 2, 40, 2)
	write(t, a, 1, 8, 1)
	place(t, a, from)
	write(t, a, 2, 20, 3)
	if own.Table == testTable {
		createPartition(t, b, 2, own)
		write(t, b, 2, 30, 1)
	}
	// Create a neighbor on each side if own leaves space.
	for _, id := range []uint64{1, 3, 4} {
		if l, u := own.Bounds(); own.Table == testTable && overlap(l, u, quarters[id]) {
			continue
		}
		createPartition(t, b, id, quarters[id])
		write(t, b, id, 12, 1)
	}
	apply(t, b, command.Mutation{Table: testTable + 9, Token: 5, Key: []byte("k"), Timestamp: 1,
		Ops: insert("k", "", 1).Ops})
	place(t, b, to)
	others := func() (list []string) {
		for _, kv := range everything(t, b) {
			if inOthers(kv, own) {
				list = append(list, kv)
			}
		}
		// The keys belong to partition 2, whose old index entries may remain.
		return slices.DeleteFunc(list, func(kv string) bool {
			return strings.HasPrefix(kv, fmt.Sprintf("%x", keys.AppendMeta(nil, keys.PartitionID, 2))) ||
				strings.HasPrefix(kv, "20") || strings.HasPrefix(kv, "00000004")
		})
	}
	before := others()

	p := capture(t, a, 2)
	write(t, a, 2, 60, 4) // this data is not in the snapshot
	want := keys.NewMeta(2, quarters[2])
	want.Applied += 60
	if m := p.Meta(); m.Applied != want.Applied || m.Span.String() != want.Span.String() {
		t.Fatalf("%+v", m)
	}
	err := b.InstallSnapshot(context.Background(), own, stream(p), func(m *keys.Meta) error {
		m.Epoch = 77
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c := openParts(t, vfs.NewMem(), Options{})
	defer closeStore(t, c)
	createPartition(t, c, 2, quarters[2])
	write(t, c, 2, 40, 2)
	write(t, c, 2, 20, 3)
	if got, want := hashOf(t, b, quarters[2]), hashOf(t, c, quarters[2]); got != want {
		t.Errorf("hash %x, want %x", got, want)
	}
	if l, u := own.Bounds(); own.Table == testTable && !overlap(l, u, quarters[2]) &&
		len(readAll(t, b, command.Read{Range: own.Tokens()})) > 0 {
		t.Error("the replica's previous data still exists")
	}
	for i := range 3 {
		value := fmt.Sprintf("v3-%d", i)
		if got, want := indexed(t, b, quarters[2], value), indexed(t, c, quarters[2], value); len(want) < 2 ||
			!slices.Equal(got, want) {
			t.Errorf("by the index %q, want %q", got, want)
		}
	}
	m, ok, err := b.Meta(2)
	if err != nil || !ok || m.Epoch != 77 || m.Applied != want.Applied || !b.table(testTable).may(flagDeletions) {
		t.Errorf("%+v %v %v", m, ok, err)
	}
	if after := others(); !slices.Equal(before, after) {
		t.Errorf("others had\n%s\nand have\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	if rest := leftFiles(t, b); len(rest) > 0 {
		t.Errorf("files remain: %v", rest)
	}
	if err := p.Close(); err != nil || len(leftFiles(t, a)) > 0 {
		t.Errorf("left behind: %v %v", leftFiles(t, a), err)
	}
}

func overlap(lower, upper []byte, span keys.Span) bool {
	l, u := span.Bounds()
	return bytes.Compare(lower, u) < 0 && bytes.Compare(l, upper) < 0
}

// inOthers reports whether a key of the table, or a note about such a key, belongs neither to the snapshot nor to the
// replica's previous span.
func inOthers(kv string, own keys.Span) bool {
	var key []byte
	_, _ = fmt.Sscanf(kv[:strings.IndexByte(kv, '=')], "%x", &key)
	if keys.ID(key) == keys.SweepQueueID {
		key = keys.AppendSweepTarget(nil, key)
	}
	for _, span := range []keys.Span{quarters[2], own} {
		if l, u := span.Bounds(); span.Table != 0 && bytes.Compare(l, key) <= 0 && bytes.Compare(key, u) < 0 {
			return false
		}
	}
	return true
}

// TestSnapshotOfMeta checks that a snapshot of the meta partition contains exactly the keys under keys.MetaID.
func TestSnapshotOfMeta(t *testing.T) {
	a, b := openParts(t, vfs.NewMem(), Options{}), openParts(t, vfs.NewMem(), Options{})
	defer closeStore(t, a)
	defer closeStore(t, b)
	for s, records := range map[*Store][]string{a: {"x", "y", ""}, b: {"old", "y"}} {
		createPartition(t, s, keys.MetaPartition, keys.Span{})
		createPartition(t, s, 1, quarters[1])
		write(t, s, 1, 8, 1)
		for _, r := range records {
			if err := s.Set(keys.MetaID, []byte(r), []byte(r+records[0])); err != nil {
				t.Fatal(err)
			}
		}
	}
	rows := hashOf(t, b, quarters[1])
	if err := b.InstallSnapshot(context.Background(), keys.Span{},
		bytes.NewReader(snapshotBytes(t, a, keys.MetaPartition)), nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := b.Scan(keys.MetaID, nil, func(sub, value []byte) error {
		got = append(got, string(sub)+"="+string(value))
		return nil
	}); err != nil || !slices.Equal(got, []string{"=x", "x=xx", "y=yx"}) {
		t.Errorf("%q %v", got, err)
	}
	wantAt, want, _ := a.HashPartition(keys.MetaPartition)
	if at, h, err := b.HashPartition(keys.MetaPartition); at != wantAt || h != want || err != nil ||
		hashOf(t, b, quarters[1]) != rows {
		t.Errorf("hash %x at %d, want %x at %d: %v", h, at, want, wantAt, err)
	}
}

// TestInstalledHeaders checks that a store that has never had a header of the table finds the headers in a snapshot,
// even after a crash.
func TestInstalledHeaders(t *testing.T) {
	a := openParts(t, vfs.NewMem(), Options{})
	defer closeStore(t, a)
	createPartition(t, a, 1, keys.Span{Table: testTable})
	apply(t, a, insert("k", "a", 1), insert("k", "b", 1), mutationOf(command.OpHeader, "k", "", 2,
		func(b *row.Builder) {
			b.DeleteRange([]byte("b"), nil, 1)
		}))
	fs := vfs.NewCrashableMem()
	b := openParts(t, fs, Options{})
	defer closeStore(t, b)
	if err := b.InstallSnapshot(context.Background(), keys.Span{}, bytes.NewReader(snapshotBytes(t, a, 1)),
		nil); err != nil {
		t.Fatal(err)
	}
	c := openParts(t, fs.CrashClone(vfs.CrashCloneCfg{}), Options{})
	defer closeStore(t, c)
	for _, s := range []*Store{b, c} {
		if got, want := readOne(t, s, "k"), readOne(t, a, "k"); !slices.Equal(got, want) || len(got) != 2 {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestBadSnapshot checks that a stream is rejected without effect if it ends early, has a wrong byte, or was not
// requested.
func TestBadSnapshot(t *testing.T) {
	a, b := openParts(t, vfs.NewMem(), Options{}), openParts(t, vfs.NewMem(), Options{})
	defer closeStore(t, a)
	defer closeStore(t, b)
	createPartition(t, a, 2, quarters[2])
	write(t, a, 2, 40, 2)
	createPartition(t, b, 2, quarters[2])
	write(t, b, 2, 30, 1)
	before := everything(t, b)
	good := snapshotBytes(t, a, 2)
	check := func(what string, stream []byte, want error) {
		t.Helper()
		if err := b.InstallSnapshot(context.Background(), quarters[2], bytes.NewReader(stream), nil); !errors.Is(err,
			want) {
			t.Errorf("install %s: %v", what, err)
		}
		if p, err := b.ReceiveSnapshot(context.Background(), bytes.NewReader(stream)); !errors.Is(err, want) {
			t.Errorf("receive %s: %v %v", what, p, err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 150 {
		check("cut off", good[:rng.IntN(len(good))], ErrBadSnapshot)
		bad := bytes.Clone(good)
		at := rng.IntN(len(bad))
		bad[at] ^= 1 << rng.IntN(8)
		check(fmt.Sprint("flipped at ", at), bad, ErrBadSnapshot)
	}
	full := errors.New("no")
	if err := b.InstallSnapshot(context.Background(), quarters[2], bytes.NewReader(good), func(*keys.Meta) error {
		return full
	}); !errors.Is(err, full) {
		t.Error(err)
	}
	if err := b.InstallSnapshot(context.Background(), quarters[2], bytes.NewReader(good), func(m *keys.Meta) error {
		m.Span = quarters[3]
		return nil
	}); err == nil {
		t.Error("the span was changed")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.InstallSnapshot(ctx, quarters[2], bytes.NewReader(good), nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := a.CaptureSnapshot(context.Background(), 9); !errors.Is(err, ErrNoPartition) {
		t.Error(err)
	}
	if after := everything(t, b); !slices.Equal(before, after) {
		t.Errorf("the store has changed")
	}
	if rest := leftFiles(t, b); len(rest) > 0 {
		t.Errorf("files remain: %v", rest)
	}
	p, err := b.ReceiveSnapshot(context.Background(), bytes.NewReader(good))
	if err != nil || p.Size() != int64(len(good)) || p.Meta().Applied != keys.InitialApplied+40 {
		t.Fatalf("%+v %v", p, err)
	}
	if err := b.InstallSnapshot(context.Background(), quarters[2], stream(p), nil); err != nil ||
		hashOf(t, b, quarters[2]) != hashOf(t, a, quarters[2]) {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestForeignSnapshot checks that a stream with correct checksums is rejected if this version does not support it. The
// stream must also be rejected if it contains data that does not belong to its partition, or if its data is in the
// wrong order. The store must remain unchanged.
func TestForeignSnapshot(t *testing.T) {
	s := openParts(t, vfs.NewMem(), Options{})
	defer closeStore(t, s)
	createPartition(t, s, 3, quarters[3])
	write(t, s, 3, 8, 1)
	before := everything(t, s)
	row := func(i uint64, tok int64) []byte {
		return keys.AppendRow(nil, testTable, token.Token(tok), []byte{byte(i)}, nil)
	}
	inside, other := int64(-1)<<62, int64(1)
	entry := func(tok int64) []byte {
		return keys.AppendIndex(nil, testIndex, []byte("v"), token.Token(tok), []byte("k"), nil)
	}
	good := streamHead{meta: keys.NewMeta(2, quarters[2])}
	records := func(list ...[]byte) func(w *streamWriter) error {
		return func(w *streamWriter) error {
			err := w.begin(&good)
			for _, key := range list {
				_, aerr := w.add(key, nil)
				err = errors.Join(err, aerr)
			}
			return errors.Join(err, w.end())
		}
	}
	head := func(h streamHead) func(w *streamWriter) error {
		return func(w *streamWriter) error { return errors.Join(w.begin(&h), w.end()) }
	}
	for what, build := range map[string]func(w *streamWriter) error{
		"":                     records(row(1, inside), row(2, inside), entry(inside)),
		"another one's row":    records(row(1, inside), row(1, other)),
		"another one's entry":  records(entry(other)),
		"a meta":               records(keys.AppendMeta(nil, keys.PartitionID, 3)),
		"descending keys":      records(row(2, inside), row(1, inside)),
		"a key twice":          records(row(1, inside), row(1, inside)),
		"an index for a table": head(streamHead{meta: keys.NewMeta(2, keys.Span{Table: testTable | keys.IndexSpace})}),
		"metas for a table":    head(streamHead{meta: keys.NewMeta(2, keys.Span{Table: keys.PartitionID})}),
		"an empty span": head(streamHead{meta: keys.NewMeta(2, keys.Span{Table: testTable, Begin: []byte{2},
			End: []byte{1}})}),
		"a newer meta": func(w *streamWriter) error {
			_, err := w.w.Write(append([]byte(streamMagic), streamFormat))
			w.raw = []byte{0, 0, 99}
			return errors.Join(err, w.chunk(chunkHead), w.end())
		},
		"a chunk less": func(w *streamWriter) error {
			err := w.begin(&good)
			w.chunks++
			return errors.Join(err, w.end())
		},
		"an unknown chunk": func(w *streamWriter) error { return errors.Join(w.begin(&good), w.chunk(9), w.end()) },
		"undecodable records": func(w *streamWriter) error {
			err := w.begin(&good)
			w.raw = []byte{7, 1, 1, 0}
			return errors.Join(err, w.end())
		},
	} {
		var buf bytes.Buffer
		if err := build(&streamWriter{w: &buf}); err != nil {
			t.Fatal(err)
		}
		err := s.InstallSnapshot(context.Background(), keys.Span{}, &buf, nil)
		if what == "" {
			if err != nil {
				t.Errorf("a good one: %v", err)
			}
			removePartition(t, s, 2, quarters[2])
			sweepEntries(t, s)
			continue
		}
		if !errors.Is(err, ErrBadSnapshot) || s.Err() != nil {
			t.Errorf("%s: %v, the store: %v", what, err, s.Err())
		}
	}
	if after := everything(t, s); !slices.Equal(before, after) {
		t.Errorf("the store has\n%s\nand had\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
}

// removePartition reverts an installation.
func removePartition(t *testing.T, s *Store, id uint64, span keys.Span) {
	t.Helper()
	b := s.NewBatch()
	defer b.Close()
	err := b.Truncate(span, []uint32{testIndex})
	b.DeleteMeta(id)
	if err = errors.Join(err, b.Commit()); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotOverlaps checks that neither a snapshot nor the replica's previous span may belong to another partition.
func TestSnapshotOverlaps(t *testing.T) {
	a, b := openParts(t, vfs.NewMem(), Options{}), openParts(t, vfs.NewMem(), Options{})
	defer closeStore(t, a)
	defer closeStore(t, b)
	createPartition(t, a, 2, quarters[2])
	good := snapshotBytes(t, a, 2)
	createPartition(t, b, 3, joined(quarters[3], quarters[4]))
	for _, own := range []keys.Span{quarters[3], quarters[4], joined(quarters[2], quarters[4])} {
		if err := b.InstallSnapshot(context.Background(), own, bytes.NewReader(good), nil); !errors.Is(err,
			ErrOverlap) {
			t.Errorf("%v: %v", own, err)
		}
	}
	if err := b.InstallSnapshot(context.Background(), keys.Span{Table: keys.RegistryID}, bytes.NewReader(good),
		nil); err == nil {
		t.Error("the registry was removed")
	}
	createPartition(t, b, 1, joined(quarters[1], quarters[2]))
	if err := b.InstallSnapshot(context.Background(), keys.Span{}, bytes.NewReader(good), nil); !errors.Is(err,
		ErrOverlap) {
		t.Error(err)
	}
}

// TestSnapshotNeedsRoom checks that neither side starts or continues a transfer that would make the disk too full.
func TestSnapshotNeedsRoom(t *testing.T) {
	free := uint64(1 << 30)
	usage := func(string) (vfs.DiskUsage, error) { return vfs.DiskUsage{AvailBytes: free, TotalBytes: 1 << 30}, nil }
	a, b := openParts(t, vfs.NewMem(), Options{}), openParts(t, vfs.NewMem(), Options{DiskUsage: usage})
	defer closeStore(t, a)
	defer closeStore(t, b)
	for _, s := range []*Store{a, b} {
		createPartition(t, s, 2, quarters[2])
		write(t, s, 2, 400, 1)
		place(t, s, 1)
	}
	good := snapshotBytes(t, a, 2)
	free = 1<<30/100*5 + b.db.Metrics().WAL.Size + 100
	if _, err := b.CaptureSnapshot(context.Background(), 2); !errors.Is(err, ErrNoRoom) {
		t.Error(err)
	}
	if err := b.InstallSnapshot(context.Background(), quarters[2], bytes.NewReader(good), nil); !errors.Is(err,
		ErrNoRoom) {
		t.Error(err)
	}
	if _, err := b.ReceiveSnapshot(context.Background(), bytes.NewReader(good)); !errors.Is(err, ErrNoRoom) {
		t.Error(err)
	}
	free = 1<<30/100*5 + b.db.Metrics().WAL.Size + 1<<20
	taking := io.MultiReader(bytes.NewReader(good[:len(good)-1]), readerFunc(func(p []byte) (int, error) {
		free -= 1<<20 - 100 // the space used by this file or by other files before the end of the transfer
		return copy(p, good[len(good)-1:]), io.EOF
	}))
	if _, err := b.ReceiveSnapshot(context.Background(), taking); !errors.Is(err, ErrNoRoom) {
		t.Errorf("a snapshot that cannot be installed was accepted: %v", err)
	}
	if rest := leftFiles(t, b); len(rest) > 0 {
		t.Errorf("files remain: %v", rest)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestOpenEmptiesSnapshots checks that opening the store deletes the temporary files of an earlier process.
func TestOpenEmptiesSnapshots(t *testing.T) {
	fs := vfs.NewMem()
	s := openParts(t, fs, Options{})
	createPartition(t, s, 2, quarters[2])
	capture(t, s, 2)
	if len(leftFiles(t, s)) != 1 {
		t.Fatal(leftFiles(t, s))
	}
	closeStore(t, s)
	s = openParts(t, fs, Options{})
	defer closeStore(t, s)
	if rest := leftFiles(t, s); len(rest) > 0 {
		t.Errorf("files remain: %v", rest)
	}
}

// TestSnapshotKnowsIndexes checks that no snapshot is created if the store has entries of an index that is missing from
// the request. The snapshot would omit these entries. A node may apply writes planned for a newer schema than its own.
// Entries of a dropped index must not prevent a snapshot.
func TestSnapshotKnowsIndexes(t *testing.T) {
	for name, space := range map[string]uint32{"index": 0, "ordered": keys.OrderedIndex, "hints": keys.HintSpace} {
		t.Run(name, func(t *testing.T) {
			s := openParts(t, vfs.NewMem(), Options{})
			defer closeStore(t, s)
			const newer = testIndex + 1
			s.KnowIDs(newer)
			createPartition(t, s, 1, quarters[1])
			write(t, s, 1, 3, 1)
			pk := keyIn(quarters[1], 0)
			capture := func() error {
				p, err := s.CaptureSnapshot(context.Background(), 1)
				if err == nil {
					err = p.Close()
				}
				return err
			}
			if err := capture(); err != nil {
				t.Fatal(err)
			}
			m := insert(pk, "c", 1)
			m.Ops = append(m.Ops, command.Op{Kind: command.OpIndex, Index: newer | space, Value: []byte("v"),
				Clustering: m.Ops[0].Clustering})
			apply(t, s, m)
			if err := capture(); !errors.Is(err, ErrBehind) {
				t.Fatalf("a snapshot without entries of a newer index: %v", err)
			}
			in := testTableInfo()
			in.Indexes = append(in.Indexes, Index{ID: newer | space})
			s.InstallTable(in)
			s.KnowIDs(newer + 1)
			if err := capture(); err != nil {
				t.Fatal(err)
			}
			s.InstallTable(testTableInfo())
			if err := capture(); err != nil {
				t.Fatalf("the index was dropped: %v", err)
			}
		})
	}
}
