// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/test/eventually"
)

// pushdownGenerator generates random items and queries.
type pushdownGenerator struct{ *rand.Rand }

func (w pushdownGenerator) pick(of ...string) string { return of[w.IntN(len(of))] }

// item returns the body of a random item. Properties are often missing, and they have several types. The sums of the
// numbers are exact.
func (w pushdownGenerator) item(i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"id":"%04d","k":"k%d"`, i, i%37)
	for _, name := range []string{"a", "b"} {
		if v := w.pick("", "null", "true", "false", "0", "1", "1.0", "2", "3.25", `"1"`, `"x"`, `"é\n"`, "[1]",
			"[1,2]", `{"k":1}`); v != "" {
			fmt.Fprintf(&b, `,"%s":%s`, name, v)
		}
	}
	fmt.Fprintf(&b, `,"n":%d.25,"m":%d,"t":%s,"text":"%s"}`, w.IntN(2000)-1000, w.IntN(20),
		w.pick("[]", "[1]", "[2,1]", "[1,1,3]"), strings.Repeat("x", w.IntN(300)))
	return b.String()
}

// query returns a random query with a random scope and page size.
func (w pushdownGenerator) query(keys int) container.QueryRequest {
	q := container.QueryRequest{CrossPartition: true, MaxItems: []int{0, 0, 0, 0, 40, 120}[w.IntN(6)]}
	where := w.pick("", "", " WHERE c.m = @m", " WHERE c.m > @m AND c.n < 500", " WHERE c.a = 1 OR c.b = 'x'",
		" WHERE IS_DEFINED(c.a)", " WHERE STARTSWITH(c.id, '00')", " WHERE c.text LIKE '%xxx' AND c.m != @m",
		" WHERE c._ts > 0 AND c.m < @m", " WHERE EXISTS(SELECT VALUE t FROM t IN c.t WHERE t = 3)",
		" WHERE c.m IN (1, 2, @m)", " WHERE c.m = -1")
	q.Text = w.pick("SELECT VALUE COUNT(1) FROM c", "SELECT VALUE SUM(c.n) FROM c", "SELECT VALUE AVG(c.m) FROM c",
		"SELECT MIN(c.a) AS lo, MAX(c.b) AS hi, COUNT(c.a) AS n, SUM(c.a) AS s, COUNTIF(c.m > 3) AS i FROM c",
		"SELECT c.a, COUNT(1) AS n, SUM(c.n) AS s, AVG(c.m) AS v FROM c#GROUP BY c.a",
		"SELECT c.m, c.b, MAX(c.id) AS m FROM c#GROUP BY c.m, c.b", "SELECT COUNT(1) AS n FROM c#GROUP BY c.k",
		"SELECT c.id, COUNT(1) AS n FROM c#GROUP BY c.id", "SELECT DISTINCT VALUE c.m FROM c",
		"SELECT DISTINCT c.a, c.b FROM c", "SELECT DISTINCT VALUE t FROM c JOIN t IN c.t",
		"SELECT VALUE c.id FROM c#ORDER BY c.n", "SELECT TOP 7 VALUE [c.id, c.n] FROM c#ORDER BY c.n DESC",
		"SELECT DISTINCT VALUE c.m FROM c#ORDER BY c.m", "SELECT * FROM c#ORDER BY c.m DESC OFFSET 3 LIMIT 9",
		"SELECT VALUE c.id FROM c", "SELECT TOP 5 c.id, c.a FROM c", "SELECT * FROM c",
		"SELECT VALUE c.n FROM c#OFFSET 4 LIMIT 11", "SELECT c.id, t FROM c JOIN t IN c.t",
		"SELECT VALUE MAX(c._etag) != null FROM c", "SELECT VALUE [SUM(t), COUNT(t)] FROM c JOIN t IN c.t",
		"SELECT VALUE c.a FROM c", "SELECT DISTINCT VALUE COUNT(1) FROM c#GROUP BY c.a")
	text, rest, _ := strings.Cut(q.Text, "#")
	q.Text = text + where
	if rest != "" {
		q.Text += " " + rest
	}
	if w.IntN(40) == 0 {
		q.MaxItems = 3
	}
	q.Parameters = []container.Parameter{{Name: "@m", Value: fmt.Append(nil, w.IntN(20))}}
	switch w.IntN(4) {
	case 0:
		q.Key = key(fmt.Sprint("k", w.IntN(keys)))
	case 1:
		q.MinEPK, q.MaxEPK = fmt.Sprintf("%02X", w.IntN(32)), fmt.Sprintf("%02X", 32+w.IntN(32))
	}
	return q
}

// pushdownAnswer contains all pages of a query and their charge.
type pushdownAnswer struct {
	documents []string
	pages     []int
	charge    string
	pushed    int64
}

// ask reads all pages of a query. If a page times out or is unavailable, ask reads the page again, up to 20 times per
// query.
func ask(ctx context.Context, e *container.Engine, c *container.Container, q container.QueryRequest) (a pushdownAnswer,
	err error) {
	for late := 0; ; {
		p, err := e.Query(ctx, c, &q)
		if status := container.StatusOf(err); (status == 408 || status == 503) && late < 20 {
			late++
			continue
		}
		if err != nil {
			return a, err
		}
		for _, d := range p.Documents {
			a.documents = append(a.documents, string(d))
		}
		a.pages = append(a.pages, len(p.Documents))
		a.charge += p.Charge.String() + " "
		a.pushed += p.Metrics.PushedDownCount
		if q.Continuation = p.Continuation; q.Continuation == "" {
			return a, nil
		}
		if len(a.pages) > 2000 {
			return a, errors.New("it has no end")
		}
	}
}

// unreliable wraps aggregations. Some of these aggregations decline, stop early, or fail during or after the scan.
type unreliable struct {
	partition.Aggregator
	mu     sync.Mutex
	random *rand.Rand
}

func (u *unreliable) draw(n int) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.random.IntN(n)
}

var errAggregation = errors.New("an aggregation that fails")

// Aggregate implements partition.Aggregator.
func (u *unreliable) Aggregate(ctx context.Context, c *command.Read) (partition.Aggregation, error) {
	if u.draw(5) == 0 {
		return nil, partition.ErrNoPushdown
	}
	f, err := u.Aggregator.Aggregate(ctx, c)
	return &unreliableAggregation{f, u}, err
}

type unreliableAggregation struct {
	partition.Aggregation
	u *unreliable
}

func (f *unreliableAggregation) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	return f.Aggregation.Partition(t, key, static)
}

func (f *unreliableAggregation) Row(clustering []byte, r *row.Row) (command.Step, error) {
	step, err := f.Aggregation.Row(clustering, r)
	switch f.u.draw(400) {
	case 0:
		return step, errAggregation
	case 1, 2, 3, 4, 5:
		step = command.Stop
	}
	return step, err
}

func (f *unreliableAggregation) Result() ([]byte, error) {
	if f.u.draw(50) == 0 {
		return nil, errAggregation
	}
	return f.Aggregation.Result()
}

// withoutPushdown returns an engine that evaluates all queries on the node itself.
func withoutPushdown(n *Node) *container.Engine {
	return container.New(container.Options{Catalog: n.catalog, Coordinator: n.coordinator, Store: n.changer,
		Definitions: &n.definitions, NoPushdown: true, SortFreely: true})
}

// splitOne splits the first physical partition of container c that can be split.
func splitOne(t *testing.T, n *Node) {
	t.Helper()
	var err error
	for _, p := range n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Table("d", "c").ID) {
		o := operations.Split{Table: "d.c", Partition: uint64(p.ID), Now: true}
		if _, err = n.partitions.Split(t.Context(), o); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// differ runs random queries with and without pushdown. Both runs must return the same documents in the same pages. If
// costs is true, queries with COUNT must also have the same charge. differ returns the number of aggregated items.
func differ(t *testing.T, w pushdownGenerator, s *items, queries int, costs bool) (pushed int64) {
	t.Helper()
	plain := withoutPushdown(s.n)
	for range queries {
		q := w.query(37)
		want, err := ask(t.Context(), plain, s.c, q)
		got, err2 := ask(t.Context(), s.n.Containers, s.c, q)
		if err != nil || err2 != nil {
			t.Fatalf("%s: %v with pushdown, %v without", q.Text, err2, err)
		}
		if !slices.Equal(got.documents, want.documents) || !slices.Equal(got.pages, want.pages) {
			t.Fatalf("%s of %+v, pages of %d:\n%v\n%v\nwithout pushdown\n%v\n%v", q.Text, q.Scope, q.MaxItems,
				got.documents, got.pages, want.documents, want.pages)
		}
		if costs && strings.Contains(q.Text, "COUNT") && got.charge != want.charge {
			t.Fatalf("%s of %+v by %d: %s with pushdown, %s without", q.Text, q.Scope, q.MaxItems, got.charge,
				want.charge)
		}
		pushed += got.pushed
	}
	return pushed
}

const pushdownContainer = `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},"indexingPolicy":{
	"excludedPaths":[{"path":"/n/?"},{"path":"/text/?"},{"path":"/a/*"}]}}`

// TestPushdownChangesNothing compares queries that replicas evaluate with queries that the coordinating node
// evaluates. Both must return the same results, even after splits, and even if aggregations decline, stop early, or
// fail.
func TestPushdownChangesNothing(t *testing.T) {
	t.Parallel()
	w := pushdownGenerator{rand.New(rand.NewPCG(3, 1))}
	n := startNode(t, Options{InitialPartitions: 3})
	s := newContainer(t, n, pushdownContainer)
	for i := range 600 {
		s.want(201, nil, create(w.item(i)))
	}
	rounds, each := 6, 150
	if raceEnabled {
		each = 60
	}
	n.Containers = container.New(container.Options{Catalog: n.catalog, Coordinator: n.coordinator, Store: n.changer,
		Definitions: &n.definitions, SortFreely: true})
	faulty := &unreliable{Aggregator: n.Containers, random: rand.New(rand.NewPCG(5, 8))}
	for round := range rounds {
		var known partition.Aggregator = n.Aggregator()
		if round%2 == 1 {
			known = faulty
		}
		n.host.SetAggregator(known)
		if pushed := differ(t, w, s, each, round%2 == 0); pushed == 0 {
			t.Error("no items are aggregated")
		}
		splitOne(t, n)
	}
}

// pushdownCluster starts a cluster of five nodes. The last node joins after the container has been created, so it has
// no replica of some physical partitions.
func pushdownCluster(t *testing.T, fill func(s *items)) (nodes []*Node) {
	t.Helper()
	nodes = []*Node{clusterNode(t, nil, Options{InitialPartitions: 2})}
	for range 3 {
		nodes = append(nodes, clusterNode(t, nodes[0], Options{}))
	}
	eventually.True(t, "four voters", func() bool { return voters(nodes[3]) == 4 })
	fill(newContainer(t, nodes[0], pushdownContainer))
	nodes = append(nodes, clusterNode(t, nodes[0], Options{}))
	eventually.True(t, "five nodes have the container", func() bool {
		return !slices.ContainsFunc(nodes, func(n *Node) bool { return n.catalog.Snapshot().Table("d", "c") == nil })
	})
	return nodes
}

// elsewhere returns the number of physical partitions of container c that have no replica on a node.
func elsewhere(n *Node) (count int) {
	for _, p := range n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Table("d", "c").ID) {
		if n.host.Replica(p.ID) == nil {
			count++
		}
	}
	return count
}

// TestPushdownInCluster runs the same checks on each node of a five-node cluster while partitions split. The fifth node
// must read from other nodes.
func TestPushdownInCluster(t *testing.T) {
	t.Parallel()
	w := pushdownGenerator{rand.New(rand.NewPCG(7, 2))}
	nodes := pushdownCluster(t, func(s *items) {
		for i := range 300 {
			s.want(201, nil, create(w.item(i)))
		}
	})
	each := 60
	if raceEnabled {
		each = 25
	}
	first := nodes[0]
	slices.Reverse(nodes)
	if elsewhere(nodes[0]) == 0 {
		t.Error("the fifth node has all replicas")
	}
	for _, n := range nodes {
		before := len(n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Table("d", "c").ID))
		splitOne(t, first)
		n.Containers = container.New(container.Options{Catalog: n.catalog, Coordinator: n.coordinator, Store: n.changer,
			Definitions: &n.definitions, SortFreely: true})
		if pushed := differ(t, w, itemsOf(t, n), each, false); pushed == 0 {
			t.Error("no items are aggregated")
		}
		eventually.True(t, "the split is done", func() bool {
			return len(n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Table("d", "c").ID)) > before
		})
	}
}
