// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/test/eventually"
)

// holds is the check of the test index. It accepts any cell of the row with the value.
func holds(r *row.Row, value []byte) bool {
	for _, c := range r.Cells {
		if bytes.Equal(c.Value, value) {
			return true
		}
	}
	return false
}

func installed(gcGrace int64) Table {
	return Table{ID: testTable, Clustering: 1, GCGrace: gcGrace, Indexes: []Index{{ID: testIndex, Holds: holds}}}
}

// own makes one replica the owner of the whole test table.
func own(s *Store) error {
	b := s.NewBatch()
	defer b.Close()
	b.PutMeta(&keys.Meta{Partition: 1, Span: keys.Span{Table: testTable}})
	return b.Commit()
}

// sweepAll runs complete rounds of the sweeper until a round finds no garbage.
func sweepAll(s *Store, now int64, limit int) error {
	var last [][]byte
	for range 20 {
		found := 0
		var from []byte
		for {
			g, err := s.FindGarbage(context.Background(), keys.Span{Table: testTable}, from, now, 3600, limit)
			if err != nil {
				return err
			}
			for i := range g.Sweeps {
				found += len(g.Sweeps[i].Keys)
				last = g.Sweeps[i].Keys
				if err := s.ApplySweep(&g.Sweeps[i]); err != nil {
					return err
				}
			}
			if from = g.Next; from == nil {
				break
			}
		}
		seen := s.m.swept.Load()
		if err := s.SweepEntries(context.Background(), now, func(int) {}); err != nil {
			return err
		}
		if found == 0 && s.m.swept.Load() == seen {
			return nil
		}
	}
	return fmt.Errorf("sweeps do not come to an end: %x", last)
}

// count returns the number of keys of tables and indexes in the store.
func count(t testing.TB, s *Store) (n int) {
	t.Helper()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: keys.AppendTable(nil, keys.FirstTable)})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for it.First(); it.Valid(); it.Next() {
		n++
	}
	return n
}

// TestSweepAgainstModel checks that complete sweeps at a second do not change the result of a reader at that second or
// later, for all writes. After the sweeps, no data that could be swept may remain.
func TestSweepAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := Open(vfs.NewMem(), "db", Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		eager(s)
		s.InstallTable(installed(rapid.Int64Range(0, 3).Draw(t, "grace")))
		if err := own(s); err != nil {
			t.Fatal(err)
		}
		m := model{partitions: map[string]*modelPartition{}}
		for range rapid.IntRange(1, 25).Draw(t, "mutations") {
			mu := drawMutation(t)
			if err := s.Apply(mu); err != nil {
				t.Fatal(err)
			}
			m.apply(t, &mu)
			if rapid.IntRange(0, 5).Draw(t, "spread") == 0 {
				if err := spreadAll(s, testTable); err != nil {
					t.Fatal(err)
				}
			}
			if rapid.IntRange(0, 5).Draw(t, "flush") == 0 {
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		now := rapid.Int64Range(1, 14).Draw(t, "now")
		if err := sweepAll(s, now, rapid.IntRange(1, 30).Draw(t, "limit")); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			r := drawRead(t)
			r.Now = max(r.Now, now)
			r.Dropped = nil
			var want, got collector
			m.read(t, &r, &want)
			if err := s.Read(context.Background(), &r, &got); err != nil {
				t.Fatal(err)
			}
			if r.Index != nil {
				want.lines, got.lines = holding(want.lines, r.Index.Value), holding(got.lines, r.Index.Value)
			}
			if d := gocmp.Diff(want.lines, got.lines); d != "" {
				t.Fatalf("swept at %d: %+v\n%s", now, r, d)
			}
		}
	})
}

// holding returns the lines of rows that have a value, because index entries are only hints.
func holding(lines []string, value []byte) (out []string) {
	for _, line := range lines {
		if !strings.HasPrefix(line, "partition") && strings.Contains(line, fmt.Sprintf("=%q", value)) {
			out = append(out, line)
		}
	}
	return out
}

// TestSweepLeavesNothing checks that rows, headers, index entries, and dedupe records of deleted data are removed after
// their time, and not before.
func TestSweepLeavesNothing(t *testing.T) {
	s := openMem(t, Options{})
	s.InstallTable(installed(10))
	if err := own(s); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		m := insert("k", fmt.Sprintf("%03d", i), 1)
		m.Ops = append(m.Ops, command.Op{Kind: command.OpIndex, Index: testIndex, Value: []byte("v"),
			Clustering: m.Ops[0].Clustering})
		apply(t, s, m, remove("rows", fmt.Sprintf("%03d", i), 2, 100))
	}
	apply(t, s, mutationOf(command.OpHeader, "k", "", 2, func(b *row.Builder) {
		b.DeleteRange([]byte("0"), []byte("2"), 100)
		b.DeleteRange([]byte("2"), nil, 105)
	}))
	b := s.NewBatch()
	dup := insert("k", "", 100e6)
	dup.Ops = nil
	if err := b.Mutate(&dup); err != nil {
		t.Fatal(err)
	}
	b.PutDedupe(testTable, dup.Token, dup.Key, command.DedupeID{Sequence: 1 << 40}, nil)
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Close()
	for _, c := range []struct {
		now  int64
		want int
	}{
		{110, 300 + 1 + 1}, // hidden rows and their entries are removed immediately
		{111, 1 + 1},       // rows deleted at 100, and the range deleted at 100
		{116, 1},           // the range deleted at 105
		{3700, 1},          // the dedupe record is kept for an hour
		{3701, 0},
	} {
		if err := sweepAll(s, c.now, 50); err != nil {
			t.Fatal(err)
		}
		if n := count(t, s); n != c.want {
			t.Errorf("at %d %d keys are left, want %d", c.now, n, c.want)
		}
	}
}

// TestSweepKeepsWhatCame checks that an operand that arrives between the search for garbage and the sweep is kept.
func TestSweepKeepsWhatCame(t *testing.T) {
	s := openMem(t, Options{})
	s.InstallTable(installed(0))
	apply(t, s, remove("k", "a", 5, 1), mutationOf(command.OpHeader, "k", "", 3, func(b *row.Builder) {
		b.DeleteRow(1)
	}))
	g, err := s.FindGarbage(context.Background(), keys.Span{Table: testTable}, nil, 10, 0, 100)
	if err != nil || len(g.Sweeps) != 1 || len(g.Sweeps[0].Keys) != 2 {
		t.Fatalf("%+v %v", g, err)
	}
	apply(t, s, insert("k", "a", 6), insert("k", "b", 2)) // the header hides the second row
	if err := s.ApplySweep(&g.Sweeps[0]); err != nil {
		t.Fatal(err)
	}
	if got := readOne(t, s, "k"); len(got) != 2 || !strings.Contains(got[1], `"a" live@6`) {
		t.Errorf("%v", got)
	}
}

// proposalObserver is a testNode that records proposals and calls stop after each proposal.
type proposalObserver struct {
	testNode
	got  []command.Sweep
	stop func()
}

func (n *proposalObserver) Propose(_ context.Context, sw command.Sweep) error {
	n.got = append(n.got, sw)
	n.stop()
	return n.ApplySweep(&sw)
}

// TestSweeper checks that the sweeper examines its spans and proposes a sweep of the keys that it finds.
func TestSweeper(t *testing.T) {
	s := openMem(t, Options{})
	s.InstallTable(installed(0))
	apply(t, s, remove("k", "a", 5, 1))
	ctx, cancel := context.WithCancel(context.Background())
	n := &proposalObserver{testNode: testNode{Store: s, now: 100, spans: []keys.Span{{Table: testTable}}}, stop: cancel}
	s.RunSweeper(ctx, SweeperOptions{Node: n})
	got := n.got
	if err := s.Compact(context.Background()); err != nil {
		t.Error(err)
	}
	if len(got) != 1 || got[0].Horizon != 100 || count(t, s) != 0 {
		t.Errorf("%+v, %d keys left", got, count(t, s))
	}
}

// TestSweptSpaceComesBack checks that the disk space of swept rows is freed even if no other write flushes the
// memtable. An amount of garbage that is not worth a compaction may remain.
func TestSweptSpaceComesBack(t *testing.T) {
	s := openMem(t, Options{ReclaimAfter: time.Millisecond, DiskCheckEvery: 5 * time.Millisecond})
	s.InstallTable(installed(0))
	if err := own(s); err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{})
	for i := range 3000 {
		v := make([]byte, 1000)
		_, _ = random.Read(v)
		apply(t, s, mutation("k", fmt.Sprint(i), 1, func(b *row.Builder) { b.Cell(1, nil, v, 10, 1000) }))
	}
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	size := func() uint64 {
		n, err := s.DiskBytes(keys.Span{Table: testTable})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := size(); n < 3e6 {
		t.Fatalf("3,000 rows of 1,000 bytes take %d on disk", n)
	}
	if err := sweepAll(s, 5000, 100); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the space is free", func() bool { return size() < 1e6 })
}

// TestSweeperGivesWay checks that a sweeper reads a tenth of the keys while the machine is overloaded, and the full
// number afterward.
func TestSweeperGivesWay(t *testing.T) {
	n := &testNode{}
	o := SweeperOptions{Node: n}
	for _, step := range []struct {
		pressed bool
		want    time.Duration
	}{{false, 50 * time.Millisecond}, {true, 500 * time.Millisecond}, {false, 50 * time.Millisecond}} {
		n.overloaded = step.pressed
		if got := o.pause(1000, 20_000); got != step.want {
			t.Errorf("pressed %v: a pause of %v after 1,000 keys at 20,000 a second", step.pressed, got)
		}
	}
}
