// SPDX-License-Identifier: Apache-2.0

//go:build integration

// Package ddl changes the schema through all nodes of a cluster while other clients change the schema and write rows.
// It checks the results of the schema changes.
package ddl

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/process"
	"github.com/ilion-db/ilion/test/testnode"
)

const keyspace = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}"

func start(t *testing.T, n int) *testnode.Cluster {
	t.Helper()
	c := testnode.Start(t, testnode.Options{Nodes: n})
	c.Do(0, keyspace)
	return c
}

// count runs a statement at QUORUM and returns the number in its result.
func count(t *testing.T, c *rawclient.Conn, text string) int {
	t.Helper()
	r, err := process.Query(c, dberr.Quorum, text)
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return -1
	}
	return int(binary.BigEndian.Uint64(r.Cells[4:]))
}

// TestIndexesAtOnce checks that an index is complete on every node when CREATE INDEX has returned. Other nodes create
// other indexes at the same time.
func TestIndexesAtOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprintf("nodes=%d", n), func(t *testing.T) {
			const tables, rows, lanes = 24, 20, 4
			c := start(t, n)
			var wg sync.WaitGroup
			for lane := range lanes {
				maker, reader := c.Dial(lane%n), c.Dial((lane+1)%n)
				wg.Go(func() {
					for i := lane; i < tables; i += lanes {
						process.Do(t, maker, fmt.Sprintf("CREATE TABLE ks.t%d (k int PRIMARY KEY, v int)", i))
						for k := range rows {
							process.Do(t, maker, fmt.Sprintf("INSERT INTO ks.t%d (k, v) VALUES (%d, 1)", i, k))
						}
						process.Do(t, maker, fmt.Sprintf("CREATE INDEX ON ks.t%d (v)", i))
						if got := count(t, reader, fmt.Sprintf("SELECT count(*) FROM ks.t%d WHERE v = 1",
							i)); got != rows {
							t.Errorf("the index of table %d finds %d rows of %d", i, got, rows)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestIndexWhileWriting checks that an index contains every acknowledged row and no old values. During its creation,
// clients write, change, and delete rows through all nodes.
func TestIndexWhileWriting(t *testing.T) {
	t.Parallel()
	c := start(t, 4)
	c.Do(0, "CREATE TABLE ks.t (k int PRIMARY KEY, v int, w int)")
	const lanes, before = 8, 500
	insert := func(conn *rawclient.Conn, k int) error {
		_, err := conn.Query(fmt.Sprintf("INSERT INTO ks.t (k, v, w) VALUES (%d, %d, 0)", k, k%7))
		return err
	}
	conns := make([]*rawclient.Conn, lanes)
	for lane := range conns {
		conns[lane] = c.Dial(lane % c.Len())
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	state := make([]map[int]int, lanes) // maps k to v for the existing rows of each lane
	ready := make(chan struct{}, lanes)
	for lane, conn := range conns {
		state[lane] = map[int]int{}
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				k := i*lanes + lane
				if err := insert(conn, k); err != nil {
					t.Error(err)
					return
				}
				state[lane][k] = k % 7
				var err error
				switch old := k - lanes*(i%200); { // change an earlier row, which may be older than the index
				case i%5 == 1:
					_, err = conn.Query(fmt.Sprintf("UPDATE ks.t SET v = 9 WHERE k = %d", old))
					state[lane][old] = 9
				case i%5 == 3:
					_, err = conn.Query(fmt.Sprintf("DELETE FROM ks.t WHERE k = %d", old))
					delete(state[lane], old)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if i == before/lanes {
					ready <- struct{}{}
				}
			}
		})
	}
	for range lanes {
		<-ready
	}
	// Each index is built while rows are written. The last index on each column is kept.
	c.Do(1, "CREATE INDEX v1 ON ks.t (v)")
	c.Do(2, "CREATE INDEX w1 ON ks.t (w)")
	c.Do(3, "DROP INDEX ks.v1")
	c.Do(0, "CREATE INDEX v2 ON ks.t (v)")
	stop.Store(true)
	wg.Wait()
	want := map[int]map[int]bool{}
	for _, rows := range state {
		for k, v := range rows {
			if want[v] == nil {
				want[v] = map[int]bool{}
			}
			want[v][k] = true
		}
	}
	for i := range c.Len() {
		conn := c.Dial(i)
		for v := range 10 {
			r, err := process.Query(conn, dberr.Quorum, fmt.Sprintf("SELECT k FROM ks.t WHERE v = %d", v))
			if err != nil {
				t.Fatal(err)
			}
			compare(t, fmt.Sprintf("node %d, v = %d", i, v), want[v], ints(r))
		}
	}
}

func ints(r *cqlwire.Result) map[int]bool {
	out := map[int]bool{}
	for b := r.Cells; len(b) >= 8; b = b[8:] {
		out[int(int32(binary.BigEndian.Uint32(b[4:])))] = true
	}
	return out
}

// compare reports missing and unexpected rows.
func compare(t *testing.T, where string, want, got map[int]bool) {
	t.Helper()
	missing, extra := 0, 0
	for k := range want {
		if !got[k] {
			missing++
		}
	}
	for k := range got {
		if !want[k] {
			extra++
		}
	}
	if missing+extra > 0 {
		t.Errorf("%s: of %d rows, %d are missing; %d rows are unexpected", where, len(want), missing, extra)
	}
}
