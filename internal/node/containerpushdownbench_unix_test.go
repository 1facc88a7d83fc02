// SPDX-License-Identifier: Apache-2.0

//go:build integration && unix

package node

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/test/eventually"
)

var pushdownItems = flag.Int("container.pushdown", 0, "number of items for measuring queries with and without pushdown")

// TestPushdownCosts compares the processor time of queries that replicas evaluate with the time of queries for which
// replicas return items. The test uses a cluster of two nodes.
func TestPushdownCosts(t *testing.T) {
	if *pushdownItems == 0 {
		t.Skip("without -container.pushdown")
	}
	a := clusterNode(t, nil, Options{InitialPartitions: 2})
	b := clusterNode(t, a, Options{})
	eventually.True(t, "two nodes know each other", func() bool { return len(b.metadata.State().Nodes) == 2 })
	s := newContainer(t, a, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},"indexingPolicy":{
		"includedPaths":[{"path":"/city/?"}],"excludedPaths":[{"path":"/*"}]}}`)
	for i := range *pushdownItems {
		s.want(201, nil, create(benchItem(i)))
	}
	eventually.True(t, "the second node has the container", func() bool {
		return b.catalog.Snapshot().Table("d", "c") != nil
	})
	t.Logf("%d and %d physical partitions are on other nodes", elsewhere(a), elsewhere(b))
	for _, text := range []string{
		`SELECT VALUE COUNT(1) FROM c`, `SELECT VALUE COUNT(1) FROM c WHERE c.city = "c17"`,
		`SELECT VALUE SUM(c.price) FROM c WHERE c.active`,
		`SELECT c.state, COUNT(1) AS n, AVG(c.price) AS p FROM c GROUP BY c.state`,
		`SELECT DISTINCT VALUE c.state FROM c`, `SELECT TOP 10 c.id, c.price FROM c ORDER BY c.price DESC`,
		`SELECT c.id FROM c WHERE c.n < 200`, `SELECT * FROM c WHERE c.n < 200`, `SELECT c.id FROM c`,
	} {
		for name, n := range map[string]*Node{"at the first node": a, "at the second": b} {
			var took [2][]time.Duration
			var charge [2]string
			for range 7 {
				for i, e := range []*container.Engine{withoutPushdown(n), n.Containers} {
					c := itemsOf(t, n).c
					began := processorTime()
					answer, err := ask(t.Context(), e, c, container.QueryRequest{Text: text, CrossPartition: true})
					if err != nil {
						t.Fatal(text, err)
					}
					took[i] = append(took[i], processorTime()-began)
					charge[i] = answer.charge
				}
			}
			slices.Sort(took[0])
			slices.Sort(took[1])
			t.Logf("%s, %s: %v without pushdown, %v with", text, name, took[0][3], took[1][3])
			if charge[0] != charge[1] {
				t.Log(fmt.Sprint("    for ", charge[0], "RU, and ", charge[1], "RU"))
			}
		}
	}
}
