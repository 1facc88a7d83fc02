// SPDX-License-Identifier: Apache-2.0

//go:build integration

package gocql

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion"
)

// TestVectors checks that the driver writes and reads vectors with elements of fixed and variable length. The vectors
// are nested, in collections, values, and a clustering key. The test uses both protocol versions.
func TestVectors(t *testing.T) {
	t.Parallel()
	db, err := ilion.Start(t.Context(), ilion.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, version := range []int{4, 5} {
		s := connect(t, db.CQLAddr().String(), version)
		ks := fmt.Sprintf("v%d", version)
		exec(t, s, "CREATE KEYSPACE "+ks+" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
		exec(t, s, "CREATE TABLE "+ks+".t (k int, c vector<int, 2>, f vector<float, 3>, x vector<text, 2>, "+
			"s vector<smallint, 2>, n vector<vector<double, 2>, 2>, l list<frozen<vector<float, 2>>>, "+
			"PRIMARY KEY (k, c))")
		type row struct {
			C []int
			F []float32
			X []string
			S []int16
			N [][]float64
			L [][]float32
		}
		rows := []row{
			{[]int{-1, 2}, []float32{1, 2.5, -3}, []string{"a", ""}, []int16{1, -2}, [][]float64{{1, 2}, {3, 4}},
				[][]float32{{1, 2}, {3, 4}}},
			{[]int{1, -2}, []float32{0, 0, 0}, []string{"", "żółw"}, []int16{3, 4}, [][]float64{{0, 0}, {5, 6}},
				[][]float32{{7, 8}}},
		}
		for _, r := range []row{rows[1], rows[0]} {
			exec(t, s, "INSERT INTO "+ks+".t (k, c, f, x, s, n, l) VALUES (1, ?, ?, ?, ?, ?, ?)", r.C, r.F, r.X, r.S,
				r.N, r.L)
		}
		iter := s.Query("SELECT c, f, x, s, n, l FROM "+ks+".t WHERE k = 1 AND c > ?", []int{-2, 0}).Iter()
		var got []row
		for r := (row{}); iter.Scan(&r.C, &r.F, &r.X, &r.S, &r.N, &r.L); r = (row{}) {
			got = append(got, r)
		}
		if err := iter.Close(); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(rows, got); d != "" {
			t.Errorf("v%d: %s", version, d)
		}
		var near float32
		err := s.Query("SELECT similarity_cosine(f, ?) FROM "+ks+".t WHERE k = 1 AND c = ?", []float32{1, 2.5, -3},
			[]int{-1, 2}).Scan(&near)
		if err != nil || near != 1 {
			t.Errorf("v%d: a vector is %v similar to itself, %v", version, near, err)
		}
	}
}
