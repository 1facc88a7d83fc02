// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// TestMergeAlone checks that the partitions of a single node merge while clients write to the partitions. No request
// may fail, and every row and every increment must exist exactly once. If a merge was recorded or frozen before a
// shutdown, the next start must complete the merge.
func TestMergeAlone(t *testing.T) {
	t.Parallel()
	const writers, rows, counters = 4, 2000, 16
	dir := t.TempDir()
	n := startNode(t, Options{Data: dir, InitialPartitions: 8})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	c.query("CREATE TABLE ks.n (k int PRIMARY KEY, n counter)")
	number := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	parts := func(table string) []*topology.Partition {
		return n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Keyspaces["ks"].Tables[table].ID)
	}
	var clients sync.WaitGroup
	for w := range writers {
		clients.Go(func() {
			c := newClient(t, n)
			insert := c.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
			add := c.prepare("UPDATE ks.n SET n = n + 1 WHERE k = ?")
			read := c.prepare("SELECT v FROM ks.t WHERE k = ?")
			for i := w; i < rows; i += writers {
				c.execute(insert, number(i), number(i))
				c.execute(add, number(i%counters))
				if got := c.execute(read, number(i)); got.RowCount != 1 {
					t.Errorf("row %d is not there after it was written", i)
				}
			}
		})
	}
	for _, table := range []string{"t", "n"} {
		for len(parts(table)) > 2 {
			ps := parts(table)
			o := operations.Merge{Table: "ks." + table, Now: true,
				Partitions: [2]uint64{uint64(ps[2].ID), uint64(ps[1].ID)}}
			said, err := n.partitions.Merge(t.Context(), o)
			if err != nil || !strings.Contains(said, "have been merged") {
				t.Fatalf("%s, %v", said, err)
			}
		}
	}
	clients.Wait()
	check := func(when string, left int) {
		t.Helper()
		c := newClient(t, n)
		sum, read := uint64(0), c.prepare("SELECT n FROM ks.n WHERE k = ?")
		for i := range counters {
			value := c.execute(read, number(i))
			sum += binary.BigEndian.Uint64(value.Cells[len(value.Cells)-8:])
		}
		got := c.query("SELECT k FROM ks.t").RowCount
		if got != rows || sum != rows || len(parts("t")) != left {
			t.Errorf("%s: %d rows, %d counts, %d partitions", when, got, sum, len(parts("t")))
		}
	}
	check("after the merges", 2)
	if e := n.metadata.State().History; len(e) == 0 || e[len(e)-1].Kind != meta.Merge || e[len(e)-1].Pause <= 0 {
		t.Errorf("the history has no merge: %+v", e)
	}
	ps := parts("t")
	order := merge.Request{Table: ps[0].Table, First: ps[0].ID, Second: ps[1].ID, SkipCooldown: true,
		Level: n.store.Level()}
	if _, err := n.metadata.Update(t.Context(), func(s *meta.State) (*meta.State, error) {
		next, _, err := order.Apply(s, time.Now())
		return next, err
	}); err != nil {
		t.Fatal(err)
	}
	if err := n.host.Replica(ps[1].ID).Control().Freeze(t.Context(), ps[1].Epoch); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = startNode(t, Options{Data: dir})
	check("after a restart", 1)
}

// TestMergeOrdersRefused checks that merge requests that cannot be executed are rejected with a message. They must
// change nothing.
func TestMergeOrdersRefused(t *testing.T) {
	n := startTestNode(t, Options{InitialPartitions: 3})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY)")
	parts := n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Keyspaces["ks"].Tables["t"].ID)
	a, b, z := uint64(parts[0].ID), uint64(parts[1].ID), uint64(parts[2].ID)
	before := n.metadata.State().Version
	for _, o := range []struct {
		want string
		operations.Merge
	}{
		{"invalid table name", operations.Merge{Table: "t", Partitions: [2]uint64{a, b}}},
		{"is a system table", operations.Merge{Table: "system_schema.tables", Partitions: [2]uint64{a, b}}},
		{"no partition 999", operations.Merge{Table: "ks.t", Partitions: [2]uint64{a, 999}}},
		{"are not adjacent", operations.Merge{Table: "ks.t", Partitions: [2]uint64{a, z}}},
		{"are not adjacent", operations.Merge{Table: "ks.t", Partitions: [2]uint64{a, a}}},
		{"nothing was done", operations.Merge{Table: "ks.t", Partitions: [2]uint64{b, a}, DryRun: true}},
	} {
		said, err := n.partitions.Merge(t.Context(), o.Merge)
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, o.want) {
			t.Errorf("%+v: %s", o, said)
		}
	}
	if now := n.metadata.State().Version; now != before {
		t.Errorf("the version of the records changed from %d to %d", before, now)
	}
	o := operations.Merge{Table: "ks.t", Partitions: [2]uint64{a, b}}
	if said, err := n.partitions.Merge(t.Context(), o); err != nil {
		t.Error(said, err)
	}
	o.Partitions[1] = z
	began := time.Now()
	said, err := n.partitions.Merge(t.Context(), o)
	if time.Since(began) < time.Minute && (err == nil || !strings.Contains(err.Error(), "less than a minute ago")) {
		t.Error(said, err)
	}
}
