// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// Clients create, replace, patch, delete, and read items, one at a time and in batches, with and without etags. Stored
// procedures read some items and write others. Queries read logical partitions. Every value is written only once, so a
// value identifies a version of an item.

var (
	stockKeys = []string{"p0", "p1", "p2"}
	stockIDs  = []string{"a", "b", "c", "d"}
)

// itemsRun holds the state of the item workload of a run.
type itemsRun struct {
	table    *schema.Table
	editions int
	requests []*itemRequest
	// etags holds the etags of the versions that clients have read. versions holds the versions in the logs by key and
	// ID.
	etags    map[itemVersion]string
	versions map[itemAt][]loggedItem
	// kept is set if all changes are retained. followers holds the readers of the change feed. searches holds the
	// index searches in progress, and found holds the completed searches.
	kept      bool
	followers []*follower
	searches  []*search
	found     []*search
	expiring  []*expiringItem
}

type (
	itemAt      struct{ key, id string }
	itemVersion struct {
		itemAt
		value uint64
	}
)

// loggedItem is a version in the log of its partition. loggedItem holds the timestamp, the value (0 for a deletion),
// and the time at which the first replica applied the version.
type loggedItem struct {
	stamp int64
	value uint64
	born  time.Duration
}

// itemOp is one operation on an item.
type itemOp struct {
	kind   container.Kind
	id     string
	value  uint64
	unique string
	// match is the version that the item must have, or 0 for any version. The request checks the version by its etag
	// or by the condition of a patch.
	match uint64
	// seen is the version of the item after the operation.
	seen uint64
}

func (o *itemOp) String() string {
	kind := map[container.Kind]string{container.Create: "create", container.Upsert: "upsert",
		container.Replace: "replace", container.Patch: "patch", container.Delete: "delete", container.Read: "read"}
	return fmt.Sprintf("%s %s %d %s match %d saw %d", kind[o.kind], o.id, o.value, o.unique, o.match, o.seen)
}

// itemRequest is a request. A request is a sequence of operations that are executed atomically, a procedure, a query
// of all items or of one color, or the deletion of all items.
type itemRequest struct {
	client *itemClient
	key    string
	ops    []itemOp
	mix    *mixArgs
	query  bool
	// color is 1 plus the color that a query selects, or 0 for all colors.
	color uint64
	// triggered is set if the first of two operations has triggers that execute the second operation.
	triggered bool
	clears    bool
	// status is the status of the failed operation or of the procedure, or 0 if the request succeeded. failed is the
	// index of the failed operation.
	status, failed int
	// seen holds the items that a procedure read. after holds all items that a query read, or that the procedure read
	// at its end.
	seen, after   map[string]uint64
	done          bool
	called, ended time.Duration
}

// mixArgs holds the arguments of the procedure.
type mixArgs struct {
	reads, writes, uniques []string
	value                  uint64
	even, fail             bool
}

func (r *itemRequest) String() string {
	what := fmt.Sprint("query of ", r.color, " saw ", r.after)
	if r.clears {
		what = "deletion of all"
	}
	if r.mix != nil {
		what = fmt.Sprintf("procedure %+v saw %v, then %v", *r.mix, r.seen, r.after)
	}
	for i := range r.ops {
		if i == 0 {
			what = fmt.Sprintf("items (triggers %v):", r.triggered)
		}
		what += " " + r.ops[i].String() + ";"
	}
	return fmt.Sprintf("client %d %s %s status %d at %d [%v %v] done %v", r.client.id, r.key, what, r.status, r.failed,
		r.called, r.ended, r.done)
}

// itemClient is a client of items. itemClient holds the last version of each item that it has read.
type itemClient struct {
	w    *simulation
	n    *node
	t    *simenv.Task
	id   int
	last map[itemAt]uint64
}

// startItems starts clients of items on a node.
func (n *node) startItems() {
	w := n.w
	for i := range 2 {
		n.Spawn(func(t *simenv.Task) {
			c := &itemClient{w: w, n: n, t: t, id: 400 + 2*n.ID + i, last: map[itemAt]uint64{}}
			for t.Sleep(w.Between(time.Millisecond, 120*time.Millisecond)) && !w.finished {
				c.execute(c.draw())
			}
		})
	}
	n.startTuner()
	n.startItemReaders()
}

func (c *itemClient) one(list []string) string { return list[c.w.Rand.IntN(len(list))] }

// uniqueOf returns a value of the unique key. Usually, the value is specific to the item; sometimes, other items may
// have the same value.
func (c *itemClient) uniqueOf(id string) string {
	if c.w.OneIn(4) {
		return []string{"u0", "u1"}[c.w.Rand.IntN(2)]
	}
	return "own " + id
}

// draw chooses a request.
func (c *itemClient) draw() *itemRequest {
	w := c.w
	r := &itemRequest{client: c, key: c.one(stockKeys), failed: -1}
	switch d := w.Rand.IntN(20); {
	case d < 9:
		r.ops = []itemOp{c.drawOp(r.key, 13)}
	case d < 13:
		for range 2 + w.Rand.IntN(3) {
			r.ops = append(r.ops, c.drawOp(r.key, 10))
		}
	case d < 18:
		r.mix = &mixArgs{value: w.hist.newValue(), even: w.OneIn(3), fail: w.OneIn(6)}
		for _, id := range stockIDs {
			if w.OneIn(2) {
				r.mix.reads = append(r.mix.reads, id)
			}
			if w.OneIn(2) {
				r.mix.writes = append(r.mix.writes, id)
				r.mix.uniques = append(r.mix.uniques, c.uniqueOf(id))
			}
		}
		r.mix.even = r.mix.even && len(r.mix.reads) > 0
	default:
		r.query, r.color = true, uint64(w.Rand.IntN(colors+1))
	}
	switch {
	case w.OneIn(12):
		*r = itemRequest{client: c, key: r.key, failed: -1, triggered: true, ops: []itemOp{c.drawOp(r.key, 10),
			{kind: container.Upsert, id: c.one(stockIDs), value: w.hist.newValue()}}}
		r.ops[1].unique = c.uniqueOf(r.ops[1].id)
		if o := &r.ops[0]; o.kind == container.Read || o.kind == container.Delete || o.kind == container.Patch {
			o.kind, o.value = container.Upsert, w.hist.newValue()
		}
	case !w.items.kept && w.OneIn(40):
		*r = itemRequest{client: c, key: r.key, failed: -1, clears: true}
	}
	return r
}

// drawOp chooses an operation. It draws a read if the drawn number is at least reads.
func (c *itemClient) drawOp(key string, reads int) itemOp {
	w := c.w
	o := itemOp{id: c.one(stockIDs)}
	o.unique = c.uniqueOf(o.id)
	switch d := w.Rand.IntN(reads + 3); {
	case d < 2:
		o.kind = container.Create
	case d < 5:
		o.kind = container.Upsert
	case d < 7:
		o.kind = container.Replace
	case d < 9:
		o.kind = container.Patch
	case d < 10:
		o.kind = container.Delete
	case d < reads:
		o.kind = container.Upsert
	default:
		o.kind = container.Read
	}
	if o.kind != container.Read && o.kind != container.Delete {
		o.value = w.hist.newValue()
	}
	if o.kind != container.Read && o.kind != container.Create && w.OneIn(2) {
		o.match = c.last[itemAt{key, o.id}]
	}
	return o
}

// operation returns the container operation for o.
func (c *itemClient) operation(key string, o *itemOp) container.Operation {
	out := container.Operation{Kind: o.kind, ID: o.id}
	etag := c.w.items.etags[itemVersion{itemAt{key, o.id}, o.match}]
	switch {
	case o.kind == container.Patch:
		condition := ""
		if o.match != 0 && o.match%2 == 0 {
			condition = fmt.Sprintf(`,"condition":"from c where c.v = %d"`, o.match)
		}
		out.Body = fmt.Appendf(nil, `{"operations":[{"op":"set","path":"/v","value":%d},`+
			`{"op":"set","path":"/c","value":%d}]%s}`, o.value, o.value%colors, condition)
		if condition != "" {
			return out
		}
	case o.value != 0:
		out.Body = o.body(key)
	}
	if o.match != 0 {
		out.IfMatch = etag
	}
	return out
}

// body returns the item that an operation writes.
func (o *itemOp) body(key string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"k":%q,"v":%d,"u":%q,"c":%d}`, o.id, key, o.value, o.unique, o.value%colors)
}

// execute executes a request on the node and records its outcome.
func (c *itemClient) execute(r *itemRequest) {
	w, n := c.w, c.n
	at := n.stocked()
	if at == nil {
		return // the node does not know the container
	}
	r.called = w.Now
	w.items.requests = append(w.items.requests, r)
	err := c.ask(at, r)
	r.ended = w.Now
	if err != nil {
		w.Note("%v: %v", r, err)
	}
	switch status := container.StatusOf(err); {
	case c.t.Dead():
		w.counts.Unknown++
	case err == nil:
		r.done = true
		w.counts.Items++
		w.Note("%v", r)
	case r.mix != nil && status == 400:
		r.status, r.done = status, true
		w.counts.Thrown++
	case r.triggered && (status == 400 || status == 404 || status == 409 || status == 412):
		r.status, r.done = status, true
		w.counts.Repelled++
	case status == 503 || status == 429:
		r.status, r.done = status, true
	case status == 408, strings.Contains(err.Error(), sched.ErrEnded.Error()):
		w.counts.Unknown++
		if w.plan.Bugs.HastyFate {
			r.status, r.done = 503, true
		}
	default:
		w.Fail("%v: status %d: %v", r, status, err)
	}
}

// ask sends a request and processes the response.
func (c *itemClient) ask(at *container.Container, r *itemRequest) error {
	ctx, n, key := context.Background(), c.n, stockKey(r.key)
	switch {
	case r.query:
		return c.look(ctx, at, r)
	case r.mix != nil:
		out, _, err := n.scripts.Execute(ctx, at, key, mixing, r.mix.json(r.key), false, container.RequestOptions{})
		if err == nil {
			v := document.View(out.Body)
			r.seen, r.after = valuesOf(v.Get("seen")), valuesOf(v.Get("after"))
			c.w.counts.Procedures++
		}
		return err
	case r.clears:
		_, err := n.stock.DeleteKey(ctx, at, key, container.RequestOptions{})
		if err == nil {
			c.w.counts.Cleared++
		}
		return err
	case r.triggered:
		return c.trigger(ctx, at, r)
	case len(r.ops) == 1 && r.ops[0].kind == container.Read && c.w.OneIn(2):
		found, _, err := n.stock.Read(ctx, at, key, r.ops[0].id, "", container.RequestOptions{})
		if err == nil {
			r.take(c, 0, found)
		}
		return err
	}
	ops := make([]container.Operation, len(r.ops))
	for i := range r.ops {
		ops[i] = c.operation(r.key, &r.ops[i])
	}
	out, err := n.stock.Do(ctx, at, key, ops, container.RequestOptions{NoBodies: c.w.OneIn(2)})
	if err != nil {
		return err
	}
	if r.failed = out.Failed; out.Failed >= 0 {
		r.status = out.Of[out.Failed].Status
		return nil
	}
	for i := range out.Of {
		r.take(c, i, &out.Of[i])
	}
	if len(r.ops) > 1 {
		c.w.counts.ItemBatches++
	}
	return nil
}

// trigger executes an operation with both triggers.
func (c *itemClient) trigger(ctx context.Context, at *container.Container, r *itemRequest) error {
	op := c.operation(r.key, &r.ops[0])
	op.Body = fmt.Appendf(nil, `{"id":%q,"k":%q,"v":%d,"u":%q,"also":%s}`, r.ops[0].id, r.key, r.ops[0].value,
		r.ops[0].unique, r.ops[1].body(r.key))
	_, _, err := c.n.scripts.Do(ctx, at, stockKey(r.key), &op, []string{stamping}, []string{adding}, false,
		container.RequestOptions{})
	if err == nil {
		r.ops[0].seen, r.ops[1].seen = r.ops[0].value, r.ops[1].value
		c.w.counts.Triggered++
	}
	return err
}

// take records the result of an operation.
func (r *itemRequest) take(c *itemClient, i int, found *container.Result) {
	o := &r.ops[i]
	at := itemAt{r.key, o.id}
	switch {
	case found.Status >= 400:
		r.failed, r.status = i, found.Status
	case o.kind == container.Delete:
	case found.Item == nil:
		c.w.Fail("%v: no item", r)
	default:
		if o.seen = o.value; found.Item.Body != nil {
			o.seen = numberOf(document.View(found.Item.Body).Get("v"))
		}
		c.w.known(at, o.seen, found.Item.Etag)
		c.last[at] = o.seen
	}
}

// look queries the items of a logical partition.
func (c *itemClient) look(ctx context.Context, at *container.Container, r *itemRequest) error {
	text := "SELECT c.id, c.v, c._etag FROM c"
	if r.color > 0 {
		text += fmt.Sprint(" WHERE c.c = ", r.color-1)
	}
	page, err := c.n.stock.Query(ctx, at, &container.QueryRequest{Scope: container.Scope{Key: stockKey(r.key)},
		Text: text})
	if err != nil {
		return err
	}
	if page.Continuation != "" {
		return container.Errorf(500, 0, "a few items have more than one page")
	}
	r.after = map[string]uint64{}
	for _, d := range page.Documents {
		v := document.View(d)
		id, value := v.Get("id").Str(), numberOf(v.Get("v"))
		r.after[id] = value
		c.w.known(itemAt{r.key, id}, value, v.Get("_etag").Str())
		c.last[itemAt{r.key, id}] = value
	}
	return nil
}

// known records the etag of a version. A version that has two etags was written twice.
func (w *simulation) known(at itemAt, value uint64, etag string) {
	v := itemVersion{at, value}
	if first, ok := w.items.etags[v]; ok && first != etag {
		w.Fail("item %v with value %d has the etags %s and %s: it was written twice", at, value, first, etag)
	}
	w.items.etags[v] = etag
}

func valueOfItem(body []byte) uint64 { return numberOf(document.View(body).Get("v")) }

func numberOf(v document.Value) uint64 {
	n, _ := v.Int()
	return uint64(n)
}

// valuesOf returns the numbers in an object.
func valuesOf(v document.Value) map[string]uint64 {
	out := map[string]uint64{}
	for name, n := range v.Members() {
		out[name] = numberOf(n)
	}
	return out
}

func (a *mixArgs) json(key string) []byte {
	list := func(texts []string) string {
		values := make([]document.Value, len(texts))
		for i, t := range texts {
			values[i] = document.StringValue(t)
		}
		return document.ArrayValue(values).String()
	}
	return fmt.Appendf(nil, `[{"key":%q,"reads":%s,"writes":%s,"uniques":%s,"value":%d,"even":%v,"fail":%v}]`, key,
		list(a.reads), list(a.writes), list(a.uniques), a.value, a.even, a.fail)
}

// lastItemReads reads all items once more after the faults have ended.
func (w *simulation) lastItemReads() {
	w.lastPages()
	for _, key := range stockKeys {
		n := w.nodes[w.Rand.IntN(nodeCount)]
		n.Spawn(func(t *simenv.Task) {
			c := &itemClient{w: w, n: n, t: t, id: lastReader, last: map[itemAt]uint64{}}
			r := &itemRequest{client: c, key: key, query: true, failed: -1}
			if c.execute(r); !r.done || r.status != 0 {
				w.Fail("the final query of %s failed", key)
			}
		})
	}
}

// writes maps item IDs to the values that a completed request has written. The value 0 represents a deletion.
func (r *itemRequest) writes() map[string]uint64 {
	out := map[string]uint64{}
	if r.clears {
		for _, id := range stockIDs {
			out[id] = 0
		}
	}
	for i := range r.ops {
		if o := &r.ops[i]; o.kind != container.Read {
			out[o.id] = o.value
		}
	}
	if r.mix != nil {
		for _, id := range r.mix.writes {
			out[id] = r.mix.value
		}
	}
	return out
}

// placeOfID returns the index of an item in a state.
func placeOfID(id string) int { return slices.Index(stockIDs, id) }
