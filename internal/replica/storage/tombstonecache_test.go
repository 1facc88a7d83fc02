// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/test/eventually"
)

// queue is a partition of n rows. All rows except the last few have been consumed.
const queueLen = 100_000

func queueKey(i int) string { return fmt.Sprintf("%08d", i) }

// fill inserts rows [from, to) of the queue.
func fill(t testing.TB, s *Store, from, to int) {
	t.Helper()
	b := s.NewBatch()
	for i := from; i < to; i++ {
		m := insert("queue", queueKey(i), 1)
		if err := b.Mutate(&m); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Close()
}

// followHints waits until the runFinder has processed all hints that are due.
func followHints(t testing.TB, s *Store) {
	t.Helper()
	eventually.True(t, "the learner comes to an end", func() bool {
		h := &s.tombstones.hints
		h.mu.Lock()
		defer h.mu.Unlock()
		busy := h.following
		for _, p := range h.byPartition {
			busy = busy || p.due
		}
		return !busy
	})
}

// peek reads the first or the last live row of the queue.
func peek(t testing.TB, s *Store, reversed bool) (string, uint64, time.Duration) {
	t.Helper()
	c := collector{limit: 1}
	before := s.Metrics().Rows
	begun := time.Now()
	r := command.Read{Table: testTable, Key: []byte("queue"), Token: token.Hash([]byte("queue")), Now: 10,
		Reversed: reversed}
	if err := s.Read(context.Background(), &r, &c); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	return string(c.ck), s.Metrics().Rows - before, took
}

// TestQueue checks that reading the first live row after 10^5 uncompacted deleted rows does not iterate over them, for
// all kinds of deletions. Rows that are inserted among them later must be found.
func TestQueue(t *testing.T) {
	n := queueLen
	if raced {
		n /= 10
	}
	for _, c := range []struct {
		name   string
		remove func(s *Store)
	}{
		{"one by one", func(s *Store) {
			for i := range n {
				apply(t, s, remove("queue", queueKey(i), 2, 1))
			}
		}},
		{"backwards", func(s *Store) {
			for i := range n {
				apply(t, s, remove("queue", queueKey(n-1-i), 2, 1))
			}
		}},
		{"by range", func(s *Store) {
			apply(t, s, mutationOf(command.OpHeader, "queue", "", 2, func(b *row.Builder) {
				b.DeleteRange(nil, []byte(queueKey(n)), 1)
			}))
		}},
		{"by columns", func(s *Store) { // no hint is recorded before the first scan
			for i := range n {
				apply(t, s, mutation("queue", queueKey(i), 2, func(b *row.Builder) {
					b.Live(1, 5)
					b.Tombstone(1, nil, 1)
				}))
			}
			peek(t, s, false)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openMem(t, Options{})
			s.InstallTable(Table{ID: testTable, Clustering: 1})
			fill(t, s, 0, n+10)
			c.remove(s)
			followHints(t, s)
			ck, rows, _ := peek(t, s, false)
			if ck != queueKey(n) || rows > 2000 {
				t.Errorf("found %q after %d rows", ck, rows)
			}
			// The test appends rows, inserts rows in the middle, and consumes rows. The first row must always be
			// correct.
			fill(t, s, n+10, n+20)
			middle := insert("queue", queueKey(n/2)+"x", 3)
			apply(t, s, middle)
			if ck, _, _ := peek(t, s, false); ck != queueKey(n/2)+"x" {
				t.Errorf("a row written among dead ones is not seen: %q", ck)
			}
			apply(t, s, remove("queue", queueKey(n/2)+"x", 4, 1))
			if ck, _, _ := peek(t, s, false); ck != queueKey(n) {
				t.Errorf("%q after it was deleted", ck)
			}
			if ck, rows, _ := peek(t, s, true); ck != queueKey(n+19) || rows > 10 {
				t.Errorf("resumed after %q after %d rows", ck, rows)
			}
		})
	}
}

// TestQueueRestarted checks that tombstone runs survive a restart.
func TestQueueRestarted(t *testing.T) {
	fs := vfs.NewMem()
	for i := range 2 {
		s, err := Open(fs, "db", Options{})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			fill(t, s, 0, 5010)
			for i := range 5000 {
				apply(t, s, remove("queue", queueKey(i), 2, 1))
			}
			followHints(t, s)
		} else if ck, rows, _ := peek(t, s, false); ck != queueKey(5000) || rows > 2000 {
			t.Errorf("found %q after %d rows", ck, rows)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTombstoneCacheCrash inserts and deletes rows in one partition while the runFinder stores runs. After a crash that
// loses some part of the log, reads with and without the stored runs must return the same rows.
func TestTombstoneCacheCrash(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	skips := uint64(0)
	for range 40 {
		fs := vfs.NewCrashableMem()
		s, err := Open(fs, "db", Options{MemtableBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		eager(s)
		for ts := range int64(300) {
			if key := queueKey(rng.IntN(20)); rng.IntN(4) == 0 {
				apply(t, s, insert("queue", key, ts+1))
			} else {
				apply(t, s, remove("queue", key, ts+1, 1))
			}
			if rng.IntN(20) == 0 {
				followHints(t, s)
			}
			if rng.IntN(40) == 0 {
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		disk := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(disk, "db", Options{}); err != nil {
			t.Fatal(err)
		}
		with := readOne(t, s, "queue")
		skips += s.Metrics().TombstoneSkips
		if err := s.holdRuns([]byte{0}, []byte{0xff}); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(readOne(t, s, "queue"), with); d != "" {
			t.Fatalf("stored runs hide rows:\n%s", d)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if skips == 0 {
		t.Error("no stored run was ever used")
	}
}

// TestRunFinder checks that rows written during the search for a run are excluded from the run. Readers must use a run
// only if their iterator was created after the run was found.
func TestRunFinder(t *testing.T) {
	p := []byte("p")
	for _, c := range []struct {
		name    string
		back    bool
		run     tombstoneRun
		written []string
		want    string
	}{
		{"untouched", false, tombstoneRun{start: []byte("b"), end: []byte("x")}, []string{"a", "x", "y"}, "[b,x)"},
		{"open end", false, tombstoneRun{start: []byte("b")}, []string{"z", "m", "n"}, "[b,m)"},
		{"at the start", false, tombstoneRun{start: []byte("b")}, []string{"b"}, ""},
		{"back", true, tombstoneRun{start: []byte{}, end: []byte("b\x00")}, []string{"z", "a"}, "[a\x00,b\x00)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d tombstoneCache
			d.init(1 << 20)
			d.version.Store(5)
			d.pending = &pendingRun{prefix: p, from: []byte("b"), back: c.back}
			before := d.version.Load()
			d.count()
			for _, key := range c.written {
				d.written(p, []byte(key))
			}
			d.install(c.run)
			got := ""
			for _, r := range d.find(p, d.version.Load(), 0) {
				got += fmt.Sprintf("[%s,%s)", r.start, r.end)
			}
			if got != c.want {
				t.Errorf("learned %q, want %q", got, c.want)
			}
			if early := d.find(p, before, 0); len(early) > 0 {
				t.Errorf("an older reader may use %d runs", len(early))
			}
		})
	}
}

// TestQueueRace checks that readers concurrent with writers that insert rows among deleted rows never miss a row that
// was written before they began.
func TestQueueRace(t *testing.T) {
	s := openMem(t, Options{})
	eager(s)
	s.InstallTable(Table{ID: testTable, Clustering: 1})
	const rows = 300
	fill(t, s, 0, rows)
	for i := range rows {
		apply(t, s, remove("queue", queueKey(i), 2, 1))
	}
	ts := int64(3)
	for i := range 400 {
		key := queueKey(i * 7 % rows)
		if i%3 == 0 {
			_, _, _ = peek(t, s, i%2 == 0) // this starts searches that run concurrently with the following code
		}
		apply(t, s, insert("queue", key, ts))
		if ck, _, _ := peek(t, s, i%2 == 0); ck != key {
			t.Fatalf("step %d: found %q, want %q", i, ck, key)
		}
		apply(t, s, remove("queue", key, ts+1, 1))
		if ck, _, _ := peek(t, s, i%2 == 1); ck != "" {
			t.Fatalf("step %d: found %q after it was deleted", i, ck)
		}
		ts += 2
	}
}

// lookout is a visitor that searches for one clustering key.
type lookout struct {
	silent
	key  string
	seen bool
}

func (v *lookout) Row(clustering []byte, _ *row.Row) (command.Step, error) {
	v.seen = v.seen || string(clustering) == v.key
	return command.More, nil
}

// TestQueueConcurrent runs several goroutines that insert and delete their own rows among dead rows and scan the
// partition. Each goroutine must see exactly its own acknowledged writes while the runFinder processes every hint.
func TestQueueConcurrent(t *testing.T) {
	s := openMem(t, Options{MemtableBytes: 1 << 20})
	eager(s)
	const rows = 200
	fill(t, s, 0, rows)
	for i := range rows {
		apply(t, s, remove("queue", queueKey(i), 2, 1))
	}
	steps := 1000
	if raced {
		steps /= 10
	}
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			look := func(key string, i int) bool {
				v := lookout{key: key}
				r := command.Read{Table: testTable, Key: []byte("queue"), Token: token.Hash([]byte("queue")), Now: 10,
					Reversed: i%4 == 0}
				if err := s.Read(context.Background(), &r, &v); err != nil {
					t.Error(err)
				}
				return v.seen
			}
			for i := range steps {
				key := fmt.Sprintf("%s-%d", queueKey(i*13%rows), g)
				ts := int64(3 + 2*i)
				if err := s.Apply(insert("queue", key, ts)); err != nil || !look(key, i) {
					t.Errorf("goroutine %d step %d: %q is not seen (%v)", g, i, key, err)
					return
				}
				if err := s.Apply(remove("queue", key, ts+1, 1)); err != nil || look(key, i) {
					t.Errorf("goroutine %d step %d: %q is still seen (%v)", g, i, key, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if m := s.Metrics(); m.TombstoneSkips == 0 || m.TombstoneRuns == 0 {
		t.Errorf("no run was used: %d learned, %d skips", m.TombstoneRuns, m.TombstoneSkips)
	}
}

// TestSavedBytes pins the bytes of a stored list of runs, and checks that a list that is truncated within a run is
// rejected.
func TestSavedBytes(t *testing.T) {
	runs := []tombstoneRun{{start: []byte("a"), end: []byte{}, asOf: 300, rows: 5, version: 1},
		{start: []byte{}, rows: 1000, version: 1}}
	b := appendRuns(nil, runs)
	if got, want := hex.EncodeToString(b), "00016100ac020501000000e807"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got, err := readRuns(b); err != nil || !reflect.DeepEqual(got, runs) {
		t.Errorf("%+v %v", got, err)
	}
	first := len(appendRuns(nil, runs[:1]))
	for n := range b {
		if got, err := readRuns(b[:n]); err == nil && (n != 0 && n != first || len(got) != min(n, 1)) {
			t.Errorf("%d of %d bytes: %+v", n, len(b), got)
		}
	}
}
