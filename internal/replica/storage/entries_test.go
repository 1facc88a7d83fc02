// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// indexedIn creates a store of n rows in a table that is divided into parts. Each row has an index entry and is in a
// separate partition.
func indexedIn(t *testing.T, n, parts int) (s *Store, spans []keys.Span) {
	t.Helper()
	s = openMem(t, Options{})
	s.InstallTable(installed(0))
	b := s.NewBatch()
	defer b.Close()
	step := uint64(math.MaxUint64)/uint64(parts) + 1
	for i := range parts {
		r := token.Range{Begin: uint64(i) * step, Limit: uint64(i+1) * step}
		if i == parts-1 {
			r.Limit = 0
		}
		spans = append(spans, keys.TokenSpan(testTable, r))
		b.PutMeta(&keys.Meta{Partition: uint64(i + 1), Span: spans[i]})
	}
	for i := range n {
		m := insert(fmt.Sprint(i), "c", 1)
		m.Ops = append(m.Ops, command.Op{Kind: command.OpIndex, Index: testIndex, Value: []byte("v"),
			Clustering: m.Ops[0].Clustering})
		if err := b.Mutate(&m); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	return s, spans
}

func sweepEntries(t *testing.T, s *Store) {
	t.Helper()
	if err := s.SweepEntries(context.Background(), 1000, func(int) {}); err != nil {
		t.Fatal(err)
	}
}

// entryCount returns the number of entries in the test index.
func entryCount(t *testing.T, s *Store) int {
	t.Helper()
	lower, upper := indexBounds(testIndex)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	n := 0
	for it.First(); it.Valid(); it.Next() {
		n++
	}
	return n
}

// TestEntriesAreSeenOnce checks that sweeping an index reads each entry once, for any number of partitions, and that it
// keeps entries that lead to a row.
func TestEntriesAreSeenOnce(t *testing.T) {
	const n = 20_000
	s, _ := indexedIn(t, n, 64)
	sweepEntries(t, s)
	if m := s.Metrics(); m.EntriesSeen != n || entryCount(t, s) != n {
		t.Errorf("%d looks, %d entries are left", m.EntriesSeen, entryCount(t, s))
	}
	for i := range n / 2 {
		apply(t, s, mutation(fmt.Sprint(i), "c", 2, func(b *row.Builder) { b.DeleteRow(1) }))
	}
	sweepEntries(t, s)
	if got := entryCount(t, s); got != n/2 {
		t.Errorf("%d entries are left of the %d rows that are", got, n/2)
	}
}

// TestEntriesLeaveWithReplica checks that the entries of a removed replica are removed. The entries of its neighbors
// must remain, even if a neighbor has just been created.
func TestEntriesLeaveWithReplica(t *testing.T) {
	s, spans := indexedIn(t, 1000, 4)
	b := s.NewBatch()
	if err := b.Truncate(spans[1], nil); err != nil {
		t.Fatal(err)
	}
	b.DeleteMeta(2)
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Close()
	sweepEntries(t, s)
	want := 0
	for i := range 1000 {
		if pk := []byte(fmt.Sprint(i)); !spans[1].Holds(keys.At(token.Hash(pk), pk)) {
			want++
		}
	}
	if got := entryCount(t, s); got != want {
		t.Errorf("%d entries are left, want %d", got, want)
	}
}

// TestTruncateWalksNoIndex checks that truncating a part of a table leaves the index entries to sweeps, and that
// lookups find nothing in that part.
func TestTruncateWalksNoIndex(t *testing.T) {
	const n = 1000
	s, spans := indexedIn(t, n, 2)
	if err := s.Truncate(spans[0], []uint32{testIndex}); err != nil {
		t.Fatal(err)
	}
	if got := entryCount(t, s); got != n {
		t.Errorf("%d entries are left: they were walked over", got)
	}
	lookup := func() int {
		return len(readAll(t, s, command.Read{Index: &command.IndexLookup{Index: testIndex, Value: []byte("v")},
			Now: 1}))
	}
	rows := lookup()
	sweepEntries(t, s)
	if got := entryCount(t, s); got != rows/2 || rows == 2*n || lookup() != rows {
		t.Errorf("%d entries for %d lines", got, rows)
	}
}

// TestSweepKeepsEntriesOfNewLists checks that a scan of a vector index keeps the entries of lists that the index gets
// during the scan. It must remove the entries of lists that the index loses during the scan.
func TestSweepKeepsEntriesOfNewLists(t *testing.T) {
	s := openMem(t, Options{})
	if err := own(s); err != nil {
		t.Fatal(err)
	}
	s.InstallTable(nearTable())
	const rows = 3 * entrySlice
	rnd := rand.New(rand.NewPCG(1, 1))
	vectors := make([][]float32, rows)
	for i := range vectors {
		vectors[i] = drawVector(rnd)
		if err := s.Apply(nearInsert(fmt.Sprint(i), vectors[i], 1)); err != nil {
			t.Fatal(err)
		}
	}
	next := nearTableOf(2, 1)
	changed := false
	during := func(int) {
		if changed {
			return
		}
		changed = true
		s.InstallTable(next)
		for i, v := range vectors { // write the entries like the index builder
			m := insert(fmt.Sprint(i), "c", 1)
			m.Ops = []command.Op{{Kind: command.OpIndex, Index: nearIndex, Clustering: m.Ops[0].Clustering,
				Value: next.Indexes[0].Lists[0].AppendEntry(nil, v, m.Token.Position())}}
			if err := s.Apply(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	count := func() (n int) {
		lower, upper := indexBounds(nearIndex)
		it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		if err != nil {
			t.Fatal(err)
		}
		for it.First(); it.Valid(); it.Next() {
			n++
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := s.SweepEntries(t.Context(), 1000, during); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 2*rows {
		t.Errorf("%d entries are left, want %d", n, 2*rows)
	}
	changed = false
	during = func(int) { s.InstallTable(nearTableOf(2)) }
	if err := s.SweepEntries(t.Context(), 1000, during); err != nil {
		t.Fatal(err)
	}
	// The first slice was checked against both generations. The other slices were checked against the newer generation.
	if n := count(); n != rows+entrySlice {
		t.Errorf("%d entries are left, want %d", n, rows+entrySlice)
	}
	during = func(int) { s.InstallTable(Table{ID: testTable, Clustering: 1}) }
	before := s.m.entriesSeen.Load()
	if err := s.SweepEntries(t.Context(), 1000, during); err != nil {
		t.Fatal(err)
	}
	if seen := s.m.entriesSeen.Load() - before; seen != entrySlice {
		t.Errorf("the walk looked at %d entries, though the index was dropped after %d", seen, entrySlice)
	}
}
