// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/test/eventually"
)

// attachedStatement returns a random write statement, in which %s represents the table name.
func attachedStatement(r *rand.Rand) string {
	k1, k2, c1, c2 := r.IntN(4), r.IntN(5), r.IntN(4), r.IntN(3)
	part := fmt.Sprintf("k1 = %d AND k2 = '%c'", k1, 'a'+k2)
	at := part + fmt.Sprintf(" AND c1 = %d AND c2 = %d", c1, c2)
	using := fmt.Sprintf(" USING TIMESTAMP %d", 1_000_000+r.IntN(3000))
	number := func() string {
		if r.IntN(7) == 0 {
			return "null"
		}
		return fmt.Sprint(r.IntN(9) - 3)
	}
	text := func() string { return fmt.Sprintf("'%s%c'", strings.Repeat("x", 1100*(r.IntN(4)/3)), 'a'+r.IntN(3)) }
	switch r.IntN(12) {
	case 0, 1, 2:
		return fmt.Sprintf("INSERT INTO %%s (k1, k2, c1, c2, s, a, b, x, d) VALUES (%d, '%c', %d, %d, %s, %s, %s, %s, %s.5)"+
			"%s AND TTL 100000", k1, 'a'+k2, c1, c2, number(), number(), number(), text(), fmt.Sprint(r.IntN(5)), using)
	case 3, 4:
		return fmt.Sprintf("UPDATE %%s%s SET a = %s, b = %s WHERE %s", using, number(), number(), at)
	case 5:
		return fmt.Sprintf("UPDATE %%s%s SET l = [1, 2], t = {%s, 'q'}, m = {%s: %d}, f = [%d] WHERE %s", using, text(),
			text(), r.IntN(3), r.IntN(3), at)
	case 6:
		return fmt.Sprintf("UPDATE %%s%s SET t = t + {%s}, m[%s] = %d, l = l + [%d] WHERE %s", using, text(), text(),
			r.IntN(3), r.IntN(4), at)
	case 7:
		return fmt.Sprintf("UPDATE %%s%s SET s = %s WHERE %s", using, number(), part)
	case 8:
		return fmt.Sprintf("INSERT INTO %%s (k1, k2, s) VALUES (%d, '%c', %d)%s", k1, 'a'+k2, r.IntN(5), using)
	case 9:
		columns := []string{"a", "b, x", "l", "t, m", "d"}[r.IntN(5)]
		return fmt.Sprintf("DELETE %s FROM %%s%s WHERE %s", columns, using, at)
	case 10:
		return fmt.Sprintf("DELETE FROM %%s%s WHERE %s", using, at)
	}
	return fmt.Sprintf("DELETE FROM %%s%s WHERE %s", using, part+[]string{"", " AND c1 > 1", " AND c1 = 2"}[r.IntN(3)])
}

// attachedQuery returns a random query, in which %s represents the table name.
func attachedQuery(r *rand.Rand) string {
	op := func() string { return []string{"=", "<", "<=", ">", ">="}[r.IntN(5)] }
	all := []func() string{
		func() string { return fmt.Sprintf("a %s %d", op(), r.IntN(9)-3) },
		func() string { return fmt.Sprintf("a >= %d AND a < %d", r.IntN(6)-3, r.IntN(6)) },
		func() string { return fmt.Sprintf("b %s %d", op(), r.IntN(9)-3) },
		func() string { return fmt.Sprintf("s %s %d", op(), r.IntN(9)-3) },
		func() string { return fmt.Sprintf("d %s %d.5", op(), r.IntN(5)) },
		func() string { return fmt.Sprintf("x = '%s%c'", strings.Repeat("x", 1100*r.IntN(2)), 'a'+r.IntN(3)) },
		func() string { return fmt.Sprintf("l CONTAINS %d", r.IntN(4)) },
		func() string { return fmt.Sprintf("t CONTAINS '%c' AND t CONTAINS 'q'", 'a'+r.IntN(3)) },
		func() string { return fmt.Sprintf("m CONTAINS KEY '%c'", 'a'+r.IntN(3)) },
		func() string { return fmt.Sprintf("m CONTAINS %d", r.IntN(3)) },
		func() string { return fmt.Sprintf("m['%c'] = %d", 'a'+r.IntN(3), r.IntN(3)) },
		func() string { return fmt.Sprintf("f = [%d]", r.IntN(3)) },
		func() string { return fmt.Sprintf("k1 %s %d", op(), r.IntN(4)) },
		func() string { return fmt.Sprintf("k2 = '%c'", 'a'+r.IntN(5)) },
		func() string { return fmt.Sprintf("c1 %s %d", op(), r.IntN(4)) },
		func() string { return fmt.Sprintf("c2 %s %d", op(), r.IntN(3)) },
		func() string { return fmt.Sprintf("u = %d", r.IntN(3)) },
		func() string { return fmt.Sprintf("token(k1, k2) > %d", int64(r.Uint64())) },
	}
	var parts []string
	for _, i := range r.Perm(len(all))[:1+r.IntN(3)] {
		if i == 0 || i == 1 { // use at most one condition on a
			parts = slices.DeleteFunc(parts, func(p string) bool { return p[0] == 'a' })
		}
		parts = append(parts, all[i]())
	}
	if r.IntN(4) == 0 {
		parts = []string{fmt.Sprintf("k1 = %d AND k2 = '%c'", r.IntN(4), 'a'+r.IntN(5)), all[r.IntN(12)]()}
	}
	limit := ""
	switch r.IntN(6) {
	case 0:
		limit = fmt.Sprintf(" LIMIT %d", 1+r.IntN(9))
	case 1:
		limit = " PER PARTITION LIMIT 1"
	}
	return "SELECT k1, k2, c1, c2, s, a, b FROM %s WHERE " + strings.Join(parts, " AND ") + limit + " ALLOW FILTERING"
}

// TestAttachedIndexChangesNoResult compares a table with storage-attached indexes on all kinds of columns with a table
// without indexes. The test checks that random queries return the same rows in the same order, in pages of any size.
// Writes and deletions have out-of-order timestamps, and some indexes are built from existing rows. The queries also
// run while partitions split, and after stale index entries have been swept.
func TestAttachedIndexChangesNoResult(t *testing.T) {
	t.Parallel()
	seed := *viewSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-views.seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 7))
	n := startTestNode(t, Options{InitialPartitions: 2})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE v WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	for _, name := range []string{"t", "p"} {
		c.query("CREATE TABLE v." + name + " (k1 int, k2 text, c1 int, c2 int, s int static, a int, b int, d double, x text, " +
			"u int, l list<int>, t set<text>, m map<text, int>, f frozen<list<int>>, PRIMARY KEY ((k1, k2), c1, c2)) " +
			"WITH CLUSTERING ORDER BY (c1 DESC, c2 ASC)")
	}
	index := func(targets ...string) {
		for i, target := range targets {
			c.query(fmt.Sprintf("CREATE INDEX i%d_%d ON v.t (%s) USING 'sai'", len(targets), i, target))
		}
	}
	write := func(count int) {
		for range count {
			stmt := attachedStatement(r)
			for _, name := range []string{"v.t", "v.p"} {
				c.query(fmt.Sprintf(stmt, name))
			}
		}
	}
	pages := func(text string, size int32) (rows []string) {
		defer func() { c.call.Request.PageSize, c.call.Request.PagingState = 0, nil }()
		for {
			c.call.Request.PageSize = size
			result, err := c.tryQuery(text)
			if err != nil {
				return append(rows, err.Error())
			}
			for _, row := range rowsOf(result, 7) {
				rows = append(rows, strings.Join(row, " "))
			}
			if c.call.Request.PagingState = slices.Clone(result.PagingState); len(result.PagingState) == 0 {
				return rows
			}
		}
	}
	found := 0
	ask := func(count int) {
		t.Helper()
		for range count {
			query := attachedQuery(r)
			want := pages(fmt.Sprintf(query, "v.p"), 0)
			size := int32(r.IntN(8))
			if got := pages(fmt.Sprintf(query, "v.t"), size); !slices.Equal(got, want) {
				t.Fatalf("%s, pages of %d: %d rows, want %d\n%s\nwant\n%s", query, size, len(got), len(want),
					strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			found += len(want)
		}
	}
	write(300)
	index("a", "s", "k1", "c1", "l", "keys(m)", "full(f)", "x")
	eventually.True(t, "indexes are built", func() bool { return len(n.metadata.State().Building) == 0 })
	ask(150)
	write(300)
	ask(150)
	index("b", "d", "k2", "c2", "t", "values(m)", "entries(m)")
	eventually.True(t, "all indexes are built", func() bool { return len(n.metadata.State().Building) == 0 })
	split := make(chan struct{})
	go func() {
		defer close(split)
		splitHalves(t, n, "t")
		splitHalves(t, n, "t")
	}()
	write(200)
	ask(200)
	<-split
	write(200)
	if err := n.store.SweepEntries(t.Context(), time.Now().Unix(), func(int) {}); err != nil {
		t.Fatal(err)
	}
	ask(300)
	if found < 1000 {
		t.Errorf("the queries returned only %d rows", found)
	}
}
