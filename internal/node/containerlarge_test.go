// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/query/container"
)

// TestLargeResults checks that a batch returns the items that its operations have read or written, even if the items
// are large. The same batch or a concurrent batch may change or delete the items. If the response would be too large,
// the whole batch must be rejected.
func TestLargeResults(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
		"indexingPolicy":{"indexingMode":"none"}}`)
	k := key("a")
	pad := strings.Repeat("x", 300_000)
	item := func(id string, v int) string { return fmt.Sprintf(`{"id":"%s","k":"a","n":%d,"pad":"%s"}`, id, v, pad) }
	read := func(id string) container.Operation { return container.Operation{Kind: container.Read, ID: id} }
	incr := func(id string) container.Operation {
		return container.Operation{Kind: container.Patch, ID: id, Body: []byte(`[{"op":"incr","path":"/n","value":1}]`)}
	}
	do := func(ops ...container.Operation) *container.Results {
		t.Helper()
		r, err := n.Containers.Do(t.Context(), s.c, k, ops, container.RequestOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	value := func(r *container.Result) int {
		t.Helper()
		if r.Item == nil || len(r.Item.Body) < len(pad) {
			t.Fatalf("the item is missing: %d %v", r.Status, r.Err)
		}
		return int(document.View(r.Item.Body).Get("n").Float())
	}
	s.want(201, nil, create(item("a", 1)))
	s.want(201, nil, create(item("b", 0)))
	if r := do(read("a"), incr("a")); value(&r.Of[0]) != 1 || value(&r.Of[1]) != 2 {
		t.Errorf("the read of a batch returns %d, its patch %d", value(&r.Of[0]), value(&r.Of[1]))
	}
	if r := do(read("a"), container.Operation{Kind: container.Delete, ID: "a"}); value(&r.Of[0]) != 2 {
		t.Errorf("the read before a deletion returns %d", value(&r.Of[0]))
	}
	s.want(201, nil, create(item("a", 0)))
	const clients, each = 4, 10
	var all sync.WaitGroup
	seen := make(chan int, clients*each)
	for range clients {
		all.Go(func() {
			for range each {
				r := do(incr("a"), incr("b"), read("a"), read("b"))
				if value(&r.Of[2]) != value(&r.Of[3]) {
					t.Errorf("a batch is torn: %d and %d", value(&r.Of[2]), value(&r.Of[3]))
				}
				seen <- value(&r.Of[0])
			}
		})
	}
	all.Wait()
	distinct := map[int]bool{}
	for range clients * each {
		distinct[<-seen] = true
	}
	if len(distinct) != clients*each {
		t.Errorf("%d patches return %d values", clients*each, len(distinct))
	}
	ops := []container.Operation{incr("a")}
	for range 14 {
		ops = append(ops, read("a"))
	}
	r := do(ops...)
	if r.Failed < 1 || r.Of[r.Failed].Status != 413 || r.Of[0].Status != 424 {
		t.Errorf("a response of more than 4 MiB: %+v", r.Failed)
	}
	if got := s.do(k, read("a")); value(got) != clients*each {
		t.Errorf("after a rejected batch, the value is %d, want %d", value(got), clients*each)
	}
}
