// SPDX-License-Identifier: Apache-2.0

package read

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// drawTable creates a table with the partition key k and the clustering columns a, b, and c in random directions. The
// table has a static column and random rows. Some partitions have only static columns.
func drawTable(t *rapid.T) *fixture {
	w := newFixture()
	order := func(c string) string { return c + " " + rapid.SampledFrom([]string{"ASC", "DESC"}).Draw(t, c) }
	w.run(t, "CREATE KEYSPACE ks WITH replication = {}")
	w.keyspace = "ks"
	w.run(t, fmt.Sprintf("CREATE TABLE t (k int, a int, b int, c int, s int static, v int, PRIMARY KEY (k, a, b, "+
		"c)) WITH CLUSTERING ORDER BY (%s, %s, %s)",
		order("a"), order("b"), order("c")))
	for range rapid.IntRange(0, 40).Draw(t, "rows") {
		n := rapid.SliceOfN(rapid.IntRange(0, 3), 5, 5).Draw(t, "row")
		w.run(t, fmt.Sprintf("INSERT INTO t (k, a, b, c, v) VALUES (%d, %d, %d, %d, %d)", n[0], n[1], n[2], n[3], n[4]))
	}
	for range rapid.IntRange(0, 3).Draw(t, "statics") {
		w.run(t, fmt.Sprintf("INSERT INTO t (k, s) VALUES (%d, 1)", rapid.IntRange(0, 5).Draw(t, "static")))
	}
	for range rapid.IntRange(0, 20).Draw(t, "deleted") { // partitions that contain only tombstones
		w.memory(w.schema.Table("ks", "t")).partition(binary.BigEndian.AppendUint32(nil,
			uint32(rapid.IntRange(6, 99).Draw(t, "gone"))))
	}
	return w
}

func (w *fixture) run(t *rapid.T, text string) {
	stmt, _, err := parser.Parse(text)
	if err == nil {
		err = w.set(stmt, 0, binds{})
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// all returns the rows of all pages of a query.
func (w *fixture) all(t *rapid.T, text string, size, visits, bytes int) []string {
	p, err := w.prepare(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var rows []string
	var state []byte
	for range 10_000 {
		page, err := w.execute(p, binds{}, Options{PageSize: size, PagingState: state, VisitsMax: visits,
			PageBytesMax: bytes, PageVisitsMax: 2 * visits})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if size > 0 && page.Rows > size {
			t.Fatalf("%s: %d rows in a page of %d", text, page.Rows, size)
		}
		for _, cells := range decode(page, len(p.Columns())) {
			rows = append(rows, formatRow(p, cells))
		}
		if state = slices.Clone(page.PagingState); len(state) == 0 {
			return rows
		}
	}
	t.Fatalf("%s: pages without end", text)
	return nil
}

var pagedQueries = []string{
	"SELECT * FROM t",
	"SELECT * FROM t LIMIT %d",
	"SELECT * FROM t PER PARTITION LIMIT %d",
	"SELECT * FROM t PER PARTITION LIMIT %d LIMIT 7",
	"SELECT k, s FROM t WHERE k IN (0, 1, 2, 3, 4, 5)",
	"SELECT k, s, a FROM t WHERE k IN (0, 2, 4, 5) PER PARTITION LIMIT %d",
	"SELECT * FROM t WHERE k IN (0, 1, 3) AND a = 1 LIMIT %d",
	"SELECT * FROM t WHERE k = 1",
	"SELECT * FROM t WHERE k = 1 AND a IN (0, 2, 3) AND b > 0",
	"SELECT * FROM t WHERE k = 1 AND (a, b) > (0, 1) AND (a, b, c) <= (2, 2, 2)",
	"SELECT * FROM t WHERE v > 1 ALLOW FILTERING",
	"SELECT * FROM t WHERE v = 2 AND a > 0 LIMIT %d ALLOW FILTERING",
	"SELECT * FROM t WHERE s = 1 ALLOW FILTERING",
	"SELECT * FROM t WHERE token(k) > -5000000000000000000 AND token(k) <= 5000000000000000000",
	"SELECT DISTINCT k, s FROM t",
	"SELECT DISTINCT k FROM t LIMIT %d",
	"SELECT DISTINCT k FROM t WHERE k IN (1, 2, 5)",
	"SELECT k, count(*), max(v), c FROM t GROUP BY k",
	"SELECT k, a, sum(v), s, c FROM t GROUP BY k, a",
	"SELECT k, a, b, count(c) FROM t GROUP BY k, a, b LIMIT %d",
	"SELECT k, a, count(*) FROM t GROUP BY k, a PER PARTITION LIMIT %d",
	"SELECT a, count(*) FROM t WHERE k = 2 GROUP BY a LIMIT %d",
	"SELECT k, min(v) FROM t WHERE k IN (0, 1, 2, 5) GROUP BY k, a",
	"SELECT b, max(v) FROM t WHERE k = 1 AND a = 1 GROUP BY b",
	"SELECT k, a, count(v) FROM t WHERE v > 0 GROUP BY k, a ALLOW FILTERING",
	"SELECT count(*), sum(v), max(s), k FROM t",
	"SELECT count(*) FROM t WHERE k IN (0, 1, 4)",
	"SELECT JSON k, a, v FROM t",
}

// TestPagesFormTheWholeResult checks (Q2) for random page sizes, byte limits, and visit limits. All pages together must
// equal the unpaged result. Only the last page may contain fewer rows than the page size.
func TestPagesFormTheWholeResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawTable(t)
		query := rapid.SampledFrom(pagedQueries).Draw(t, "query")
		if strings.Contains(query, "%d") {
			query = fmt.Sprintf(query, rapid.IntRange(1, 5).Draw(t, "limit"))
		}
		if strings.Contains(query, "k = 1") && rapid.Bool().Draw(t, "reversed") {
			m := w.memory(w.schema.Table("ks", "t"))
			by := "a ASC"
			if !m.table.Clustering[0].Desc {
				by = "a DESC"
			}
			if !strings.Contains(query, "GROUP BY") {
				query += " ORDER BY " + by
			}
		}
		want := w.all(t, query, -1, 0, 0)
		size := rapid.IntRange(1, 9).Draw(t, "size")
		visits := rapid.IntRange(1, 12).Draw(t, "visits")
		bytes := rapid.SampledFrom([]int{0, 1, 40, 200}).Draw(t, "bytes")
		if diff := cmp.Diff(want, w.all(t, query, size, visits, bytes)); diff != "" {
			t.Fatalf("%s in pages of %d, commands of %d visits (-whole +pages):\n%s", query, size, visits, diff)
		}
		if diff := cmp.Diff(want, w.all(t, query, -1, visits, 0)); diff != "" {
			t.Fatalf("%s in commands of %d visits (-whole +pieces):\n%s", query, visits, diff)
		}
	})
}

// TestPageOverEmptyPartitions checks that a page over very many empty partitions ends after a limited number of keys.
// The page must have a paging state but no rows. An unpaged count of the table must continue with a new command after
// the same number of keys.
func TestPageOverEmptyPartitions(t *testing.T) {
	w := newFixture()
	for _, text := range []string{"CREATE KEYSPACE ks WITH replication = {}",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v int)"} {
		stmt, _, err := parser.Parse(text)
		if err == nil {
			err = w.set(stmt, 0, binds{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const gone = 1000
	m := w.memory(w.schema.Table("ks", "t"))
	for k := range uint32(gone) {
		m.partition(binary.BigEndian.AppendUint32(nil, k))
	}
	options := Options{PageSize: 10, VisitsMax: 20, PageVisitsMax: 100}
	p, err := w.prepare("SELECT * FROM ks.t")
	if err != nil {
		t.Fatal(err)
	}
	pages := 1
	for ; pages < 100; pages++ {
		page, err := w.execute(p, binds{}, options)
		if err != nil || page.Rows > 0 {
			t.Fatal(page.Rows, err)
		}
		if options.PagingState = page.PagingState; len(page.PagingState) == 0 {
			break
		}
	}
	if pages != gone/100+1 {
		t.Errorf("%d pages", pages)
	}
	if p, err = w.prepare("SELECT count(*) FROM ks.t"); err != nil {
		t.Fatal(err)
	}
	options.PagingState = nil
	m.reads = 0
	if page, err := w.execute(p, binds{}, options); err != nil || page.Rows != 1 || len(page.PagingState) > 0 {
		t.Fatal(page.Rows, err)
	}
	if m.reads != gone/20+1 {
		t.Errorf("the count took %d commands", m.reads)
	}
}

// drawn is a WHERE clause on the clustering columns and an equivalent predicate.
type drawn struct {
	text    string
	matches func(a, b, c int) bool
}

func drawRelation(t *rapid.T, first int) (out drawn, next int, ends bool) {
	names := []string{"a", "b", "c"}
	of := func(v []int) []int { return v[first:] }
	value := func() int { return rapid.IntRange(-1, 4).Draw(t, "value") }
	compare := func(op string, c int) bool {
		return op == "=" && c == 0 || op == "<" && c < 0 || op == "<=" && c <= 0 || op == ">" && c > 0 || op == ">=" &&
			c >= 0
	}
	switch rapid.IntRange(0, 5).Draw(t, "form") {
	case 0:
		n := value()
		return drawn{fmt.Sprintf("%s = %d", names[first], n), func(a, b, c int) bool {
			return of([]int{a, b, c})[0] == n
		}}, first + 1, false
	case 1:
		list := rapid.SliceOfN(rapid.IntRange(-1, 4), 0, 4).Draw(t, "in")
		return drawn{fmt.Sprintf("%s IN (%s)", names[first], commas(list)), func(a, b, c int) bool {
			return slices.Contains(list, of([]int{a, b, c})[0])
		}}, first + 1, false
	case 2, 3:
		op := rapid.SampledFrom([]string{"<", "<=", ">", ">="}).Draw(t, "op")
		n := value()
		return drawn{fmt.Sprintf("%s %s %d", names[first], op, n), func(a, b, c int) bool {
			return compare(op, of([]int{a, b, c})[0]-n)
		}}, 3, true
	case 4:
		width := rapid.IntRange(1, 3-first).Draw(t, "width")
		var tuples [][]int
		var texts []string
		for range rapid.IntRange(1, 3).Draw(t, "tuples") {
			v := rapid.SliceOfN(rapid.IntRange(0, 3), width, width).Draw(t, "tuple")
			tuples, texts = append(tuples, v), append(texts, "("+commas(v)+")")
		}
		text := fmt.Sprintf("(%s) IN (%s)", strings.Join(names[first:first+width], ", "), strings.Join(texts, ", "))
		return drawn{text, func(a, b, c int) bool {
			return slices.ContainsFunc(tuples, func(v []int) bool {
				return slices.Equal(of([]int{a, b, c})[:width], v)
			})
		}}, first + width, false
	}
	// The clause bounds tuples of different lengths on both sides.
	bound := func(op string) drawn {
		width := rapid.IntRange(1, 3-first).Draw(t, "width")
		v := rapid.SliceOfN(rapid.IntRange(0, 3), width, width).Draw(t, "bound")
		text := fmt.Sprintf("(%s) %s (%s)", strings.Join(names[first:first+width], ", "), op, commas(v))
		return drawn{text, func(a, b, c int) bool { return compare(op, slices.Compare(of([]int{a, b, c})[:width], v)) }}
	}
	low := bound(rapid.SampledFrom([]string{">", ">="}).Draw(t, "low"))
	high := bound(rapid.SampledFrom([]string{"<", "<="}).Draw(t, "high"))
	return drawn{low.text + " AND " + high.text, func(a, b, c int) bool {
		return low.matches(a, b, c) && high.matches(a, b, c)
	}}, 3, true
}

func commas(v []int) string {
	parts := make([]string, len(v))
	for i, n := range v {
		parts[i] = fmt.Sprint(n)
	}
	return strings.Join(parts, ", ")
}

// TestIntervalsMeanTheirRelations checks that the intervals of clustering relations contain exactly the matching rows.
// The test covers all combinations of clustering directions and compares each query with a filter over all rows.
func TestIntervalsMeanTheirRelations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawTable(t)
		var relations []drawn
		for next, ends := 0, false; next < 3 && !ends; {
			var r drawn
			r, next, ends = drawRelation(t, next)
			relations = append(relations, r)
			if rapid.Bool().Draw(t, "enough") {
				break
			}
		}
		k := rapid.IntRange(0, 3).Draw(t, "k")
		text := fmt.Sprintf("SELECT a, b, c FROM t WHERE k = %d", k)
		var want []string
		for _, line := range w.all(t, text, -1, 0, 0) {
			var a, b, c int
			if n, _ := fmt.Sscanf(line, "%d | %d | %d", &a, &b, &c); n < 3 {
				continue // the partition has only static columns
			}
			if !slices.ContainsFunc(relations, func(r drawn) bool { return !r.matches(a, b, c) }) {
				want = append(want, line)
			}
		}
		for _, r := range relations {
			text += " AND " + r.text
		}
		if diff := cmp.Diff(want, w.all(t, text, -1, 0, 0)); diff != "" {
			t.Fatalf("%s (-rows that meet it +result):\n%s", text, diff)
		}
	})
}
