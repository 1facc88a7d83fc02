// SPDX-License-Identifier: Apache-2.0

//go:build integration

package backup

import (
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/test/eventually"
)

// writers write batches across the partitions of two tables. Each row records the number of acknowledged batches of
// every writer at the time when the row's batch started. Those batches precede the row's batch in all partitions.
type writers struct {
	acked []atomic.Int64
	stop  chan struct{}
	wg    sync.WaitGroup
	fail  atomic.Pointer[error]
}

func (c *cluster) write(n int) *writers {
	w := &writers{acked: make([]atomic.Int64, n), stop: make(chan struct{})}
	for i := range n {
		w.wg.Go(func() {
			for k := 1; ; k++ {
				select {
				case <-w.stop:
					return
				default:
				}
				before := make([]int, n)
				for j := range before {
					before[j] = int(w.acked[j].Load())
				}
				b := c.cql.Batch(gocql.LoggedBatch)
				b.Query("INSERT INTO ks.a (w, k, before) VALUES (?, ?, ?)", i, k, before)
				b.Query("INSERT INTO ks.b (k, w, before) VALUES (?, ?, ?)", k, i, before)
				b.Query("INSERT INTO ks.last (w, k) VALUES (?, ?)", i, k)
				if err := b.Exec(); err != nil {
					w.fail.Store(&err)
					return
				}
				w.acked[i].Store(int64(k))
			}
		})
	}
	return w
}

func (w *writers) total() (n int64) {
	for i := range w.acked {
		n += w.acked[i].Load()
	}
	return n
}

// end stops the writers and fails the test if a writer has failed.
func (w *writers) end(t *testing.T) {
	t.Helper()
	close(w.stop)
	w.wg.Wait()
	if err := w.fail.Load(); err != nil {
		t.Fatal(*err)
	}
}

// schema holds the tables of the writers.
var schema = []string{
	"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
	"CREATE TABLE ks.a (w int, k int, before list<int>, PRIMARY KEY ((w, k)))",
	"CREATE TABLE ks.b (k int, w int, before list<int>, PRIMARY KEY ((k, w)))",
	"CREATE TABLE ks.last (w int PRIMARY KEY, k int)",
}

// at identifies a row of a table by its writer and batch.
type at struct{ w, k int }

func (c *cluster) rows(table string) map[at][]int {
	c.t.Helper()
	out := map[at][]int{}
	iter := c.cql.Query("SELECT w, k, before FROM " + table).Iter()
	var w, k int
	var before []int
	for iter.Scan(&w, &k, &before) {
		out[at{w, k}] = slices.Clone(before)
		before = nil
	}
	if err := iter.Close(); err != nil {
		c.t.Fatal(err)
	}
	return out
}

// checkRestored checks that the restored data is the state of the writers at one instant, and returns the number of its
// batches.
func (c *cluster) checkRestored(keyspace string) int {
	c.t.Helper()
	a, b := c.rows(keyspace+".a"), c.rows(keyspace+".b")
	for row := range a {
		if _, ok := b[row]; !ok {
			c.t.Errorf("batch %v is in a but not in b", row)
		}
	}
	most := map[int]int{}
	for row, before := range b {
		if _, ok := a[row]; !ok {
			c.t.Errorf("batch %v is in b but not in a", row)
		}
		for w, last := range before {
			for k := 1; k <= last; k++ {
				if _, ok := a[at{w, k}]; !ok {
					c.t.Errorf("batch %v, acknowledged before %v started, is missing", at{w, k}, row)
				}
			}
		}
		most[row.w] = max(most[row.w], row.k)
	}
	iter := c.cql.Query("SELECT w, k FROM " + keyspace + ".last").Iter()
	var w, k int
	for iter.Scan(&w, &k) {
		if most[w] != k {
			c.t.Errorf("writer %d has %d batches in one table and %d in the other", w, k, most[w])
		}
	}
	if err := iter.Close(); err != nil {
		c.t.Fatal(err)
	}
	return len(a)
}

// TestMoment makes backups of three nodes while writers send batches across the tables' four partitions. The test
// restores the data to one node, and to other tables of the same cluster. The restored data must be the state of one
// instant. Each batch must be either complete or missing, and must follow all batches that were acknowledged before it
// started.
func TestMoment(t *testing.T) {
	c := start(t, 3, 4)
	c.do(schema...)
	to := filepath.Join(c.base, "backups")
	w := c.write(8)
	var least []int64
	for range 3 {
		target := w.total() + 100
		eventually.True(t, "batches", func() bool { return w.total() >= target || w.fail.Load() != nil })
		least = append(least, w.total())
		c.must(1, "backup", "--to", to, "--rate", "0")
	}
	w.end(t)
	if out, err := c.tool(t.Context(), "backup", "verify", to); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	one := start(t, 1, 3)
	one.must(0, "restore", "--from", to, "--rate", "0")
	if n := one.checkRestored("ks"); int64(n) < least[2] {
		t.Errorf("restored %d batches, %d were acknowledged at the start of the backup", n, least[2])
	}
	c.must(2, "restore", "ks", "--as", "copy", "--from", to, "--rate", "0")
	c.checkRestored("copy")
	c.checkRestored("ks")
}
