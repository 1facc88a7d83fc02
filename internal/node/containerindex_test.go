// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// indexPolicies lists the indexing policies of TestIndexChangesNoResult.
var indexPolicies = []string{
	`{"indexingMode":"consistent","includedPaths":[{"path":"/*"}]}`,
	`{"includedPaths":[{"path":"/a/?"},{"path":"/tags/[]/?"},{"path":"/s/?"}],"excludedPaths":[{"path":"/*"}]}`,
	`{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/o/*"},{"path":"/a/?"}]}`,
	`{"includedPaths":[{"path":"/o/*"},{"path":"/n/?"}],"excludedPaths":[{"path":"/*"},{"path":"/o/x/?"}]}`,
}

// indexComposites lists composite indexes for the queries of TestIndexChangesNoResult that sort by several properties.
// For each index of the first set, the second set contains an index with the same or the opposite order.
var indexComposites = []string{
	`"compositeIndexes":[[{"path":"/a"},{"path":"/n"}],[{"path":"/n","order":"descending"},{"path":"/s"}],` +
		`[{"path":"/s"},{"path":"/long"},{"path":"/n","order":"descending"}],[{"path":"/k"},{"path":"/n"}],` +
		`[{"path":"/n"},{"path":"/_ts"}],[{"path":"/o/x"},{"path":"/a","order":"descending"}]]`,
	`"compositeIndexes":[[{"path":"/a","order":"descending"},{"path":"/n","order":"descending"}],[{"path":"/n"},` +
		`{"path":"/s","order":"descending"}],[{"path":"/s","order":"descending"},{"path":"/long",` +
		`"order":"descending"},{"path":"/n"}],[{"path":"/n","order":"descending"},{"path":"/_ts",` +
		`"order":"descending"}],[{"path":"/o/x","order":"descending"},{"path":"/a"}],[{"path":"/n"},{"path":"/a"}]]`,
}

// indexQueries lists the queries of TestIndexChangesNoResult. In a query, %v represents a value.
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
	`SELECT VALUE c.id FROM c WHERE c.k = "k1" AND STARTSWITH(c.s, "s1") AND c.n < 6`,
	`SELECT VALUE [c.n, c.id] FROM c WHERE c.k = "k3" AND c.n > 3 ORDER BY c.n`,
	`SELECT VALUE [c.s, c.id] FROM c WHERE c.k = "k3" ORDER BY c.s OFFSET 2 LIMIT 4`,
	`SELECT VALUE [c.a, c.n, c.id] FROM c ORDER BY c.a, c.n`,
	`SELECT VALUE [c.a, c.n, c.id] FROM c ORDER BY c.a DESC, c.n DESC`,
	`SELECT TOP 9 VALUE [c.n, c.s, c.id] FROM c ORDER BY c.n DESC, c.s`,
	`SELECT VALUE [c.n, c.s, c.id] FROM c WHERE c.n > 2 ORDER BY c.n, c.s DESC`,
	`SELECT VALUE [c.s, c.n, c.id] FROM c WHERE c.s >= "s2" ORDER BY c.s DESC, c.long DESC, c.n`,
	`SELECT VALUE [c.s, c.n, c.id] FROM c WHERE c.s = "s7" ORDER BY c.s, c.long, c.n DESC`,
	`SELECT VALUE [c.o.x, c.a, c.id] FROM c ORDER BY c.o.x, c.a DESC`,
	`SELECT VALUE [c.a, c.n, c.id] FROM c WHERE c.k = "k2" ORDER BY c.a, c.n`,
	`SELECT VALUE c.id FROM c WHERE c.a = %v AND c.n > 2`,
	`SELECT VALUE c.id FROM c WHERE c.a = %v AND c.n = 4`,
	`SELECT VALUE c.id FROM c WHERE c.n = 3 AND c.s < "s2" AND c.a != %v`,
	`SELECT VALUE c.id FROM c WHERE c.n = 3 AND STARTSWITH(c.s, "s1")`,
	`SELECT VALUE [c.n, c.id] FROM c WHERE c.a = %v ORDER BY c.n DESC`,
	`SELECT VALUE [c.n, c.id] FROM c WHERE c.k = "k1" AND c.n >= 2 ORDER BY c.n`,
	`SELECT VALUE [c.n, c.id] FROM c WHERE c.n = 5 ORDER BY c.n, c._ts`,
	`SELECT VALUE [c.n, c.id] FROM c WHERE c.n = 5 AND c._ts > 1800000100`,
}

// drawValue returns a random property value.
func drawValue(r *rand.Rand) string {
	all := []string{"1", "2", "2.5", "-3", `"x"`, `"xy"`, "null", "true", "false", `{"z":1}`, "[1]", "1e3", `""`}
	return all[r.IntN(len(all))]
}

// drawItem returns the body of a random item. Some members may be missing. If large is true, a few items have more
// values than an index can hold.
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
	if r.IntN(3) == 0 {
		parts = append(parts, `"ttl":`+fmt.Sprint(10+r.IntN(90)))
	}
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

// indexChanges applies the same random changes to two containers.
type indexChanges struct {
	r              *rand.Rand
	plain, indexed *items
	// large makes some items have more values than an index can hold.
	large bool
}

// draw returns a random operation on an item of a logical partition.
func (x *indexChanges) draw(k int) container.Operation {
	id := k + 4*x.r.IntN(38)
	name := fmt.Sprintf("%03d", id)
	switch x.r.IntN(8) {
	case 0:
		return container.Operation{Kind: container.Delete, ID: name}
	case 1:
		return container.Operation{Kind: container.Patch, ID: name, Body: []byte(`[{"op":"set","path":"/n","value":` +
			fmt.Sprint(x.r.IntN(8)) + `},{"op":"add","path":"/tags/-","value":` + drawValue(x.r) + `}]`)}
	case 2:
		return container.Operation{Kind: container.Replace, ID: name, Body: []byte(drawItem(x.r, id, x.large))}
	}
	return container.Operation{Kind: container.Upsert, Body: []byte(drawItem(x.r, id, x.large))}
}

// make applies one change to an item, to several items in a batch, or to a whole logical partition.
func (x *indexChanges) make() {
	k := x.r.IntN(4)
	ops := []container.Operation{x.draw(k)}
	switch x.r.IntN(20) {
	case 0:
		for range 5 {
			ops = append(ops, x.draw(k))
		}
	case 1:
		if x.r.IntN(4) == 0 {
			for _, s := range []*items{x.plain, x.indexed} {
				if _, err := s.n.Containers.DeleteKey(s.t.Context(), s.c, key(fmt.Sprint("k", k)),
					container.RequestOptions{}); err != nil {
					s.t.Fatal(err)
				}
			}
			return
		}
	}
	var failed [2]int
	for i, s := range []*items{x.plain, x.indexed} {
		r, err := s.n.Containers.Do(s.t.Context(), s.c, key(fmt.Sprint("k", k)), ops, container.RequestOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		failed[i] = r.Failed
	}
	if failed[0] != failed[1] {
		x.plain.t.Fatalf("%v: failed at %d and %d", ops, failed[0], failed[1])
	}
}

// TestIndexChangesNoResult checks with random items, changes, and queries that an index does not change the result of
// a query. The result must also be the same for every indexing policy. Between pages of a query, the policy may be
// replaced. Between rounds, partitions split, and items change and expire.
func TestIndexChangesNoResult(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64 // only this test advances the clock
	clock.Store(1_800_000_000)
	now := func() time.Time { return time.Unix(clock.Load(), 0) }
	n := startNode(t, Options{InitialPartitions: 2, Testing: options.Testing{Clock: fakeclock.Func(now)}})
	const head = `"partitionKey":{"paths":["/k"],"kind":"Hash","version":2},"defaultTtl":-1,"indexingPolicy":`
	plain := newContainer(t, n, `{"id":"plain",`+head+`{"indexingMode":"none","automatic":false,`+
		indexComposites[0]+`}}`)
	definition := func(policy int) string {
		return `{"id":"c",` + head + strings.TrimSuffix(indexPolicies[policy], "}") + "," +
			indexComposites[policy%2] + `}}`
	}
	indexed := newContainer(t, n, definition(0))
	r := rand.New(rand.NewPCG(1, 2))
	changes := &indexChanges{r: r, plain: plain, indexed: indexed}
	ask := func(s *items, text string, most int, between func()) []string {
		q := container.QueryRequest{Text: text, CrossPartition: true, MaxItems: most}
		var out []string
		for {
			p, err := n.Containers.Query(t.Context(), s.c, &q)
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
	replace := func(policy int) {
		c, err := n.Containers.ReplaceContainer(t.Context(), indexed.c, []byte(definition(policy)), "")
		if err != nil {
			t.Fatal(err)
		}
		indexed.c = c
	}
	for round := range 12 {
		changes.large = round >= 8
		for range 60 {
			changes.make()
		}
		clock.Add(20)
		if round > 0 {
			replace(round % len(indexPolicies))
		}
		if round == 5 {
			for _, name := range []string{"c", "plain"} {
				p := n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Table("d", name).ID)[0]
				if _, err := n.partitions.Split(t.Context(), operations.Split{Table: "d." + name,
					Partition: uint64(p.ID), Now: true}); err != nil {
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
					replace(r.IntN(len(indexPolicies)))
				}
			}
			want, got := ask(plain, text, 0, func() {}), ask(indexed, text, most, between)
			if !slices.Equal(got, want) {
				t.Fatalf("round %d, query %d, pages of %d: %s\n got %v\nwant %v", round, i, most, text, got, want)
			}
		}
	}
}

// TestIndexServes checks the number of items that queries examine. With a suitable index, a query must not examine
// more items than necessary. The test also checks the reported paths that the query used and the paths that the policy
// excludes.
func TestIndexServes(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 2})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
		"indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/b/?"}],"compositeIndexes":[
		[{"path":"/a"},{"path":"/n"}],[{"path":"/b","order":"descending"},{"path":"/n"}],[{"path":"/k"},{"path":"/n"}]]}}`)
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
		{`c.a = 3 AND c.tags[0] != "" AND c.id = "053"`, 1, 1, "[/a/? /id/?]", "[]"},
		{`c.a = 3 AND c.b = 1`, 4, 4, "[/a/?]", "[/b/?]"},
		{`c.a = 3 OR c.n = 4`, 5, 5, "[/a/? /n/?]", "[]"},
		{`ARRAY_CONTAINS(c.tags, "t1")`, 5, 5, "[/tags/[]/?]", "[]"},
		{`c.k = "k1" AND c.a = 1`, 1, 1, "[/a/? /k/?]", "[]"},
		{`c.k = "k1" AND c.a > 48`, 1, 29, "[/a/? /k/?]", "[]"},
		{`c.b = 1`, 200, 200, "[]", "[/b/?]"},
		{`c.n >= 195`, 5, 5, "[/n/?]", "[]"},
		{`c.n >= 100 OFFSET 0 LIMIT 3`, 3, 3, "[/n/?]", "[]"},
		{`c.n > 20 AND c.n < 23 AND c.b > 0`, 2, 2, "[/n/?]", "[/b/?]"},
		{`STARTSWITH(c.id, "19")`, 10, 10, "[/id/?]", "[]"},
		// A sorted page examines two more items than it returns. One item shows that more results exist, and the other
		// is read ahead.
		{`true ORDER BY c.n DESC OFFSET 0 LIMIT 3`, 3, 5, "[/n/?]", "[]"},
		{`c.n < 100 ORDER BY c.n`, 5, 7, "[/n/?]", "[]"},
		// These queries use composite indexes.
		{`c.a = 3 AND c.n = 53`, 1, 1, "[[/a ASC /n ASC]]", "[]"},
		{`c.a = 3 AND c.n > 60`, 2, 2, "[[/a ASC /n ASC]]", "[]"},
		{`c.b = 1 AND c.n >= 198`, 2, 2, "[[/b DESC /n ASC]]", "[]"},
		{`c.b = 1 AND c.n >= 100 ORDER BY c.n DESC OFFSET 0 LIMIT 3`, 3, 5, "[[/b DESC /n ASC]]", "[]"},
		{`true ORDER BY c.a, c.n OFFSET 0 LIMIT 3`, 3, 5, "[[/a ASC /n ASC]]", "[]"},
		{`true ORDER BY c.b, c.n DESC OFFSET 0 LIMIT 3`, 3, 5, "[[/b DESC /n ASC]]", "[]"},
		{`c.k = "k1" ORDER BY c.n DESC OFFSET 0 LIMIT 3`, 3, 5, "[[/k ASC /n ASC]]", "[]"},
		{`c.k = "k1" AND c.n < 60 AND c.n > 40`, 3, 3, "[[/k ASC /n ASC]]", "[]"},
		{`c.n = 4 AND c.id > "003"`, 1, 1, "[]", "[[/n ASC /id ASC]]"},
	} {
		p, err := n.Containers.Query(t.Context(), s.c, &container.QueryRequest{CrossPartition: true,
			Text: "SELECT VALUE c.id FROM c WHERE " + c.where, MaxItems: mostOf(c.where)})
		if err != nil {
			t.Fatal(err)
		}
		used, missed := fmt.Sprint(p.Index.UtilizedSingle), fmt.Sprint(p.Index.PotentialSingle)
		if strings.Contains(c.used+c.missed, "ASC") {
			used, missed = fmt.Sprint(p.Index.UtilizedComposite), fmt.Sprint(p.Index.PotentialComposite)
		}
		if int64(len(p.Documents)) != c.results || p.Metrics.RetrievedCount != c.examined || used != c.used ||
			missed != c.missed {
			t.Errorf("%s: %d results of %d items, by %s, not %s; want %d of %d, by %s, not %s", c.where,
				len(p.Documents), p.Metrics.RetrievedCount, used, missed, c.results, c.examined, c.used, c.missed)
		}
	}
}

// TestIndexWithinKey checks queries in a logical partition with many items. The queries select a range of values or a
// sort order. They must read only the items that they return. If the range contains too many index entries of other
// partitions, the query must read the whole logical partition instead.
func TestIndexWithinKey(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	fill := func(k string, from, to int) {
		for i := from; i < to; i += 100 {
			var ops []container.Operation
			for j := i; j < i+100; j++ {
				ops = append(ops, create(fmt.Sprintf(`{"id":"%05d","k":"%s","n":%d}`, j, k, j)))
			}
			if r, err := n.Containers.Do(t.Context(), s.c, key(k), ops, container.RequestOptions{}); err != nil ||
				r.Failed >= 0 {
				t.Fatal(r, err)
			}
		}
	}
	fill("a", 0, 300)
	fill("b", 100, 5500)
	for _, c := range []struct {
		key, rest         string
		results, examined int64
	}{
		{"a", `AND c.n >= 290 AND c.n < 300`, 10, 10},
		{"a", `AND c.n < 50`, 50, 50},
		{"a", `AND c.n >= 5 ORDER BY c.n OFFSET 0 LIMIT 3`, 3, 5},
		{"b", `ORDER BY c.n DESC OFFSET 0 LIMIT 3`, 3, 5},
		// The range contains too many entries of b, so the query reads all items of a.
		{"a", `ORDER BY c.n DESC OFFSET 0 LIMIT 3`, 3, 300},
		{"a", `AND c.n >= 290`, 10, 300},
	} {
		p, err := n.Containers.Query(t.Context(), s.c, &container.QueryRequest{
			Text: `SELECT VALUE c.n FROM c WHERE c.k = "` + c.key + `" ` + c.rest, MaxItems: mostOf(c.rest)})
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(p.Documents)) != c.results || p.Metrics.RetrievedCount != c.examined {
			t.Errorf("%s %s: %d results of %d items, want %d of %d", c.key, c.rest, len(p.Documents),
				p.Metrics.RetrievedCount, c.results, c.examined)
		}
	}
}

// TestOrderNeedsComposite checks that sorting by several properties requires a composite index on these properties.
// The index must have the same or the opposite order. Otherwise, the error must contain the message of Cosmos DB and
// the remedy.
func TestOrderNeedsComposite(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
		"indexingPolicy":{"compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"},{"path":"/c"}]]}}`)
	for order, want := range map[string]int{
		`c.a`: 0, `c.a, c.b DESC, c.c`: 0, `c.a DESC, c.b, c.c DESC`: 0, `c.a, c.b DESC`: 400, `c.a, c.b, c.c`: 400,
		`c.b DESC, c.a, c.c`: 400,
	} {
		_, err := n.Containers.Query(t.Context(), s.c, &container.QueryRequest{CrossPartition: true,
			Text: "SELECT * FROM c ORDER BY " + order})
		e, _ := errors.AsType[*container.Error](err)
		switch {
		case want == 0 && err != nil, want != 0 && (e == nil || e.Status != want):
			t.Errorf("%s: %v, want %d", order, err, want)
		case want != 0 && (!strings.Contains(e.Message, `{"Errors":["The order by query does not have a corresponding `+
			`composite index that it can be served from."`) || !strings.Contains(e.Message, "compositeIndexes")):
			t.Errorf("%s: %s", order, e.Message)
		}
	}
}

// mostOf returns the page size for a query. The page is small if the query sorts its results. Otherwise, it is 0,
// which selects the default.
func mostOf(where string) int {
	if strings.Contains(where, "ORDER BY") {
		return 5
	}
	return 0
}

// TestIndexIsPaid checks that writes are charged for the index entries that they add. A create must be charged for all
// entries. A replace must be charged only for entries that the item did not have before.
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
		t.Errorf("one additional entry costs %v RU, want 0.5", d)
	}
}

// TestIndexIsBuilt checks that an index is built for existing items. Its progress must reach 100, and it must then
// serve queries. The indexing mode none must remove the index.
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
		p, err := n.Containers.Query(t.Context(), s.c, &container.QueryRequest{CrossPartition: true,
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
		if s.c, err = n.Containers.ReplaceContainer(t.Context(), s.c, []byte(definition(c.policy)), ""); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "the index is built", func() bool { return n.Containers.IndexProgress(s.c) == 100 })
		if got := examined(); got != c.want {
			t.Errorf("with %s, %d items were examined, want %d", c.policy, got, c.want)
		}
	}
}
