// SPDX-License-Identifier: Apache-2.0

//go:build integration

package ddl

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
	"github.com/ilion-db/ilion/test/testnode"
)

// metaLeader returns the node that leads the meta partition, or -1 if no node reports that it leads this partition.
// The leader leads one partition that belongs to no table.
func metaLeader(c *testnode.Cluster) int {
	for i := range c.Len() {
		s := c.Status(i)
		led := 0
		for _, table := range s.Tables {
			for _, p := range table.Partitions {
				if p.Leader == s.Node {
					led++
				}
			}
		}
		for _, n := range s.Nodes {
			if n.ID == s.Node && n.Leading == led+1 {
				return i
			}
		}
	}
	return -1
}

// TestIndexThroughLoss checks that an index is complete although a node is stopped during the build. The stopped node
// leads the meta partition and therefore builds the index. During the build, clients write rows through the other
// nodes.
func TestIndexThroughLoss(t *testing.T) {
	t.Parallel()
	const rows, values, writers = 20_000, 10, 3
	c := testnode.Start(t, testnode.Options{Dir: t.TempDir()})
	c.Do(0, keyspace, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	fill(t, c, rows, values)
	leader := -1
	eventually.True(t, "the meta partition has a leader", func() bool {
		leader = metaLeader(c)
		return leader >= 0
	})
	var stop atomic.Bool
	var wg sync.WaitGroup
	last := make([]int, writers)
	for lane := range writers {
		conn := c.Dial((leader + 1 + lane) % c.Len())
		wg.Go(func() {
			for k := rows + lane; !stop.Load(); k += writers {
				_, err := conn.Query(fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, %d)", k, k%values))
				var e *cqlwire.Error
				if errors.As(err, &e) && e.Code == cqlwire.CodeWriteTimeout {
					// Write the same row again, which the index must contain only once.
					_, err = conn.Query(fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, %d)", k, k%values))
				}
				if err != nil {
					t.Error(err)
					return
				}
				last[lane] = k
			}
		})
	}
	other := c.Dial((leader + 1) % c.Len())
	made := make(chan error, 1)
	go func() {
		_, err := other.Query("CREATE INDEX ON ks.t (v)")
		made <- err
	}()
	probe := c.Dial((leader + 2) % c.Len())
	for { // wait until the index is known and is being built
		r, err := process.Query(probe, dberr.One,
			"SELECT index_name FROM system_schema.indexes WHERE keyspace_name = 'ks'")
		if err != nil {
			t.Fatal(err)
		}
		if r.RowCount > 0 {
			break
		}
	}
	_, err := process.Query(probe, dberr.Quorum, "SELECT count(*) FROM ks.t WHERE v = 3")
	t.Logf("the index returns %v while the leader is stopped", err)
	c.Stop(leader)
	if err := <-made; err != nil {
		t.Errorf("CREATE INDEX: %v", err)
	}
	usable(t, probe)
	stop.Store(true)
	wg.Wait()
	c.Restart(leader)
	c.Settle()
	total := rows
	for lane, k := range last {
		if k > 0 {
			total += (k-rows-lane)/writers + 1
		}
	}
	for i := range c.Len() {
		conn, found := c.Dial(i), 0
		for v := range values {
			found += count(t, conn, fmt.Sprintf("SELECT count(*) FROM ks.t WHERE v = %d", v))
		}
		if found != total {
			t.Errorf("node %d finds %d of %d rows through the index", i, found, total)
		}
	}
	t.Logf("%d rows were written in the meantime", total-rows)
}

// usable waits until the index is usable.
func usable(t *testing.T, conn *rawclient.Conn) {
	t.Helper()
	eventually.None(t, "the index is built", eventually.Limit, func() string {
		if _, err := process.Query(conn, dberr.Quorum, "SELECT count(*) FROM ks.t WHERE v = 3"); err != nil {
			return err.Error()
		}
		return ""
	})
}

// fill writes n rows, where v is k modulo values.
func fill(t *testing.T, c *testnode.Cluster, n, values int) {
	t.Helper()
	conn := c.Dial(0)
	for k := 0; k < n; {
		b := "BEGIN UNLOGGED BATCH\n"
		for end := min(k+100, n); k < end; k++ {
			b += fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, %d);\n", k, k%values)
		}
		process.Do(t, conn, b+"APPLY BATCH")
	}
}
