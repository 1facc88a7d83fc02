// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// aging is a container on several nodes. Its default time to live changes. The test controls the clock.
type aging struct {
	t          *testing.T
	nodes      []*items
	now        atomic.Int64 // in Unix milliseconds
	level      atomic.Uint32
	definition string
}

func newAging(t *testing.T, nodes ...*Node) *aging {
	t.Helper()
	a := &aging{t: t, definition: `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
		"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}%s}`}
	a.now.Store(time.Now().UnixMilli())
	a.level.Store(uint32(feature.Newest))
	for _, n := range nodes {
		n.Containers = container.New(container.Options{Catalog: n.catalog, Coordinator: n.coordinator, Store: n.changer,
			Definitions: &n.definitions,
			Clock:       fakeclock.Func(func() time.Time { return time.UnixMilli(a.now.Load()) }),
			Levels:      levelFunc(func() feature.Level { return feature.Level(a.level.Load()) }),
			Metadata:    n.metadata, ReadTimeout: requestTimeout})
		n.host.SetPrograms(n.Programs())
		n.host.SetAggregator(n.Aggregator())
	}
	a.nodes = []*items{newContainer(t, nodes[0], fmt.Sprintf(a.definition, ""))}
	for _, n := range nodes[1:] {
		eventually.True(t, "the container is known", func() bool {
			d, err := n.Containers.Database("d")
			if err == nil {
				_, err = n.Containers.Container(d, "c")
			}
			return err == nil
		})
		a.nodes = append(a.nodes, itemsOf(t, n))
	}
	return a
}

// pass advances the clock.
func (a *aging) pass(d time.Duration) { a.now.Add(d.Milliseconds()) }

// set changes the default time to live of the container. If ttl is "", set removes it. set waits until all nodes have
// applied the change.
func (a *aging) set(ttl string) {
	a.t.Helper()
	if ttl != "" {
		ttl = `,"defaultTtl":` + ttl
	}
	first := a.nodes[0]
	c, err := first.n.Containers.ReplaceContainer(a.t.Context(), first.c, fmt.Appendf(nil, a.definition, ttl), "")
	if err != nil {
		a.t.Fatal(err)
	}
	first.c = c
	for _, s := range a.nodes[1:] {
		eventually.True(a.t, "the container is changed", func() bool {
			s.c = itemsOf(a.t, s.n).c
			return s.c.Etag == c.Etag
		})
	}
}

// left checks the remaining items on each node. It uses queries, feeds, and point reads.
func (a *aging) left(want string) {
	a.t.Helper()
	ids := strings.Fields(want)
	for i, s := range a.nodes {
		for text, in := range map[string][]string{
			"SELECT VALUE c.id FROM c":                               ids,
			`SELECT VALUE c.id FROM c WHERE c.there = true`:          ids, // this query uses the index
			`SELECT VALUE COUNT(1) FROM c`:                           {fmt.Sprint(len(ids))},
			`SELECT VALUE c.id FROM c WHERE c.k = "a"`:               ids,
			`SELECT VALUE c.id FROM c ORDER BY c.u OFFSET 0 LIMIT 9`: ids,
		} {
			got, err := s.query(container.QueryRequest{Text: text, CrossPartition: true})
			for i := range got {
				got[i] = strings.Trim(got[i], `"`)
			}
			slices.Sort(got)
			if err != nil || !slices.Equal(got, in) {
				a.t.Errorf("node %d: %s: %v, %v; want %v", i, text, got, err, in)
			}
		}
		if got := s.feed(container.Scope{}, 100); len(got) != len(ids) {
			a.t.Errorf("node %d: the feed of items has %v, want %v", i, got, ids)
		}
		if got, _ := s.changes(container.ChangesRequest{}); len(got) != len(ids) {
			a.t.Errorf("node %d: the change feed has %v, want %v", i, got, ids)
		}
		for _, id := range []string{"default", "forever", "own"} {
			if there := s.body(key("a"), id) != ""; there != slices.Contains(ids, id) {
				a.t.Errorf("node %d: %s is there: %v", i, id, there)
			}
		}
	}
}

// fill creates three items. The first has no time to live, the second never expires, and the third has a time to live
// of 10 seconds.
func (a *aging) fill() {
	a.t.Helper()
	s := a.nodes[len(a.nodes)-1]
	s.want(201, nil, create(`{"id":"default","k":"a","u":1,"there":true}`))
	s.want(201, nil, create(`{"id":"forever","k":"a","u":2,"there":true,"ttl":-1}`))
	s.want(201, nil, create(`{"id":"own","k":"a","u":3,"there":true,"ttl":10}`))
}

// TestChangedTimeToLive checks that a change of the container's time to live applies to existing items. The time must
// count from their last modification. Expired items must not reappear.
func TestChangedTimeToLive(t *testing.T) {
	t.Parallel()
	testChangedTimeToLive(t, newAging(t, startNode(t, Options{InitialPartitions: 2})))
}

// TestChangedTimeToLiveInCluster runs the same checks with four nodes.
func TestChangedTimeToLiveInCluster(t *testing.T) {
	t.Parallel()
	nodes := []*Node{clusterNode(t, nil, steady(Options{InitialPartitions: 2}))}
	for range 3 {
		nodes = append(nodes, clusterNode(t, nodes[0], steady(Options{})))
	}
	eventually.True(t, "four voters", func() bool { return voters(nodes[0]) == 4 })
	testChangedTimeToLive(t, newAging(t, nodes...))
}

func testChangedTimeToLive(t *testing.T, a *aging) {
	a.set("2")
	a.fill()
	a.set("")
	a.pass(3200 * time.Millisecond)
	a.left("default forever own")
	a.pass(time.Hour)
	a.left("default forever own")

	a.set("-1") // only items with their own time to live expire
	a.left("default forever")
	a.nodes[0].want(409, nil, create(`{"id":"other","k":"a","u":1}`))
	a.nodes[0].want(201, nil, create(`{"id":"other","k":"a","u":3,"there":true,"ttl":-1}`))
	a.set("")
	a.left("default forever other") // expired items remain expired

	a.set("7200") // the time counts from the last modification
	a.left("default forever other")
	a.set("2")
	a.left("forever other")
	a.nodes[0].want(404, key("a"), container.Operation{Kind: container.Delete, ID: "default"})
	a.set("7200")
	a.left("forever other")
	a.nodes[0].want(201, nil, create(`{"id":"default","k":"a","u":1,"there":true}`))
	a.left("default forever other")

	a.pass(time.Hour)
	patch := []byte(`[{"op":"set","path":"/n","value":1}]`)
	a.nodes[0].want(200, key("a"), container.Operation{Kind: container.Patch, ID: "default", Body: patch})
	a.pass(90 * time.Minute)
	a.left("default forever other") // the patch counts as a modification
	a.pass(31 * time.Minute)
	a.left("forever other")
}

// TestUniqueValueOfExpired checks that an expired item does not reappear if another item has taken its unique value.
// The item has expired under the old setting. The node that changes the setting has not noticed this, because its
// clock is slow.
func TestUniqueValueOfExpired(t *testing.T) {
	t.Parallel()
	a := newAging(t, startNode(t, Options{}))
	a.set("10")
	a.fill()
	a.pass(12 * time.Second)
	a.nodes[0].want(201, nil, create(`{"id":"other","k":"a","u":1,"there":true}`))
	a.pass(-5 * time.Second) // the clock of the node that changes the container is slow
	a.set("")
	a.pass(5 * time.Second)
	a.left("forever other own")
	a.nodes[0].want(409, nil, create(`{"id":"another","k":"a","u":3}`))
}

// TestItemsWithDeadlines checks that items written before feature level 8 keep their deadlines until they are written
// again.
func TestItemsWithDeadlines(t *testing.T) {
	t.Parallel()
	a := newAging(t, startNode(t, Options{}))
	a.set("20")
	a.level.Store(uint32(feature.Lifetimes - 1))
	a.fill()
	a.level.Store(uint32(feature.Newest))
	a.set("")
	a.pass(5 * time.Second)
	a.left("default forever own")
	a.nodes[0].want(200, key("a"), container.Operation{Kind: container.Upsert,
		Body: []byte(`{"id":"own","k":"a","u":3,"there":true,"ttl":10}`)})
	a.pass(20 * time.Second)
	a.left("forever own")
	a.set("1")
	a.left("forever")
	a.nodes[0].want(201, nil, create(`{"id":"default","k":"a","u":1,"there":true}`))
	a.left("default forever")
}
