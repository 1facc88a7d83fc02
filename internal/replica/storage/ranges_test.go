// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// rangeCK returns a clustering key of TestManyDeletedRanges.
func rangeCK(i int) []byte { return fmt.Appendf(nil, "%08d", i) }

// deleteRanges deletes n ranges of one row each and skips every second row.
func deleteRanges(t testing.TB, s *Store, n int, ts, at int64) {
	t.Helper()
	for i := range n {
		apply(t, s, mutationOf(command.OpHeader, "k", "", ts, func(b *row.Builder) {
			b.DeleteRange(rangeCK(2*i), rangeCK(2*i+1), at)
		}))
	}
}

// spreadDue spreads ranges as the sweeper does, until no partition has too many ranges.
func spreadDue(t testing.TB, s *Store) {
	t.Helper()
	for {
		prefixes := s.rangeCounts.due(keys.Span{Table: testTable})
		if len(prefixes) == 0 {
			return
		}
		for _, prefix := range prefixes {
			if err := s.ApplySweep(&command.Sweep{Table: testTable,
				Keys: [][]byte{append(prefix, keys.Deletions)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestManyDeletedRanges checks reads next to 20,000 deleted ranges. A read of one row must read at most two more keys
// than a read without deleted ranges, whether the row is deleted or between two ranges. A scan in either direction must
// find the live rows.
func TestManyDeletedRanges(t *testing.T) {
	s := openMem(t, Options{})
	s.InstallTable(installed(864_000))
	const n = 20_000
	for i := range 2 * n {
		if i%1000 < 2 {
			apply(t, s, insert("k", string(rangeCK(i)), 1))
		}
	}
	deleteRanges(t, s, n, 2, 100)
	spreadDue(t, s)
	value, err := s.getCopy(keys.AppendDeletions(nil, testTable, token.Hash([]byte("k")), []byte("k")))
	if err != nil || len(value) > 1000 {
		t.Fatalf("%d bytes of deletions are together, %v", len(value), err)
	}
	for _, c := range []struct{ row, want int }{{2000, 0}, {2001, 1}} {
		before := s.Metrics()
		ck := rangeCK(c.row)
		got := readAll(
			t,
			s,
			command.Read{Key: []byte("k"), Token: token.Hash([]byte("k")), Now: 1,
				Slices: []command.Slice{{Start: ck, End: append(ck, 0)}}},
		)
		if after := s.Metrics(); len(got) != 2*c.want || after.Iterators != before.Iterators+1 {
			t.Errorf("row %d: %v with %d iterators", c.row, got, after.Iterators-before.Iterators)
		}
	}
	for _, reversed := range []bool{false, true} {
		got := readAll(t, s, command.Read{Key: []byte("k"), Token: token.Hash([]byte("k")), Now: 1, Reversed: reversed})
		if len(got) != 1+2*n/1000 {
			t.Errorf("reversed %v: %d lines", reversed, len(got))
		}
	}
}

// TestDeletedRangesStay checks that an earlier INSERT remains hidden until the table's grace period has ended, for any
// number of deleted ranges. After that, all ranges must be removed with the rows that they hide.
func TestDeletedRangesStay(t *testing.T) {
	s := openMem(t, Options{})
	const grace, at, n = 864_000, 1_000_000, 5_000
	s.InstallTable(Table{ID: testTable, Clustering: 1, GCGrace: grace})
	deleteRanges(t, s, n, 10, at)
	spreadDue(t, s)
	for _, now := range []int64{at + 300, at + grace} {
		if err := sweepAll(s, now, 1000); err != nil {
			t.Fatal(err)
		}
		apply(t, s, insert("k", string(rangeCK(2*n-2)), 9))
		if got := readOne(t, s, "k"); len(got) != 0 {
			t.Fatalf("%d seconds after the deletion: %v", now-at, got)
		}
	}
	if err := sweepAll(s, at+grace+1, 1000); err != nil {
		t.Fatal(err)
	}
	if got := count(t, s); got != 0 {
		t.Errorf("%d keys are left", got)
	}
}

// TestStaticTombstoneStays checks that a static row of more than 64 KiB keeps its tombstones for the grace period, like
// a small static row.
func TestStaticTombstoneStays(t *testing.T) {
	s := openMem(t, Options{})
	const grace, at = 864_000, 1_000_000
	s.InstallTable(Table{ID: testTable, Clustering: 1, GCGrace: grace})
	apply(t, s, mutationOf(command.OpHeader, "k", "", 10, func(b *row.Builder) {
		for i := range uint32(3000) {
			b.Cell(1, fmt.Appendf(nil, "%06d", i), []byte(strings.Repeat("v", 30)), 0, 0)
		}
		b.Tombstone(2, nil, at)
	}))
	if err := sweepAll(s, at+300, 1000); err != nil {
		t.Fatal(err)
	}
	apply(t, s, mutationOf(command.OpHeader, "k", "", 9, func(b *row.Builder) { b.Cell(2, nil, []byte("late"), 0, 0) }))
	got := readAll(t, s, command.Read{Key: []byte("k"), Token: token.Hash([]byte("k")), Now: at + 400, Statics: true})
	if len(got) != 1 || strings.Contains(got[0], "late") {
		t.Errorf("%.100q", got)
	}
}

// TestSweepSpreadsAsLogged checks that two stores that apply the same mutations and sweeps have the same keys and
// values. In one case, a sweep both spreads the ranges of a partition and contains keys that the spread replaces.
func TestSweepSpreadsAsLogged(t *testing.T) {
	contents := func(local bool) (out []string) {
		s := openMem(t, Options{})
		s.InstallTable(installed(0))
		sweep := func(sw *command.Sweep) {
			b := s.NewBatch()
			defer b.Close()
			if err := b.Sweep(sw); err != nil {
				t.Fatal(err)
			}
			if err := b.CommitLogged(); err != nil {
				t.Fatal(err)
			}
		}
		prefix := keys.AppendPartition(nil, testTable, token.Hash([]byte("k")), []byte("k"))
		head := append(prefix[:len(prefix):len(prefix)], keys.Deletions)
		deleteRanges(t, s, 100, 5, 10)
		if local { // only one of the stores merges, flushes, and compacts
			if err := s.Compact(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		sweep(&command.Sweep{Table: testTable, Keys: [][]byte{head}})
		apply(t, s, mutationOf(command.OpHeader, "k", "", 7, func(b *row.Builder) {
			b.DeleteRange(rangeCK(3), rangeCK(100), 12)
		}))
		deleteRanges(t, s, 150, 6, 20)
		sweep(&command.Sweep{Table: testTable, Horizon: 11, Keys: [][]byte{
			head, keys.AppendRangeEnd(prefix[:len(prefix):len(prefix)], rangeCK(1)),
			keys.AppendRangeEnd(prefix[:len(prefix):len(prefix)], rangeCK(101)),
		}})
		it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: append(prefix, 0xff)})
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		for it.First(); it.Valid(); it.Next() {
			out = append(out, fmt.Sprintf("%x=%x", it.Key(), it.Value()))
		}
		return out
	}
	a, b := contents(false), contents(true)
	if strings.Join(a, "\n") != strings.Join(b, "\n") || len(a) != 1+103 {
		t.Errorf("%d and %d keys", len(a), len(b))
	}
}
