// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/container"
)

// uniqueBuilds is a container.IndexBuilds. While its value is true, the indexes of unique keys are incomplete.
type uniqueBuilds struct{ atomic.Bool }

func (b *uniqueBuilds) Building(ix *schema.Index) bool {
	return ix.Kind == schema.UniqueKind && b.Load()
}

func (b *uniqueBuilds) Progress(*schema.Index) int { return 0 }

// TestUniqueIndexIncomplete checks that a write is rejected if it must read an incomplete index of a unique key. All
// other writes must succeed.
func TestUniqueIndexIncomplete(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	var building uniqueBuilds
	n.Containers = container.New(container.Options{Catalog: n.catalog, Coordinator: n.coordinator, Store: n.changer,
		Definitions: &n.definitions, Builds: &building})
	n.host.SetPrograms(n.Programs())
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
		"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/slot"]}]}}`)
	k := key("a")
	s.want(201, nil, create(`{"id":"1","k":"a","slot":1}`))
	building.Store(true)
	s.want(503, nil, create(`{"id":"2","k":"a","slot":2}`))
	s.want(503, k, container.Operation{Kind: container.Patch, ID: "1",
		Body: []byte(`[{"op":"set","path":"/slot","value":2}]`)})
	s.want(200, k, container.Operation{Kind: container.Patch, ID: "1",
		Body: []byte(`[{"op":"set","path":"/v","value":2}]`)})
	s.want(204, k, container.Operation{Kind: container.Delete, ID: "1"})
	building.Store(false)
	s.want(201, nil, create(`{"id":"2","k":"a","slot":1}`))
}

// TestUniqueValuesStayCheap checks that the cost of a unique value does not grow when items repeatedly take and
// release the value. An item releases a value when it is deleted or changed. The test also checks that an item with
// large values and many unique keys can be changed.
func TestUniqueValuesStayCheap(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
		"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/slot"]}]}}`)
	k := key("a")
	pad := strings.Repeat("x", 1<<20)
	var first, last ru.Units
	for i := range 40 {
		id := fmt.Sprint(i)
		last = s.want(201, nil, create(fmt.Sprintf(`{"id":"%s","k":"a","slot":"x","pad":"%s"}`, id, pad))).Charge
		if i == 0 {
			first = last
		}
		if i%2 == 0 {
			s.want(200, k, container.Operation{Kind: container.Patch, ID: id,
				Body: []byte(`[{"op":"set","path":"/slot","value":"` + id + `"}]`)})
		} else {
			s.want(204, k, container.Operation{Kind: container.Delete, ID: id})
		}
	}
	if last > first*3/2 {
		t.Errorf("the first use of the value costs %v, the last use %v", first, last)
	}
	s.want(201, nil, create(`{"id":"a","k":"a","slot":"y"}`))
	for i := range 40 { // items take and release the value in turn
		s.want(409, nil, create(`{"id":"b","k":"a","slot":"y"}`))
		s.want(200, k, container.Operation{Kind: container.Patch, ID: "a",
			Body: []byte(fmt.Sprintf(`[{"op":"set","path":"/slot","value":"z%d"}]`, i%2))})
		s.want(200, k, container.Operation{Kind: container.Patch, ID: "a",
			Body: []byte(`[{"op":"set","path":"/slot","value":"y"}]`)})
	}
	many := newContainer(t, n, `{"id":"many","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
		"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/a"]},{"paths":["/b"]},{"paths":["/c"]},{"paths":["/d"]},
		{"paths":["/e"]},{"paths":["/f"]},{"paths":["/g"]},{"paths":["/h"]},{"paths":["/i"]},{"paths":["/j"]}]}}`)
	made := many.want(201, nil, create(`{"id":"1","k":"a","pad":"`+pad+pad[:900_000]+`"}`))
	patched := many.want(200, k, container.Operation{Kind: container.Patch, ID: "1",
		Body: []byte(`[{"op":"set","path":"/a","value":1}]`)})
	if patched.Charge > made.Charge*3/2 {
		t.Errorf("a patch costs %v, the create %v", patched.Charge, made.Charge)
	}
	var ops []container.Operation
	for i := range 7 {
		many.want(201, nil, create(fmt.Sprintf(`{"id":"i%d","k":"b","a":%d,"b":%d,"c":%d,"d":%d,"e":%d,"f":%d,"g":%d,"h":%d,
			"i":%d,"j":%d,"pad":"%s"}`, i, i, i, i, i, i, i, i, i, i, i, pad)))
		ops = append(ops, container.Operation{Kind: container.Delete, ID: fmt.Sprintf("i%d", i)})
	}
	r, err := n.Containers.Do(t.Context(), many.c, key("b"), ops, container.RequestOptions{})
	if err != nil || r.Failed >= 0 {
		t.Errorf("a batch of deletes: %+v, %v", r, err)
	}
}
