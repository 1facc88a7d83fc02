// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/eventually"
)

// logicalPartitions returns the number of logical partitions of a table according to /status. counted is false if the
// number contains an estimate.
func logicalPartitions(t *testing.T, n *Node, table string) (number uint64, counted bool) {
	t.Helper()
	text, err := json.Marshal(n.reports.Status())
	if err != nil {
		t.Fatal(err)
	}
	var s admin.Status
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	for _, ts := range s.Tables {
		if ts.Name != table {
			continue
		}
		counted = true
		for _, p := range ts.Partitions {
			counted = counted && p.Counted != ""
		}
		return ts.LogicalPartitions, counted
	}
	t.Fatalf("no table %s", table)
	return 0, false
}

// TestLogicalPartitionsAreCounted checks that the status reports the exact number of logical partitions. The test
// covers few and many partitions, partitions with only a static cell, and one or several physical partitions. The test
// compares the numbers before and after rows and whole partitions are deleted.
func TestLogicalPartitionsAreCounted(t *testing.T) {
	t.Parallel()
	for _, physical := range []int{1, 3} {
		n := startTestNode(t, Options{InitialPartitions: physical})
		c := newClient(t, n)
		c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
		c.query("CREATE TABLE ks.t (k int, c int, s int static, PRIMARY KEY (k, c))")
		insert := c.prepare("INSERT INTO ks.t (k, c) VALUES (?, ?)")
		static := c.prepare("INSERT INTO ks.t (k, s) VALUES (?, 1)")
		number := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
		// A status does not wait long for a count, so the first status may contain the previous count or an estimate.
		check := func(want uint64) {
			t.Helper()
			eventually.None(t, "the count", eventually.Limit, func() string {
				if got, counted := logicalPartitions(t, n, "ks.t"); got != want || !counted {
					return fmt.Sprintf("%d logical partitions, counted %v; want %d", got, counted, want)
				}
				return ""
			})
		}
		check(0)
		for i := range 1000 {
			if i%7 == 0 {
				c.execute(static, number(i))
				continue
			}
			c.execute(insert, number(i), number(0))
			c.execute(insert, number(i), number(1))
		}
		check(1000)
		all := c.prepare("DELETE FROM ks.t WHERE k = ?")
		row := c.prepare("DELETE FROM ks.t WHERE k = ? AND c = ?")
		for i := range 990 {
			if i%3 > 0 || i%7 == 0 {
				c.execute(all, number(i))
				continue
			}
			c.execute(row, number(i), number(0))
			c.execute(row, number(i), number(1))
		}
		check(10)
		for i := range 100_000 {
			c.execute(insert, number(i), number(0))
		}
		check(100_000)
	}
}
