// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// query reads all pages of a query and returns the documents as text.
func (s *items) query(q container.QueryRequest) (out []string, err error) {
	s.t.Helper()
	for pages := 0; ; pages++ {
		p, err := s.n.Containers.Query(s.t.Context(), s.c, &q)
		if err != nil {
			return out, err
		}
		if p.Charge <= 0 || p.Range == "" || p.LSN <= 0 || q.MaxItems > 0 && len(p.Documents) > q.MaxItems {
			s.t.Errorf("%s: a page of %d items has %+v", q.Text, len(p.Documents), p.Where)
		}
		for _, d := range p.Documents {
			out = append(out, string(d))
		}
		if q.Continuation = p.Continuation; q.Continuation == "" {
			return out, nil
		}
		if pages > 1000 {
			s.t.Fatalf("%s does not end", q.Text)
		}
	}
}

// TestQueries checks the results of queries by key, by ID, by range, and across all partitions. Pages have various
// sizes, and partitions split between pages. A query with a key must examine only the items of that key. Invalid
// queries must be rejected.
func TestQueries(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 2})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	const count = 60
	for i := range count {
		s.want(201, nil, create(fmt.Sprintf(`{"id":"%02d","k":"k%d","n":%d,"tags":["a%d","b"]}`, i, i%6, i, i%3)))
	}
	all := container.QueryRequest{CrossPartition: true}
	for _, c := range []struct {
		text    string
		want    []string
		ordered bool
	}{
		{`SELECT VALUE c.id FROM c WHERE c.n >= 57`, []string{`"57"`, `"58"`, `"59"`}, false},
		{`SELECT VALUE c.n FROM c ORDER BY c.n DESC OFFSET 1 LIMIT 3`, []string{"58", "57", "56"}, true},
		{`SELECT VALUE COUNT(1) FROM c`, []string{"60"}, true},
		{`SELECT c.k, SUM(c.n) AS s FROM c WHERE c.n < 12 GROUP BY c.k`, []string{`{"k":"k0","s":6}`, `{"k":"k1","s":8}`,
			`{"k":"k2","s":10}`, `{"k":"k3","s":12}`, `{"k":"k4","s":14}`, `{"k":"k5","s":16}`}, false},
		{`SELECT DISTINCT VALUE t FROM c JOIN t IN c.tags`, []string{`"a0"`, `"a1"`, `"a2"`, `"b"`}, false},
		{`SELECT VALUE c.id FROM c WHERE c.k = "k1" AND c.n < 10`, []string{`"01"`, `"07"`}, true},
		{`SELECT VALUE c.id FROM c WHERE c.k = "k1" AND c.id = "07"`, []string{`"07"`}, true},
		{`SELECT VALUE c.id FROM c WHERE c.id IN ("07", "08", "09") AND c.k = "k1"`, []string{`"07"`}, true},
		{`SELECT VALUE c.id FROM c WHERE (c.k = "k1" AND c.id = "07") OR (c.k = "k2" AND c.id = "08")`,
			[]string{`"07"`, `"08"`}, false},
		{`SELECT VALUE c.id FROM c WHERE c.k = "k1" AND c.k = "k2"`, nil, true},
		{`SELECT VALUE 1`, []string{"1"}, true},
	} {
		for _, most := range []int{0, 1, 2, 7} {
			q := all
			q.Text, q.MaxItems = c.text, most
			got, err := s.query(q)
			if !c.ordered {
				slices.Sort(got)
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%s, pages of %d: %v, %v; want %v", c.text, most, got, err, c.want)
			}
		}
	}
	of := func(q container.QueryRequest) *container.Page {
		t.Helper()
		p, err := n.Containers.Query(t.Context(), s.c, &q)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	pinned := of(container.QueryRequest{Text: "SELECT * FROM c WHERE c.k = @k", Parameters: []container.Parameter{
		{Name: "@k", Value: []byte(`"k3"`)}}})
	if pinned.Metrics.RetrievedCount != count/6 || len(pinned.Documents) != count/6 {
		t.Errorf("a query with a key examined %d items", pinned.Metrics.RetrievedCount)
	}
	if v := document.View(pinned.Documents[0]); v.Get("_etag").Str() == "" || v.Get("_rid").Str() == "" {
		t.Errorf("the item is %v", v)
	}
	one := of(container.QueryRequest{Text: `SELECT * FROM c WHERE c.id = "09"`,
		Scope: container.Scope{Key: key("k3")}})
	if one.Charge > pinned.Charge || len(one.Documents) != 1 {
		t.Errorf("one item of a key costs %v, all cost %v", one.Charge, pinned.Charge)
	}
	q := all
	q.Text, q.MaxItems = "SELECT VALUE c.id FROM c", 25
	first := of(q)
	for _, p := range n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Table("d", "c").ID) {
		if _, err := n.partitions.Split(t.Context(), operations.Split{Table: "d.c", Partition: uint64(p.ID),
			Now: true}); err != nil {
			t.Fatal(err)
		}
	}
	q.Continuation, q.MaxItems = first.Continuation, 0
	rest, err := s.query(q)
	ids := map[string]bool{}
	for _, d := range first.Documents {
		ids[string(d)] = true
	}
	for _, d := range rest {
		ids[d] = true
	}
	if err != nil || len(first.Documents) != 25 || len(rest) != count-25 || len(ids) != count {
		t.Errorf("%d and %d items around a split, %d different, %v", len(first.Documents), len(rest), len(ids), err)
	}
	sum := 0
	ranges, _ := n.Containers.Ranges(s.c)
	for _, r := range ranges {
		got, err := s.query(container.QueryRequest{Text: "SELECT VALUE c.id FROM c WHERE c.n >= 0",
			Scope: container.Scope{Range: r.ID}})
		if err != nil {
			t.Error(err)
		}
		sum += len(got)
	}
	if len(ranges) != 4 || sum != count {
		t.Errorf("%d items in %d ranges", sum, len(ranges))
	}
	for text, part := range map[string]string{"SELECT * FROM": `"code":"SC1001"`, "SELECT * FROM c": "Cross partition",
		"SELECT * FROM c WHERE c.k = @x": "@x"} {
		_, err := s.query(container.QueryRequest{Text: text})
		if container.StatusOf(err) != 400 || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", text, err)
		}
	}
	q.Continuation = "x"
	if _, err := s.query(q); container.StatusOf(err) != 400 {
		t.Errorf("an invalid continuation: %v", err)
	}
}

// TestPatchConditions checks that a conditional patch is applied only if its condition is true.
func TestPatchConditions(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	s.want(201, nil, create(`{"id":"1","k":"a","n":5}`))
	patch := func(status int, condition string) {
		t.Helper()
		s.want(status, key("a"), container.Operation{Kind: container.Patch, ID: "1", Body: []byte(
			`{"operations":[{"op":"incr","path":"/n","value":-3}],"condition":` + condition + `}`)})
	}
	patch(200, `"from c where c.n >= 3"`)
	patch(412, `"from c where c.n >= 3"`)
	patch(412, `"from c where c.missing = 1"`)
	patch(400, `"from c where"`)
	patch(200, `"from c where c.k = 'a' and is_defined(c._etag)"`)
	if got := s.body(key("a"), "1"); got != `{"id":"1","k":"a","n":-1}` {
		t.Errorf("the item is %s", got)
	}
}

// runner runs programs that are functions in a test.
type runner func(ctx context.Context, t *container.Transaction, program []byte) ([]byte, error)

func (r runner) RunProgram(ctx context.Context, t *container.Transaction, program []byte) ([]byte, error) {
	return r(ctx, t, program)
}

// TestRunner checks that a program reads and writes the items of its logical partition in one transaction. Its reads
// and queries must see its own writes, and it must be able to continue after a rejected operation. A failed program
// must change nothing.
func TestRunner(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	k := key("a")
	s.want(201, k, create(`{"id":"1","k":"a","n":5}`))
	s.want(201, key("b"), create(`{"id":"9","k":"b","n":5}`))
	run := func() ([]byte, error) {
		out, where, err := n.Containers.Run(t.Context(), s.c, k, []byte("p"), container.RequestOptions{})
		if where.Charge <= 0 && err == nil {
			t.Error("the program has no charge")
		}
		return out, err
	}
	fails := false
	n.Containers.SetRunner(runner(func(ctx context.Context, tx *container.Transaction, program []byte) ([]byte, error) {
		op := create(`{"id":"2","k":"a","n":7}`)
		made, bad := tx.Do(ctx, &op)
		if bad != nil {
			return nil, bad
		}
		again := create(`{"id":"2","k":"a"}`)
		if _, bad := tx.Do(ctx, &again); bad == nil || bad.Status != 409 {
			return nil, fmt.Errorf("made twice: %v", bad)
		}
		other := create(`{"id":"2","k":"b"}`)
		if _, bad := tx.Do(ctx, &other); bad == nil || bad.SubStatus != container.SubKeyMismatch {
			return nil, fmt.Errorf("made elsewhere: %v", bad)
		}
		read, bad := tx.Do(ctx, &container.Operation{Kind: container.Read, ID: "2"})
		if bad != nil || read.Item().Etag != made.Item().Etag {
			return nil, fmt.Errorf("%+v, %v", read, bad)
		}
		page, bad := tx.Query(ctx, &container.QueryRequest{Text: "SELECT VALUE SUM(c.n) FROM c"})
		if bad != nil || len(page.Documents) != 1 {
			return nil, fmt.Errorf("%+v, %v", page, bad)
		}
		if _, bad := tx.Do(ctx, &container.Operation{Kind: container.Delete, ID: "1"}); bad != nil {
			return nil, bad
		}
		left, bad := tx.Query(ctx, &container.QueryRequest{})
		if bad != nil || len(left.Documents) != 1 || document.View(left.Documents[0]).Get("id").Str() != "2" {
			return nil, fmt.Errorf("%s, %v", left.Documents, bad)
		}
		if fails {
			return nil, errors.New("thrown")
		}
		return append(page.Documents[0], program...), nil
	}))
	fails = true
	if _, err := run(); err == nil || !strings.Contains(err.Error(), "thrown") {
		t.Errorf("a program that fails: %v", err)
	}
	if got := s.body(k, "1") + s.body(k, "2"); got != `{"id":"1","k":"a","n":5}` {
		t.Errorf("after a program that failed: %s", got)
	}
	fails = false
	if out, err := run(); err != nil || string(out) != "12p" {
		t.Errorf("%s, %v", out, err)
	}
	if got := s.body(k, "1") + s.body(k, "2"); got != `{"id":"2","k":"a","n":7}` {
		t.Errorf("after the program: %s", got)
	}
}

// TestRunnerPages checks that a program can read many items page by page. Each page must resume after the previous
// page. The program must see every item once, including its own changes. It must stay within the read limit of a
// transaction.
func TestRunnerPages(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	k := key("a")
	item := func(id string, n int) container.Operation {
		return create(fmt.Sprintf(`{"id":"%s","k":"a","n":%d}`, id, n))
	}
	const items, page = 3000, 20 // the reads exceed the limit if each page reads all items
	var want []string
	for i := 0; i < items; i += container.OperationsMax {
		var batch []container.Operation
		for j := i; j < i+container.OperationsMax; j++ {
			batch = append(batch, item(fmt.Sprintf("%04d", j), j))
			want = append(want, fmt.Sprintf("%04d", j))
		}
		r, err := n.Containers.Do(t.Context(), s.c, k, batch, container.RequestOptions{})
		if err != nil || r.Failed >= 0 {
			t.Fatal(r, err)
		}
	}
	var got []string
	n.Containers.SetRunner(runner(func(ctx context.Context, tx *container.Transaction, _ []byte) ([]byte, error) {
		got = nil
		do := func(op container.Operation) {
			if _, bad := tx.Do(ctx, &op); bad != nil {
				t.Errorf("%+v: %v", op, bad)
			}
		}
		do(item("0100a", 1)) // this item sorts after the first pages
		do(container.Operation{Kind: container.Delete, ID: "0200"})
		q := container.QueryRequest{Text: "SELECT c.id FROM c WHERE c.n >= 0", MaxItems: page}
		for {
			p, bad := tx.Query(ctx, &q)
			if bad != nil {
				return nil, bad
			}
			for _, d := range p.Documents {
				got = append(got, document.View(d).Get("id").Str())
			}
			if q.Continuation = p.Continuation; q.Continuation == "" {
				return nil, nil
			}
			last := got[len(got)-1]
			if len(got)%(10*page) == 0 {
				do(container.Operation{Kind: container.Delete, ID: last})
				do(item(last[:3], 1)) // this item sorts before the next page
			}
		}
	}))
	if _, _, err := n.Containers.Run(t.Context(), s.c, k, []byte("p"), container.RequestOptions{}); err != nil {
		t.Fatal(err)
	}
	want = slices.DeleteFunc(append(want, "0100a"), func(id string) bool { return id == "0200" })
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d items were seen, want %d: %v", len(got), len(want), got)
	}
}

// TestTimeToLive checks which items expire and when they expire. An expired item must be missing from reads, feeds,
// and queries. Its ID and its unique values must be available again. The test controls the clock.
func TestTimeToLive(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	now := time.Now().Truncate(time.Second).Add(999 * time.Millisecond)
	n.Containers = container.New(container.Options{Catalog: n.catalog, Coordinator: n.coordinator, Store: n.changer,
		Definitions: &n.definitions, Clock: fakeclock.Func(func() time.Time { return now })})
	n.host.SetPrograms(n.Programs())
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},"defaultTtl":100,
		"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}`)
	for i, ttl := range []string{``, `,"ttl":-1`, `,"ttl":10`, ``} {
		s.want(201, nil, create(fmt.Sprintf(`{"id":"%d","k":"a","u":%d%s}`, i, i, ttl)))
	}
	for _, bad := range []string{"0", "-10", "1.5", `"1"`, "2147483648", "null"} {
		s.want(400, nil, create(`{"id":"bad","k":"a","u":9,"ttl":`+bad+`}`))
	}
	left := func(want string) {
		t.Helper()
		got, err := s.query(container.QueryRequest{Text: "SELECT VALUE c.id FROM c", CrossPartition: true})
		if err != nil || strings.Join(got, "") != want {
			t.Errorf("%v are left, %v; want %s", got, err, want)
		}
		if feed := s.feed(container.Scope{}, 1); len(feed) != len(got) {
			t.Errorf("the feed has %v", feed)
		}
	}
	left(`"0""1""2""3"`)
	now = now.Add(10 * time.Second) // the items were created at the end of a second
	left(`"0""1""2""3"`)
	now = now.Add(time.Second)
	left(`"0""1""3"`)
	if got := s.body(key("a"), "2"); got != "" {
		t.Errorf("expired: %s", got)
	}
	s.want(404, key("a"), container.Operation{Kind: container.Delete, ID: "2"})
	s.want(409, nil, create(`{"id":"4","k":"a","u":1}`))
	s.want(201, nil, create(`{"id":"2","k":"a","u":2}`))
	now = now.Add(95 * time.Second)
	left(`"1""2"`)
	s.want(200, key("a"), container.Operation{Kind: container.Replace,
		Body: []byte(`{"id":"2","k":"a","u":2,"ttl":-1}`)})
	now = now.Add(time.Hour)
	left(`"1""2"`)
	none := newContainer(t, n, `{"id":"none","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	none.want(201, nil, create(`{"id":"1","k":"a","ttl":1}`))
	none.want(201, nil, create(`{"id":"2","k":"a","ttl":"soon"}`))
	if now = now.Add(time.Hour); none.body(key("a"), "1") == "" {
		t.Error("an item expired in a container without a time to live")
	}
}

// TestHierarchicalQueries checks that a query by a prefix of a hierarchical key returns only the items with that
// prefix, and all of them.
func TestHierarchicalQueries(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 4})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/a","/b/c"],"kind":"MultiHash","version":2}}`)
	for i := range 20 {
		s.want(201, nil, create(fmt.Sprintf(`{"id":"%02d","a":"a%d","b":{"c":%d}}`, i, i%4, i%5)))
	}
	for _, q := range []container.QueryRequest{
		{Text: "SELECT VALUE c.id FROM c", Scope: container.Scope{Key: key("a1")}},
		{Text: `SELECT VALUE c.id FROM c WHERE c.a = "a1"`, CrossPartition: true},
		{Text: `SELECT VALUE c.id FROM c WHERE c.a = "a1"`, CrossPartition: true,
			Scope: container.Scope{Key: key("a1")}},
	} {
		if got, err := s.query(q); err != nil || strings.Join(slices.Sorted(slices.Values(got)), "") !=
			`"01""05""09""13""17"` {
			t.Errorf("%s: %v, %v", q.Text, got, err)
		}
	}
	got, err := s.query(container.QueryRequest{Text: `SELECT VALUE c.id FROM c WHERE c.b.c = 2`,
		Scope: container.Scope{Key: key("a1")}})
	if err != nil || len(got) != 1 || got[0] != `"17"` {
		t.Errorf("within a prefix: %v, %v", got, err)
	}
	got, err = s.query(container.QueryRequest{Text: `SELECT VALUE c.id FROM c WHERE c.a = "a2"`,
		Scope: container.Scope{Key: epk.Key{epk.Text("a1")}}})
	if err != nil || len(got) != 0 {
		t.Errorf("of another prefix: %v, %v", got, err)
	}
}
