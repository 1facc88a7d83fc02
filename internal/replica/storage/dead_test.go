// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// queue is a partition of n rows of which all but the last few were consumed.
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

// settle waits until the learner has followed all hints that are due.
func settle(t testing.TB, s *Store) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		s.dead.hints.mu.Lock()
		due := false
		for _, p := range s.dead.hints.byPartition {
			due = due || p.due
		}
		s.dead.hints.mu.Unlock()
		s.dead.mu.RLock()
		busy := due || s.dead.lesson != nil
		s.dead.mu.RUnlock()
		if !busy {
			return
		}
	}
	t.Fatal("the learner does not come to an end")
}

// peek reads the first live row of the queue, or the last.
func peek(t testing.TB, s *Store, reversed bool) (string, uint64, time.Duration) {
	t.Helper()
	c := collector{limit: 1}
	before := s.Metrics().Rows
	begun := time.Now()
	r := command.Read{Table: testTable, Key: []byte("queue"), Token: token.Hash([]byte("queue")), Now: 10, Reversed: reversed}
	if err := s.Read(context.Background(), &r, &c); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	return string(c.ck), s.Metrics().Rows - before, took
}

// TestQueue: reading the first live row behind 10^5 deleted ones, none of them compacted, does not walk over them, however
// they were deleted; and what is written among them afterwards is seen.
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
			apply(t, s, mutationOf(command.OpHeader, "queue", "", 2, func(b *row.Builder) { b.DeleteRange(nil, []byte(queueKey(n)), 1) }))
		}},
		{"by columns", func(s *Store) { // no hint tells the learner: the first scan does
			for i := range n {
				apply(t, s, mutation("queue", queueKey(i), 2, func(b *row.Builder) { b.Live(1, 5); b.Tombstone(1, nil, 1) }))
			}
			peek(t, s, false)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openMem(t, Options{})
			s.InstallTable(Table{ID: testTable, Clustering: 1})
			fill(t, s, 0, n+10)
			c.remove(s)
			settle(t, s)
			ck, rows, _ := peek(t, s, false)
			if ck != queueKey(n) || rows > 2000 {
				t.Errorf("found %q after %d rows", ck, rows)
			}
			// Append, insert in the middle, consume: always the true first row.
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
				t.Errorf("from behind %q after %d rows", ck, rows)
			}
		})
	}
}

// TestQueueRace: readers beside writers that insert among dead rows never miss a row that was written before they began.
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
			_, _, _ = peek(t, s, i%2 == 0) // asks for lessons that run beside what follows
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

// lookout looks for one clustering key.
type lookout struct {
	silent
	key  string
	seen bool
}

func (v *lookout) Row(clustering []byte, _ *row.Row) (command.Step, error) {
	v.seen = v.seen || string(clustering) == v.key
	return command.More, nil
}

// TestQueueConcurrent: several goroutines each insert and delete rows of their own among dead ones and scan the partition: each
// sees exactly its own acknowledged writes, while the learner follows every hint.
func TestQueueConcurrent(t *testing.T) {
	s := openMem(t, Options{MemtableBytes: 1 << 20})
	eager(s)
	const rows = 200
	fill(t, s, 0, rows)
	for i := range rows {
		apply(t, s, remove("queue", queueKey(i), 2, 1))
	}
	steps := 3000
	if raced {
		steps /= 10
	}
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			look := func(key string, i int) bool {
				v := lookout{key: key}
				r := command.Read{Table: testTable, Key: []byte("queue"), Token: token.Hash([]byte("queue")), Now: 10, Reversed: i%4 == 0}
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
	if m := s.Metrics(); m.DeadSkips == 0 || m.DeadRuns == 0 {
		t.Errorf("no run was used: %d learned, %d skips", m.DeadRuns, m.DeadSkips)
	}
}
