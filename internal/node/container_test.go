// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/query/container"
)

// items reads and writes the items of one container.
type items struct {
	t testing.TB
	n *Node
	c *container.Container
}

// newContainer creates a container in database d. newContainer creates the database if it does not exist.
func newContainer(t testing.TB, n *Node, definition string) *items {
	t.Helper()
	d, err := n.Containers.Database("d")
	if err != nil {
		if d, err = n.Containers.CreateDatabase(t.Context(), "d", container.Throughput{}); err != nil {
			t.Fatal(err)
		}
	}
	c, err := n.Containers.CreateContainer(t.Context(), d, []byte(definition), container.Throughput{})
	if err != nil {
		t.Fatal(err)
	}
	return &items{t, n, c}
}

// itemsOf returns the items of container c in database d. It uses the definition that the node currently knows.
func itemsOf(t testing.TB, n *Node) *items {
	t.Helper()
	d, err := n.Containers.Database("d")
	if err != nil {
		t.Fatal(err)
	}
	c, err := n.Containers.Container(d, "c")
	if err != nil {
		t.Fatal(err)
	}
	return &items{t, n, c}
}

// key returns a partition key with one string.
func key(s string) epk.Key { return epk.Key{epk.Text(s)} }

// do executes one operation and returns its result.
func (s *items) do(key epk.Key, op container.Operation) *container.Result {
	s.t.Helper()
	r, err := s.n.Containers.Do(s.t.Context(), s.c, key, []container.Operation{op}, container.RequestOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	if r.Charge <= 0 || r.Of[0].Charge <= 0 || r.Failed < 0 && (r.LSN <= 0 || r.Range == "") {
		s.t.Errorf("%+v has no charge or no partition: %+v", op, r)
	}
	return &r.Of[0]
}

// want executes an operation and fails the test unless it returns the expected status.
func (s *items) want(status int, key epk.Key, op container.Operation) *container.Result {
	s.t.Helper()
	r := s.do(key, op)
	if r.Status != status || (r.Err != nil) != (status >= 304) {
		s.t.Fatalf("%d %s %s: status %d, want %d: %v", op.Kind, op.ID, op.Body, r.Status, status, r.Err)
	}
	return r
}

// body returns the body of an item, or "" if the item does not exist.
func (s *items) body(key epk.Key, id string) string {
	s.t.Helper()
	r, _, err := s.n.Containers.Read(s.t.Context(), s.c, key, id, "", container.RequestOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	if r.Item == nil {
		return ""
	}
	return string(r.Item.Body)
}

func create(body string) container.Operation {
	return container.Operation{Kind: container.Create, Body: []byte(body)}
}

// attempt executes a statement and returns its error.
func attempt(c *client, text string) error {
	c.call.Result.Reset()
	c.call.Request.Text, c.call.Request.Values = []byte(text), nil
	return c.wait(c.s.Query(c.t.Context(), &c.call)).Err
}

// TestItems checks the effects and errors of each operation on an item, and the conditions on etags. Bodies must be
// stored byte for byte. CQL must return the items as rows and must not be able to change them.
func TestItems(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"food","partitionKey":{"paths":["/foodGroup"],"kind":"Hash","version":2}}`)
	beef := key("Beef Products")
	body := `{ "id":"1", "n":1.50, "foodGroup" : "Beef Products", "a":[1,{"b":"é"}] }`
	made := s.want(201, nil, create(body))
	if got := s.body(beef, "1"); got != body || string(made.Item.Body) != body {
		t.Errorf("the body is %s and %s", got, made.Item.Body)
	}
	whole := document.View(made.Item.Resource())
	if whole.Get("_etag").Str() != made.Item.Etag || whole.Get("_rid").Str() != made.Item.RID ||
		whole.Get("_self").Str() != s.c.Self()+"docs/"+made.Item.RID+"/" || whole.Get("_ts").Float() == 0 {
		t.Errorf("the resource of the item is %v", whole)
	}
	id, err := n.Containers.IDOf(t.Context(), s.c, beef, made.Item.RID)
	if err != nil || id != "1" {
		t.Errorf("the resource ID belongs to %q, %v", id, err)
	}
	s.want(409, beef, create(body))
	r, _, err := n.Containers.Read(t.Context(), s.c, beef, "1", made.Item.Etag, container.RequestOptions{})
	if err != nil || r.Status != 304 {
		t.Errorf("a read with the current etag: %+v, %v", r, err)
	}
	next := `{"id":"1","foodGroup":"Beef Products","n":2}`
	replace := container.Operation{Kind: container.Replace, ID: "1", Body: []byte(next), IfMatch: `"other"`}
	s.want(412, beef, replace)
	replace.IfMatch = made.Item.Etag
	replaced := s.want(200, beef, replace)
	if replaced.Item.Etag == made.Item.Etag || replaced.Item.RID != made.Item.RID {
		t.Errorf("replaced: %+v, before: %+v", replaced.Item, made.Item)
	}
	s.want(412, beef, replace) // the etag is outdated
	s.want(404, beef, container.Operation{Kind: container.Replace, Body: []byte(strings.Replace(next, "1", "2", 1))})
	upsert := container.Operation{Kind: container.Upsert, Body: []byte(`{"id":"2","foodGroup":"Beef Products"}`)}
	s.want(201, beef, upsert)
	s.want(200, beef, upsert)
	patch := container.Operation{Kind: container.Patch, ID: "1",
		Body: []byte(`[{"op":"incr","path":"/n","value":3},{"op":"add","path":"/x","value":{"y":null}}]`)}
	want := `{"id":"1","foodGroup":"Beef Products","n":5,"x":{"y":null}}`
	if got := s.want(200, beef, patch); string(got.Item.Body) != want {
		t.Errorf("patched: %s", got.Item.Body)
	}
	for _, wrong := range []string{`[]`, `{`, `[{"op":"remove","path":"/none"}]`,
		`[{"op":"set","path":"/id","value":"9"}]`,
		`[{"op":"set","path":"/foodGroup","value":"Soups"}]`, `[{"op":"incr","path":"/x","value":1}]`} {
		patch.Body = []byte(wrong)
		s.want(400, beef, patch)
	}
	c := newClient(t, n)
	row := c.query(`SELECT id, body, token("/foodGroup") FROM d.food WHERE "/foodGroup" = '"Beef Products"' ` +
		`AND id = '1'`)
	if row.RowCount != 1 || !strings.Contains(string(row.Cells), `"x":{"y":null}}`) {
		t.Errorf("CQL reads %d rows: %q", row.RowCount, row.Cells)
	}
	if got := c.query(fmt.Sprintf(`SELECT id FROM d.food WHERE token("/foodGroup") = %d`,
		epk.V2.Token(beef))).RowCount; got != 2 {
		t.Errorf("CQL reads %d items by their token", got)
	}
	for _, no := range []string{`INSERT INTO d.food ("/foodGroup", id) VALUES ('1', '1')`, "TRUNCATE d.food",
		"ALTER TABLE d.food ADD x int", "CREATE INDEX ON d.food (body)",
		`DELETE FROM d.food WHERE "/foodGroup" = '1'`} {
		if err := attempt(c, no); err == nil || !strings.Contains(err.Error(), "is a container of items") {
			t.Errorf("%s: %v", no, err)
		}
	}
	s.want(404, beef, container.Operation{Kind: container.Delete, ID: "3"})
	s.want(412, beef, container.Operation{Kind: container.Delete, ID: "1", IfMatch: made.Item.Etag})
	s.want(204, beef, container.Operation{Kind: container.Delete, ID: "1"})
	if got := s.body(beef, "1"); got != "" {
		t.Errorf("deleted: %s", got)
	}
	s.want(201, beef, create(body))
	if _, err := n.Containers.DeleteKey(t.Context(), s.c, beef, container.RequestOptions{}); err != nil {
		t.Fatal(err)
	}
	if a, b := s.body(beef, "1"), s.body(beef, "2"); a+b != "" {
		t.Errorf("the deleted logical partition has %s and %s", a, b)
	}
}

// TestItemsRefused checks that an invalid item is rejected without effect. An item whose partition key is not the
// requested key must also be rejected. The error must have the status and substatus of Cosmos DB.
func TestItemsRefused(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	k := key("a")
	for body, status := range map[string]int{
		`{"id":"1"`: 400, `[]`: 400, `{"k":"a"}`: 400, `{"id":1,"k":"a"}`: 400, `{"id":"","k":"a"}`: 400,
		`{"id":"1","k":"b"}`: 400, `{"id":"1"}`: 400,
		`{"id":"` + strings.Repeat("x", 1024) + `","k":"a"}`:          400,
		`{"id":"1","k":"a","x":"` + strings.Repeat("x", 2<<20) + `"}`: 413,
	} {
		r := s.want(status, k, create(body))
		if mismatch := strings.HasPrefix(body, `{"id":"1","k":"b"`) || body == `{"id":"1"}`; mismatch !=
			(r.Err.SubStatus == container.SubKeyMismatch) {
			t.Errorf("%.40s: sub-status %d", body, r.Err.SubStatus)
		}
	}
	s.want(201, epk.Key{{}}, create(`{"id":"1"}`)) // items without a key share an empty key
	s.want(201, epk.Key{{}}, create(`{"id":"2","k":[1]}`))
	s.want(201, epk.Key{{Kind: epk.Null}}, create(`{"id":"1","k":null}`))
	s.want(201, epk.Key{epk.Float(1)}, create(`{"id":"1","k":1.0}`))
	s.want(409, nil, create(`{"id":"1","k":1e0}`))
	for _, id := range []string{"a/b", `a\b`, "a?b", "a#b"} {
		s.want(400, k, create(`{"id":`+document.StringValue(id).String()+`,"k":"a"}`))
	}
	for _, id := range []string{"a b", "%20%2F", "é\u0000", `"'`, "\U0001F600"} {
		body := string(document.ObjectValue([]document.Member{{Name: "id", Value: document.StringValue(id)},
			{Name: "k", Value: document.StringValue("a")}}).Append(nil))
		s.want(201, k, create(body))
		if got := s.body(k, id); got != body {
			t.Errorf("%q: %s", id, got)
		}
		s.want(204, k, container.Operation{Kind: container.Delete, ID: id})
	}
	_, err := n.Containers.Do(t.Context(), s.c, epk.Key{}, []container.Operation{{Kind: container.Read, ID: "1"}},
		container.RequestOptions{})
	if container.StatusOf(err) != 400 {
		t.Errorf("without a key: %v", err)
	}
	if err := n.Containers.DeleteContainer(t.Context(), s.c, ""); err != nil {
		t.Fatal(err)
	}
	_, err = n.Containers.Do(t.Context(), s.c, k, []container.Operation{create(`{"id":"1","k":"a"}`)},
		container.RequestOptions{})
	e, ok := errors.AsType[*container.Error](err)
	if !ok || e.Status != 404 || e.SubStatus != container.SubOwnerMissing {
		t.Errorf("in a dropped container: %v", err)
	}
}

// TestBatches checks that each operation of a batch sees the effects of the preceding operations. A batch must be
// applied completely or not at all. If a batch fails, the result must name the failed operation.
func TestBatches(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	k := key("a")
	batch := func(ops ...container.Operation) *container.Results {
		t.Helper()
		r, err := n.Containers.Do(t.Context(), s.c, k, ops, container.RequestOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	read := container.Operation{Kind: container.Read, ID: "1"}
	remove := container.Operation{Kind: container.Delete, ID: "1"}
	incr := container.Operation{Kind: container.Patch, ID: "1", Body: []byte(`[{"op":"incr","path":"/n","value":1}]`)}
	one := create(`{"id":"1","k":"a","n":1}`)
	r := batch(one, incr, read, incr, create(`{"id":"2","k":"a"}`))
	if r.Failed >= 0 || string(r.Of[2].Item.Body) != `{"id":"1","k":"a","n":2}` {
		t.Fatalf("%+v", r)
	}
	if got := s.body(k, "1"); got != `{"id":"1","k":"a","n":3}` {
		t.Errorf("after the batch: %s", got)
	}
	first := r.LSN
	r = batch(incr, remove, one, create(`{"id":"2","k":"a"}`), incr)
	if r.Failed != 3 || r.Of[3].Status != 409 || r.Of[0].Status != 424 || r.Of[4].Status != 424 || r.LSN != first {
		t.Fatalf("%+v", r)
	}
	if got := s.body(k, "1"); got != `{"id":"1","k":"a","n":3}` {
		t.Errorf("after a batch that failed: %s", got)
	}
	if r = batch(remove, one, remove, one); r.Failed >= 0 || s.body(k, "1") != `{"id":"1","k":"a","n":1}` ||
		r.LSN != first+1 {
		t.Errorf("deleted and created again: %s, %+v", s.body(k, "1"), r)
	}
	if r = batch(create(`{"id":"3","k":"a"}`), container.Operation{Kind: container.Delete, ID: "3"}); r.Failed >= 0 ||
		s.body(k, "3") != "" {
		t.Errorf("created and deleted: %+v", r)
	}
	large := strings.Repeat("x", 400<<10) // exceeds the default result limit of a transaction
	if r = batch(create(`{"id":"4","k":"a","pad":"`+large+`"}`), container.Operation{Kind: container.Read, ID: "4"},
		container.Operation{Kind: container.Patch, ID: "4", Body: []byte(`[{"op":"set","path":"/n","value":1}]`)},
		container.Operation{Kind: container.Read, ID: "4"}); r.Failed >= 0 {
		t.Fatalf("%+v", r)
	}
	for i, patched := range []bool{false, false, true, true} {
		item := r.Of[i].Item
		got := document.View(item.Body)
		if len(got.Get("pad").Str()) != len(large) || got.Get("n").IsDefined() != patched {
			t.Errorf("operation %d on a large item returns %d bytes", i, len(item.Body))
		}
	}
	for _, many := range []int{0, container.OperationsMax + 1} {
		_, err := n.Containers.Do(t.Context(), s.c, k, make([]container.Operation, many), container.RequestOptions{})
		if container.StatusOf(err) != 400 {
			t.Errorf("%d operations: %v", many, err)
		}
	}
}

// TestUniqueKeys checks that two items of a logical partition never have the same values of a unique key. This must
// also hold within a batch. A missing path counts as null. The values of a deleted or changed item can be used again.
func TestUniqueKeys(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
		"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/name","/at/x"]},{"paths":["/mail"]}]}}`)
	k := key("a")
	s.want(201, k, create(`{"id":"1","k":"a","name":"n","at":{"x":1},"mail":"m"}`))
	s.want(409, k, create(`{"id":"2","k":"a","name":"n","at":{"x":1.0},"mail":"o"}`))
	s.want(409, k, create(`{"id":"2","k":"a","name":"n","mail":"m"}`))
	s.want(201, key("b"), create(`{"id":"2","k":"b","name":"n","at":{"x":1},"mail":"m"}`))
	s.want(201, k, create(`{"id":"2","k":"a","name":"n","mail":"o"}`))
	s.want(409, k, create(`{"id":"3","k":"a","name":"n","at":{"x":null},"mail":"p"}`))
	s.want(409, k, container.Operation{Kind: container.Patch, ID: "2",
		Body: []byte(`[{"op":"set","path":"/mail","value":"m"}]`)})
	s.want(200, k, container.Operation{Kind: container.Patch, ID: "1",
		Body: []byte(`[{"op":"set","path":"/mail","value":"q"}]`)})
	s.want(200, k, container.Operation{Kind: container.Patch, ID: "2",
		Body: []byte(`[{"op":"set","path":"/mail","value":"m"}]`)})
	s.want(204, k, container.Operation{Kind: container.Delete, ID: "1"})
	s.want(201, k, create(`{"id":"3","k":"a","name":"n","at":{"x":1},"mail":"q"}`))
	r, err := n.Containers.Do(t.Context(), s.c, k, []container.Operation{{Kind: container.Delete, ID: "3"},
		create(`{"id":"4","k":"a","name":"n","at":{"x":1},"mail":"q"}`),
		create(`{"id":"5","k":"a","mail":"q"}`)}, container.RequestOptions{})
	if err != nil || r.Failed != 2 || r.Of[2].Status != 409 {
		t.Errorf("%+v, %v", r, err)
	}
}

// feed reads all items of a scope in pages of up to most items. It returns the ID and the key of each item in feed
// order.
func (s *items) feed(scope container.Scope, most int) (out []string) {
	s.t.Helper()
	for token, pages := "", 0; ; pages++ {
		p, err := s.n.Containers.Feed(s.t.Context(), s.c, scope, token, most, container.RequestOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		if p.Charge <= 0 || most > 0 && len(p.Documents) > most {
			s.t.Errorf("a page of %d items costs %v", len(p.Documents), p.Charge)
		}
		for _, d := range p.Documents {
			v := document.View(d)
			out = append(out, v.Get("id").Str()+" "+v.Get("k").Str())
		}
		if token = p.Continuation; token == "" {
			return out
		}
		if pages > 10_000 {
			s.t.Fatal("the feed does not end")
		}
	}
}

// TestFeeds checks that feeds return every item of their scope exactly once and in the same order. Pages may have any
// size. The scopes are a container, a key, a prefix of a hierarchical key, a physical partition, and a range of
// effective partition keys. The physical partitions must cover the ring without gaps, even after splits and after a
// restart.
func TestFeeds(t *testing.T) {
	t.Parallel()
	o := Options{Data: t.TempDir(), InitialPartitions: 3}
	n := startNode(t, o)
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k","/l"],"kind":"MultiHash","version":2}}`)
	const keys, each = 12, 7
	for i := range keys * each {
		k, l := fmt.Sprint("k", i%keys), float64(i%2)
		s.want(201, epk.Key{epk.Text(k), epk.Float(l)}, create(fmt.Sprintf(`{"id":"%03d","k":"%s","l":%v}`, i, k, l)))
	}
	all := s.feed(container.Scope{}, 0)
	if len(all) != keys*each {
		t.Fatalf("%d items", len(all))
	}
	for _, most := range []int{1, 5, 84, 1000} {
		if got := s.feed(container.Scope{}, most); !slices.Equal(got, all) {
			t.Errorf("by pages of %d: %v, want %v", most, got, all)
		}
	}
	sorted := slices.Sorted(slices.Values(all))
	tiles := func() {
		t.Helper()
		ranges, etag := n.Containers.Ranges(s.c)
		if _, again := n.Containers.Ranges(s.c); again != etag || etag[0] != '"' {
			t.Errorf("the etag changes from %s to %s", etag, again)
		}
		var byID, byEPK []string
		at := ""
		for _, r := range ranges {
			if r.Min != at {
				t.Errorf("%s is followed by %s", at, r.Min)
			}
			at = r.Max
			byID = append(byID, s.feed(container.Scope{Range: r.ID}, 3)...)
			byEPK = append(byEPK, s.feed(container.Scope{MinEPK: r.Min, MaxEPK: r.Max}, 3)...)
		}
		slices.Sort(byID)
		slices.Sort(byEPK)
		if at != epk.End || !slices.Equal(byID, sorted) || !slices.Equal(byEPK, sorted) {
			t.Errorf("%+v: by ids %v, by keys %v", ranges, byID, byEPK)
		}
		if _, err := n.Containers.Feed(t.Context(), s.c, container.Scope{Range: "gone"}, "", 0,
			container.RequestOptions{}); container.StatusOf(err) != 410 {
			t.Errorf("a range that does not exist: %v", err)
		}
	}
	tiles()
	prefix := epk.Key{epk.Text("k3")}
	if got := s.feed(container.Scope{Key: prefix}, 2); len(got) != each {
		t.Errorf("of a prefix: %v", got)
	}
	if got := s.feed(container.Scope{Key: append(prefix, epk.Float(1))}, 2); len(got) != each {
		t.Errorf("of a key: %v", got)
	}
	if got := s.feed(container.Scope{Key: append(prefix, epk.Float(0))}, 2); len(got) != 0 {
		t.Errorf("of a key without items: %v", got)
	}
	first, err := n.Containers.Feed(t.Context(), s.c, container.Scope{}, "", 40, container.RequestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	split := func() {
		for _, p := range n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Table("d", "c").ID) {
			_, err := n.partitions.Split(t.Context(),
				operations.Split{Table: "d.c", Partition: uint64(p.ID), Now: true})
			if err != nil && !strings.Contains(err.Error(), "one token") {
				t.Fatal(err)
			}
		}
	}
	split()
	tiles()
	rest, err := n.Containers.Feed(t.Context(), s.c, container.Scope{}, first.Continuation, 0,
		container.RequestOptions{})
	if err != nil || len(first.Documents)+len(rest.Documents) != len(all) {
		t.Errorf("%d and %d items around the splits, %v", len(first.Documents), len(rest.Documents), err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = startNode(t, o)
	if s = itemsOf(t, n); !slices.Equal(s.feed(container.Scope{}, 10), all) {
		t.Error("the items have changed after a restart")
	}
	tiles()
	s.want(409, nil, create(`{"id":"003","k":"k3","l":1}`))
}
