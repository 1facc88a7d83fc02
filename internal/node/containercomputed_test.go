// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/query/container"
)

// TestComputedProperties compares queries over computed properties with queries over their expressions in a container
// without computed properties. The results must be the same. The queries use indexes on stored properties, aggregation
// on the replicas, and pages of several sizes. It also checks that conditions of patches work, that a replaced
// definition takes effect, and that invalid definitions are rejected.
func TestComputedProperties(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 3})
	definition := func(id, computed string) string {
		return fmt.Sprintf(`{"id":"%s","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},"computedProperties":[%s]}`,
			id, computed)
	}
	const properties = `{"name":"lower","query":"SELECT VALUE LOWER(c.name) FROM c"},` +
		`{"name":"n","query":"SELECT VALUE item.n % 7 FROM ROOT item"}`
	s, plain := newContainer(t, n, definition("c", properties)), newContainer(t, n, definition("p", ""))
	const count = 1500
	for i := range count {
		item := create(fmt.Sprintf(`{"id":"%04d","k":"k%d","m":%d,"n":%d,"name":"Name%d","text":"%s"}`, i, i%9, i%50, i,
			i%11, strings.Repeat("x", 100)))
		s.want(201, nil, item)
		plain.want(201, nil, item)
	}
	explicit := strings.NewReplacer("c.lower", "LOWER(c.name)", "c.n ", "(c.n % 7) ", "SELECT c.lower,",
		"SELECT LOWER(c.name) AS lower,")
	for _, text := range []string{
		"SELECT VALUE c.id FROM c WHERE c.lower = 'name3'",
		"SELECT VALUE c.id FROM c WHERE c.lower = 'name3' AND c.m = 25",
		"SELECT VALUE c.id FROM c WHERE c.n = 3 AND c.k = 'k2'",
		"SELECT VALUE c.id FROM c WHERE STARTSWITH(c.lower, 'name1') OR c.n > 5",
		"SELECT VALUE COUNT(1) FROM c WHERE c.n = 3",
		"SELECT VALUE SUM(c.n ) FROM c",
		"SELECT c.lower, COUNT(1) AS n FROM c GROUP BY c.lower",
		"SELECT DISTINCT VALUE c.n FROM c",
		"SELECT VALUE [c.n , c.id] FROM c ORDER BY c.n ",
		"SELECT TOP 10 VALUE c.id FROM c ORDER BY c.lower DESC",
	} {
		for _, most := range []int{0, 37} {
			q := container.QueryRequest{Text: text, CrossPartition: true, MaxItems: most}
			got, err := s.query(q)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			q.Text = explicit.Replace(text)
			want, err := plain.query(q)
			if err != nil {
				t.Fatalf("%s: %v", q.Text, err)
			}
			if !strings.Contains(text, "ORDER BY") {
				slices.Sort(got)
				slices.Sort(want)
			}
			if len(got) == 0 || !slices.Equal(got, want) {
				t.Errorf("%s: got %d results, want %d: %.200v, %.200v", text, len(got), len(want), got, want)
			}
		}
	}
	s.want(412, key("k0"), container.Operation{Kind: container.Patch, ID: "0009", Body: []byte(
		`{"operations":[{"op":"set","path":"/m","value":1}],"condition":"from c where c.n = 9"}`)})
	s.want(200, key("k0"), container.Operation{Kind: container.Patch, ID: "0009", Body: []byte(
		`{"operations":[{"op":"set","path":"/m","value":1}],"condition":"from c where c.n = 2"}`)})

	replaced, err := n.Containers.ReplaceContainer(t.Context(), s.c,
		[]byte(definition("c", `{"name":"n","query":"SELECT VALUE c.n * 2 FROM c"}`)), "")
	if err != nil {
		t.Fatal(err)
	}
	s.c = replaced
	q := container.QueryRequest{Text: "SELECT VALUE [c.n, c.lower] FROM c WHERE c.id = '1000'", CrossPartition: true}
	got, err := s.query(q)
	if err != nil || len(got) != 1 || got[0] != "[2000]" {
		t.Errorf("after the replacement: %v, want [2000] (%v)", got, err)
	}
	for _, bad := range []string{`1`, `{}`, `{"name":"a"}`, `{"name":"","query":"SELECT VALUE 1 FROM c"}`,
		`{"name":"id","query":"SELECT VALUE 1 FROM c"}`, `{"name":"_ts","query":"SELECT VALUE 1 FROM c"}`,
		`{"name":"a","query":"SELECT VALUE RAND() FROM c"}`, `{"name":"a","query":"SELECT 1"}`,
		`{"name":"a","query":"SELECT VALUE 1 FROM c"},{"name":"a","query":"SELECT VALUE 2 FROM c"}`,
	} {
		_, err := n.Containers.ReplaceContainer(t.Context(), s.c, []byte(definition("c", bad)), "")
		if container.StatusOf(err) != 400 {
			t.Errorf("the computed property %s: %v, want status 400", bad, err)
		}
	}
}
