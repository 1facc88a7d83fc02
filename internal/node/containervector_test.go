// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ilion-db/ilion/internal/query/container"
)

// TestVectorSearch checks that a vector search across several physical partitions returns the nearest items in order.
// It uses pages of several sizes and a condition.
func TestVectorSearch(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 3})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},`+
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dimensions":2,"distanceFunction":"euclidean"}]},`+
		`"indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/v/*"}],"vectorIndexes":`+
		`[{"path":"/v","type":"diskANN"}]}}`)
	r := rand.New(rand.NewPCG(1, 2))
	type point struct {
		id   string
		even bool
		far  float64
	}
	var points []point
	for i := range 400 {
		x, y := r.Float64(), r.Float64()
		s.want(201, nil, create(fmt.Sprintf(`{"id":"%03d","k":"%d","n":%d,"v":[%v,%v]}`, i, i%40, i%2, x, y)))
		points = append(points, point{fmt.Sprintf(`"%03d"`, i), i%2 == 0, (x-0.5)*(x-0.5) + (y-0.5)*(y-0.5)})
	}
	s.want(201, nil, create(`{"id":"none","k":"0","n":0}`))
	slices.SortFunc(points, func(a, b point) int {
		if a.far < b.far {
			return -1
		}
		return 1
	})
	for _, c := range []struct {
		where string
		most  int
	}{{"", 0}, {"", 3}, {" WHERE c.n = 0", 0}} {
		var want []string
		for _, p := range points {
			if (c.where == "" || p.even) && len(want) < 10 {
				want = append(want, p.id)
			}
		}
		got, err := s.query(container.QueryRequest{CrossPartition: true, MaxItems: c.most,
			Text: "SELECT TOP 10 VALUE c.id FROM c" + c.where + " ORDER BY VectorDistance(c.v, [0.5, 0.5])"})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q in pages of %d: %v, want %v (%v)", c.where, c.most, got, want, err)
		}
	}
}
