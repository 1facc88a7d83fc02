// SPDX-License-Identifier: Apache-2.0

package nodes

import "testing"

// TestSettled proves that what Start returns is a cluster: what one node was told, every other answers at once.
func TestSettled(t *testing.T) {
	c := Start(t, Options{})
	c.Do(0, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}", "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	for i := range c.Len() {
		c.Do(i, "INSERT INTO ks.t (k, v) VALUES (1, 1)", "SELECT * FROM ks.t")
	}
	c.Settle()
}
