// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/container/sql"
	"github.com/ilion-db/ilion/internal/query/function/script"
)

// fake is an in-memory engine with the features that the server uses. These features are resources, items with
// conditions, transactions, and queries that return all items.
type fake struct {
	databaseResources

	mu         sync.Mutex
	databases  map[string]*container.Database
	containers map[string]*container.Container // containers by resource ID
	items      map[string]map[string]*container.Item
	offers     map[string]*container.Offer
	ranges     []container.Range
	rangesETag string
	made       uint64
	lsn        int64
	// refusal, if not nil, is the error of every item operation.
	refusal error
	// asked is the last query.
	asked container.QueryRequest
	// query, if not nil, is called for every query.
	query func(ctx context.Context) error
}

// fakeTime is the fixed current time.
const fakeTime = 1_700_000_000

func newFake() *fake {
	return &fake{databases: map[string]*container.Database{}, containers: map[string]*container.Container{},
		items: map[string]map[string]*container.Item{}, offers: map[string]*container.Offer{},
		ranges: []container.Range{{ID: "0", Max: "FF"}}, rangesETag: `"r1"`, lsn: 1}
}

// rid returns a new resource ID that is below another resource ID.
func (f *fake) rid(parent string, size int) string {
	id, _ := base64.StdEncoding.DecodeString(parent)
	f.made++
	own := make([]byte, 8)
	binary.BigEndian.PutUint64(own, f.made)
	id = append(id, own[8-(size-len(id)):]...)
	return string(bytes.ReplaceAll([]byte(base64.StdEncoding.EncodeToString(id)), []byte("/"), []byte("-")))
}

func (f *fake) etag() string {
	f.made++
	return fmt.Sprintf(`"%08x-0000"`, f.made)
}

func noSuch(what, id string) error { return container.Errorf(404, 0, "There is no %s %q.", what, id) }

func (f *fake) Databases() []*container.Database {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.SortedFunc(maps.Values(f.databases), func(a, b *container.Database) int {
		return cmp.Compare(a.ID, b.ID)
	})
}

func (f *fake) Compiling(string) (release func(), err error) { return func() {}, nil }

func (f *fake) Evaluation(ctx context.Context, _ fairshare.Principal) *meter.Meter {
	return meter.New(ctx, meter.Limits{})
}

func (f *fake) Renewed(context.Context) bool { return false }

func (f *fake) Database(id string) (*container.Database, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.databases[id]; d != nil {
		return d, nil
	}
	return nil, noSuch("database", id)
}

func (f *fake) DatabaseByRID(rid string) (*container.Database, error) {
	for _, d := range f.Databases() {
		if d.RID == rid {
			return d, nil
		}
	}
	return nil, noSuch("database", rid)
}

func (f *fake) CreateDatabase(_ context.Context, id string, t container.Throughput) (*container.Database, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.databases[id] != nil {
		return nil, container.Errorf(409, 0, "The database %q exists.", id)
	}
	d := &container.Database{ID: id, RID: f.rid("", 4), Etag: f.etag(), TS: fakeTime}
	f.databases[id] = d
	if t != (container.Throughput{}) {
		f.offer(d.Self(), d.RID, t)
	}
	return d, nil
}

func (f *fake) offer(self, rid string, t container.Throughput) {
	id := "O" + strconv.Itoa(len(f.offers))
	f.offers[id] = &container.Offer{ID: id, Resource: self, ResourceRID: rid, Etag: f.etag(), TS: fakeTime,
		Throughput: t}
}

func (f *fake) DeleteDatabase(_ context.Context, d *container.Database, ifMatch string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := precondition(ifMatch, d.Etag); err != nil {
		return err
	}
	delete(f.databases, d.ID)
	return nil
}

func (f *fake) Containers(d *container.Database) []*container.Container {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*container.Container
	for _, c := range f.containers {
		if c.Database == d {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *container.Container) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (f *fake) Container(d *container.Database, id string) (*container.Container, error) {
	for _, c := range f.Containers(d) {
		if c.ID == id {
			return c, nil
		}
	}
	return nil, noSuch("container", id)
}

func (f *fake) ContainerByRID(rid string) (*container.Container, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.containers[rid]; c != nil {
		return c, nil
	}
	return nil, noSuch("container", rid)
}

func (f *fake) CreateContainer(_ context.Context, d *container.Database, body []byte,
	t container.Throughput) (*container.Container, error) {
	var sent struct {
		ID           string `json:"id"`
		PartitionKey struct {
			Paths []string `json:"paths"`
		} `json:"partitionKey"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return nil, container.Errorf(400, 0, "%v", err)
	}
	if _, err := f.Container(d, sent.ID); err == nil {
		return nil, container.Errorf(409, 0, "The container %q exists.", sent.ID)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if v := document.View(body); !v.Get("indexingPolicy").IsDefined() {
		body = document.With(v, "indexingPolicy", document.View([]byte(`{"indexingMode":"consistent"}`))).Append(nil)
	}
	c := &container.Container{Database: d, ID: sent.ID, RID: f.rid(d.RID, 8), Etag: f.etag(), TS: fakeTime,
		Definition: &container.Definition{JSON: bytes.Clone(body), ID: sent.ID, Paths: sent.PartitionKey.Paths,
			Hash: epk.V2}}
	f.containers[c.RID] = c
	f.items[c.RID] = map[string]*container.Item{}
	if t == (container.Throughput{}) {
		t.Manual = 400
	}
	f.offer(c.Self(), c.RID, t)
	return c, nil
}

func (f *fake) ReplaceContainer(_ context.Context, c *container.Container, body []byte,
	ifMatch string) (*container.Container, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ifMatch != "" && ifMatch != c.Etag {
		return nil, container.Errorf(412, 0, "The etag is another one.")
	}
	next := *c
	next.Etag, next.Definition = f.etag(), &container.Definition{JSON: bytes.Clone(body), ID: c.ID,
		Paths: c.Definition.Paths, Hash: epk.V2}
	f.containers[c.RID] = &next
	return &next, nil
}

func (f *fake) DeleteContainer(_ context.Context, c *container.Container, ifMatch string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := precondition(ifMatch, c.Etag); err != nil {
		return err
	}
	delete(f.containers, c.RID)
	return nil
}

func (f *fake) where(charge ru.Units) container.Where {
	return container.Where{Charge: charge, Range: "0", LSN: f.lsn}
}

func (f *fake) Do(_ context.Context, c *container.Container, key epk.Key, ops []container.Operation,
	_ container.RequestOptions) (*container.Results, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refusal != nil {
		return nil, f.refusal
	}
	before := maps.Clone(f.items[c.RID])
	out := &container.Results{Failed: -1}
	for i := range ops {
		r := f.one(c, key, &ops[i])
		if r.Err != nil && out.Failed < 0 {
			out.Failed = i
			f.items[c.RID] = before
		}
		out.Of = append(out.Of, r)
	}
	for i := range out.Of {
		if out.Failed >= 0 && i != out.Failed {
			out.Of[i] = container.Result{Status: 424, Err: container.Errorf(424, 0, "Another operation failed.")}
		}
	}
	if out.Failed < 0 {
		f.lsn++
	}
	out.Where = f.where(ru.Unit * 11 / 2 * ru.Units(len(ops)))
	return out, nil
}

// keyIn extracts the partition key from an item.
func keyIn(c *container.Container, body []byte) (key epk.Key, err error) {
	v, err := document.Parse(body, document.Limits{})
	if err != nil {
		return nil, err
	}
	for _, text := range c.Definition.Paths {
		path, err := document.ParsePath(text)
		if err != nil {
			return nil, err
		}
		value := path.KeyOf(v)
		if !value.IsDefined() {
			value = document.ObjectValue(nil)
		}
		part, err := c.ParseKey("[" + value.String() + "]")
		if err != nil {
			return nil, err
		}
		key = append(key, part...)
	}
	return key, nil
}

// one executes one operation.
func (f *fake) one(c *container.Container, key epk.Key, op *container.Operation) container.Result {
	fail := func(status, sub int, text string) container.Result {
		return container.Result{Status: status, Err: container.Errorf(status, sub, "%s", text), Charge: ru.Unit}
	}
	body := op.Body
	switch op.Kind {
	case container.Create, container.Upsert, container.Replace:
		own, err := keyIn(c, body)
		if err != nil {
			return fail(400, 0, err.Error())
		}
		if key != nil && !key.Equal(own) {
			return fail(400, container.SubKeyMismatch, "The partition key of the item is another one.")
		}
		key = own
		if op.Kind != container.Replace {
			op.ID = document.View(body).Get("id").Str()
		}
	}
	at := key.String() + op.ID
	was := f.items[c.RID][at]
	if op.IfMatch != "" && was != nil && op.IfMatch != was.Etag && op.IfMatch != "*" {
		return fail(412, 0, "The etag is another one.")
	}
	switch {
	case was != nil && op.Kind == container.Create:
		return fail(409, 0, "The item exists.")
	case was == nil && op.Kind != container.Create && op.Kind != container.Upsert:
		return fail(404, 0, "There is no such item.")
	}
	status := http.StatusOK
	switch op.Kind {
	case container.Delete:
		delete(f.items[c.RID], at)
		return container.Result{Status: 204, Charge: 5 * ru.Unit}
	case container.Read:
		return container.Result{Status: status, Item: was, Charge: ru.Unit}
	case container.Patch:
		ops, condition, err := document.ParsePatch(document.View(bytes.Clone(body)))
		if err != nil {
			return fail(400, 0, err.Error())
		}
		if condition != "" {
			return fail(412, 0, "The condition does not hold.") // conditions are never satisfied in tests
		}
		next, err := document.Patch(document.View(was.Body), ops)
		if err != nil {
			return fail(400, 0, err.Error())
		}
		body = next.Append(nil)
	case container.Create, container.Upsert:
		if was == nil {
			status = http.StatusCreated
		}
	}
	item := &container.Item{ID: op.ID, RID: f.rid(c.RID, 16), Etag: f.etag(), TS: fakeTime, Container: c,
		Body: document.WithoutSystem(document.View(bytes.Clone(body))).Append(nil)}
	if was != nil {
		item.RID = was.RID
	}
	f.items[c.RID][at] = item
	return container.Result{Status: status, Item: item, Charge: ru.Unit * 11 / 2}
}

func (f *fake) Read(_ context.Context, c *container.Container, key epk.Key, id, ifNoneMatch string,
	_ container.RequestOptions) (*container.Result, container.Where, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refusal != nil {
		return nil, container.Where{}, f.refusal
	}
	r := f.one(c, key, &container.Operation{Kind: container.Read, ID: id})
	if r.Err == nil && ifNoneMatch == r.Item.Etag {
		r.Status = http.StatusNotModified
	}
	return &r, f.where(ru.Unit), nil
}

func (f *fake) IDOf(_ context.Context, c *container.Container, key epk.Key, rid string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at, item := range f.items[c.RID] {
		if item.RID == rid && at == key.String()+item.ID {
			return item.ID, nil
		}
	}
	return "", noSuch("item", rid)
}

func (f *fake) DeleteKey(_ context.Context, c *container.Container, key epk.Key,
	_ container.RequestOptions) (container.Where, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.items[c.RID], func(at string, i *container.Item) bool { return at == key.String()+i.ID })
	return f.where(ru.Unit), nil
}

func (f *fake) IndexProgress(*container.Container) int { return 100 }

func (f *fake) Sizes(context.Context, *container.Container) []container.Size {
	return []container.Size{{DiskBytes: 5 << 20, Keys: 3}}
}

func (f *fake) Query(ctx context.Context, c *container.Container, q *container.QueryRequest) (*container.Page, error) {
	f.mu.Lock()
	wait := f.query
	f.mu.Unlock()
	if wait != nil {
		if err := wait(ctx); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = *q
	if q.Key == nil && !q.CrossPartition {
		return nil, container.Errorf(400, 0, "Cross partition query is required but disabled.")
	}
	compiled, err := compile(q, nil)
	if err != nil {
		return nil, err
	}
	run := sql.Run{Page: q.MaxItems}
	if q.Continuation != "" {
		if run.After, err = sql.ParseContinuation(q.Continuation); err != nil {
			return nil, err
		}
	}
	source := func(yield func(sql.Row, error) bool) {
		for _, at := range slices.Sorted(maps.Keys(f.items[c.RID])) {
			item := f.items[c.RID][at]
			if (q.Key == nil || at == q.Key.String()+item.ID) && !yield(sql.Row{Place: at,
				Item: document.View(item.Resource())}, nil) {
				return
			}
		}
	}
	page := &container.Page{Where: f.where(3 * ru.Unit)}
	next, err := compiled.Run(ctx, source, run, func(v document.Value) error {
		page.Documents = append(page.Documents, v.Append(nil))
		return nil
	})
	if next != nil {
		page.Continuation = next.String()
	}
	page.Metrics = container.QueryMetrics{RetrievedCount: 4, RetrievedBytes: 400, OutputCount: 2, OutputBytes: 200}
	return page, ofQuery(err)
}

func (f *fake) Feed(_ context.Context, c *container.Container, s container.Scope, continuation string, maxItems int,
	_ container.RequestOptions) (*container.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refusal != nil {
		return nil, f.refusal
	}
	page := &container.Page{Where: f.where(3 * ru.Unit)}
	for _, at := range slices.Sorted(maps.Keys(f.items[c.RID])) {
		item := f.items[c.RID][at]
		if at <= continuation || s.Key != nil && at != s.Key.String()+item.ID {
			continue
		}
		if len(page.Documents) == maxItems {
			page.Continuation = continuation
			break
		}
		page.Documents, continuation = append(page.Documents, item.Resource()), at
	}
	return page, nil
}

// Changes returns all items. If the request has a continuation, Changes returns no items.
func (f *fake) Changes(ctx context.Context, c *container.Container, r *container.ChangesRequest) (
	*container.ChangesPage, error) {
	if r.Continuation != "" || r.Now {
		return &container.ChangesPage{Ended: true,
			Page: container.Page{Where: f.where(ru.Unit), Continuation: "end"}}, nil
	}
	page, err := f.Feed(ctx, c, r.Scope, "", r.MaxItems, r.RequestOptions)
	if err != nil {
		return nil, err
	}
	page.Continuation = "end"
	return &container.ChangesPage{Page: *page, Ended: true}, nil
}

func (f *fake) Ranges(*container.Container) ([]container.Range, string) {
	return f.ranges, f.rangesETag
}

func (f *fake) LSN(string) int64 { return f.lsn }

func (f *fake) Seen(_ string, lsn int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lsn = max(f.lsn, lsn)
}

func (f *fake) Offers() []*container.Offer {
	return slices.SortedFunc(maps.Values(f.offers), func(a, b *container.Offer) int { return cmp.Compare(a.ID, b.ID) })
}

func (f *fake) Offer(id string) (*container.Offer, error) {
	if o := f.offers[id]; o != nil {
		return o, nil
	}
	return nil, noSuch("offer", id)
}

func (f *fake) ReplaceOffer(_ context.Context, o *container.Offer, t container.Throughput, ifMatch string) (
	*container.Offer, error) {
	if err := precondition(ifMatch, o.Etag); err != nil {
		return nil, err
	}
	next := *o
	next.Throughput, next.Etag = t, f.etag()
	f.offers[o.ID] = &next
	return &next, nil
}

func (f *fake) CreateScript(context.Context, *container.Container, container.ScriptKind, []byte) (*container.Script,
	error) {
	return nil, container.Errorf(503, 0, "The fake keeps no scripts.")
}

func (f *fake) ReplaceScript(context.Context, *container.Container, *container.Script, []byte,
	string) (*container.Script, error) {
	return nil, container.Errorf(503, 0, "The fake keeps no scripts.")
}

func (f *fake) DeleteScript(context.Context, *container.Container, *container.Script, string) error {
	return container.Errorf(503, 0, "The fake keeps no scripts.")
}

// noScripts describes the calls of procedures and triggers instead of executing them.
type noScripts struct{}

func (noScripts) Execute(_ context.Context, _ *container.Container, key epk.Key, id string, args []byte, log bool,
	_ container.RequestOptions) (*script.Executed, container.Where, error) {
	return &script.Executed{Body: fmt.Appendf(nil, `{"procedure":%q,"values":%d,"arguments":%s}`, id, len(key), args),
		Log: map[bool]string{true: "100 %, ü"}[log]}, container.Where{}, nil
}

func (noScripts) Do(_ context.Context, _ *container.Container, key epk.Key, op *container.Operation,
	before, after []string, _ bool, _ container.RequestOptions) (*script.Executed, container.Where, error) {
	return &script.Executed{Status: 201, Etag: `"e"`, Body: fmt.Appendf(nil, `{"before":%q,"after":%q,"values":%d}`,
		strings.Join(before, " "), strings.Join(after, " "), len(key))}, container.Where{}, nil
}

func (noScripts) Functions(*container.Container) sql.Functions { return nil }

// precondition rejects an etag that does not satisfy a condition.
func precondition(ifMatch, etag string) error {
	if ifMatch != "" && ifMatch != "*" && ifMatch != etag {
		return container.Errorf(412, 0, "One of the specified pre-condition is not met.")
	}
	return nil
}
