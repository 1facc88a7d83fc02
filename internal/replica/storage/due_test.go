// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// testNode is the node of a sweeper. It applies sweeps directly, and its store has no batches.
type testNode struct {
	*Store
	now        int64
	spans      []keys.Span
	overloaded bool
	failed     int
}

func (n *testNode) Now() int64                                        { return n.now }
func (n *testNode) Spans() []keys.Span                                { return n.spans }
func (n *testNode) Propose(_ context.Context, sw command.Sweep) error { return n.ApplySweep(&sw) }
func (n *testNode) Recorded(context.Context) (Recorded, error) {
	return func([16]byte) bool { return false }, nil
}
func (n *testNode) Overloaded() bool  { return n.overloaded }
func (n *testNode) SweepFailed(error) { n.failed++ }

// sweepDue sweeps the keys that are due at a second once, as the leader or as a follower.
func sweepDue(t testing.TB, s *Store, now int64, leads bool) {
	t.Helper()
	n := &testNode{Store: s, now: now}
	if leads {
		n.spans = []keys.Span{{Table: testTable}}
	}
	if err := s.SweepDue(context.Background(), &SweeperOptions{Node: n, DuePerSecond: 1 << 30}); err != nil {
		t.Fatal(err)
	}
}

// openOwned opens a store that owns the whole test table.
func openOwned(t testing.TB, gcGrace int64) *Store {
	t.Helper()
	s := openMem(t, Options{})
	s.InstallTable(Table{ID: testTable, Clustering: 1, GCGrace: gcGrace})
	if err := own(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// notes returns the number of due notes.
func notes(t testing.TB, s *Store) (n int) {
	t.Helper()
	if err := s.Scan(keys.SweepQueueID, nil, func(_, _ []byte) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDueLooksAtWhatExpired checks that the sweeper examines the 1,000 expired rows among 20,000 live rows, and no row
// before its time.
func TestDueLooksAtWhatExpired(t *testing.T) {
	s := openOwned(t, 100)
	for i := range 21_000 {
		m := insert("k", fmt.Sprint(i), 1)
		if i%21 == 0 {
			m = mutation("k", fmt.Sprint(i), 1, func(b *row.Builder) { b.Cell(1, nil, []byte("v"), 10, 1000) })
		}
		apply(t, s, m)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		now  int64
		seen uint64
		left int
	}{{1099, 0, 21_000}, {1100 + dueSeconds + 1, 1000, 20_000}, {5000, 1000, 20_000}} {
		sweepDue(t, s, c.now, true)
		if m := s.Metrics(); m.DueSeen != c.seen || count(t, s) != c.left || m.SweepLag != 0 {
			t.Errorf("at %d: %d looks, %d rows left, want %d and %d; lag %d", c.now, m.DueSeen, count(t, s), c.seen,
				c.left, m.SweepLag)
		}
	}
	if n := notes(t, s); n != 0 {
		t.Errorf("%d notes are left", n)
	}
}

// TestDueDeletions checks that old deletions of partitions and ranges are removed after the rows that they hide. The
// ranges may or may not have separate keys, and any number of rows may be hidden.
func TestDueDeletions(t *testing.T) {
	s := openOwned(t, 100)
	for i := range 3*hiddenMax + 5 {
		apply(t, s, insert("k", string(rangeCK(i)), 1), insert("gone", string(rangeCK(i)), 1))
	}
	deleteRanges(t, s, 1000, 2, 1000)
	spreadDue(t, s)
	apply(t, s, mutationOf(command.OpHeader, "gone", "", 2, func(b *row.Builder) { b.DeleteRow(1000) }))
	apply(t, s, insert("gone", "later", 3))
	sweepDue(t, s, 1050, true)
	before := readAll(t, s, command.Read{Now: 1})
	if n := count(t, s); n < 2*(3*hiddenMax+5)+1000-rangesTogether {
		t.Errorf("%d keys are left before the time of the deletions", n)
	}
	for range 5 {
		sweepDue(t, s, 1200, true)
	}
	after := readAll(t, s, command.Read{Now: 1})
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("%d lines are seen, %d before", len(after), len(before))
	}
	// Partitions whose ranges had separate keys may still record that fact.
	if n, want := count(t, s), 3*hiddenMax+5-1000+1; n > want+1 || n < want {
		t.Errorf("%d keys are left of %d rows", n, want)
	}
	if n := notes(t, s); n != 0 {
		t.Errorf("%d notes are left", n)
	}
}

// TestDueOfFollower checks that a follower keeps its notes until the leader's sweep has been applied, and sweeps no
// data itself.
func TestDueOfFollower(t *testing.T) {
	s := openOwned(t, 0)
	apply(t, s, remove("k", "a", 5, 100), remove("k", "b", 5, 100), insert("k", "b", 6))
	sweepDue(t, s, 1000, false)
	if notes(t, s) != 2 || count(t, s) != 2 {
		t.Errorf("%d notes and %d rows are left", notes(t, s), count(t, s))
	}
	b := s.NewBatch()
	defer b.Close()
	sw := command.Sweep{Table: testTable, Horizon: 1000}
	for _, ck := range []string{"a", "b"} {
		sw.Keys = append(sw.Keys, keys.AppendRow(nil, testTable, token.Hash([]byte("k")), []byte("k"), []byte(ck)))
	}
	if err := b.Sweep(&sw); err != nil {
		t.Fatal(err)
	}
	if err := b.CommitLogged(); err != nil {
		t.Fatal(err)
	}
	sweepDue(t, s, 1000, false)
	if notes(t, s) != 0 || count(t, s) != 1 {
		t.Errorf("%d notes and %d rows are left", notes(t, s), count(t, s))
	}
}

// TestDueOfOthers checks that notes about partitions that do not belong, or no longer belong, to this node are removed.
func TestDueOfOthers(t *testing.T) {
	s := openMem(t, Options{})
	s.InstallTable(Table{ID: testTable, Clustering: 1})
	apply(t, s, remove("k", "a", 5, 100))
	sweepDue(t, s, 1000, false)
	if n := notes(t, s); n != 0 {
		t.Errorf("%d notes are left", n)
	}
	apply(t, s, remove("k", "a", 5, 100))
	s.ForgetTable(testTable)
	sweepDue(t, s, 1000, false)
	if n := notes(t, s); n != 0 {
		t.Errorf("%d notes of a dropped table remain", n)
	}
}

// TestDedupeRecordsAreBounded checks that 10,000 increments of 100 counters leave one note for each counter and minute.
// No record may remain when clients can no longer repeat the increments.
func TestDedupeRecordsAreBounded(t *testing.T) {
	s := openOwned(t, 864_000)
	const start = 1_000_000
	for i := range 10_000 {
		b := s.NewBatch()
		m := mutation(fmt.Sprint(i%100), "", start*1_000_000, func(b *row.Builder) {
			b.Cell(1, nil, []byte("count"), 0, 0)
		})
		if err := b.Mutate(&m); err != nil {
			t.Fatal(err)
		}
		b.PutDedupe(testTable, m.Token, m.Key, command.DedupeID{Sequence: uint64(i)}, []byte("applied"))
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		b.Close()
	}
	if n := notes(t, s); n != 100 {
		t.Errorf("%d notes", n)
	}
	sweepDue(t, s, start+119, true)
	if n := count(t, s); n != 10_100 {
		t.Errorf("%d keys within the time in which requests may be repeated", n)
	}
	for range 2 {
		sweepDue(t, s, start+120+dedupeDueSeconds+1, true)
	}
	if n := count(t, s); n != 100 || notes(t, s) != 0 {
		t.Errorf("%d keys are left, %d notes", n, notes(t, s))
	}
}
