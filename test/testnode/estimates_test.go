// SPDX-License-Identifier: Apache-2.0

//go:build integration

package testnode_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/testnode"
)

// piece is a row of size_estimates or table_estimates.
type piece struct {
	kind        string
	start, end  token.Token
	count, mean int64
}

// pieces reads a node's estimates of table ks.t.
func pieces(t *testing.T, conn *rawclient.Conn, table string) (out []piece) {
	t.Helper()
	columns := "range_start, range_end, partitions_count, mean_partition_size"
	if table == "table_estimates" {
		columns = "range_type, " + columns
	}
	r, err := conn.Query("SELECT " + columns + " FROM system." + table +
		" WHERE keyspace_name = 'ks' AND table_name = 't'")
	if err != nil {
		t.Fatal(err)
	}
	cells := r.Cells
	next := func() []byte {
		n := binary.BigEndian.Uint32(cells)
		cell := cells[4 : 4+n]
		cells = cells[4+n:]
		return cell
	}
	bound := func() token.Token {
		at, err := token.Parse(string(next()))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for range r.RowCount {
		p := piece{kind: "primary"}
		if table == "table_estimates" {
			p.kind = string(next())
		}
		p.start, p.end = bound(), bound()
		p.count, p.mean = int64(binary.BigEndian.Uint64(next())), int64(binary.BigEndian.Uint64(next()))
		out = append(out, p)
	}
	return out
}

// estimateFault describes the faults of pieces that must cover the ring with the given number of partitions, or
// returns "".
func estimateFault(all []piece, partitions int64) string {
	slices.SortFunc(all, func(a, b piece) int { return a.start.Compare(b.start) })
	at, sum := token.Min, int64(0)
	for i, p := range all {
		switch {
		case p.start != at:
			return fmt.Sprintf("a range begins at %s, the previous range ends at %s", p.start, at)
		case p.end == token.Min && i < len(all)-1:
			return fmt.Sprintf("the range that begins at %s ends with the ring, but is not the last", p.start)
		case p.count > 0 && (p.mean < 100 || p.mean > 300):
			return fmt.Sprintf("partitions of 120 bytes are estimated at %d bytes", p.mean)
		}
		at, sum = p.end, sum+p.count
	}
	if len(all) == 0 || at != token.Min || sum != partitions {
		return fmt.Sprintf("%d ranges end at %s and have %d partitions, want %d", len(all), at, sum, partitions)
	}
	return ""
}

// TestSizeEstimatesCoverTheRing checks a reader that divides its work by the size estimates of all nodes. The reader
// must read every row once. The estimates must contain the correct number and size of partitions. The test uses
// clusters with fewer and with more nodes than a replica set.
func TestSizeEstimatesCoverTheRing(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 6} {
		c := testnode.Start(t, testnode.Options{Nodes: n, Change: func(_ int, o *options.Options) {
			o.InitialPartitions = 3
		}})
		c.Do(0, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
			"CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
		var conns []*rawclient.Conn
		for i := range n {
			conns = append(conns, c.Dial(i))
		}
		for k := range 500 {
			if _, err := conns[0].Query(fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, '%0100d')", k,
				k)); err != nil {
				t.Fatal(err)
			}
		}
		for _, table := range []string{"size_estimates", "table_estimates"} {
			// A replica may lag behind the quorum that acknowledged the writes.
			eventually.None(t, fmt.Sprintf("%s of %d nodes", table, n), eventually.Limit, func() string {
				kinds := map[string][]piece{}
				for _, conn := range conns {
					for _, p := range pieces(t, conn, table) {
						kinds[p.kind] = append(kinds[p.kind], p)
					}
				}
				wrong := estimateFault(kinds["primary"], 500)
				if table == "table_estimates" && wrong == "" {
					wrong = estimateFault(kinds["local_primary"], 500)
				}
				return wrong
			})
		}
	}
}
