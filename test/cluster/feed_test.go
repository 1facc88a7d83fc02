// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/restclient"
)

var (
	feedChanges = flag.Int64("feed-changes", 0, "number of item changes in TestChangesOverKills; 0 skips the test")
	feedKills   = flag.Int("feed-kills", 10, "number of node kills in TestChangesOverKills")
)

// These constants define the items of TestChangesOverKills, their logical partitions, and the number of clients.
const (
	feedKeys   = 60
	feedIDs    = 30
	feedAtOnce = 20 // changes per batch and per call
	feedPath   = "dbs/shop/colls/changing"
	feedTable  = "shop.changing"
)

// bumpText is a procedure that increments items in sequence. It must increment either all items or no items. It marks
// the items that it writes before it throws.
const bumpText = `function bump(ids, fail) {
	var c = getContext().getCollection(), i = 0;
	function must(accepted) { if (!accepted) throw new Error("not accepted"); }
	function next() {
		if (i == ids.length) {
			if (fail) throw new Error("on purpose");
			return getContext().getResponse().setBody(ids.length);
		}
		must(c.readDocument(c.getAltLink() + "/docs/" + ids[i], function (err, item) {
			if (err) throw err;
			item.n++;
			item.g = item.n % 7;
			item.s = "s" + item.n % 50;
			if (fail) item.bad = true;
			must(c.replaceDocument(item._self, item, function (err) {
				if (err) throw err;
				i++;
				next();
			}));
		}));
	}
	next();
}`

// counted is an item that counts its changes.
type counted struct {
	ID   string `json:"id"`
	Key  string `json:"k"`
	N    int    `json:"n"`
	G    int    `json:"g"`
	S    string `json:"s"`
	Bad  bool   `json:"bad,omitempty"`
	Etag string `json:"_etag,omitempty"`
	LSN  int64  `json:"_lsn,omitempty"`
}

func (c *counted) place() string { return c.Key + "/" + c.ID }

// feedLoad is a load of clients that change items and readers of the changes.
type feedLoad struct {
	f       *fleet
	stop    chan struct{}
	clients sync.WaitGroup
	// acked counts acknowledged changes. unknown counts changes whose requests received no response. thrown counts
	// calls that threw an exception. queries counts index queries that were read to the end.
	acked, unknown, thrown, queries atomic.Int64
}

// startFeed creates the container with its items and returns a continuation token of the all-versions feed. The token
// precedes the first change.
func startFeed(f *fleet) (l *feedLoad, now string, since time.Time) {
	t := f.t
	l = &feedLoad{f: f, stop: make(chan struct{})}
	c := f.nodes[0].restClient()
	defer c.Close()
	ask := func(what, method, path string, headers map[string]string, body any, want ...int) (h http.Header) {
		t.Helper()
		f.until(what, eventually.Limit, func() string {
			status, got, err := c.Ask(t.Context(), &restclient.Request{Method: method, Path: path, Headers: headers,
				Body: body}, nil)
			for _, w := range want {
				if status == w {
					h = got
					return ""
				}
			}
			return fmt.Sprintf("status %d, %v", status, err)
		})
		return h
	}
	ask("database", http.MethodPost, "dbs", nil, map[string]string{"id": "shop"}, 201, 409)
	ask("container", http.MethodPost, "dbs/shop/colls", nil, map[string]any{"id": "changing",
		"partitionKey":     map[string]any{"paths": []string{"/k"}, "kind": "Hash", "version": 2},
		"changeFeedPolicy": map[string]any{"retentionDuration": 10080}}, 201, 409)
	ask("procedure", http.MethodPost, feedPath+"/sprocs", nil, map[string]string{"id": "bump", "body": bumpText}, 201,
		409)
	f.settle()
	// The retention has a resolution of one second.
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1100 * time.Millisecond)))
	since = time.Now()
	h := ask("now", http.MethodGet, feedPath+"/docs", map[string]string{"A-IM": "Full-Fidelity Feed",
		"If-None-Match": "*"}, nil, 304)
	return l, h.Get("etag"), since
}

// fill creates the items.
func (l *feedLoad) fill() {
	for k := range feedKeys {
		c := l.f.nodes[k%len(l.f.nodes)].restClient()
		for id := range feedIDs {
			var got []byte
			q := &restclient.Request{Method: http.MethodPost, Path: feedPath + "/docs", Key: ownerKey(k),
				Body: &counted{ID: fmt.Sprint("i", id), Key: ownerKey(k), S: "s0"}}
			status, _, err := c.Ask(l.f.t.Context(), q, &got)
			if status != 201 {
				l.f.t.Fatalf("creation of an item: %d %v %s", status, err, got)
			}
			l.acked.Add(1)
		}
		c.Close()
	}
}

// ended reports whether clients must stop.
func (l *feedLoad) ended() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// writer is a client that changes items.
type writer struct {
	*feedLoad
	number, asked int
	dice          *rand.Rand
	rest          *restclient.Client
	cql           *rawclient.Conn
}

// node returns the next node in turn.
func (w *writer) node() *member {
	w.asked++
	return w.f.nodes[(w.number+w.asked)%len(w.f.nodes)]
}

// run changes items until the clients stop.
func (w *writer) run(change func() (done int64, answered bool)) {
	w.rest = w.node().restClient()
	for !w.ended() {
		n, answered := change()
		if answered {
			w.acked.Add(n)
			continue
		}
		w.unknown.Add(n)
		w.rest.Close()
		w.rest = w.node().restClient()
	}
	w.rest.Close()
	if w.cql != nil {
		w.cql.Close()
	}
}

// someIDs returns distinct items of a logical partition.
func (w *writer) someIDs(n int) (out []string) {
	for _, i := range w.dice.Perm(feedIDs)[:n] {
		out = append(out, fmt.Sprint("i", i))
	}
	return out
}

// ask sends a request to an item or the container. answered is false if the outcome of the request is unknown.
func (w *writer) ask(method, path, key string, headers map[string]string, body, out any) (status int, answered bool) {
	status, _, err := w.rest.Ask(w.f.t.Context(), &restclient.Request{Method: method, Path: feedPath + path, Key: key,
		Headers: headers, Body: body}, out)
	return status, err == nil && status != 408 && status != 429 && status < 500
}

// bumped returns a patch that increments an item.
func (w *writer) bumped() map[string]any {
	return map[string]any{"operations": []any{
		map[string]any{"op": "incr", "path": "/n", "value": 1},
		map[string]any{"op": "set", "path": "/g", "value": w.dice.IntN(7)},
		map[string]any{"op": "set", "path": "/s", "value": fmt.Sprint("s", w.dice.IntN(50))}}}
}

// batch increments items in a batch.
func (w *writer) batch() (int64, bool) {
	var ops []map[string]any
	for _, id := range w.someIDs(feedAtOnce) {
		ops = append(ops, map[string]any{"operationType": "Patch", "id": id, "resourceBody": w.bumped()})
	}
	status, answered := w.ask(http.MethodPost, "/docs", ownerKey(w.dice.IntN(feedKeys)), isBatch, ops, nil)
	if answered && status != 200 {
		w.f.t.Errorf("batch returned status %d", status)
	}
	return feedAtOnce, answered
}

// single changes one item. It alternates between a patch and a creation with a deletion.
func (w *writer) single() (n int64, answered bool) {
	key := ownerKey(w.dice.IntN(feedKeys))
	var status int
	if w.dice.IntN(3) > 0 {
		id := fmt.Sprint("i", w.dice.IntN(feedIDs))
		status, answered = w.ask(http.MethodPatch, "/docs/"+id, key, nil, w.bumped(), nil)
		if answered && status != 200 {
			w.f.t.Errorf("patch returned status %d", status)
		}
		return 1, answered
	}
	id := fmt.Sprint("x", w.dice.IntN(3))
	if w.dice.IntN(2) == 0 {
		status, answered = w.ask(http.MethodDelete, "/docs/"+id, key, nil, nil, nil)
	} else {
		status, answered = w.ask(http.MethodPost, "/docs", key, nil, &counted{ID: id, Key: key, S: "s0"}, nil)
	}
	switch status {
	case 201, 204:
		return 1, true
	case 404, 409:
		return 0, true
	}
	if answered {
		w.f.t.Errorf("creation or deletion of an item returned status %d", status)
	}
	return 1, answered
}

// call increments items with the procedure, through CQL.
func (w *writer) call() (int64, bool) {
	if w.cql == nil {
		c, err := rawclient.Dial(w.f.t.Context(), w.node().cql(), rawclient.Options{Timeout: restTime})
		if err != nil {
			time.Sleep(20 * time.Millisecond) // the node is down
			return 0, false
		}
		w.cql = c
	}
	ids, _ := json.Marshal(w.someIDs(feedAtOnce)) // the IDs are texts
	fail := w.dice.IntN(8) == 0
	_, err := w.cql.Query(fmt.Sprintf("CALL shop.changing.bump('%s', fromJson('%s'), %v)",
		ownerKey(w.dice.IntN(feedKeys)), ids, fail))
	var e *cqlwire.Error
	switch {
	case err == nil && !fail:
		return feedAtOnce, true
	case err == nil:
		w.f.t.Error("a call that throws succeeded")
		return 0, true
	case errors.As(err, &e) && e.Code == cqlwire.CodeFunctionFailure:
		if w.thrown.Add(1); !fail && !strings.Contains(err.Error(), "not accepted") &&
			!strings.Contains(err.Error(), "ran longer") {
			w.f.t.Errorf("a call failed: %v", err)
		}
		return 0, true
	case errors.As(err, &e):
		return feedAtOnce, false
	}
	w.cql.Close()
	w.cql = nil
	return feedAtOnce, false
}

// query queries the index page by page. query checks that each result matches the query and occurs once.
func (w *writer) query() (int64, bool) {
	g, seen := w.dice.IntN(7), map[string]bool{}
	text := fmt.Sprintf("SELECT c.id, c.k, c.n, c.g, c.s FROM c WHERE c.g = %d", g)
	if w.dice.IntN(2) == 0 {
		text = fmt.Sprintf("SELECT c.id, c.k, c.n, c.g, c.s FROM c WHERE c.s = 's%d' AND c.g = %d", w.dice.IntN(50), g)
	}
	headers := queryHeaders(100)
	for {
		var page struct{ Documents []counted }
		q := &restclient.Request{Method: http.MethodPost, Path: feedPath + "/docs", Headers: headers,
			Body: map[string]any{"query": text, "parameters": []any{}}}
		status, h, err := w.rest.Ask(w.f.t.Context(), q, &page)
		if err != nil || status == 408 || status == 429 || status >= 500 {
			return 0, false
		}
		if status != 200 {
			w.f.t.Errorf("%s: %d", text, status)
			return 0, true
		}
		for i := range page.Documents {
			d := &page.Documents[i]
			if d.G != g || strings.Contains(text, "c.s =") && !strings.Contains(text, "'"+d.S+"'") {
				w.f.t.Errorf("%s gives %+v", text, d)
			}
			if seen[d.place()] {
				w.f.t.Errorf("%s gives %s twice", text, d.place())
			}
			seen[d.place()] = true
		}
		if headers["x-ms-continuation"] = h.Get("x-ms-continuation"); headers["x-ms-continuation"] == "" {
			w.queries.Add(1)
			time.Sleep(100 * time.Millisecond) // leave CPU time to the writers
			return 0, true
		}
	}
}

func queryHeaders(page int) map[string]string {
	return map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-isquery": "True",
		"x-ms-documentdb-query-enablecrosspartition": "True", "x-ms-max-item-count": fmt.Sprint(page)}
}

// TestChangesOverKills checks the change feed through REST and CQL. The feed must contain all changes of items in
// order, and exactly once per sequence of continuation tokens. The changes come from batches, single requests, and
// procedures, some of which throw exceptions. Readers use both modes through REST and CQL and sometimes return to
// their last checkpoint. During the test, nodes are killed, and partitions split, merge, and move. Index queries must
// return only matching items and finally equal a scan.
func TestChangesOverKills(t *testing.T) {
	if *feedChanges == 0 {
		t.Skip("give -feed-changes=1000000")
	}
	f := newFleet(t, "rest:\n  primary_key: "+restclient.Key+"\n")
	for range 5 { // replica sets have four replicas, and a replica can move only to a fifth node
		m := f.add()
		m.args = append(m.args, "--rest", m.rest())
		m.start()
	}
	f.settle()
	l, now, since := startFeed(f)
	began := time.Now()
	readers := l.startReaders(now, since)
	l.fill()
	for i := range 6 {
		w := &writer{feedLoad: l, number: i, dice: rand.New(rand.NewPCG(uint64(i), 17))}
		change := []func() (int64, bool){w.batch, w.batch, w.call, w.call, w.single, w.query}[i]
		l.clients.Go(func() { w.run(change) })
	}
	ids := []string{}
	for _, m := range f.nodes {
		ids = append(ids, m.id())
	}
	dice := rand.New(rand.NewPCG(rand.Uint64(), 5))
	each := *feedChanges / int64(max(1, *feedKills))
	for kill := range *feedKills {
		l.until(int64(kill)*each + each/3)
		victim := f.nodes[dice.IntN(len(f.nodes))]
		by := f.without(victim)[0]
		t.Logf("%v, %d changes: %s; then %s is killed", time.Since(began).Round(time.Second), l.acked.Load(),
			changeTablePartition(dice, by, feedTable, ids), victim.name())
		victim.kill()
		t.Log(changeTablePartition(dice, by, feedTable, ids))
		l.until(int64(kill)*each + each/2)
		victim.start()
		f.acquaint()
		t.Log(changeTablePartition(dice, by, feedTable, ids))
		l.until(int64(kill)*each + each*3/4)
		t.Log(changeTablePartition(dice, by, feedTable, ids))
	}
	l.until(*feedChanges)
	close(l.stop)
	l.clients.Wait()
	took := time.Since(began)
	f.settle()
	final := l.scan()
	for _, r := range readers {
		r.finish(final)
	}
	l.checkIndex(final)
	t.Logf("%d changes acknowledged in %v, %d of unknown outcome, %d calls threw, %d queries by the index, %d "+
		"partitions at the end", l.acked.Load(), took.Round(time.Second), l.unknown.Load(), l.thrown.Load(),
		l.queries.Load(), len(f.nodes[0].partitionsOf(feedTable)))
}

// until waits for n acknowledged changes.
func (l *feedLoad) until(n int64) {
	l.f.t.Helper()
	last, since := int64(0), time.Now()
	for l.acked.Load() < n {
		if now := l.acked.Load(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > 10*time.Minute { // the limit allows for a busy machine
			l.f.t.Fatalf("no change was acknowledged for ten minutes, at %d", last)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
