// SPDX-License-Identifier: Apache-2.0

//go:build integration

package ddl

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/test/process"
)

// TestIndexWhileBatching checks an index that is created while clients write LOGGED batches across two partitions
// through all nodes. The index must contain all rows of the batches. A batch may be planned before the index exists
// and applied after the build has scanned the table.
func TestIndexWhileBatching(t *testing.T) {
	t.Parallel()
	c := start(t, 4)
	c.Do(0, "CREATE TABLE ks.t (k int PRIMARY KEY, v int, l list<int>)", "CREATE TABLE ks.u (k int PRIMARY KEY, v int)")
	const lanes, rounds = 8, 6
	var stop atomic.Bool
	var rows [lanes]int
	var wg sync.WaitGroup
	grown := make(chan struct{}, 1)
	for lane := range lanes {
		conn := c.Dial(lane % c.Len())
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				k := i*lanes + lane
				if _, err := conn.Query(fmt.Sprintf("BEGIN BATCH INSERT INTO ks.t (k, v, l) VALUES (%d, 1, [7]); "+
					"INSERT INTO ks.u (k, v) VALUES (%d, 1); APPLY BATCH",
					k, k)); err != nil {
					t.Error(err)
					return
				}
				rows[lane]++
				if lane == 0 && i%40 == 0 {
					select {
					case grown <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	for i := range rounds {
		<-grown
		c.Do(
			i%c.Len(),
			fmt.Sprintf("CREATE INDEX tv%d ON ks.t (v)", i),
			fmt.Sprintf("CREATE INDEX tl%d ON ks.t (l)", i),
			fmt.Sprintf("CREATE INDEX uv%d ON ks.u (v)", i),
		)
		if i < rounds-1 {
			c.Do(i%c.Len(), fmt.Sprintf("DROP INDEX ks.tv%d", i), fmt.Sprintf("DROP INDEX ks.tl%d", i),
				fmt.Sprintf("DROP INDEX ks.uv%d", i))
		}
	}
	stop.Store(true)
	wg.Wait()
	want := map[int]bool{}
	for lane, n := range rows {
		for i := range n {
			want[i*lanes+lane] = true
		}
	}
	conn := c.Dial(1)
	for _, where := range []string{"ks.t WHERE v = 1", "ks.t WHERE l CONTAINS 7", "ks.u WHERE v = 1"} {
		r, err := process.Query(conn, dberr.Quorum, "SELECT k FROM "+where)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, where, want, ints(r))
	}
}
