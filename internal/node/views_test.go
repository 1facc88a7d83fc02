// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/test/eventually"
)

var (
	viewSteps = flag.Int("views.steps", 1500, "statements of TestViewsFollow")
	viewSeed  = flag.Uint64("views.seed", 0, "seed of TestViewsFollow, 0 for one of each run")
)

// agreeMax is the maximum time until views are up to date.
const agreeMax = 30 * time.Second

// tryQuery works like query for statements that may be rejected.
func (c *client) tryQuery(text string) (*session.Result, error) {
	c.call.Result.Reset()
	c.call.Request.Text, c.call.Request.Values = []byte(text), nil
	r := c.wait(c.s.Query(context.Background(), &c.call))
	return r, r.Err
}

// rowsOf returns the rows of a result with the given number of columns. Cells are hexadecimal digits or null.
func rowsOf(r *session.Result, columns int) [][]string {
	out := make([][]string, 0, r.RowCount)
	cells := r.Cells
	for range r.RowCount {
		row := make([]string, columns)
		for i := range row {
			n := int32(binary.BigEndian.Uint32(cells))
			if cells = cells[4:]; n < 0 {
				row[i] = "null"
				continue
			}
			row[i] = fmt.Sprintf("%x", cells[:n])
			cells = cells[n:]
		}
		out = append(out, row)
	}
	return out
}

// watched is a view in a test. The function shows reports whether the view must contain a given row of its base table.
type watched struct {
	name, columns string
	shows         func(row map[string]string) bool
}

// rowsIn reads columns of a table without paging and returns the sorted rows.
func rowsIn(c *client, table, columns string) (rows []string, all []map[string]string) {
	names := strings.Split(columns, ", ")
	for _, row := range rowsOf(c.query("SELECT "+columns+" FROM "+table), len(names)) {
		byName := map[string]string{}
		for i, n := range names {
			byName[n] = row[i]
		}
		rows, all = append(rows, strings.Join(row, " ")), append(all, byName)
	}
	slices.Sort(rows)
	return rows, all
}

// differs returns the differences between a view and its expected content, or "" if they are equal.
func (w *watched) differs(c *client, base string) string {
	_, all := rowsIn(c, base, w.columns)
	names := strings.Split(w.columns, ", ")
	var want []string
	for _, row := range all {
		if !w.shows(row) {
			continue
		}
		cells := make([]string, len(names))
		for i, n := range names {
			cells[i] = row[n]
		}
		want = append(want, strings.Join(cells, " "))
	}
	slices.Sort(want)
	got, _ := rowsIn(c, w.name, w.columns)
	if slices.Equal(got, want) {
		return ""
	}
	var b strings.Builder
	for _, r := range want {
		if !slices.Contains(got, r) {
			fmt.Fprintf(&b, "%s misses %s\n", w.name, r)
		}
	}
	for _, r := range got {
		if !slices.Contains(want, r) {
			fmt.Fprintf(&b, "%s has %s\n", w.name, r)
		}
	}
	return b.String()
}

// due returns the number of remaining hints.
func due(n *Node) (left int) {
	for _, l := range n.views.Lags() {
		left += l.Due
	}
	return left
}

func present(column string) func(map[string]string) bool {
	return func(row map[string]string) bool { return row[column] != "null" }
}

// viewStatement returns a random statement for the base table of TestViewsFollow.
func viewStatement(r *rand.Rand) string {
	using := func(ttl bool) string {
		var parts []string
		if r.IntN(3) == 0 {
			parts = append(parts, fmt.Sprintf("TIMESTAMP %d", 1_000_000+r.IntN(2000)))
		}
		if ttl && r.IntN(6) == 0 {
			parts = append(parts, fmt.Sprintf("TTL %d", 1+r.IntN(2)))
		}
		if len(parts) == 0 {
			return ""
		}
		return " USING " + strings.Join(parts, " AND ")
	}
	k, c := r.IntN(5), r.IntN(6)
	at := fmt.Sprintf("WHERE k = %d AND c = %d", k, c)
	value := func() string {
		if r.IntN(5) == 0 {
			return "null"
		}
		return fmt.Sprint(r.IntN(4))
	}
	plain := []func() string{
		func() string {
			return fmt.Sprintf("INSERT INTO v.t (k, c, v, w) VALUES (%d, %d, %s, %s)%s", k, c, value(), value(),
				using(true))
		},
		func() string { return fmt.Sprintf("INSERT INTO v.t (k, c) VALUES (%d, %d)%s", k, c, using(true)) },
		func() string { return fmt.Sprintf("UPDATE v.t%s SET v = %s %s", using(true), value(), at) },
		func() string { return fmt.Sprintf("UPDATE v.t%s SET w = %s %s", using(true), value(), at) },
		func() string { return fmt.Sprintf("UPDATE v.t%s SET x = %s %s", using(true), value(), at) },
		func() string {
			return fmt.Sprintf("UPDATE v.t SET l = l + [%d], m[%d] = %d %s", r.IntN(3), r.IntN(3), c, at)
		},
		func() string { return fmt.Sprintf("UPDATE v.t SET m = {%d: 1}, l = null %s", r.IntN(3), at) },
		func() string { return fmt.Sprintf("UPDATE v.t SET s = %d WHERE k = %d", r.IntN(9), k) },
		func() string { return fmt.Sprintf("DELETE v FROM v.t%s %s", using(false), at) },
		func() string { return fmt.Sprintf("DELETE w, x FROM v.t%s %s", using(false), at) },
		func() string { return fmt.Sprintf("DELETE FROM v.t%s %s", using(false), at) },
		func() string {
			return fmt.Sprintf("DELETE FROM v.t%s WHERE k = %d AND c >= %d AND c < %d", using(false), k, c, c+2)
		},
		func() string { return fmt.Sprintf("DELETE FROM v.t%s WHERE k = %d AND c > %d", using(false), k, c) },
	}
	draw := func() string { return plain[r.IntN(len(plain))]() }
	switch r.IntN(20) {
	case 0:
		return fmt.Sprintf("DELETE FROM v.t%s WHERE k = %d", using(false), k)
	case 1:
		return fmt.Sprintf("UPDATE v.t SET v = %s %s IF w = %d", value(), at, r.IntN(4))
	case 2:
		return fmt.Sprintf("INSERT INTO v.t (k, c, v) VALUES (%d, %d, %d) IF NOT EXISTS", k, c, r.IntN(4))
	case 3:
		return fmt.Sprintf("UPDATE v.t SET l = l - [%d] %s", r.IntN(3), at)
	case 4:
		return "BEGIN BATCH " + draw() + "; " + draw() + "; " + draw() + "; APPLY BATCH"
	case 5:
		return "BEGIN UNLOGGED BATCH " + draw() + "; " + draw() + "; APPLY BATCH"
	case 6:
		return fmt.Sprintf("BEGIN TRANSACTION UPDATE v.t SET v = %d, w = 1 %s; DELETE FROM v.t WHERE k = %d AND c = %d; "+
			"COMMIT TRANSACTION", r.IntN(4), at, k, (c+1)%6)
	case 7:
		return fmt.Sprintf("DELETE FROM v.t %s IF EXISTS", at)
	}
	return draw()
}

// TestViewsFollow checks that views agree with their base table after all hints have been processed. Several clients
// concurrently write with every kind of statement. The statements include out-of-order timestamps, times to live,
// batches, conditions, and transactions. During the writes, partitions of the base and of a view are split, and a view
// is built from existing rows.
func TestViewsFollow(t *testing.T) {
	t.Parallel()
	seed := *viewSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-views.seed %d", seed)
	n := startTestNode(t, Options{InitialPartitions: 2})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE v WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE v.t (k int, c int, s int static, v int, w int, x int, l list<int>, m map<int, int>, " +
		"PRIMARY KEY (k, c))")
	views := []watched{
		{"v.by_v", "k, c, v, w, l, m", present("v")},
		{"v.by_c", "k, c, x, v", present("c")},
		{"v.some", "k, c, w", func(row map[string]string) bool {
			return row["w"] != "null" && row["c"] >= "00000002" && row["c"] < "00000005"
		}},
		{"v.late", "k, c, v, w, x", func(row map[string]string) bool {
			return row["w"] != "null" && row["v"] != "null"
		}},
	}
	create := []string{
		"CREATE MATERIALIZED VIEW v.by_v AS SELECT k, c, v, w, l, m FROM v.t WHERE v IS NOT NULL AND k IS NOT NULL AND " +
			"c IS NOT NULL PRIMARY KEY (v, k, c)",
		"CREATE MATERIALIZED VIEW v.by_c AS SELECT k, c, x, v FROM v.t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)",
		"CREATE MATERIALIZED VIEW v.some AS SELECT k, c, w FROM v.t WHERE w IS NOT NULL AND k IS NOT NULL AND c >= 2 AND " +
			"c < 5 PRIMARY KEY (k, w, c) WITH CLUSTERING ORDER BY (w DESC, c ASC)",
		"CREATE MATERIALIZED VIEW v.late AS SELECT k, c, v, w, x FROM v.t WHERE w IS NOT NULL AND v IS NOT NULL AND " +
			"k IS NOT NULL AND c IS NOT NULL PRIMARY KEY ((w, c), k)",
	}
	for _, stmt := range create[:3] {
		c.query(stmt)
	}
	const clients = 3
	phase := func(n *Node, number uint64) {
		done := make(chan error, clients)
		for i := range uint64(clients) {
			own := newClient(t, n)
			r := rand.New(rand.NewPCG(seed, number<<8|i))
			go func() {
				for range *viewSteps / clients / 3 {
					stmt := viewStatement(r)
					if _, err := own.tryQuery(stmt); err != nil {
						done <- fmt.Errorf("%s: %w", stmt, err)
						return
					}
				}
				done <- nil
			}()
		}
		for range clients {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	agree := func(when string, views []watched) {
		t.Helper()
		eventually.None(t, "views agree "+when, agreeMax, func() (wrong string) {
			if left := due(n); left > 0 {
				return fmt.Sprintf("%d hints are left", left)
			}
			for i := range views {
				wrong += views[i].differs(c, "v.t")
			}
			return wrong // check again, because rows may expire during the check
		})
	}
	phase(n, 1)
	agree("after the first writes", views[:3])
	split := make(chan struct{})
	go func() {
		defer close(split)
		splitHalves(t, n, "t")
		splitHalves(t, n, "by_v")
	}()
	phase(n, 2)
	<-split
	c.query(create[3])
	phase(n, 3)
	agree("after a view was built", views)
	verifyAll(t, n, "view", "v.by_v")
	verifyAll(t, n, "view", "v.by_c")
	c.query("TRUNCATE v.t")
	agree("after TRUNCATE", views)
	if rows, _ := rowsIn(c, "v.t", "k, c"); len(rows) > 0 {
		t.Errorf("%d rows remain after TRUNCATE", len(rows))
	}
}

// verifyAll fails the test if a view or an index differs from its table.
func verifyAll(t *testing.T, n *Node, kind, name string) {
	t.Helper()
	o := view.VerifyRequest{Kind: kind, Name: name, Rows: 3}
	for pages := 0; ; pages++ {
		page, err := n.pageVerifier().Verify(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Differences) > 0 || pages > 1000 {
			t.Fatalf("page %d of %s: %+v", pages, name, page.Differences)
		}
		if o.From = page.Next; o.From == "" {
			return
		}
	}
}

// splitHalves splits the first partition of a table in the middle of its span.
func splitHalves(t *testing.T, n *Node, table string) {
	t.Helper()
	first := n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Table("v", table).ID)[0]
	o := operations.Split{Table: "v." + table, Partition: uint64(first.ID), Now: true}
	if _, err := n.partitions.Split(t.Context(), o); err != nil {
		t.Errorf("split of %s: %v", table, err)
	}
}
