// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/test/process"
)

var (
	rowsFlag = flag.Int("rows", 20_000, "number of initial rows of TestAdopt")
	killings = flag.Int("killings", 4, "number of kills in each of the two parts of TestAdopt")
)

// TestAdopt checks that a standalone node keeps all rows when it becomes the first node of a cluster of four. Nodes
// are killed at random times while the node is adopted and the cluster grows.
func TestAdopt(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "")
	f.settleTimeout += time.Duration(*rowsFlag/20_000) * time.Second
	a := f.add()
	if err := <-a.launch(); err != nil {
		t.Fatal(err)
	}
	a.do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE ks.rows (k bigint PRIMARY KEY, v bigint)",
		"CREATE TABLE ks.counts (k bigint PRIMARY KEY, n counter)",
		"CREATE TABLE ks.indexed (k bigint PRIMARY KEY, v int)", "CREATE INDEX ON ks.indexed (v)",
		"UPDATE ks.counts SET n = n + 42 WHERE k = 1", "INSERT INTO ks.indexed (k, v) VALUES (1, 7)")
	began := time.Now()
	fillRows(t, a, *rowsFlag)
	t.Logf("%d rows written in %s", *rowsFlag, time.Since(began).Round(time.Millisecond))
	if rand.IntN(2) == 0 {
		a.kill()
	} else {
		a.stop()
	}

	began = time.Now()
	for range *killings {
		_ = a.launch("--internal", a.inner(), "--bootstrap")
		time.Sleep(time.Duration(rand.IntN(200_000)) * time.Microsecond)
		a.kill()
	}
	a.start()
	t.Logf("adopted in %s, with %d kills", time.Since(began).Round(time.Millisecond), *killings)
	allRows(t, a, *rowsFlag)

	began = time.Now()
	var wg sync.WaitGroup
	for range 3 {
		m := f.add()
		wg.Go(func() {
			if err := m.tryStart(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for range *killings {
		time.Sleep(time.Duration(rand.IntN(500_000)) * time.Microsecond)
		m := f.nodes[rand.IntN(4)]
		m.kill()
		m.start()
	}
	f.settle()
	t.Logf("grown to four nodes in %s, with %d kills", time.Since(began).Round(time.Millisecond), *killings)
	for _, m := range f.nodes {
		began = time.Now()
		allRows(t, m, *rowsFlag)
		t.Logf("%s: all rows exist (%s)", m.name(), time.Since(began).Round(time.Millisecond))
	}
	a.stop()
	if err := <-a.launch(); err == nil || !strings.Contains(a.lastLogLine(), "belongs to a cluster node") {
		t.Errorf("a node of a cluster started as a standalone node: %v, %s", err, a.lastLogLine())
	}
}

// fillRows writes n rows. Row k has the value 7k.
func fillRows(t *testing.T, m *member, n int) {
	t.Helper()
	const perBatch, writers = 250, 8
	var wg sync.WaitGroup
	for w := range writers {
		c := m.dial()
		wg.Go(func() {
			for at := w * perBatch; at < n; at += writers * perBatch {
				var b strings.Builder
				b.WriteString("BEGIN UNLOGGED BATCH ")
				for k := at; k < min(at+perBatch, n); k++ {
					fmt.Fprintf(&b, "INSERT INTO ks.rows (k, v) VALUES (%d, %d); ", k, 7*k)
				}
				b.WriteString("APPLY BATCH")
				if _, err := c.Query(b.String()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// allRows checks that a node returns each of the n rows exactly once.
func allRows(t *testing.T, m *member, n int) {
	t.Helper()
	c := m.dial()
	seen := make([]bool, n)
	count := 0
	err := scan(c, dberr.One, "ks.rows", func(k int64, rest []byte) {
		if k < 0 || k >= int64(n) || seen[k] || int64(binary.BigEndian.Uint64(rest[4:])) != 7*k {
			t.Fatalf("%s: row %d is wrong: %x", m.name(), k, rest)
		}
		seen[k] = true
		count++
	})
	if err != nil {
		t.Fatalf("%s: %v", m.name(), err)
	}
	if count != n {
		t.Errorf("%s: got %d rows, want %d", m.name(), count, n)
	}
	for text, want := range map[string]int64{"SELECT n FROM ks.counts WHERE k = 1": 42,
		"SELECT k FROM ks.indexed WHERE v = 7": 1} {
		r, err := process.Query(c, dberr.Quorum, text)
		if err != nil || r.RowCount != 1 {
			t.Fatalf("%s: %s: %v", m.name(), text, err)
		}
		if got := number(r, r.Columns[0].Name, 0); got != want {
			t.Errorf("%s: %s: %d, want %d", m.name(), text, got, want)
		}
	}
}
