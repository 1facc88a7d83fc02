// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/process"
)

var batchKills = flag.Int("batch-kills", 1, "number of coordinators that TestIndexAfterKilledBatches kills")

// batchers are clients of one node that write LOGGED batches to three tables until the node dies. Each key must be in
// all tables or in no table.
type batchers struct {
	next  atomic.Int64
	mu    sync.Mutex
	acked map[int64]bool
}

// run runs clients on a node until the node dies. The node is killed after enough acknowledged batches.
func (b *batchers) run(t *testing.T, m *member, clients, enough int) {
	t.Helper()
	var wg sync.WaitGroup
	var done atomic.Int64
	grown := make(chan struct{})
	for range clients {
		conn := m.dial()
		wg.Go(func() {
			for {
				k := b.next.Add(1)
				_, err := process.Query(conn, dberr.Quorum, fmt.Sprintf("BEGIN BATCH "+
					"INSERT INTO ks.a (k, v) VALUES (%d, %d); INSERT INTO ks.b (k, v, l) VALUES (%d, %d, [%d]); "+
					"INSERT INTO ks.c (k, v) VALUES (%d, %d); APPLY BATCH", k, k%5, k, k%5, k%3, k, k%5))
				b.mu.Lock()
				if err == nil {
					b.acked[k] = true
				}
				b.mu.Unlock()
				if err != nil {
					return
				}
				if done.Add(1) == int64(enough) {
					close(grown)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	select {
	case <-grown:
	case <-ended:
		t.Fatalf("%d batches of %d were written before all clients failed", done.Load(), enough)
	}
	m.kill()
	<-ended
}

// replayed returns the number of batches that the running nodes have completed for other nodes.
func (f *fleet) replayed() (n int) {
	f.t.Helper()
	for _, m := range f.alive() {
		resp, err := browser.Get("http://" + m.web() + "/metrics")
		if err != nil {
			f.t.Fatal(err)
		}
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if value, ok := strings.CutPrefix(lines.Text(), "ilion_coordinator_replayed_batches_total "); ok {
				v, err := strconv.ParseFloat(value, 64)
				if err != nil {
					f.t.Fatal(err)
				}
				n += int(v)
			}
		}
		resp.Body.Close()
	}
	return n
}

// values maps the first column of each row of a result to the second column. Both columns are ints.
func values(r *cqlwire.Result) map[int64]int64 {
	out := map[int64]int64{}
	for b := r.Cells; len(b) >= 16; b = b[16:] {
		out[int64(int32(binary.BigEndian.Uint32(b[4:])))] = int64(int32(binary.BigEndian.Uint32(b[12:])))
	}
	return out
}

// createIndexes creates indexes through running nodes while the leaders on the dead node are replaced.
func createIndexes(f *fleet, round int) {
	f.t.Helper()
	for i, column := range []string{"ks.a (v)", "ks.b (v)", "ks.b (l)", "ks.c (v)"} {
		alive := f.alive()
		conn, err := rawclient.Dial(f.t.Context(), alive[i%len(alive)].cql(), rawclient.Options{Timeout: settleTime})
		if err != nil {
			f.t.Fatal(err)
		}
		f.until("CREATE INDEX ON "+column, settleTime, func() string {
			_, err := conn.Query(fmt.Sprintf("CREATE INDEX IF NOT EXISTS i%d_%d ON %s", round, i, column))
			if refusal := (*cqlwire.Error)(nil); err != nil && !errors.As(err, &refusal) {
				f.t.Fatal(err)
			} else if err != nil {
				return refusal.Message
			}
			return ""
		})
		conn.Close()
	}
}

// TestIndexAfterKilledBatches checks an index that is created immediately after a coordinator was killed in the middle
// of LOGGED batches. In every table and on every node, the index must contain every row that exists after other nodes
// have completed the batches. Each batch must be complete.
func TestIndexAfterKilledBatches(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 4, "")
	f.nodes[0].do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
		"CREATE TABLE ks.a (k int PRIMARY KEY, v int)", "CREATE TABLE ks.b (k int PRIMARY KEY, v int, l list<int>)",
		"CREATE TABLE ks.c (k int PRIMARY KEY, v int)")
	b := &batchers{acked: map[int64]bool{}}
	finished := 0
	for round := range *batchKills {
		f.settle()
		m := f.nodes[round%len(f.nodes)]
		b.run(t, m, 48, 200)
		before := f.replayed()
		createIndexes(f, round)
		f.until("all batches are finished", settleTime, func() string {
			r, err := process.Query(f.alive()[0].dial(), dberr.Quorum, "SELECT id FROM system.batches")
			if err != nil {
				return err.Error()
			}
			if r.RowCount > 0 {
				return fmt.Sprintf("%d are left", r.RowCount)
			}
			return ""
		})
		finished += f.replayed() - before
		for _, n := range f.alive() {
			b.check(t, n)
		}
		for i := range 4 {
			f.alive()[0].do(fmt.Sprintf("DROP INDEX ks.i%d_%d", round, i))
		}
		m.start()
	}
	if finished == 0 {
		t.Error("no batch was completed by another node: the test checks nothing")
	}
	t.Logf("%d batches acknowledged, %d completed by other nodes", len(b.acked), finished)
}

// check compares the results of a node's indexes with scans of the tables. It also compares the tables with each other
// and with the responses to clients.
func (b *batchers) check(t *testing.T, m *member) {
	t.Helper()
	conn := m.dial()
	query := func(text string) map[int64]int64 {
		r, err := process.Query(conn, dberr.Quorum, text)
		if err != nil {
			t.Fatalf("%s: %s: %v", m.name(), text, err)
		}
		return values(r)
	}
	all := query("SELECT k, v FROM ks.a")
	for k := range b.acked {
		if _, there := all[k]; !there {
			t.Errorf("%s: acknowledged batch %d is lost", m.name(), k)
		}
	}
	for _, table := range []string{"ks.a", "ks.b", "ks.c"} {
		if rows := query("SELECT k, v FROM " + table); !maps.Equal(rows, all) {
			t.Errorf("%s: %s has %d rows, ks.a has %d: a batch was applied in part", m.name(), table, len(rows), len(all))
		}
		found := map[int64]int64{}
		for v := range 5 {
			maps.Copy(found, query(fmt.Sprintf("SELECT k, v FROM %s WHERE v = %d", table, v)))
		}
		if !maps.Equal(found, all) {
			t.Errorf("%s: the index of %s finds %d rows of %d", m.name(), table, len(found), len(all))
		}
	}
	found := map[int64]int64{}
	for v := range 3 {
		maps.Copy(found, query(fmt.Sprintf("SELECT k, v FROM ks.b WHERE l CONTAINS %d", v)))
	}
	if !maps.Equal(found, all) {
		t.Errorf("%s: the index of ks.b (l) finds %d rows of %d", m.name(), len(found), len(all))
	}
}
