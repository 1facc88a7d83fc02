// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestSplitAlone checks that a single node splits a table into eight partitions while clients write and read rows and
// counters. No request may fail, and no row may be lost or duplicated, even after a restart. If a split was recorded
// but not executed before a crash, the next start must execute the split.
func TestSplitAlone(t *testing.T) {
	t.Parallel()
	const rows, writers, counters = 800, 4, 5
	dir := t.TempDir()
	n := startNode(t, Options{Data: dir, InitialPartitions: 1})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	c.query("CREATE TABLE ks.n (k int PRIMARY KEY, n counter)")
	number := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	count := func(n *Node) int {
		t.Helper()
		return newClient(t, n).query("SELECT k FROM ks.t").RowCount
	}
	var clients sync.WaitGroup
	for w := range writers {
		clients.Go(func() {
			c := newClient(t, n)
			insert := c.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
			add := c.prepare("UPDATE ks.n SET n = n + 1 WHERE k = ?")
			for i := w; i < rows; i += writers {
				c.execute(insert, number(i), number(i))
				c.execute(add, number(i%counters))
			}
		})
	}
	eventually.True(t, "there are rows to split between", func() bool { return count(n) > rows/4 })
	for range 3 {
		for _, table := range []string{"ks.t", "ks.n"} {
			ks := n.catalog.Snapshot().Keyspaces["ks"]
			for _, p := range n.metadata.State().Topology.Partitions(ks.Tables[strings.TrimPrefix(table, "ks.")].ID) {
				o := operations.Split{Table: table, Partition: uint64(p.ID), Now: true}
				said, err := n.partitions.Split(t.Context(), o)
				if err != nil && !strings.Contains(err.Error(), "the same token") {
					t.Fatalf("%s, %v", said, err)
				}
			}
		}
	}
	clients.Wait()
	id := n.catalog.Snapshot().Keyspaces["ks"].Tables["t"].ID
	if parts := n.metadata.State().Topology.Partitions(id); len(parts) != 8 || count(n) != rows {
		t.Errorf("%d rows in %d partitions", count(n), len(parts))
	}
	for _, e := range n.metadata.State().History {
		if e.Kind == meta.Split && e.Pause <= 0 {
			t.Errorf("the history has no pause of a split: %+v", *e)
		}
	}
	shown := newClient(t, n)
	if found := shown.query("SELECT partition_id FROM ilion.physical_partitions WHERE keyspace_name = 'ks' " +
		"AND table_name = 't'").RowCount; found != 8 {
		t.Errorf("ilion.physical_partitions has %d rows for the table", found)
	}
	const splits = "SELECT number FROM ilion.partition_history WHERE kind = 'split' AND cause = 'operator' AND " +
		"table_name = 't' ALLOW FILTERING"
	if found := shown.query(splits).RowCount; found != 7 {
		t.Errorf("ilion.partition_history has %d splits of the table", found)
	}
	sum := func(n *Node) (sum uint64) {
		c := newClient(t, n)
		for i := range counters {
			value := c.execute(c.prepare("SELECT n FROM ks.n WHERE k = ?"), number(i))
			sum += binary.BigEndian.Uint64(value.Cells[len(value.Cells)-8:])
		}
		return sum
	}
	if got := sum(n); got != rows {
		t.Errorf("the sum of the counters is %d, want %d", got, rows)
	}

	first := n.metadata.State().Topology.Partitions(id)[0]
	order := split.Request{Table: id, Partition: first.ID, At: first.Span.Limit, SkipCooldown: true,
		Level: n.store.Level()}
	order.At.Ring /= 2
	if _, err := n.metadata.Update(t.Context(), func(s *meta.State) (*meta.State, error) {
		return order.Apply(s, time.Now())
	}); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = startNode(t, Options{Data: dir})
	if parts := n.metadata.State().Topology.Partitions(id); len(parts) != 9 || count(n) != rows || sum(n) != rows {
		t.Errorf("after a restart: %d rows and %d counts in %d partitions", count(n), sum(n), len(parts))
	}
}

// TestSplitOrdersRefused checks that split requests that cannot be executed are rejected with a message. They must
// change nothing.
func TestSplitOrdersRefused(t *testing.T) {
	n := startTestNode(t, Options{InitialPartitions: 2})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY)")
	parts := n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Keyspaces["ks"].Tables["t"].ID)
	left, right := uint64(parts[0].ID), uint64(parts[1].ID)
	before := n.metadata.State().Version
	for want, o := range map[string]operations.Split{
		"invalid table name":           {Table: "t", Partition: left},
		"table ks.none does not exist": {Table: "ks.none", Partition: left},
		"is a system table":            {Table: "system_schema.tables", Partition: left},
		"no partition 999":             {Table: "ks.t", Partition: 999},
		"invalid token":                {Table: "ks.t", Partition: left, At: "x"},
		"cannot be split at":           {Table: "ks.t", Partition: right, At: "-5"},
		"nothing was done":             {Table: "ks.t", Partition: left, DryRun: true},
		"at token -4611686":            {Table: "ks.t", Partition: left, DryRun: true},
		"at token 4611686018":          {Table: "ks.t", Partition: right, DryRun: true},
	} {
		said, err := n.partitions.Split(t.Context(), o)
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, want) {
			t.Errorf("%+v: %s", o, said)
		}
	}
	if now := n.metadata.State().Version; now != before {
		t.Errorf("the version of the records changed from %d to %d", before, now)
	}
	if said, err := n.partitions.Split(t.Context(), operations.Split{Table: "ks.t", Partition: left}); err != nil {
		t.Error(said, err)
	}
	if said, err := n.partitions.Split(t.Context(), operations.Split{Table: "ks.t", Partition: left}); err == nil ||
		!strings.Contains(err.Error(), "less than a minute ago") {
		t.Error(said, err)
	}
}
