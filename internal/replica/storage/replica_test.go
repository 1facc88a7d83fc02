// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// entry is one entry of a log. It has one of three effects.
type entry struct {
	mutation *command.Mutation
	sweep    *command.Sweep
	truncate bool
}

// applyEntry applies an entry in one batch with the meta, as a replica does.
func applyEntry(s *Store, m *keys.Meta, e *entry) error {
	b := s.NewBatch()
	defer b.Close()
	var err error
	switch {
	case e.mutation != nil:
		if err = b.Mutate(e.mutation); err == nil {
			b.PutDedupe(e.mutation.Table, e.mutation.Token, e.mutation.Key, command.DedupeID{Sequence: m.Applied},
				[]byte("done"))
		}
	case e.sweep != nil:
		err = b.Sweep(e.sweep)
	case e.truncate:
		err = b.Truncate(m.Span, []uint32{testIndex})
	}
	if err != nil {
		return err
	}
	m.Applied++
	b.PutMeta(m)
	return b.CommitLogged()
}

// TestReplicasAgree makes two replicas apply one log of mutations, sweeps, and truncations. Between entries, each
// replica is flushed or compacted, is reopened after the loss of all unsynced data, or receives a snapshot of the other
// replica. The replicas take turns finding garbage. Whenever both replicas have applied the same entries, they must
// have the same hash.
func TestReplicasAgree(t *testing.T) {
	span := keys.Span{Table: testTable}
	rapid.Check(t, func(t *rapid.T) {
		var log []entry
		var disks [2]*vfs.MemFS
		var stores [2]*Store
		open := func(i int) {
			s, err := Open(disks[i], "db", Options{MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			eager(s)
			s.InstallTable(installed(2))
			stores[i] = s
		}
		meta := func(i int) keys.Meta {
			m, ok, err := stores[i].Meta(1)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				m = keys.NewMeta(1, span)
			}
			return m
		}
		catchUp := func(i int) {
			m := meta(i)
			for n := m.Applied - keys.InitialApplied; n < uint64(len(log)); n++ {
				if err := applyEntry(stores[i], &m, &log[n]); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range stores {
			disks[i] = vfs.NewCrashableMem()
			open(i)
			defer func() { _ = stores[i].Close() }()
		}
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "store")
			s := stores[i]
			switch rapid.IntRange(0, 11).Draw(t, "step") {
			case 0:
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
			case 1:
				if err := s.Compact(context.Background()); err != nil {
					t.Fatal(err)
				}
			case 2:
				disks[i] = disks[i].CrashClone(vfs.CrashCloneCfg{})
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				open(i)
				catchUp(i)
			case 3:
				catchUp(i)
				moveSnapshot(t, s, stores[1-i], span)
			case 4:
				catchUp(i)
				g, err := s.FindGarbage(context.Background(), span, nil, rapid.Int64Range(1, 14).Draw(t, "now"), 3,
					1000)
				if err != nil {
					t.Fatal(err)
				}
				for n := range g.Sweeps {
					log = append(log, entry{sweep: &g.Sweeps[n]})
				}
			case 5:
				if rapid.IntRange(0, 3).Draw(t, "truncate") == 0 {
					log = append(log, entry{truncate: true})
				}
			case 6:
				catchUp(i)
			default:
				mu := drawMutation(t)
				mu.Timestamp = int64(len(log)) * 1e6
				log = append(log, entry{mutation: &mu})
			}
		}
		catchUp(0)
		catchUp(1)
		atA, a, errA := stores[0].HashPartition(1)
		atB, b, errB := stores[1].HashPartition(1)
		if err := errors.Join(errA, errB); err != nil && len(log) > 0 || a != b || atA != atB {
			t.Fatalf("%x at %d and %x at %d after %d entries: %v", a, atA, b, atB, len(log), err)
		}
	})
}

// moveSnapshot installs one store's data of partition 1 in another store, if the first store has such data.
func moveSnapshot(t *rapid.T, from, to *Store, span keys.Span) {
	p, err := from.CaptureSnapshot(context.Background(), 1)
	if errors.Is(err, ErrNoPartition) {
		return
	}
	if err == nil {
		err = errors.Join(to.InstallSnapshot(context.Background(), span, stream(p), nil), p.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHashSees checks that the hash of a span changes with any key or value in the span. Data outside the span and
// cells of dropped columns must have no effect on the hash.
func TestHashSees(t *testing.T) {
	s := openMem(t, Options{})
	half := keys.TokenSpan(testTable, token.Range{Limit: 1 << 63})
	in, out := keyIn(half, 0), keyIn(keys.TokenSpan(testTable, token.Range{Begin: 1 << 63}), 0)
	seen := map[uint64]string{hashOf(t, s, half): "nothing"}
	step := func(what string, same bool) {
		t.Helper()
		h := hashOf(t, s, half)
		if _, ok := seen[h]; ok != same {
			t.Errorf("%s: seen before: %v (%s)", what, ok, seen[h])
		}
		seen[h] = what
	}
	apply(t, s, insert(in, "a", 1))
	step("a row", false)
	apply(t, s, insert(in, "a", 2))
	step("a timestamp", false)
	apply(t, s, insert(in, "a", 1))
	step("an older write", true)
	apply(t, s, mutationOf(command.OpHeader, in, "", 3, func(b *row.Builder) { b.DeleteRange([]byte("x"), nil, 1) }))
	step("a header", false)
	b := s.NewBatch()
	defer b.Close()
	b.PutDedupe(testTable, token.Hash([]byte(in)), []byte(in), command.DedupeID{}, nil)
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	step("a dedupe record", false)
	apply(t, s, insert(out, "a", 1))
	step("a row of the other half", true)
	s.InstallTable(Table{ID: testTable, Clustering: 1,
		Dropped: []cqltype.Dropped{{Column: 9, Upto: cqltype.AllDropped}}})
	apply(t, s, mutation(in, "a", 4, func(b *row.Builder) { b.Cell(9, nil, []byte("x"), 0, 0) }))
	apply(t, s, mutation(in, "c", 4, func(b *row.Builder) { b.Cell(9, nil, []byte("x"), 0, 0) }))
	step("cells of a dropped column", true)
}

// TestTruncateInBatch checks the order of operands and a truncation within a batch. Operands that were added before the
// truncation must be removed with the rest of the span. Operands that were added after the truncation must remain, and
// so must the rows and entries of other spans.
func TestTruncateInBatch(t *testing.T) {
	s := openParts(t, vfs.NewMem(), Options{})
	defer closeStore(t, s)
	for _, id := range []uint64{1, 2} {
		createPartition(t, s, id, quarters[id])
		write(t, s, id, 24, 1)
	}
	entries := indexed(t, s, quarters[1], "v1-1")
	other := hashOf(t, s, quarters[1])
	b := s.NewBatch()
	defer b.Close()
	before, after := insert(keyIn(quarters[2], 50), "before", 9), insert(keyIn(quarters[2], 51), "after", 9)
	m := keys.NewMeta(2, quarters[2])
	m.Applied = 99
	err := errors.Join(b.Mutate(&before), b.Truncate(quarters[2], []uint32{testIndex}), b.Mutate(&after))
	b.PutMeta(&m)
	if err = errors.Join(err, b.CommitLogged()); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, s, command.Read{Range: quarters[2].Tokens(), Now: 1}); len(got) != 2 ||
		!bytes.Contains([]byte(got[1]), []byte("after")) {
		t.Errorf("%q", got)
	}
	if got := indexed(t, s, quarters[1], "v1-1"); len(got) < 2 || !slices.Equal(got, entries) ||
		hashOf(t, s, quarters[1]) != other {
		t.Errorf("rows of the other partition by the index: got %q, want %q", got, entries)
	}
	sweepEntries(t, s)
	left := 0
	for _, kv := range everything(t, s) {
		var key []byte
		_, _ = fmt.Sscanf(kv[:bytes.IndexByte([]byte(kv), '=')], "%x", &key)
		if e, ok := keys.ParseIndex(key); ok && quarters[2].Holds(e.Position()) {
			left++
		}
	}
	if got, _, _ := s.Meta(2); left > 0 || got.Applied != 99 {
		t.Errorf("%d entries are left, meta %+v", left, got)
	}
}

// TestEachEntry checks that seeking over entries outside a span finds the same entries as reading all entries.
func TestEachEntry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := Open(vfs.NewMem(), "db", Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		b := s.NewBatch()
		defer b.Close()
		span := keys.Span{Table: testTable}
		cut := func(name string) []byte {
			tok := token.Token(rapid.Int64Range(-30, 30).Draw(t, name))
			if rapid.Bool().Draw(t, name+" within") {
				return keys.AppendPosition(nil, tok, []byte("p"))
			}
			return keys.AppendToken(nil, tok)
		}
		if rapid.Bool().Draw(t, "begins") {
			span.Begin = cut("begin")
		}
		if rapid.Bool().Draw(t, "ends") {
			span.End = cut("end")
		}
		want := map[string]bool{}
		for range rapid.IntRange(0, 150).Draw(t, "entries") {
			value := rapid.SampledFrom([]string{"", "a", "b", "bb"}).Draw(t, "value")
			tok, pk := token.Token(rapid.Int64Range(-30, 30).Draw(t, "token")),
				rapid.SampledFrom([]string{"o", "p", "q"}).Draw(t, "pk")
			key := keys.AppendIndex(nil, testIndex, []byte(value), tok, []byte(pk), nil)
			if _ = b.b.Set(key, nil, nil); span.Holds(keys.At(tok, []byte(pk))) {
				want[string(key)] = true
			}
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		lower, upper := indexBounds(testIndex)
		it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		err = eachEntry(it, span, func(key, _ []byte) error {
			if n++; !want[string(key)] {
				t.Fatalf("%x does not lie in %v", key, span)
			}
			return nil
		})
		if err := errors.Join(err, it.Close()); err != nil || n != len(want) {
			t.Fatalf("%d of %d entries: %v", n, len(want), err)
		}
	})
}

// TestRegistry checks that replicas are listed in order and survive a restart. The state in a replica's record must be
// removed with the record.
func TestRegistry(t *testing.T) {
	fs := vfs.NewMem()
	s := openParts(t, fs, Options{})
	list := []keys.Replica{{Partition: 1, Replica: 1 << 40, Created: 5}, {Partition: 300, Replica: 2},
		{Partition: keys.MetaPartition, Replica: 7, Created: 9}}
	b := s.NewBatch()
	for _, i := range []int{2, 0, 1} {
		b.PutReplica(&list[i])
	}
	createPartition(t, s, 300, quarters[1])
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Close()
	closeStore(t, s)
	s = openParts(t, fs, Options{})
	defer closeStore(t, s)
	if got, err := s.Replicas(); err != nil || !slices.Equal(got, list) {
		t.Errorf("%+v %v", got, err)
	}
	b = s.NewBatch()
	defer b.Close()
	b.DeleteReplica(300)
	b.DeleteMeta(300)
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Replicas(); err != nil || !slices.Equal(got, slices.Delete(list, 1, 2)) {
		t.Errorf("%+v %v", got, err)
	}
	if _, ok, err := s.Meta(300); ok || err != nil {
		t.Errorf("the meta exists: %v %v", ok, err)
	}
	if err := s.Set(keys.RegistryID, binary.BigEndian.AppendUint64(nil, 3), []byte{9}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Replicas(); !errors.Is(err, feature.ErrNewer) || s.Err() != nil {
		t.Errorf("the record of a later build: %v, and the store: %v", err, s.Err())
	}
	if err := s.Set(keys.RegistryID, binary.BigEndian.AppendUint64(nil, 3), []byte{2}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Replicas(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a damaged record: %v", err)
	}
}

// TestAdmit checks that a replica with a full disk applies an entry of its log even though a leader would reject it.
func TestAdmit(t *testing.T) {
	free := uint64(9 << 20)
	s := openMem(t, Options{DiskUsage: func(string) (vfs.DiskUsage, error) {
		return vfs.DiskUsage{AvailBytes: free, TotalBytes: 1 << 30}, nil
	}})
	m, del := insert("k", "a", 1), remove("k", "b", 1, 1)
	indexed := command.Mutation{Table: testTable, Key: []byte("k"),
		Ops: []command.Op{{Kind: command.OpIndex, Index: testIndex}}}
	for what, check := range map[string]struct {
		m    command.Mutation
		want error
	}{"insert": {m, ErrDiskFull}, "entry": {indexed, ErrDiskFull}, "delete": {del, ErrDiskCritical}} {
		if err := s.Admit(&check.m, false); !errors.Is(err, check.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	b := s.NewBatch()
	defer b.Close()
	if err := errors.Join(b.Mutate(&m), b.CommitLogged()); err != nil || len(readOne(t, s, "k")) != 2 {
		t.Errorf("the log: %v", err)
	}
	free = 1 << 30
	s.checkDisk()
	bad := insert("k", "a", 1)
	bad.Ops[0].Operand = bad.Ops[0].Operand[1:]
	if err := errors.Join(s.Admit(&m, false), s.Admit(&del, false), s.Admit(&indexed, false)); err != nil ||
		s.Admit(&bad, false) == nil {
		t.Errorf("with room: %v, a damaged operand: %v", err, s.Admit(&bad, false))
	}
	if err := s.Admit(&m, true); !errors.Is(err, ErrDisksFull) {
		t.Errorf("without room at the others: %v", err)
	}
	if err := s.Admit(&del, true); err != nil {
		t.Errorf("a delete without room at the others: %v", err)
	}
}
