// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/node/engines"
	"github.com/ilion-db/ilion/internal/query/container"
)

// spent is a coordinator that rejects reads as if their partitions had exhausted their budgets. The function refuse
// receives the index of a read, which starts at 0. It returns the wait time, or 0 to allow the read.
type spent struct {
	container.Coordinator
	refuse  func(n int) time.Duration
	asked   int
	refused int
}

func (s *spent) Read(ctx context.Context, q *command.Read, v command.Visitor) error {
	n := s.asked
	s.asked++
	if wait := s.refuse(n); wait > 0 {
		s.refused++
		// The read visits rows before it is rejected, and the query must discard these rows.
		_ = s.Coordinator.Read(ctx, q, v)
		return &dberr.Overloaded{Message: "Request rate is large", RetryAfter: wait}
	}
	return s.Coordinator.Read(ctx, q, v)
}

// TestQueriesWaitForBudget checks a query or feed that has already read data. It must wait for budget instead of being
// rejected. It must not lose or duplicate items. If the wait would be too long, the page must end early. A query that
// cannot return partial pages must be rejected. The first read of a request must always be rejected.
func TestQueriesWaitForBudget(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	const count = 40
	var want []string
	for i := range count {
		id := fmt.Sprintf("%02d", i)
		s.want(201, nil, create(`{"id":"`+id+`","k":"k`+id[1:]+`","x":"`+strings.Repeat("x", 100<<10)+`"}`))
		want = append(want, `"`+id+`"`)
	}
	ask := func(refuse func(int) time.Duration) (*items, *spent) {
		c := &spent{Coordinator: n.coordinator, refuse: refuse}
		o := container.Options{Catalog: n.catalog, Coordinator: c, Store: n.changer, NoPushdown: true}
		node := &Node{Engines: &engines.Engines{Containers: container.New(o)}}
		return &items{t, node, s.c}, c
	}
	twice := func(n int) time.Duration { return time.Duration(n%3) * time.Microsecond }
	streams := container.QueryRequest{CrossPartition: true, Text: "SELECT VALUE c.id FROM c"}
	keys := streams
	keys.Text += ` WHERE c.k IN ("k1", "k5", "k7")`
	counts := streams
	counts.Text = "SELECT VALUE COUNT(1) FROM c"
	ordered := func(out []string, err error) string {
		slices.Sort(out)
		return fmt.Sprint(out, err)
	}
	ofKeys := slices.DeleteFunc(slices.Clone(want), func(id string) bool {
		return !strings.ContainsAny(id[2:3], "157")
	})

	for name, test := range map[string]struct {
		q    container.QueryRequest
		want []string
	}{"a scan": {streams, want}, "three keys": {keys, ofKeys}, "an aggregate": {counts, []string{fmt.Sprint(count)}}} {
		items, c := ask(twice)
		if got := ordered(items.query(test.q)); got != fmt.Sprint(test.want, nil) || c.refused < 2 {
			t.Errorf("%s: %s after %d refusals", name, got, c.refused)
		}
	}
	items, c := ask(twice)
	page, err := items.n.Containers.Feed(t.Context(), s.c, container.Scope{}, "", 0, container.RequestOptions{})
	if err != nil || len(page.Documents) != count || page.Continuation != "" || c.refused < 2 {
		t.Errorf("a feed: %d items, %v, after %d refusals", len(page.Documents), err, c.refused)
	}

	// Every second read must wait longer than a page may take, so each page ends after one successful read.
	long := func(n int) time.Duration { return time.Duration(n%2) * time.Hour }
	for _, test := range []struct {
		q    container.QueryRequest
		want []string
	}{{streams, want}, {keys, ofKeys}} {
		items, c = ask(long)
		if got := ordered(items.query(test.q)); got != fmt.Sprint(test.want, nil) || c.refused < 2 {
			t.Errorf("%s by pages that end early: %s", test.q.Text, got)
		}
	}
	items, _ = ask(long)
	page, err = items.n.Containers.Feed(t.Context(), s.c, container.Scope{}, "", 0, container.RequestOptions{})
	if err != nil || len(page.Documents) == 0 || page.Continuation == "" {
		t.Errorf("a feed that ends early: %+v %v", page, err)
	}
	if _, err := items.query(counts); container.StatusOf(err) != 429 {
		t.Errorf("an aggregate that would have to wait for an hour: %v", err)
	}
	items, _ = ask(func(int) time.Duration { return time.Microsecond })
	if _, err := items.query(streams); container.StatusOf(err) != 429 {
		t.Errorf("the first read: %v", err)
	}
}
