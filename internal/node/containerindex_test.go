// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/poll"
)

// indexPolicies are policies that TestIndexChangesNoResult indexes by.
var indexPolicies = []string{
	`{"indexingMode":"consistent","includedPaths":[{"path":"/*"}]}`,
	`{"includedPaths":[{"path":"/a/?"},{"path":"/tags/[]/?"},{"path":"/s/?"}],"excludedPaths":[{"path":"/*"}]}`,
	`{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/o/*"},{"path":"/a/?"}]}`,
	`{"includedPaths":[{"path":"/o/*"},{"path":"/n/?"}],"excludedPaths":[{"path":"/*"},{"path":"/o/x/?"}]}`,
}

// indexQueries are what TestIndexChangesNoResult asks; %v is a value.
var indexQueries = []string{
	`SELECT VALUE c.id FROM c WHERE c.a = %v`,
	`SELECT VALUE c.id FROM c WHERE c.a = %v AND c.s = "s1"`,
	`SELECT VALUE c.id FROM c WHERE c.a = %v OR c.n = 3`,
	`SELECT VALUE c.id FROM c WHERE c.a IN (%v, 1, "x", null, true)`,
	`SELECT VALUE c.id FROM c WHERE c.a IN (%v, 2) AND c.s IN ("s1", "s2") AND c.n < 6`,
	`SELECT VALUE c.id FROM c WHERE c.a > %v`,
	`SELECT VALUE c.id FROM c WHERE c.a <= %v`,
	`SELECT VALUE c.id FROM c WHERE c.n >= 2 AND c.n < 5`,
	`SELECT VALUE c.id FROM c WHERE c.n BETWEEN 2 AND 4 AND c.a != %v`,
	`SELECT VALUE c.id FROM c WHERE STARTSWITH(c.s, "s1")`,
	`SELECT VALUE c.id FROM c WHERE STARTSWITH(c.long, "l") AND c.n > 4`,
	`SELECT VALUE c.id FROM c WHERE IS_DEFINED(c.a) AND c.n = 1`,
	`SELECT VALUE c.id FROM c WHERE IS_DEFINED(c.o)`,
	`SELECT VALUE c.id FROM c WHERE IS_NULL(c.a)`,
	`SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(c.tags, %v)`,
	`SELECT VALUE c.id FROM c JOIN t IN c.tags WHERE t = %v`,
	`SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = %v)`,
	`SELECT VALUE c.id FROM c WHERE c.o.x = %v OR c.o.y = 2`,
	`SELECT VALUE c.id FROM c WHERE c.long = "%v"`,
	`SELECT VALUE c.id FROM c WHERE c.k = "k1" AND c.a = %v`,
	`SELECT VALUE c.id FROM c WHERE c.k = "k1" AND c.n > 3`,
	`SELECT c.a, COUNT(1) AS n FROM c WHERE c.n > 2 GROUP BY c.a`,
	`SELECT VALUE COUNT(1) FROM c WHERE c.a = %v`,
	`SELECT VALUE SUM(c.n) FROM c WHERE c.n > 1 AND c.s = "s2"`,
	`SELECT DISTINCT VALUE c.a FROM c WHERE c.n < 4`,
	`SELECT VALUE [c.n, c.id] FROM c ORDER BY c.n`,
	`SELECT VALUE [c.n, c.id] FROM c ORDER BY c.n DESC`,
	`SELECT TOP 7 VALUE [c.a, c.id] FROM c ORDER BY c.a DESC`,
	`SELECT VALUE [c.n, c.id] FROM c WHERE c.n > 2 ORDER BY c.n DESC OFFSET 3 LIMIT 9`,
	`SELECT VALUE [c.long, c.id] FROM c ORDER BY c.long`,
	`SELECT VALUE c.id FROM c WHERE c.a = %v ORDER BY c.n`,
	`SELECT VALUE [c.n, c.id] FROM c WHERE c.k = "k2" ORDER BY c.n DESC`,
	`SELECT VALUE c.id FROM c WHERE c._ts > 10 AND c.n = 2`,
}

// drawValue draws a value of a property.
func drawValue(r *rand.Rand) string {
	all := []string{"1", "2", "2.5", "-3", `"x"`, `"xy"`, "null", "true", "false", `{"z":1}`, "[1]", "1e3", `""`}
	return all[r.IntN(len(all))]
}

// drawItem draws the body of an item. Members of it may be missing; a few have more values than an index takes.
func drawItem(r *rand.Rand, id int, large bool) string {
	parts := []string{fmt.Sprintf(`"id":"%03d","k":"k%d"`, id, id%4)}
	add := func(name, value string) {
		if r.IntN(6) > 0 {
			parts = append(parts, `"`+name+`":`+value)
		}
	}
	add("a", drawValue(r))
	add("n", fmt.Sprint(r.IntN(8)))
	add("s", fmt.Sprintf(`"s%d"`, r.IntN(30)))
	add("tags", "["+drawValue(r)+","+drawValue(r)+"]")
	add("o", `{"x":`+drawValue(r)+`,"y":`+fmt.Sprint(r.IntN(4))+`}`)
	add("long", `"`+strings.Repeat("l", 120+r.IntN(16))+fmt.Sprint(r.IntN(3))+`"`)
	if large && r.IntN(40) == 0 {
		many := make([]string, 1200)
		for i := range many {
			many[i] = fmt.Sprint(i)
		}
		parts = append(parts, `"many":[`+strings.Join(many, ",")+"]")
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// TestIndexChangesNoResult proves for random items, changes and queries that what a query finds does not depend on
// whether there is an index, by which policy it was built, or whether that was replaced, partitions were split or items
// were changed between two of its pages.
func TestIndexChangesNoResult(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 2})
	const head = `"partitionKey":{"paths":["/k"],"kind":"Hash","version":2},"defaultTtl":-1,"indexingPolicy":`
	plain := newContainer(t, n, `{"id":"plain",`+head+`{"indexingMode":"none","automatic":false}}`)
	definition := func(policy string) string { return `{"id":"c",` + head + policy + `}` }
	indexed := newContainer(t, n, definition(indexPolicies[0]))
	r := rand.New(rand.NewPCG(1, 2))
	change := func(large bool) {
		id := r.IntN(150)
		op := container.Operation{Kind: container.Upsert, Body: []byte(drawItem(r, id, large))}
		switch r.IntN(8) {
		case 0:
			op = container.Operation{Kind: container.Delete, ID: fmt.Sprintf("%03d", id)}
		case 1:
			op = container.Operation{Kind: container.Patch, ID: fmt.Sprintf("%03d", id),
				Body: []byte(`[{"op":"set","path":"/n","value":` + fmt.Sprint(r.IntN(8)) + `}]`)}
		}
		k := key(fmt.Sprint("k", id%4))
		if a, b := plain.do(k, op), indexed.do(k, op); a.Status != b.Status {
			t.Fatalf("%s: %d and %d", op.Body, a.Status, b.Status)
		}
	}
	ask := func(s *items, text string, most int, between func()) []string {
		q := container.QueryRequest{Text: text, CrossPartition: true, MaxItems: most}
		var out []string
		for {
			p, err := n.containers.Query(t.Context(), s.c, &q)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			for _, d := range p.Documents {
				out = append(out, string(d))
			}
			if q.Continuation = p.Continuation; q.Continuation == "" {
				break
			}
			between()
		}
		if !strings.Contains(text, "ORDER BY") {
			slices.Sort(out)
		}
		return out
	}
	replace := func(policy string) {
		c, err := n.containers.ReplaceContainer(t.Context(), indexed.c, []byte(definition(policy)), "")
		if err != nil {
			t.Fatal(err)
		}
		indexed.c = c
	}
	for round := range 12 {
		for range 60 {
			change(round >= 8)
		}
		if round > 0 {
			replace(indexPolicies[round%len(indexPolicies)])
		}
		if round == 5 {
			for _, name := range []string{"c", "plain"} {
				p := n.records.State().Map.Partitions(n.catalog.Snapshot().Table("d", name).ID)[0]
				if _, err := n.orderSplit(t.Context(), admin.SplitOrder{Table: "d." + name, Partition: uint64(p.ID),
					Now: true}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, text := range indexQueries {
			if strings.Contains(text, "%v") {
				v := drawValue(r)
				if strings.Contains(text, `"%v"`) {
					v = strings.Repeat("l", 130) + "1"
				}
				text = fmt.Sprintf(text, v)
			}
			most := []int{0, 1 + r.IntN(20)}[r.IntN(2)]
			between := func() {
				if r.IntN(20) == 0 {
					replace(indexPolicies[r.IntN(len(indexPolicies))])
				}
			}
			want, got := ask(plain, text, 0, func() {}), ask(indexed, text, most, between)
			if !slices.Equal(got, want) {
				t.Fatalf("round %d, query %d by %d: %s\n got %v\nwant %v", round, i, most, text, got, want)
			}
		}
	}
}

// TestIndexServes proves what reads no more items than it has results for: that is what an index is for. It also has
// the paths that were used, and those that a policy leaves out.
func TestIndexServes(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 2})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
		"indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/b/?"}]}}`)
	for i := range 200 {
		s.want(201, nil, create(fmt.Sprintf(`{"id":"%03d","k":"k%d","n":%d,"a":%d,"b":1,"tags":["t%d"]}`, i, i%7, i, i%50,
			i%40)))
	}
	for _, c := range []struct {
		where             string
		results, examined int64
		used, missed      string
	}{
		{`c.n = 17`, 1, 1, "[/n/?]", "[]"},
		{`c.n IN (17, 18, 500)`, 2, 2, "[/n/?]", "[]"},
		{`c.a = 3 AND c.n = 53`, 1, 1, "[/a/? /n/?]", "[]"},
		{`c.a = 3 AND c.b = 1`, 4, 4, "[/a/?]", "[/b/?]"},
		{`c.a = 3 OR c.n = 4`, 5, 5, "[/a/? /n/?]", "[]"},
		{`ARRAY_CONTAINS(c.tags, "t1")`, 5, 5, "[/tags/[]/?]", "[]"},
		{`c.k = "k1" AND c.a = 1`, 1, 1, "[/a/? /k/?]", "[]"},
		{`c.b = 1`, 200, 200, "[]", "[/b/?]"},
		{`c.n >= 195`, 5, 5, "[/n/?]", "[]"},
		{`c.n > 20 AND c.n < 23 AND c.b > 0`, 2, 2, "[/n/?]", "[/b/?]"},
		{`STARTSWITH(c.id, "19")`, 10, 10, "[/id/?]", "[]"},
		// Sorted, a page takes one item to know that there are more, and one that is behind it.
		{`true ORDER BY c.n DESC OFFSET 0 LIMIT 3`, 3, 5, "[/n/?]", "[]"},
		{`c.n < 100 ORDER BY c.n`, 5, 7, "[/n/?]", "[]"},
	} {
		p, err := n.containers.Query(t.Context(), s.c, &container.QueryRequest{CrossPartition: true,
			Text: "SELECT VALUE c.id FROM c WHERE " + c.where, MaxItems: mostOf(c.where)})
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(p.Documents)) != c.results || p.Metrics.RetrievedCount != c.examined ||
			fmt.Sprint(p.Index.UtilizedSingle) != c.used || fmt.Sprint(p.Index.PotentialSingle) != c.missed {
			t.Errorf("%s: %d results of %d items, by %v, not %v; want %d of %d", c.where, len(p.Documents),
				p.Metrics.RetrievedCount, p.Index.UtilizedSingle, p.Index.PotentialSingle, c.results, c.examined)
		}
	}
}

// mostOf is how many results a page of TestIndexServes has: few where they are sorted.
func mostOf(where string) int {
	if strings.Contains(where, "ORDER BY") {
		return 5
	}
	return 0
}

// TestIndexIsPaid proves that a write pays for the entries that it makes: a create for all, a replace for those that
// the item did not have.
func TestIndexIsPaid(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
		"indexingPolicy":{"includedPaths":[{"path":"/a/?"},{"path":"/b/?"}],"excludedPaths":[{"path":"/*"}]}}`)
	first := s.want(201, nil, create(`{"id":"1","k":"k","a":1,"b":1,"c":1}`))
	second := s.want(201, nil, create(`{"id":"2","k":"k","c":1}`))
	if d := first.Charge - second.Charge; d.Float() != 1 {
		t.Errorf("two entries cost %v RU, want 1", d)
	}
	again := s.want(200, nil, container.Operation{Kind: container.Replace, ID: "1",
		Body: []byte(`{"id":"1","k":"k","a":1,"b":2,"c":1}`)})
	same := s.want(200, nil, container.Operation{Kind: container.Replace, ID: "1",
		Body: []byte(`{"id":"1","k":"k","a":1,"b":2,"c":2}`)})
	if d := again.Charge - same.Charge; d.Float() != 0.5 {
		t.Errorf("one entry more costs %v RU, want 0.5", d)
	}
}

// TestIndexIsBuilt proves that an index is built for items that were there before it, that its progress reaches 100,
// that it serves queries then, and that it is gone with the mode none.
func TestIndexIsBuilt(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 2})
	definition := func(mode string) string {
		return `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},"indexingPolicy":` + mode + `}`
	}
	s := newContainer(t, n, definition(`{"indexingMode":"none"}`))
	for i := range 100 {
		s.want(201, nil, create(fmt.Sprintf(`{"id":"%03d","k":"k%d","n":%d}`, i, i%7, i)))
	}
	examined := func() int64 {
		p, err := n.containers.Query(t.Context(), s.c, &container.QueryRequest{CrossPartition: true,
			Text: "SELECT * FROM c WHERE c.n = 55"})
		if err != nil || len(p.Documents) != 1 {
			t.Fatalf("%v, %v", p, err)
		}
		return p.Metrics.RetrievedCount
	}
	var err error
	for _, c := range []struct {
		policy string
		want   int64
	}{{`{"indexingMode":"consistent"}`, 1}, {`{"indexingMode":"none"}`, 100}, {`{"indexingMode":"consistent"}`, 1}} {
		if s.c, err = n.containers.ReplaceContainer(t.Context(), s.c, []byte(definition(c.policy)), ""); err != nil {
			t.Fatal(err)
		}
		poll.Until(t, "the index is built", func() bool { return n.containers.IndexProgress(s.c) == 100 })
		if got := examined(); got != c.want {
			t.Errorf("by %s %d items were examined, want %d", c.policy, got, c.want)
		}
	}
}
