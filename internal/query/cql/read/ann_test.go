// SPDX-License-Identifier: Apache-2.0

package read

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/vector"
)

// createSAI creates a storage-attached vector index.
func createSAI(w *fixture, table, index string, options ...string) {
	ix := w.schema.Table("ks", table).Indexes[index]
	ix.Kind, ix.Options = "CUSTOM", map[string]string{"class_name": "sai"}
	for i := 0; i < len(options); i += 2 {
		ix.Options[options[i]] = options[i+1]
	}
}

// newANNFixture returns a table with an index on n and three vector indexes, one for each similarity function.
func newANNFixture(t *testing.T) *fixture {
	w := newFixture()
	for _, text := range []string{
		"CREATE KEYSPACE ks WITH replication = {}",
		"CREATE TABLE ks.t (k int, c int, v0 vector<float, 3>, v1 vector<float, 3>, v2 vector<float, 3>, n int, x text, " +
			"l vector<float, 3>, i vector<int, 3>, PRIMARY KEY (k, c))",
		"CREATE INDEX a ON ks.t (v0)", "CREATE INDEX b ON ks.t (v1)", "CREATE INDEX d ON ks.t (v2)",
		"CREATE INDEX e ON ks.t (n)", "CREATE INDEX f ON ks.t (l)",
	} {
		if err := w.set(mustParse(t, text), 0, binds{}); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	w.keyspace = "ks"
	createSAI(w, "t", "a")
	createSAI(w, "t", "b", "similarity_function", "dot_product")
	createSAI(w, "t", "d", "similarity_function", "EUCLIDEAN")
	return w
}

// TestANNResults compares ANN queries with a sort of all rows for each similarity function, with and without
// restrictions. Between the comparisons, the test inserts rows, changes vectors, and deletes vectors.
func TestANNResults(t *testing.T) {
	w := newANNFixture(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	type item struct {
		k, c, n int
		v       [3][]float32
	}
	rows := map[[2]int]*item{}
	draw := func() []float32 {
		return []float32{float32(rnd.IntN(40) - 20), float32(rnd.IntN(40) - 20), float32(rnd.IntN(40)) + 0.5}
	}
	text := func(v []float32) string { return strings.ReplaceAll(fmt.Sprint(v), " ", ", ") }
	for range 400 {
		id := [2]int{rnd.IntN(5), rnd.IntN(12)}
		it := rows[id]
		if it == nil {
			it = &item{k: id[0], c: id[1]}
			rows[id] = it
		}
		var stmt string
		switch i := rnd.IntN(3); rnd.IntN(5) {
		case 0:
			stmt, it.v[i] = fmt.Sprintf("DELETE v%d FROM t WHERE k = %d AND c = %d", i, id[0], id[1]), nil
		case 1:
			stmt = fmt.Sprintf("DELETE FROM t WHERE k = %d AND c = %d", id[0], id[1])
			delete(rows, id)
		default:
			it.v[i], it.n = draw(), rnd.IntN(3)
			stmt = fmt.Sprintf("INSERT INTO t (k, c, v%d, n) VALUES (%d, %d, %s, %d)", i, id[0], id[1], text(it.v[i]),
				it.n)
		}
		if err := w.set(mustParse(t, stmt), 0, binds{}); err != nil {
			t.Fatalf("%s: %v", stmt, err)
		}
		i, limit := rnd.IntN(3), 1+rnd.IntN(8)
		similarity, target := vector.Similarity(i), draw()
		where, keep := "", func(*item) bool { return true }
		switch rnd.IntN(4) {
		case 0:
			where, keep = "WHERE n = 1", func(it *item) bool { return it.n == 1 }
		case 1:
			where, keep = "WHERE k = 2", func(it *item) bool { return it.k == 2 }
		case 2:
			where, keep = "WHERE k = 3 AND c >= 4", func(it *item) bool { return it.k == 3 && it.c >= 4 }
		}
		var want []float32
		for _, it := range rows {
			if it.v[i] != nil && keep(it) {
				want = append(want, similarity.Of(target, it.v[i]))
			}
		}
		slices.SortFunc(want, func(a, b float32) int { return cmp.Compare(b, a) })
		want = want[:min(limit, len(want))]
		query := fmt.Sprintf("SELECT k, c FROM t %s ORDER BY v%d ANN OF %s LIMIT %d", where, i, text(target), limit)
		plan := w.must(t, query)
		plan.ann.walks = false // the fixture has no index lists
		page, err := w.executeAt(plan, Options{Level: dberr.One, VisitsMax: 1 + rnd.IntN(20)})
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if page.Rows != len(want) || len(page.PagingState) > 0 {
			t.Fatalf("%s: %d rows instead of %d", query, page.Rows, len(want))
		}
		for r := range page.Rows {
			at := func(i int) int { return int(binary.BigEndian.Uint32(page.Cells[16*r+8*i+4:])) }
			it := rows[[2]int{at(0), at(1)}]
			if it == nil || it.v[i] == nil || !keep(it) || similarity.Of(target, it.v[i]) != want[r] {
				t.Fatalf("%s: row %d is %+v", query, r, it)
			}
		}
	}
}

// TestANNRejections compares errors and warnings with Cassandra 5.0.5.
func TestANNRejections(t *testing.T) {
	w := newANNFixture(t)
	for _, c := range []struct{ query, want string }{
		{"ORDER BY l ANN OF [1, 0, 0] LIMIT 3", "use ALLOW FILTERING"},
		{"ORDER BY n ANN OF 1 LIMIT 3", "ANN ordering is only supported on float vector indexes"},
		{"ORDER BY i ANN OF [1, 0, 0] LIMIT 3", "ANN ordering is only supported on float vector indexes"},
		{"ORDER BY v0 ANN OF [1, 0, 0] DESC LIMIT 3", "Descending ANN ordering is not supported"},
		{"ORDER BY v0 ANN OF [1, 0, 0], c LIMIT 3", "ANN ordering does not support any other ordering"},
		{"WHERE k IN (1, 2) ORDER BY v0 ANN OF [1, 0, 0] LIMIT 3", "IN clause for the PRIMARY KEY are not supported"},
		{"WHERE x = 'a' ORDER BY v0 ANN OF [1, 0, 0] LIMIT 3", "requires all restricted column(s) to be indexed"},
		{"WHERE c = 1 ORDER BY v0 ANN OF [1, 0, 0] LIMIT 3 ALLOW FILTERING", "requires all restricted column(s) to be indexed"},
		{"WHERE v0 = [1, 0, 0] ALLOW FILTERING", "Vector indexes only support ANN queries"},
		{"GROUP BY k ORDER BY v0 ANN OF [1, 0, 0] LIMIT 3", "Top-K queries can not be run with aggregation"},
		{"ORDER BY v0 ANN OF [1, 0, 0] PER PARTITION LIMIT 1 LIMIT 3", "Top-K queries do not support per-partition limits"},
		{"ORDER BY v0 ANN OF [1, 0, 0]", "Top-K queries must have a limit specified"},
		{"ORDER BY v0 ANN OF [1, 0, 0] LIMIT 1001", "requires a LIMIT that is not greater than 1000. LIMIT was 1001"},
		{"ORDER BY v0 ANN OF [0, 0, 0] LIMIT 1", "a zero vector has no cosine"},
		{"ORDER BY v2 ANN OF [0, NaN, 0] LIMIT 1", "not all finite"},
		{"ORDER BY v0 ANN OF null LIMIT 1", "Unsupported null value for column v0"},
	} {
		p, err := w.prepare("SELECT k FROM t " + c.query)
		if err == nil {
			_, err = w.executeAt(p, Options{Level: dberr.One})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.query, err)
		}
	}
	p := w.must(t, "SELECT k FROM t ORDER BY v0 ANN OF [1, 0, 0] LIMIT 3")
	page, err := w.executeAt(p, Options{Level: dberr.LocalQuorum, PageSize: 2})
	if err != nil || len(page.Warnings) != 1 ||
		!strings.HasSuffix(page.Warnings[0], "The page size has been set to 3 to match the LIMIT.") {
		t.Errorf("%q, %v", page.Warnings, err)
	}
	building := Options{Level: dberr.One, Builds: buildOf("a")}
	if _, err := w.executeAt(p, building); err == nil || !strings.Contains(err.Error(), "not yet available") {
		t.Errorf("an index that is being built: %v", err)
	}
}
