// SPDX-License-Identifier: Apache-2.0

//go:build integration

package testnode_test

import (
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/testnode"
)

// TestPartitionsByThroughput checks that the provisioned throughput of a table determines its partitions. The token
// ring must not determine them. Raising the throughput must split the partitions even if the table is empty.
func TestPartitionsByThroughput(t *testing.T) {
	t.Parallel()
	c := testnode.Start(t, testnode.Options{Nodes: 5})
	c.Do(0, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		"CREATE TABLE ks.t (k int PRIMARY KEY) WITH cosmosdb_provisioned_throughput = 12000")
	partitions := func() []admin.PartitionStatus {
		for _, table := range c.Status(0).Tables {
			if table.Name == "ks.t" {
				return table.Partitions
			}
		}
		return nil
	}
	if n := len(partitions()); n != 2 {
		t.Errorf("created with %d partitions, want 2", n)
	}
	c.Do(1, "ALTER TABLE ks.t WITH cosmosdb_provisioned_throughput = 50000")
	eventually.None(t, "five partitions", eventually.Limit, func() string {
		all := partitions()
		for _, p := range all {
			if p.SplitsOff != 0 && p.SplitCause != "throughput" {
				t.Errorf("partition %d splits because of %s", p.ID, p.SplitCause)
			}
		}
		if len(all) != 5 {
			return fmt.Sprintf("%d partitions", len(all))
		}
		return ""
	})
}
