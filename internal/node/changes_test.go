// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/test/eventually"
)

// changed is an item in a change feed.
type changed struct {
	ID  string `json:"id"`
	K   string `json:"k"`
	N   int    `json:"n"`
	LSN int64  `json:"_lsn"`
}

// version is a change in a feed of all versions.
type version struct {
	Current, Previous changed
	Metadata          struct {
		OperationType string
		LSN           int64
		ID            string
		PartitionKey  map[string]string
	}
}

// changes reads a feed page by page to its end. changes returns the documents and the continuation of the last page.
func (s *items) changes(r container.ChangesRequest) (docs []string, continuation string) {
	s.t.Helper()
	for {
		page, err := s.n.Containers.Changes(s.t.Context(), s.c, &r)
		if err != nil {
			if status := container.StatusOf(err); status == 503 || status == 408 || status == 410 {
				continue // the leader has stopped, so retry the page
			}
			s.t.Fatal(err)
		}
		for _, d := range page.Documents {
			docs = append(docs, string(d))
		}
		if r.Continuation = page.Continuation; page.Ended && len(page.Documents) == 0 {
			return docs, r.Continuation
		}
	}
}

// ids returns the ID and the value of n of each item in a feed of latest versions.
func (s *items) ids(docs []string) (out []string) {
	s.t.Helper()
	for _, d := range docs {
		var c changed
		if err := json.Unmarshal([]byte(d), &c); err != nil || c.LSN == 0 {
			s.t.Fatalf("%s: %v", d, err)
		}
		out = append(out, fmt.Sprintf("%s=%d", c.ID, c.N))
	}
	return out
}

// TestChangeFeed checks that the change feed of latest versions returns the current version of each item once. The
// items of a key must be in the order of their latest changes. Deleted and expired items must be missing. The feed must
// be able to start at the beginning, at a given time, now, or at a continuation. It must cover a key or the container.
// CQL must return the same changes.
func TestChangeFeed(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 3})
	c := newClient(t, n)
	s := newContainer(t, n, `{"id":"c","defaultTtl":-1,"partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	for i := range 6 {
		s.want(201, nil, create(fmt.Sprintf(`{"id":"%d","k":"a","n":0}`, i)))
	}
	s.want(201, nil, create(`{"id":"0","k":"b","n":7}`))
	s.want(200, nil, container.Operation{Kind: container.Upsert, Body: []byte(`{"id":"2","k":"a","n":1}`)})
	s.want(200, key("a"), container.Operation{Kind: container.Patch, ID: "0",
		Body: []byte(`[{"op":"incr","path":"/n","value":5}]`)})
	s.want(204, key("a"), container.Operation{Kind: container.Delete, ID: "4"})
	s.want(201, nil, create(`{"id":"gone","k":"a","ttl":1}`))
	eventually.True(t, "an item to expire", func() bool { return s.body(key("a"), "gone") == "" })
	want := []string{"1=0", "3=0", "5=0", "2=1", "0=5"}
	for _, size := range []int{1, 2, 100} {
		docs, end := s.changes(container.ChangesRequest{MaxItems: size, Scope: container.Scope{Key: key("a")}})
		if got := s.ids(docs); !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", size, got, want)
		}
		docs, _ = s.changes(container.ChangesRequest{Continuation: end, Scope: container.Scope{Key: key("a")}})
		if docs != nil {
			t.Errorf("after the end: %v", docs)
		}
		for _, other := range []container.Scope{{}, {Key: key("b")}, {MinEPK: "", MaxEPK: "80"}} {
			_, err := n.Containers.Changes(t.Context(), s.c, &container.ChangesRequest{Continuation: end, Scope: other})
			if container.StatusOf(err) != 400 || !strings.Contains(err.Error(), "another partition key") {
				t.Errorf("the continuation of a key, used for %+v: %v", other, err)
			}
		}
		docs, _ = s.changes(container.ChangesRequest{MaxItems: size})
		if len(docs) != 6 {
			t.Errorf("pages of %d of the container: %v", size, docs)
		}
	}
	page, err := n.Containers.Changes(t.Context(), s.c, &container.ChangesRequest{Now: true})
	if err != nil || !page.Ended || len(page.Documents) > 0 || page.Charge <= 0 {
		t.Fatalf("%+v, %v", page, err)
	}
	s.want(200, nil, container.Operation{Kind: container.Upsert, Body: []byte(`{"id":"3","k":"a","n":9}`)})
	docs, _ := s.changes(container.ChangesRequest{Continuation: page.Continuation})
	if got := s.ids(docs); !slices.Equal(got, []string{"3=9"}) {
		t.Errorf("after now: %v", got)
	}
	if docs, _ = s.changes(container.ChangesRequest{Since: time.Now().Add(time.Hour)}); docs != nil {
		t.Errorf("an hour from now: %v", docs)
	}
	if docs, _ = s.changes(container.ChangesRequest{Since: time.Now().Add(-time.Hour)}); len(docs) != 6 {
		t.Errorf("since an hour ago: %v", docs)
	}
	if _, err := n.Containers.DeleteKey(t.Context(), s.c, key("a"), container.RequestOptions{}); err != nil {
		t.Fatal(err)
	}
	if docs, _ = s.changes(container.ChangesRequest{}); len(docs) != 1 {
		t.Errorf("after the items of a key were deleted: %v", docs)
	}
	for _, r := range []container.ChangesRequest{{Continuation: "x"}, {AllVersions: true, Now: true},
		{Scope: container.Scope{Range: "99"}}} {
		if _, err := n.Containers.Changes(t.Context(), s.c, &r); container.StatusOf(err)/100 != 4 {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if got := c.query(`SELECT id FROM d.c WHERE cosmos_changefeed_start_time() = '2020-01-01'`); got.RowCount != 1 ||
		len(got.PagingState) == 0 {
		t.Errorf("CQL reads %+v", got)
	}
	for text, say := range map[string]string{
		`SELECT id FROM d.c WHERE cosmos_changefeed_start_time() > '2020-01-01'`:            "equality",
		`SELECT id FROM d.c WHERE cosmos_changefeed_start_time() = '2020-01-01' LIMIT 1`:    "LIMIT",
		`SELECT cluster_name FROM system.local WHERE cosmos_changefeed_start_time() = 1`:    "no change feed",
		`SELECT id FROM d.c WHERE cosmos_changefeed_mode() = 'all'`:                         "does not retain",
		`SELECT id FROM d.c WHERE cosmos_changefeed_mode() = 'latest'`:                      "requires cosmos_changefeed_start_time",
		`SELECT id FROM d.c WHERE other_function() = '2020-01-01'`:                          "line 1",
		`SELECT id FROM d.c WHERE cosmos_changefeed_start_time() = '2020-01-01' AND id='1'`: "cannot be combined",
	} {
		if err := attempt(c, text); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAllVersions checks that a container with a change feed policy reports every change, including deletions. A
// change must contain the state of the item before and after the change. If the requested changes have expired, the
// request must be rejected.
func TestAllVersions(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 2})
	s := newContainer(t, n, `{"id":"c","changeFeedPolicy":{"retentionDuration":10},`+
		`"partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	s.want(201, nil, create(`{"id":"0","k":"a","n":1}`))
	s.want(200, nil, container.Operation{Kind: container.Replace, Body: []byte(`{"id":"0","k":"a","n":2}`)})
	s.want(204, key("a"), container.Operation{Kind: container.Delete, ID: "0"})
	s.want(201, nil, create(`{"id":"0","k":"a","n":3}`))
	if _, err := n.Containers.DeleteKey(t.Context(), s.c, key("a"), container.RequestOptions{}); err != nil {
		t.Fatal(err)
	}
	from := container.ChangesRequest{AllVersions: true, Since: time.Now().Add(-5 * time.Minute), MaxItems: 2}
	docs, end := s.changes(from)
	var got []string
	for _, d := range docs {
		var v version
		if err := json.Unmarshal([]byte(d), &v); err != nil {
			t.Fatalf("%s: %v", d, err)
		}
		got = append(got, fmt.Sprint(v.Metadata.OperationType, v.Previous.N, v.Current.N, v.Metadata.ID,
			v.Metadata.PartitionKey["k"]))
	}
	want := []string{"create0 1", "replace1 2", "delete2 00a", "create0 3", "delete3 00a"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	_, err := n.Containers.Changes(t.Context(), s.c, &container.ChangesRequest{Continuation: end})
	if err == nil {
		t.Error("a feed of latest versions accepts a continuation of all versions")
	}
	all := newClient(t, n).query(fmt.Sprintf(`SELECT id, body FROM d.c WHERE cosmos_changefeed_start_time() = %d `+
		`AND cosmos_changefeed_mode() = 'all'`, from.Since.UnixMilli()))
	if text := string(all.Cells); all.RowCount != 5 || strings.Count(text, "delete") != 2 ||
		strings.Count(text, `"n":2}`) != 2 || len(all.Metadata.Columns) != 6 {
		t.Errorf("CQL reads %d changes: %q", all.RowCount, text)
	}
	from.Since = time.Now().Add(-11 * time.Minute)
	_, err = n.Containers.Changes(t.Context(), s.c, &from)
	if err == nil || !strings.Contains(err.Error(), "have expired") {
		t.Errorf("from before the retention: %v", err)
	}
	if from.Since = (time.Time{}); true {
		if _, err := n.Containers.Changes(t.Context(), s.c, &from); err == nil {
			t.Error("a feed of all versions can start at the beginning")
		}
	}
	if _, err := n.Containers.ReplaceContainer(t.Context(), s.c, []byte(`{"id":"c","changeFeedPolicy":`+
		`{"retentionDuration":-1},"partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`), ""); err == nil {
		t.Error("a negative retention is accepted")
	}
}

// TestChangesInCluster checks change feeds while clients of four nodes change a few items and partitions split and
// merge. A reader of all versions must receive every change exactly once. The changes of each key must be in order.
// Its continuations must be valid at every node. A reader of latest versions must finally see the last state of each
// item.
func TestChangesInCluster(t *testing.T) {
	t.Parallel()
	nodes := []*Node{clusterNode(t, nil, Options{InitialPartitions: 2})}
	for range 3 {
		nodes = append(nodes, clusterNode(t, nodes[0], Options{}))
	}
	eventually.True(t, "four voters", func() bool { return voters(nodes[0]) == 4 })
	s := newContainer(t, nodes[0], `{"id":"c","changeFeedPolicy":{"retentionDuration":600},`+
		`"partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	const keys, lanes, each = 9, 6, 40
	begin, err := nodes[0].Containers.Changes(t.Context(), s.c, &container.ChangesRequest{AllVersions: true,
		Now: true})
	if err != nil {
		t.Fatal(err)
	}
	incr := container.Operation{Kind: container.Patch, ID: "n", Body: []byte(`[{"op":"incr","path":"/n","value":1}]`)}
	for i := range keys {
		s.want(201, nil, create(fmt.Sprintf(`{"id":"n","k":"%d","n":0}`, i)))
	}
	var clients sync.WaitGroup
	for lane := range lanes {
		at := itemsOf(t, nodes[lane%len(nodes)])
		clients.Go(func() {
			for i := range each {
				r, err := at.n.Containers.Do(t.Context(), at.c, key(fmt.Sprint((lane+i)%keys)),
					[]container.Operation{incr}, container.RequestOptions{})
				if status := container.StatusOf(err); err == nil && r.Failed >= 0 ||
					err != nil && status != 503 && status != 408 {
					t.Errorf("%+v, %v", r, err)
				}
			}
		})
	}
	written := make(chan struct{})
	next := map[string]int{} // number of changes read per item
	var feed, latest sync.WaitGroup
	read := func(n int, r *container.ChangesRequest) {
		at := itemsOf(t, nodes[n%len(nodes)])
		var docs []string
		docs, r.Continuation = at.changes(*r)
		for _, d := range docs {
			var v version
			if err := json.Unmarshal([]byte(d), &v); err != nil {
				t.Error(err)
			}
			if k := v.Current.K; v.Current.N != next[k] {
				t.Errorf("item %s: change %d comes after %d", k, v.Current.N, next[k]-1)
			}
			next[v.Current.K]++
		}
	}
	all := container.ChangesRequest{AllVersions: true, Continuation: begin.Continuation, MaxItems: 3}
	feed.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-written:
				read(n, &all)
				return
			default:
				read(n, &all)
			}
		}
	})
	states := map[string]int{}
	latest.Go(func() {
		at := itemsOf(t, nodes[1])
		r := container.ChangesRequest{MaxItems: 2}
		for more := true; more; {
			select {
			case <-written:
				more = false
			default:
			}
			var docs []string
			docs, r.Continuation = at.changes(r)
			for _, d := range docs {
				var c changed
				if err := json.Unmarshal([]byte(d), &c); err != nil || c.N < states[c.K] {
					t.Errorf("%s after %d, %v", d, states[c.K], err)
				}
				states[c.K] = c.N
			}
		}
	})
	table := nodes[0].catalog.Snapshot().Table("d", "c").ID
	partitions := func() []*topology.Partition { return nodes[0].metadata.State().Topology.Partitions(table) }
	for _, p := range partitions() {
		if _, err := nodes[0].partitions.Split(t.Context(), operations.Split{Table: "d.c", Partition: uint64(p.ID),
			Wait: true, Now: true, At: fmt.Sprint(int64(p.Span.Begin.Ring^1<<63) + 1<<60)}); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		two := [2]uint64{uint64(partitions()[0].ID), uint64(partitions()[1].ID)}
		o := operations.Merge{Table: "d.c", Partitions: two, Wait: true, Now: true}
		if _, err := nodes[0].partitions.Merge(t.Context(), o); err != nil {
			t.Error(err)
		}
	}
	clients.Wait()
	close(written)
	feed.Wait()
	latest.Wait()
	for i := range keys {
		k := fmt.Sprint(i)
		var body changed
		if err := json.Unmarshal([]byte(s.body(key(k), "n")), &body); err != nil {
			t.Fatal(err)
		}
		if next[k] != body.N+1 || states[k] != body.N {
			t.Errorf("item %s has %d changes, the feed had %d, the last was %d", k, body.N+1, next[k], states[k])
		}
	}
}
