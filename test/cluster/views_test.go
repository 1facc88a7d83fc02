// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/test/process"
)

// TestViewsAfterKilledLeaders checks that a view agrees with its base on every node some time after leaders of both
// tables were killed. The leaders are killed during writes that move rows in the view. Other nodes must deliver the
// pending updates from the hints.
func TestViewsAfterKilledLeaders(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 4, "")
	f.nodes[0].do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
		"CREATE MATERIALIZED VIEW ks.m AS SELECT k, v FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)")
	statements := 120
	if *long {
		statements = 400
	}
	for round, table := range []string{"ks.t", "ks.m"} {
		f.settle()
		victim := f.leader(table)
		var wg sync.WaitGroup
		for i, m := range f.alive() {
			conn := m.dial()
			r := rand.New(rand.NewPCG(uint64(round), uint64(i)))
			wg.Go(func() {
				for n := range statements {
					text := fmt.Sprintf("UPDATE ks.t SET v = %d WHERE k = %d", r.IntN(20), r.IntN(60))
					if r.IntN(5) == 0 {
						text = fmt.Sprintf("DELETE FROM ks.t WHERE k = %d", r.IntN(60))
					}
					if _, err := process.Query(conn, dberr.Quorum, text); err != nil && m == victim {
						return // the outcome is unknown, but view and base must agree in any case
					}
					if n == statements/2 && m != victim && i == (victim.index+1)%4 {
						victim.kill()
					}
				}
			})
		}
		wg.Wait()
		for _, m := range f.alive() {
			conn := m.dial()
			all := func(table string) map[int64]int64 {
				r, err := process.Query(conn, dberr.Quorum, "SELECT k, v FROM "+table)
				if err != nil {
					return nil
				}
				return pairs(r)
			}
			f.until("the view agrees at "+m.name(), settleTime, func() string {
				base, view := all("ks.t"), all("ks.m")
				if len(base) > 0 && maps.Equal(base, view) {
					return ""
				}
				return fmt.Sprintf("base %v, view %v", base, view)
			})
		}
		victim.start()
	}
}

// pairs maps the first column of each row of a result to the second column. Both columns are ints. Rows without the
// second column are omitted. Duplicate rows get the value -1.
func pairs(r *cqlwire.Result) map[int64]int64 {
	out := map[int64]int64{}
	for cells := r.Cells; len(cells) > 0; {
		var k, v []byte
		k, cells = next(cells)
		v, cells = next(cells)
		if len(v) != 4 {
			continue
		}
		key, value := int64(int32(binary.BigEndian.Uint32(k))), int64(int32(binary.BigEndian.Uint32(v)))
		if _, twice := out[key]; twice {
			value = -1
		}
		out[key] = value
	}
	return out
}
