// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/test/eventually"
)

// modelItem is an item of the model, with a unique number and an etag.
type modelItem struct {
	n    int
	etag string
}

// model is a logical partition in memory.
type model map[string]modelItem

// apply applies an operation to the model and returns its expected status.
func (m model) apply(op container.Operation) int {
	var body struct {
		ID string
		N  int
	}
	_ = json.Unmarshal(op.Body, &body) // decoding fails for a patch, whose body is an array
	id := op.ID
	if op.Kind == container.Create || op.Kind == container.Upsert {
		id = body.ID
	}
	old, there := m[id]
	switch {
	case op.Kind == container.Create && there:
		return 409
	case !there && op.Kind != container.Create && op.Kind != container.Upsert:
		return 404
	case there && op.IfMatch != "" && op.IfMatch != old.etag:
		return 412
	}
	status, n := 200, body.N
	switch op.Kind {
	case container.Read:
		return 200
	case container.Delete:
		delete(m, id)
		return 204
	case container.Patch:
		n = old.n + 1
	default:
		if !there {
			status = 201
		}
	}
	for other, o := range m {
		if other != id && o.n == n {
			return 409
		}
	}
	m[id] = modelItem{n: n}
	return status
}

// drawOperation returns a random operation on one of five items. now holds the current items.
func drawOperation(t *rapid.T, k string, now model) container.Operation {
	id := fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "id"))
	op := container.Operation{ID: id,
		Kind: container.Kind(rapid.IntRange(int(container.Create), int(container.Read)).Draw(t, "kind"))}
	switch op.Kind {
	case container.Create, container.Upsert, container.Replace:
		op.Body = fmt.Appendf(nil, `{"id":"%s","k":"%s","n":%d}`, id, k, rapid.IntRange(0, 8).Draw(t, "n"))
	case container.Patch:
		op.Body = []byte(`[{"op":"incr","path":"/n","value":1}]`)
	}
	switch rapid.IntRange(0, 3).Draw(t, "condition") {
	case 0:
		op.IfMatch = `"00000000-0000-0000-0000-000000000000"`
	case 1:
		op.IfMatch = now[id].etag
	}
	return op
}

// TestItemsAgreeWithModel runs random batches on one logical partition and compares the results to a model in memory.
// The batches include unique keys and conditions on etags. A failed batch must change nothing. Reads, feeds, and
// queries must agree with the model.
func TestItemsAgreeWithModel(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 3})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
		"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/n"]}]}}`)
	tries := 0
	rapid.Check(t, func(r *rapid.T) {
		tries++
		k := fmt.Sprint("k", tries)
		now := model{}
		for range rapid.IntRange(1, 15).Draw(r, "batches") {
			ops := make([]container.Operation, rapid.IntRange(1, 4).Draw(r, "operations"))
			next, failed, want := maps.Clone(now), -1, []int{}
			for i := range ops {
				ops[i] = drawOperation(r, k, now)
				want = append(want, next.apply(ops[i]))
				if want[i] >= 400 {
					failed = i
					ops = ops[:i+1]
					break
				}
			}
			got, err := n.Containers.Do(t.Context(), s.c, key(k), ops, container.RequestOptions{})
			if err != nil {
				r.Fatal(err)
			}
			if got.Failed != failed || got.Of[len(ops)-1].Status != want[len(ops)-1] {
				r.Fatalf("%+v: failed %d with %d, want %d with %v", ops, got.Failed, got.Of[len(ops)-1].Status, failed,
					want)
			}
			if failed < 0 {
				now = next
			}
			for id, m := range now {
				read, _, err := n.Containers.Read(t.Context(), s.c, key(k), id, "", container.RequestOptions{})
				if err != nil || read.Item == nil {
					r.Fatalf("%s: %+v, %v", id, read, err)
				}
				if string(read.Item.Body) != fmt.Sprintf(`{"id":"%s","k":"%s","n":%d}`, id, k, m.n) {
					r.Fatalf("%s is %s, want %d", id, read.Item.Body, m.n)
				}
				m.etag = read.Item.Etag
				now[id] = m
			}
		}
		var want []string
		for _, id := range slices.Sorted(maps.Keys(now)) {
			want = append(want, id+" "+k)
		}
		if got := s.feed(container.Scope{Key: key(k)}, 2); !slices.Equal(got, want) {
			r.Fatalf("the feed has %v, want %v", got, want)
		}
		sum := 0
		for _, m := range now {
			sum += m.n
		}
		got, err := s.query(container.QueryRequest{Text: "SELECT VALUE SUM(c.n) FROM c",
			Scope: container.Scope{Key: key(k)}})
		if err != nil || len(got) != 1 || got[0] != fmt.Sprint(sum) {
			r.Fatalf("the sum is %v, %v, want %d", got, err, sum)
		}
	})
}

// TestItemsInCluster checks concurrent batches on a few items. Clients of four nodes send the batches while partitions
// split and change their leaders. No increment may be lost or applied twice, and each node must read the writes of the
// other nodes. If several clients replace an item with the same etag, exactly one must succeed. Finally, all nodes
// must list the same physical partitions.
func TestItemsInCluster(t *testing.T) {
	t.Parallel()
	nodes := []*Node{clusterNode(t, nil, Options{InitialPartitions: 2})}
	for range 3 {
		nodes = append(nodes, clusterNode(t, nodes[0], Options{}))
	}
	eventually.True(t, "four voters", func() bool { return voters(nodes[0]) == 4 })
	s := newContainer(t, nodes[0], `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	const keys, lanes, each = 5, 8, 25
	for i := range keys {
		s.want(201, nil, create(fmt.Sprintf(`{"id":"n","k":"%d","n":0}`, i)))
	}
	incr := container.Operation{Kind: container.Patch, ID: "n", Body: []byte(`[{"op":"incr","path":"/n","value":1}]`)}
	var clients sync.WaitGroup
	for lane := range lanes {
		at := itemsOf(t, nodes[lane%len(nodes)])
		clients.Go(func() {
			for i := range each {
				k := key(fmt.Sprint((lane + i) % keys))
				for {
					r, err := at.n.Containers.Do(t.Context(), at.c, k, []container.Operation{incr,
						{Kind: container.Create, Body: fmt.Appendf(nil, `{"id":"%d-%d","k":%v}`, lane, i, k[0])}},
						container.RequestOptions{})
					if err == nil && r.Failed < 0 {
						break
					}
					if status := container.StatusOf(err); err == nil || status != 503 && status != 408 {
						t.Errorf("%+v, %v", r, err)
						break
					}
					done, _, err := at.n.Containers.Read(t.Context(), at.c, k, fmt.Sprintf("%d-%d", lane, i), "",
						container.RequestOptions{})
					if err == nil && done.Item != nil {
						break // the request failed, but the batch was applied
					}
				}
			}
		})
	}
	table := nodes[0].catalog.Snapshot().Table("d", "c").ID
	for _, p := range nodes[0].metadata.State().Topology.Partitions(table) {
		_, err := nodes[0].partitions.Split(t.Context(), operations.Split{Table: "d.c", Partition: uint64(p.ID),
			Wait: true, Now: true, At: fmt.Sprint(int64(p.Span.Begin.Ring^1<<63) + 1<<60)})
		if err != nil {
			t.Error(err)
		}
	}
	clients.Wait()
	sum := 0
	for i := range keys {
		var body struct{ N int }
		at := itemsOf(t, nodes[i%len(nodes)])
		if err := json.Unmarshal([]byte(at.body(key(fmt.Sprint(i)), "n")), &body); err != nil {
			t.Fatal(err)
		}
		sum += body.N
	}
	if got := len(itemsOf(t, nodes[3]).feed(container.Scope{}, 17)); sum != lanes*each || got != keys+lanes*each {
		t.Errorf("%d increments and %d items, want %d and %d", sum, got, lanes*each, keys+lanes*each)
	}
	read, _, err := nodes[0].Containers.Read(t.Context(), s.c, key("0"), "n", "", container.RequestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var winners sync.Map
	for lane := range lanes {
		at := itemsOf(t, nodes[lane%len(nodes)])
		clients.Go(func() {
			r, err := at.n.Containers.Do(t.Context(), at.c, key("0"), []container.Operation{{Kind: container.Replace,
				IfMatch: read.Item.Etag, Body: fmt.Appendf(nil, `{"id":"n","k":"0","n":%d}`, lane)}},
				container.RequestOptions{})
			if err == nil && r.Failed < 0 {
				winners.Store(lane, true)
			}
		})
	}
	clients.Wait()
	won := 0
	winners.Range(func(_, _ any) bool { won++; return true })
	if won != 1 {
		t.Errorf("%d replaces with the same etag succeeded, want 1", won)
	}
	want, _ := nodes[0].Containers.Ranges(s.c)
	if len(want) < 3 {
		t.Errorf("the container has %+v", want)
	}
	for _, n := range nodes {
		eventually.True(t, "the nodes have one map", func() bool {
			got, _ := n.Containers.Ranges(itemsOf(t, n).c)
			return slices.EqualFunc(got, want, func(a, b container.Range) bool {
				return a.ID == b.ID && a.Min == b.Min
			})
		})
	}
}

// BenchmarkItems measures creates and point reads of 1 KB items. It also measures the equivalent CQL statements, which
// are point reads and inserts with IF NOT EXISTS.
func BenchmarkItems(b *testing.B) {
	n, err := Start(b.Context(), Options{CQL: "127.0.0.1:0", HTTP: "off"})
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	s := newContainer(b, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	pad := strings.Repeat("x", 1000)
	made := 0
	b.Run("create", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			made++
			s.do(key("a"), create(fmt.Sprintf(`{"id":"%d","k":"a","pad":"%s"}`, made, pad)))
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if s.body(key("a"), "1") == "" {
				b.Fatal("there is none")
			}
		}
	})
	c := newClient(b, n)
	c.query("CREATE TABLE d.t (k text, id text, body text, PRIMARY KEY (k, id))")
	insert := c.prepare("INSERT INTO d.t (k, id, body) VALUES (?, ?, ?) IF NOT EXISTS")
	b.Run("cql insert if not exists", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			made++
			c.execute(insert, []byte("a"), fmt.Append(nil, made), []byte(pad))
		}
	})
	read := c.prepare("SELECT body FROM d.t WHERE k = ? AND id = ?")
	last := fmt.Append(nil, made)
	b.Run("cql read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.execute(read, []byte("a"), last)
		}
	})
}
