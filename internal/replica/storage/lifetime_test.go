// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// aged installs the test's table with a lifetime setting.
func aged(s *Store, l row.Lifetimes) {
	s.InstallTable(Table{ID: testTable, Clustering: 1, GCGrace: 864_000, Lifetimes: l})
}

// item writes a row with a lifetime at a second.
func item(t *testing.T, s *Store, ck string, lifetime int32, at int64) {
	t.Helper()
	apply(t, s, mutation("k", ck, at*1e6, func(b *row.Builder) {
		b.LiveFor(lifetime, at)
		b.Cell(1, nil, []byte("v"), 0, 0)
	}))
}

// alive returns the rows that exist at a second.
func alive(t *testing.T, s *Store, now int64) (out string) {
	t.Helper()
	v := &foundKeys{}
	if err := s.Read(t.Context(), &command.Read{Table: testTable, Key: []byte("k"), Token: token.Hash([]byte("k")),
		Now: now}, v); err != nil {
		t.Fatal(err)
	}
	for _, c := range v.all {
		out += c
	}
	return out
}

// foundKeys collects the clustering keys of rows.
type foundKeys struct{ all []string }

func (*foundKeys) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

func (v *foundKeys) Row(clustering []byte, _ *row.Row) (command.Step, error) {
	v.all = append(v.all, string(clustering))
	return command.More, nil
}

// TestLifetimesOfRows checks that rows expire according to the setting of the table at the time of the read. Expired
// rows must be swept a minute later, and not earlier. The expiry may have been noted at the write, or the setting may
// have changed since. No other rows may be swept.
func TestLifetimesOfRows(t *testing.T) {
	for _, due := range []bool{true, false} {
		s := openOwned(t, 864_000)
		off, ten := row.Lifetimes{}, row.Lifetimes{Default: 10}
		sweep := func(now int64) {
			t.Helper()
			if sweepDue(t, s, now, true); due {
				return
			}
			if err := sweepAll(s, now, 100); err != nil {
				t.Fatal(err)
			}
		}
		aged(s, off)
		if due {
			aged(s, ten)
		}
		item(t, s, "d", row.DefaultLifetime, 1000)
		item(t, s, "o", 20, 1000)
		apply(t, s, insert("k", "p", 1000))
		aged(s, off)
		if got := alive(t, s, 5000); got != "dop" {
			t.Errorf("off: %s are alive", got)
		}
		sweep(5000)
		if got := alive(t, s, 5000); got != "dop" {
			t.Errorf("off, swept: %s are alive", got)
		}
		aged(s, ten)
		if due { // the notes have been removed
			item(t, s, "d", row.DefaultLifetime, 1000)
			item(t, s, "o", 20, 1000)
		}
		for _, c := range []struct {
			now         int64
			alive, kept string
		}{
			{1010, "dop", "dop"}, {1011, "op", "dop"}, {1020, "op", "dop"}, {1021, "p", "dop"},
			{1011 + entryGrace - 1, "p", "dop"}, {1040 + entryGrace, "p", "p"}, {1 << 40, "p", "p"},
		} {
			sweep(c.now)
			if got := alive(t, s, c.now); got != c.alive {
				t.Errorf("at %d %s are alive, want %s", c.now, got, c.alive)
			}
			aged(s, off)
			if got := alive(t, s, c.now); got != c.kept {
				t.Errorf("at %d %s are stored, want %s", c.now, got, c.kept)
			}
			aged(s, ten)
		}
	}
}

// TestLifetimesOfTombstoneRuns checks that a run of expired rows is recorded only if no change of the setting can make
// the rows visible again.
func TestLifetimesOfTombstoneRuns(t *testing.T) {
	s := openOwned(t, 864_000)
	aged(s, row.Lifetimes{Default: 10})
	for i := range 1000 {
		item(t, s, fmt.Sprintf("%04d", i), row.DefaultLifetime, 1000)
	}
	item(t, s, "x", row.DefaultLifetime, 2000)
	read := func(now int64) uint64 {
		t.Helper()
		before := s.Metrics().Rows
		if got := alive(t, s, now); got != "x" {
			t.Fatalf("%s are alive at %d", got, now)
		}
		followHints(t, s)
		return s.Metrics().Rows - before
	}
	read(1011 + entryGrace - 1)
	if n := read(1011 + entryGrace - 1); n <= 1000 {
		t.Errorf("%d rows were read: a run was learned too early", n)
	}
	read(1011 + entryGrace)
	if n := read(1011 + entryGrace); n > 500 {
		t.Errorf("%d rows were read: no run was learned", n)
	}
}

// TestLifetimesOfEntries checks that entries of an index remain for a minute after their row has expired.
func TestLifetimesOfEntries(t *testing.T) {
	s := openOwned(t, 864_000)
	in := installed(0)
	in.Lifetimes = row.Lifetimes{Default: 10}
	s.InstallTable(in)
	m := mutation("k", "c", 1000, func(b *row.Builder) {
		b.LiveFor(row.DefaultLifetime, 900)
		b.Cell(1, nil, []byte("v"), 0, 0)
	})
	m.Ops = append(slices.Clip(m.Ops), command.Op{Kind: command.OpIndex, Index: testIndex, Value: []byte("v"),
		Clustering: m.Ops[0].Clustering})
	apply(t, s, m)
	for _, c := range []struct {
		now  int64
		want int
	}{{911 + entryGrace - 1, 1}, {911 + entryGrace, 0}} {
		if err := s.SweepEntries(t.Context(), c.now, func(int) {}); err != nil {
			t.Fatal(err)
		}
		if got := entryCount(t, s); got != c.want {
			t.Errorf("at %d there are %d entries, want %d", c.now, got, c.want)
		}
	}
}
