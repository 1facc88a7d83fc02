// SPDX-License-Identifier: Apache-2.0

//go:build integration

package testnode

import "testing"

// TestSettled checks that Start returns a working cluster. Data written through one node must be immediately available
// through every other node.
func TestSettled(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{})
	c.Do(0, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	for i := range c.Len() {
		c.Do(i, "INSERT INTO ks.t (k, v) VALUES (1, 1)", "SELECT * FROM ks.t")
	}
	c.Settle()
}

// TestCut checks that tables are divided if the cluster has more nodes than a replica set. Every node must then have
// some partitions of each table. In smaller clusters, tables must not be divided.
func TestCut(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 6})
	c.Do(3, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	have := map[string]int{}
	for _, table := range c.Status(5).Tables {
		if table.Name != "ks.t" {
			continue
		}
		for _, p := range table.Partitions {
			for _, r := range p.Replicas {
				have[r.Node]++
			}
		}
	}
	if len(have) != 6 {
		t.Errorf("replicas of a table by node: %v", have)
	}
}
