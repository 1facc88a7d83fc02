// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node

import (
	"flag"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// droppedTables is the number of tables that TestIdleAfterDrops creates and drops. A CI server drops 100,000
// tables per year.
var droppedTables = flag.Int("dropped-tables", 0, "create and drop this many tables, then measure an idle node")

// TestIdleAfterDrops measures the cost of an idle node after many tables have been created and dropped. Each batch is
// a keyspace with 20 tables. The node must use at most 2% of a processor. Its heap may grow by at most two memtables
// and a margin for caches.
func TestIdleAfterDrops(t *testing.T) {
	if *droppedTables == 0 {
		t.Skip("needs -dropped-tables")
	}
	n, err := Start(t.Context(), Options{Data: t.TempDir(), CQL: "127.0.0.1:0", HTTP: "off"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	c, err := rawclient.Dial(t.Context(), n.CQLAddr().String(), rawclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	do := func(format string, args ...any) {
		t.Helper()
		if _, err := c.Query(fmt.Sprintf(format, args...)); err != nil {
			t.Fatal(err)
		}
	}
	const (
		tables = 20
		// memtableMax is the maximum size of a memtable. Early memtables are smaller. The store keeps a flushed
		// memtable for reuse.
		memtableMax = 64 << 20
		// cachesMax is the margin for the blocks and table statistics that the store caches.
		cachesMax = 16 << 20
	)
	batch := func() {
		do("CREATE KEYSPACE ci WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
		for i := range tables {
			do("CREATE TABLE ci.t%d (k int, c int, v int, PRIMARY KEY (k, c))", i)
			do("INSERT INTO ci.t%d (k, c, v) VALUES (1, 1, 1) USING TTL 1000", i)
			do("DELETE FROM ci.t%d WHERE k = 1", i)
		}
		do("DROP KEYSPACE ci")
	}
	heap := func() uint64 {
		if err := n.store.Flush(); err != nil {
			t.Fatal(err)
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for range 5 {
		batch()
	}
	before := heap()
	began := time.Now()
	for i := range max(0, *droppedTables/tables-5) {
		if batch(); i%250 == 249 {
			t.Logf("%d tables in %v", (i+1)*tables, time.Since(began).Round(time.Second))
		}
	}
	time.Sleep(25 * time.Second) // allow time for two sweeper rounds and flushes
	const idle = 40 * time.Second
	used := processTime(t)
	time.Sleep(idle)
	share := float64(processTime(t)-used) / float64(idle)
	after := heap()
	t.Logf("%d tables: %.2f %% of a processor, heap %d KiB before and %d KiB after", *droppedTables, 100*share,
		before>>10, after>>10)
	if share > 0.02 {
		t.Errorf("an idle node takes %.1f %% of a processor", 100*share)
	}
	if after > before+2*memtableMax+cachesMax {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
}

// processTime returns the processor time that this process has used.
func processTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
