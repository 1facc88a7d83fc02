// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/query/container"
)

// levelFunc determines the feature level of containers.
type levelFunc func() feature.Level

func (f levelFunc) Current() feature.Level { return f() }

// TestContinuationsOfDropped checks that a container rejects the continuations of a dropped container with the same
// name. Otherwise, the reader would miss items. The container must accept continuations from earlier builds, which do
// not identify a container.
func TestContinuationsOfDropped(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	var level atomic.Uint32
	level.Store(uint32(feature.Newest))
	n.Containers = container.New(container.Options{Catalog: n.catalog, Coordinator: n.coordinator, Store: n.changer,
		Definitions: &n.definitions, Levels: levelFunc(func() feature.Level { return feature.Level(level.Load()) })})
	n.host.SetPrograms(n.Programs())
	n.host.SetAggregator(n.Aggregator())
	const definition = `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`
	s := newContainer(t, n, definition)
	fill := func() {
		for i := range 4 {
			s.want(201, nil, create(fmt.Sprintf(`{"id":"%d","k":"a"}`, i)))
		}
	}
	fill()
	reads := map[string]func(continuation string) (*container.Page, error){
		"feed": func(continuation string) (*container.Page, error) {
			return n.Containers.Feed(t.Context(), s.c, container.Scope{}, continuation, 2, container.RequestOptions{})
		},
	}
	for _, text := range []string{"SELECT * FROM c", "SELECT * FROM c ORDER BY c.id", "SELECT DISTINCT c.id FROM c"} {
		reads[text] = func(continuation string) (*container.Page, error) {
			return n.Containers.Query(t.Context(), s.c, &container.QueryRequest{Text: text, CrossPartition: true,
				MaxItems: 2, Continuation: continuation})
		}
	}
	begin := func() map[string]string {
		t.Helper()
		out := map[string]string{}
		for name, read := range reads {
			page, err := read("")
			if err != nil || len(page.Documents) != 2 || page.Continuation == "" {
				t.Fatalf("%s: %v, %v", name, page, err)
			}
			if next, err := read(page.Continuation); err != nil || len(next.Documents) != 2 {
				t.Errorf("%s: the next page is %v, %v", name, next, err)
			}
			out[name] = page.Continuation
		}
		return out
	}
	old := begin()
	level.Store(uint32(feature.ContinuationIDs - 1))
	older := begin()
	level.Store(uint32(feature.Newest))
	if err := n.Containers.DeleteContainer(t.Context(), s.c, ""); err != nil {
		t.Fatal(err)
	}
	s = newContainer(t, n, definition)
	fill()
	for name, read := range reads {
		if _, err := read(old[name]); container.StatusOf(err) != 400 || !strings.Contains(err.Error(), "dropped") {
			t.Errorf("%s: a continuation of the dropped container: %v", name, err)
		}
		if _, err := read(older[name]); err != nil {
			t.Errorf("%s: a continuation of an earlier build: %v", name, err)
		}
		for _, bad := range []string{".", "zz.", "!." + older[name], "."} {
			if _, err := read(bad); container.StatusOf(err) != 400 {
				t.Errorf("%s: %s: %v", name, bad, err)
			}
		}
	}
	begin()
}
