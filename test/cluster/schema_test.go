// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/test/process"
)

var tablesFlag = flag.Int("tables", 40, "number of tables that TestSchemaFromAll creates")

// TestSchemaFromAll measures concurrent schema changes from all nodes, and checks that they result in one schema with
// all changes.
func TestSchemaFromAll(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 4, "")
	f.nodes[0].do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
		"CREATE TABLE ks.shared (k int PRIMARY KEY, v int)")
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	for _, m := range f.nodes {
		c := m.dial()
		wg.Go(func() {
			for i := range *tablesFlag / 4 {
				began := time.Now()
				_, err := c.Query(fmt.Sprintf("CREATE TABLE ks.t%d_%d (k int PRIMARY KEY, v int)", m.index, i))
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if i%8 == 0 {
					for _, text := range []string{
						fmt.Sprintf("CREATE TABLE IF NOT EXISTS ks.common%d (k int PRIMARY KEY, v int)", i),
						fmt.Sprintf("ALTER TABLE ks.shared ADD c%d_%d int", m.index, i),
						fmt.Sprintf("CREATE TYPE ks.u%d_%d (a int)", m.index, i),
						fmt.Sprintf("INSERT INTO ks.t%d_%d (k, v) VALUES (1, 1)", m.index, i),
					} {
						if _, err := c.Query(text); err != nil {
							t.Errorf("%v", err)
						}
					}
				}
			}
		})
	}
	began := time.Now()
	wg.Wait()
	all := time.Since(began)
	slices.Sort(took)
	t.Logf("four nodes concurrently, %d tables in %s: p50 %s, p99 %s, max %s", len(took), all.Round(time.Millisecond),
		took[len(took)/2].Round(time.Millisecond),
		took[len(took)*99/100].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))

	took = took[:0]
	c := f.nodes[1].dial()
	for i := range 50 {
		began := time.Now()
		process.Do(t, c, fmt.Sprintf("CREATE TABLE ks.alone%d (k int PRIMARY KEY, v int)", i))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("one after the other, with %d tables: p50 %s, p99 %s", *tablesFlag, took[25].Round(time.Millisecond),
		took[49].Round(time.Millisecond))
	f.settle()
	versions := map[string]bool{}
	for _, m := range f.nodes {
		s, err := m.status()
		if err != nil {
			t.Fatal(err)
		}
		versions[s.Schema] = true
		c := m.dial()
		for _, q := range []struct {
			text string
			want int
		}{
			{"SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'ks'", 1 + 50 + *tablesFlag/4*4 +
				(*tablesFlag/4+7)/8},
			{"SELECT type_name FROM system_schema.types WHERE keyspace_name = 'ks'", 4 * ((*tablesFlag/4 + 7) / 8)},
			{"SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'ks' AND table_name = 'shared'",
				2 + 4*((*tablesFlag/4+7)/8)},
		} {
			r, err := c.Query(q.text)
			if err != nil {
				t.Fatal(err)
			}
			if r.RowCount != q.want {
				t.Errorf("%s, %s: %d rows, want %d", m.name(), q.text, r.RowCount, q.want)
			}
		}
		peers, err := c.Query("SELECT schema_version FROM system.peers_v2")
		if err != nil || peers.RowCount != 3 {
			t.Errorf("%s: peers: %d rows, %v", m.name(), peers.RowCount, err)
		}
	}
	if len(versions) != 1 {
		t.Errorf("the nodes have schemas %v", versions)
	}
}
