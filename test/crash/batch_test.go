// SPDX-License-Identifier: Apache-2.0

//go:build integration

package crash

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

// configuration writes a configuration file and returns the argument that names it.
func configuration(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ilion.yaml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return "--config=" + name
}

// column returns the ints of the first column of a result, with -1 for null.
func column(t *testing.T, r *cqlwire.Result) []int {
	t.Helper()
	var out []int
	cells := r.Cells
	for range r.RowCount {
		for c := range r.ColumnCount {
			n := max(int32(binary.BigEndian.Uint32(cells)), 0)
			switch {
			case c > 0:
			case n == 4:
				out = append(out, int(int32(binary.BigEndian.Uint32(cells[4:]))))
			default:
				out = append(out, -1)
			}
			cells = cells[4+n:]
		}
	}
	return out
}

// batchKeys is the number of logical partitions of a batch. The partitions are on 16 physical partitions. The batch
// changes the last logical partition with a list update, which depends on the stored value.
const batchKeys = 40

// TestKillBatch checks that a kill leaves a logged batch either completely applied or not applied. An acknowledged
// batch must exist. The batch includes a list update and affects many physical partitions.
func TestKillBatch(t *testing.T) {
	t.Parallel()
	const clients = 4
	dir, config := filepath.Join(t.TempDir(), "data"), configuration(t, "initial_partitions: 16")
	s := process.Start(t, dir, config)
	c := s.Dial(t)
	process.Do(t, c, "CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE crash.b (k int, w int, v int, l list<int>, PRIMARY KEY (k, w))")
	for w := range clients {
		process.Do(t, c, fmt.Sprintf("INSERT INTO crash.b (k, w, l) VALUES (%d, %d, [0])", batchKeys, w))
	}
	c.Close()
	var acked, tried [clients]atomic.Int64
	rng := rand.New(rand.NewPCG(uint64(*rounds), 11))
	for range *rounds {
		var wg sync.WaitGroup
		for w := range clients {
			conn := s.Dial(t)
			wg.Go(func() {
				defer conn.Close()
				for {
					n := tried[w].Add(1)
					if _, err := conn.Query(batchText(w, n)); err != nil {
						return
					}
					acked[w].Store(n)
				}
			})
		}
		time.Sleep(time.Duration(50+rng.IntN(300)) * time.Millisecond) // the kill may hit any phase
		s.Kill()
		wg.Wait()
		s = process.Start(t, dir, config)
		c := s.Dial(t)
		for w := range clients {
			verifyBatch(t, c, w, int(acked[w].Load()), int(tried[w].Load()))
		}
		c.Close()
		if t.Failed() {
			return
		}
	}
	total := int64(0)
	for w := range clients {
		total += acked[w].Load()
	}
	if total == 0 {
		t.Error("no batch was acknowledged: the test checks nothing")
	}
	t.Logf("%d batches acknowledged", total)
}

// batchText returns a batch that writes n to the rows of a client in all partitions.
func batchText(w int, n int64) string {
	var b strings.Builder
	b.WriteString("BEGIN BATCH ")
	for k := range batchKeys {
		fmt.Fprintf(&b, "INSERT INTO crash.b (k, w, v) VALUES (%d, %d, %d); ", k, w, n)
	}
	fmt.Fprintf(&b, "UPDATE crash.b SET l[0] = %d, v = %d WHERE k = %d AND w = %d; APPLY BATCH", n, n, batchKeys, w)
	return b.String()
}

func verifyBatch(t *testing.T, c *rawclient.Conn, w, acked, tried int) {
	t.Helper()
	seen := map[int]int{}
	for k := range batchKeys + 1 {
		r, err := process.Query(c, dberr.Quorum, fmt.Sprintf("SELECT v FROM crash.b WHERE k = %d AND w = %d", k, w))
		if err != nil {
			t.Fatal(err)
		}
		if v := column(t, r); len(v) == 1 {
			seen[v[0]]++
		}
	}
	for v, n := range seen {
		if len(seen) != 1 || n != batchKeys+1 || v < acked || v > tried {
			t.Errorf("client %d: number of partitions by batch: %v; batch %d was acknowledged, %d attempted", w, seen,
				acked, tried)
			return
		}
	}
}
