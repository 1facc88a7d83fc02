// SPDX-License-Identifier: Apache-2.0

//go:build integration

package testnode_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/testnode"
)

// TestTwoReleases checks the statements in docs/operations.md about a rolling upgrade from the default release 4.0 to
// release 5.0. While nodes have different settings, each node must use its own release. It must report that release
// for itself and for its peers. The nodes must agree on the schema regardless of the node that changes it. Conditional
// writes and batches through each node must be visible on the other nodes.
func TestTwoReleases(t *testing.T) {
	t.Parallel()
	c := testnode.Start(t, testnode.Options{Nodes: 3, Change: func(i int, o *options.Options) {
		o.Compatibility = []string{"4.0", "", "4.0"}[i]
	}})
	var conns []*rawclient.Conn
	for i := range c.Len() {
		conns = append(conns, c.Dial(i))
	}
	first := func(i int, query string) string {
		t.Helper()
		r, err := conns[i].Query(query)
		if err != nil || r.RowCount == 0 {
			t.Fatalf("node %d: %s: %d rows: %v", i, query, r.RowCount, err)
		}
		n := binary.BigEndian.Uint32(r.Cells)
		return string(r.Cells[4 : 4+n])
	}
	c.Do(0, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	for i := range conns {
		c.Do(i, fmt.Sprintf("CREATE TABLE ks.t%d (k int PRIMARY KEY, v text)", i))
	}
	eventually.None(t, "one version of the schema", eventually.Limit, func() string {
		for i := range conns {
			local := first(i, "SELECT schema_version FROM system.local")
			if other := first(i, "SELECT schema_version FROM system.peers_v2"); other != local ||
				local != first(0, "SELECT schema_version FROM system.local") {
				return fmt.Sprintf("node %d has version %x, and version %x for a peer", i, local, other)
			}
		}
		return ""
	})
	for i, want := range []string{"4.0.11", "5.0.0", "4.0.11"} {
		for _, table := range []string{"local", "peers_v2"} {
			if got := first(i, "SELECT release_version FROM system."+table); got != want {
				t.Errorf("node %d has %s in system.%s, want %s", i, got, table, want)
			}
		}
		_, err := conns[i].Query("SELECT dateOf(now()) FROM system.local")
		if old := want != "5.0.0"; (err == nil) != old {
			t.Errorf("node %d, which is %s: dateOf: %v", i, want, err)
		}
		c.Do(i, fmt.Sprintf("INSERT INTO ks.t0 (k, v) VALUES (%d, 'new') IF NOT EXISTS", i), fmt.Sprintf(
			"BEGIN BATCH INSERT INTO ks.t1 (k, v) VALUES (%d, 'b'); INSERT INTO ks.t2 (k, v) VALUES (%[1]d, 'b'); "+
				"UPDATE ks.t0 SET v = 'b' WHERE k = %[1]d; APPLY BATCH", i))
		for reader := range conns {
			for _, table := range []string{"t0", "t1", "t2"} {
				if v := first(reader, fmt.Sprintf("SELECT v FROM ks.%s WHERE k = %d", table, i)); v != "b" {
					t.Errorf("node %d reads %q from ks.%s, written by node %d", reader, v, table, i)
				}
			}
		}
	}
}
