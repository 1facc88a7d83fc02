// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestMergesByThemselves checks that idle partitions that were split merge again while clients use the table. The
// merges must end when the table has its original partitions again. No row may be lost, and the history must state the
// cause of each merge.
func TestMergesByThemselves(t *testing.T) {
	t.Parallel()
	const made, rows = 2, 500
	n := startTestNode(t, Options{InitialPartitions: made, Merges: options.Merges{IdlePeriod: 100 * time.Millisecond},
		Splits: options.Splits{Units: -1}})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	number := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	insert := c.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
	for i := range rows {
		c.execute(insert, number(i), number(0))
	}
	born := partsOf(n)
	for _, p := range born {
		o := operations.Split{Table: "ks.t", Partition: uint64(p.ID), Now: true}
		if said, err := n.partitions.Split(t.Context(), o); err != nil {
			t.Fatal(said, err)
		}
	}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	last := 0
	clients.Go(func() {
		c := newClient(t, n)
		insert := c.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
		for ; ; last++ {
			for i := range rows {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond): // a light load
				}
				c.execute(insert, number(i), number(last+1))
			}
		}
	})
	eventually.True(t, "all have merged that can", func() bool { return len(partsOf(n)) == made })
	close(stop)
	clients.Wait()
	for i, p := range partsOf(n) {
		if p.ID != born[i].ID || p.Span.String() != born[i].Span.String() {
			t.Errorf("partition %d has %s, want partition %d with %s", p.ID, p.Span, born[i].ID, born[i].Span)
		}
	}
	read := c.prepare("SELECT v FROM ks.t WHERE k = ?")
	for i := range rows {
		got := c.execute(read, number(i))
		if v := got.Cells[len(got.Cells)-4:]; got.RowCount != 1 || binary.BigEndian.Uint32(v) < uint32(last) {
			t.Fatalf("row %d is %x after %d rounds", i, v, last)
		}
	}
	merges := 0
	for _, e := range n.metadata.State().History {
		if e.Kind == meta.Merge && (e.Cause == topology.BySize || e.Cause == topology.ByLoad) && !e.Abandoned {
			merges++
		}
	}
	if merges != made {
		t.Errorf("the history has %d merges", merges)
	}
}

// TestShrinksAfterDeletes checks a table that was split by size. After all its rows have been deleted, the table must
// shrink to one partition. The deleted data is removed when the grace period of the tombstones has ended.
// TestSweptSpaceComesBack in package storage checks that the disk space is released automatically.
func TestShrinksAfterDeletes(t *testing.T) {
	t.Parallel()
	const rows = 3000
	n := startTestNode(t, Options{Merges: options.Merges{IdlePeriod: 100 * time.Millisecond},
		Splits: options.Splits{Units: -1}})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v blob) WITH storage_cap_gb = 0.001 AND gc_grace_seconds = 1")
	number := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	insert := c.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
	for i := range rows {
		v := make([]byte, 1000)
		_, _ = rand.Read(v)
		c.execute(insert, number(i), v)
	}
	eventually.True(t, "it is split by its size", func() bool { return len(partsOf(n)) == 2 })
	for _, p := range partsOf(n) {
		o := operations.Split{Table: "ks.t", Partition: uint64(p.ID), Now: true}
		if said, err := n.partitions.Split(t.Context(), o); err != nil {
			t.Fatal(said, err)
		}
	}
	remove := c.prepare("DELETE FROM ks.t WHERE k = ?")
	for i := range rows {
		c.execute(remove, number(i))
	}
	sizes := func() (out []uint64) {
		for _, p := range partsOf(n) {
			size, _ := n.store.Size(p.Span.Keys(p.Table), 1e6)
			out = append(out, size)
		}
		return out
	}
	eventually.None(t, "it is one partition again", eventually.Limit, func() string {
		if len(partsOf(n)) > 1 {
			return fmt.Sprint(sizes())
		}
		return ""
	})
}

// TestMergesOfOneTable checks that a table with automatic_merges = false keeps its partitions. The partitions of a
// later table must merge. After the option is set to true, the partitions of the first table must also merge.
func TestMergesOfOneTable(t *testing.T) {
	n := startTestNode(t, Options{Merges: options.Merges{IdlePeriod: 100 * time.Millisecond}})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	count := func(table string) int {
		m := n.metadata.State().Topology
		return len(m.Partitions(n.catalog.Snapshot().Table("ks", table).ID))
	}
	for _, name := range []string{"kept", "merged"} {
		c.query("CREATE TABLE ks." + name + " (k int PRIMARY KEY) WITH automatic_merges = " +
			fmt.Sprint(name == "merged"))
		p := n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Table("ks", name).ID)[0]
		o := operations.Split{Table: "ks." + name, Partition: uint64(p.ID), At: "0", Now: true}
		if said, err := n.partitions.Split(t.Context(), o); err != nil {
			t.Fatal(said, err)
		}
	}
	eventually.True(t, "the later table is one partition", func() bool { return count("merged") == 1 })
	if got := count("kept"); got != 2 {
		t.Errorf("the table with automatic_merges = false has %d partitions, want 2", got)
	}
	c.query("ALTER TABLE ks.kept WITH automatic_merges = true")
	eventually.True(t, "it is one partition, too", func() bool { return count("kept") == 1 })
}
