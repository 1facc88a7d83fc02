// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/eventually"
)

// partsOf returns the physical partitions of ks.t.
func partsOf(n *Node) []*topology.Partition {
	return n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Keyspaces["ks"].Tables["t"].ID)
}

// TestSplitsBySize checks that a table that exceeds its cap is split while clients write to it. No request may fail,
// and no row may be lost. The split point must divide the bytes approximately equally. A table without a cap must not
// be split.
func TestSplitsBySize(t *testing.T) {
	n := startTestNode(t, Options{})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v blob) WITH storage_cap_gb = 0.001")
	c.query("CREATE TABLE ks.u (k int PRIMARY KEY, v blob)")
	const rows, writers = 1200, 4
	number := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	var clients sync.WaitGroup
	for w := range writers {
		clients.Go(func() {
			c := newClient(t, n)
			capped := c.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
			free := c.prepare("INSERT INTO ks.u (k, v) VALUES (?, ?)")
			for i := w; i < rows; i += writers {
				v := make([]byte, 1000)
				_, _ = rand.Read(v)
				c.execute(capped, number(i), v)
				c.execute(free, number(i), v)
			}
		})
	}
	clients.Wait()
	eventually.True(t, "the table is split", func() bool { return len(partsOf(n)) > 1 })
	began := time.Now()
	for i := range rows {
		if c.execute(c.prepare("SELECT k FROM ks.t WHERE k = ?"), number(i)).RowCount != 1 {
			t.Fatalf("row %d is lost", i)
		}
	}
	parts := partsOf(n)
	inTime := time.Since(began) < time.Minute/2 // on a slow machine, the partitions may already split again
	for _, p := range parts {
		if inTime && split.CooldownRemaining(p, time.Now()) == 0 {
			t.Errorf("partition %d has no cooldown", p.ID)
		}
		size, err := n.store.Size(p.Span.Keys(p.Table), 1)
		if err != nil || size < 1e6/5 {
			t.Errorf("partition %d has %d bytes, %v", p.ID, size, err)
		}
	}
	other := n.catalog.Snapshot().Keyspaces["ks"].Tables["u"].ID
	if u := n.metadata.State().Topology.Partitions(other); inTime && len(parts) != 2 || len(u) != 1 {
		t.Errorf("%d partitions of the capped table, %d of the other table", len(parts), len(u))
	}
}

// TestOneLogicalPartitionIsNotSplit checks that a physical partition is not split if one logical partition holds
// almost all of its data. The status must name the key of that logical partition.
func TestOneLogicalPartitionIsNotSplit(t *testing.T) {
	n := startTestNode(t, Options{})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k text, c int, v blob, PRIMARY KEY (k, c)) WITH storage_cap_gb = 0.001")
	insert := c.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)")
	for i := range 1000 {
		v := make([]byte, 1000)
		_, _ = rand.Read(v)
		c.execute(insert, []byte("it's large"), binary.BigEndian.AppendUint32(nil, uint32(i)), v)
	}
	c.execute(insert, []byte("small"), make([]byte, 4), []byte("v"))
	var said string
	eventually.True(t, "it is told", func() bool {
		for _, table := range n.reports.Status().Tables {
			if table.Name == "ks.t" {
				said = table.Partitions[0].Stuck
			}
		}
		return said != ""
	})
	if !strings.Contains(said, "one logical partition") || !strings.Contains(said, "ks.t k = 'it''s large'") {
		t.Error(said)
	}
	if parts := partsOf(n); len(parts) != 1 {
		t.Errorf("the table is split into %d partitions", len(parts))
	}
}

// TestSplitsByLoad checks that a partition that is under load for ten seconds is split at the point that divides its
// load. A hot key must be separated from the other keys of its partition, and the status must name the hot key.
func TestSplitsByLoad(t *testing.T) {
	t.Parallel()
	n := startTestNode(t, Options{Splits: options.Splits{Units: 500}})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	c.query("CREATE TABLE ks.hot (k int PRIMARY KEY, v int)")
	number := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	hotParts := func() []*topology.Partition {
		return n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Keyspaces["ks"].Tables["hot"].ID)
	}
	hotID := func() topology.PartitionID { return hotParts()[0].ID }
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for w := range 4 {
		clients.Go(func() {
			c := newClient(t, n)
			insert := c.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
			ask := c.prepare("SELECT v FROM ks.t WHERE k = ?")
			hot := c.prepare("INSERT INTO ks.hot (k, v) VALUES (?, ?)")
			for i := w; ; i += 4 {
				select {
				case <-stop:
					return
				default:
				}
				c.execute(insert, number(i%1000), number(i))
				c.execute(ask, number(i%1000))
				c.execute(hot, number(i%8/7*7), number(i)) // seven of eight writes use the same key
			}
		})
	}
	said := ""
	eventually.None(t, "both are told of", eventually.Limit, func() string {
		said = ""
		for _, table := range n.reports.Status().Tables {
			if table.Name == "ks.hot" {
				for _, p := range table.Partitions {
					said += p.Hot
				}
			}
		}
		if len(partsOf(n)) == 2 && len(hotParts()) == 2 && said != "" {
			return ""
		}
		return fmt.Sprintf("%d partitions, %q of the hot key: %+v", len(partsOf(n)), said,
			n.splitController.Report(hotID()))
	})
	close(stop)
	clients.Wait()
	if !strings.Contains(said, "ks.hot k = 0") {
		t.Error(said)
	}
}
