// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/restclient"
)

// feedChange is a change of the feed. A feed of latest versions sets only current.
type feedChange struct {
	Current, Previous counted
	Metadata          struct {
		OperationType string
		LSN           int64
	}
}

// feedPage is a page of the feed. ok is false if the page could not be read. ended reports the end of the feed.
type feedPage struct {
	changes   []feedChange
	next      string
	ended, ok bool
}

// fetches reads a page from a node.
type fetches func(m *member, at string) feedPage

// feedReader follows the changes. It sometimes returns to its last checkpoint, which consists of a continuation token
// and the state at that time.
type feedReader struct {
	l     *feedLoad
	name  string
	dice  *rand.Rand
	fetch fetches
	// all is set if the reader reads all versions.
	all bool

	// at is the continuation token of the checkpoint. The following fields hold the number of changes of each item at
	// the checkpoint (-1 if the item does not exist), the timestamp of its last change, and the timestamp of its key's
	// last change.
	at     string
	items  map[string]int
	stamps map[string]int64
	keys   map[string]int64
	// changes is the number of changes read up to the checkpoint. pages is the number of pages read, and again the
	// number of returns to a checkpoint.
	changes, pages, again int64
	done                  chan struct{}
	finished              chan struct{}
}

// startReaders starts readers in both modes. The readers use REST for the whole container and for parts of the
// container, and CQL.
func (l *feedLoad) startReaders(now string, since time.Time) (out []*feedReader) {
	add := func(name string, all bool, at string, fetch fetches) {
		r := &feedReader{l: l, name: name, all: all, at: at, fetch: fetch, items: map[string]int{},
			stamps: map[string]int64{}, keys: map[string]int64{}, done: make(chan struct{}),
			finished: make(chan struct{}), dice: rand.New(rand.NewPCG(uint64(len(out)), 3))}
		out = append(out, r)
		go r.run()
	}
	bounds := []string{"", "10", "20", "30", "FF"}
	for i := range len(bounds) - 1 {
		add(fmt.Sprint("all versions, part ", i), true, now, func(m *member, at string) feedPage {
			return l.page(m, at, map[string]string{"A-IM": "Full-Fidelity Feed", "x-ms-start-epk": bounds[i],
				"x-ms-end-epk": bounds[i+1]})
		})
	}
	add("latest versions", false, "", func(m *member, at string) feedPage {
		return l.page(m, at, map[string]string{"A-IM": "Incremental Feed"})
	})
	add("all versions, CQL", true, "", func(m *member, at string) feedPage {
		return l.rows(m, at, fmt.Sprintf("SELECT body FROM shop.changing WHERE cosmos_changefeed_start_time() = %d "+
			"AND cosmos_changefeed_mode() = 'all'", since.UnixMilli()))
	})
	return out
}

// page reads a page through REST.
func (l *feedLoad) page(m *member, at string, headers map[string]string) (p feedPage) {
	c := m.restClient()
	defer c.Close()
	headers["x-ms-max-item-count"] = "500"
	if at != "" {
		headers["If-None-Match"] = at
	}
	var raw []byte
	status, h, err := c.Ask(l.f.t.Context(), &restclient.Request{Method: http.MethodGet, Path: feedPath + "/docs",
		Headers: headers}, &raw)
	switch {
	case err != nil || status == 408 || status == 429 || status >= 500:
		return p
	case status == 304:
		return feedPage{next: h.Get("etag"), ended: true, ok: true}
	case status != 200:
		l.f.t.Errorf("a page of the change feed: %d %s", status, raw)
		return p
	}
	var body struct{ Documents []json.RawMessage }
	if err := json.Unmarshal(raw, &body); err != nil {
		l.f.t.Error(err)
	}
	p = feedPage{changes: make([]feedChange, len(body.Documents)), next: h.Get("etag"), ok: true}
	for i, d := range body.Documents {
		into := any(&p.changes[i].Current)
		if headers["A-IM"] == "Full-Fidelity Feed" {
			into = &p.changes[i]
		}
		if err := json.Unmarshal(d, into); err != nil {
			l.f.t.Error(err)
		}
	}
	return p
}

// rows reads a page through CQL.
func (l *feedLoad) rows(m *member, at, text string) (p feedPage) {
	c, err := rawclient.Dial(l.f.t.Context(), m.cql(), rawclient.Options{Timeout: restTime})
	if err != nil {
		return p
	}
	defer c.Close()
	q := cqlwire.Query{Text: []byte(text)}
	q.Consistency, q.PageSize = dberr.Quorum, 500
	if at != "" {
		q.PagingState = []byte(at)
	}
	_, body, err := c.Call(cqlwire.OpQuery, q.Append(nil, cqlwire.V4))
	if err != nil {
		if e, is := err.(*cqlwire.Error); is && e.Code == cqlwire.CodeInvalid {
			l.f.t.Errorf("%s: %v", text, err)
		}
		return p
	}
	r, err := cqlwire.DecodeResult(body, cqlwire.V4)
	if err != nil {
		l.f.t.Error(err)
		return p
	}
	cells := r.Cells
	for range r.RowCount {
		var row [4][]byte // operation, committed, body, previous(body)
		for i := range r.ColumnCount {
			n := int(int32(binary.BigEndian.Uint32(cells)))
			if cells = cells[4:]; n >= 0 {
				row[i], cells = cells[:n], cells[n:]
			}
		}
		var ch feedChange
		ch.Metadata.OperationType = string(row[0])
		ch.Metadata.LSN = int64(binary.BigEndian.Uint64(row[1]))
		for i, into := range []*counted{&ch.Current, &ch.Previous} {
			if row[2+i] != nil {
				if err := json.Unmarshal(row[2+i], into); err != nil {
					l.f.t.Error(err)
				}
			}
		}
		p.changes = append(p.changes, ch)
	}
	p.next, p.ended, p.ok = string(r.PagingState), r.RowCount == 0, true
	return p
}

// run reads until the end of the feed after the clients have stopped.
func (r *feedReader) run() {
	defer close(r.finished)
	at, node := r.at, r.dice.IntN(len(r.l.f.nodes))
	var pages [][]feedChange
	for {
		last := false
		select {
		case <-r.done:
			last = true
		default:
		}
		page := r.fetch(r.l.f.nodes[node], at)
		if !page.ok {
			node = (node + 1) % len(r.l.f.nodes)
			time.Sleep(20 * time.Millisecond) // the node is down or leads no partition
			continue
		}
		r.pages++
		pages, at = append(pages, page.changes), page.next
		switch d := r.dice.IntN(12); {
		case last && page.ended || d < 3:
			for _, p := range pages {
				for i := range p {
					r.take(&p[i])
				}
			}
			r.at, pages = at, nil
		case d == 3:
			at, pages, node = r.at, nil, r.dice.IntN(len(r.l.f.nodes))
			r.again++
		}
		if last && page.ended {
			return
		}
		if page.ended {
			time.Sleep(200 * time.Millisecond) // poll like a client
		}
	}
}

func (r *feedReader) wrong(format string, args ...any) {
	r.l.f.t.Errorf("%s: %s", r.name, fmt.Sprintf(format, args...))
}

// take checks a change against the earlier changes.
func (r *feedReader) take(c *feedChange) {
	r.changes++
	now, stamp := &c.Current, c.Metadata.LSN
	if !r.all {
		stamp = now.LSN
	}
	if now.ID == "" {
		now = &c.Previous
	}
	at := now.place()
	if now.Bad {
		r.wrong("%s: a change that was thrown away", at)
	}
	if stamp < r.keys[now.Key] {
		r.wrong("%s: timestamp %d follows %d", now.Key, stamp, r.keys[now.Key])
	}
	r.keys[now.Key] = stamp
	if !r.all {
		if stamp <= r.stamps[at] {
			r.wrong("%s occurs at %d after %d", at, stamp, r.stamps[at])
		}
		r.stamps[at], r.items[at] = stamp, now.N
		return
	}
	n, there := r.items[at]
	there = there && n >= 0
	switch kind := c.Metadata.OperationType; {
	case kind == "create" && !there && now.N == 0:
		r.items[at] = 0
	case kind == "replace" && there && c.Previous.N == n && now.N == n+1:
		r.items[at] = n + 1
	case kind == "delete" && there && c.Previous.N == n:
		r.items[at] = -1
	default:
		r.wrong("%s: %s of %d to %d follows %d, %v", at, kind, c.Previous.N, c.Current.N, n, there)
		r.items[at] = now.N
	}
}

// finish lets the reader read the rest, and compares its state with the stored items.
func (r *feedReader) finish(final map[string]counted) {
	close(r.done)
	select {
	case <-r.finished:
	case <-time.After(20 * time.Minute):
		r.l.f.t.Fatalf("%s has not ended after 20 minutes", r.name)
	}
	there := 0
	for at, n := range r.items {
		if n < 0 {
			continue
		}
		d, stored := final[at]
		if there++; stored && d.N != n || !stored && r.all {
			r.wrong("%s was changed %d times by the feed, %d are stored (%v)", at, n, d.N, stored)
		}
	}
	if !strings.Contains(r.name, "part") {
		for at := range final {
			if n, seen := r.items[at]; !seen || n < 0 {
				r.wrong("%s is missing", at)
			}
		}
	}
	r.l.f.t.Logf("%s: %d changes of %d items in %d pages, %d returns to a checkpoint", r.name, r.changes, there, r.pages, r.again)
}

// ask reads all pages of a list or a query.
func (l *feedLoad) ask(q *restclient.Request) (out []counted) {
	t := l.f.t
	c := l.f.nodes[0].restClient()
	defer c.Close()
	for {
		var page struct{ Documents []counted }
		status, h, err := c.Ask(t.Context(), q, &page)
		if status != 200 || err != nil {
			t.Fatalf("%v: %d %v", q.Body, status, err)
		}
		out = append(out, page.Documents...)
		if q.Headers["x-ms-continuation"] = h.Get("x-ms-continuation"); q.Headers["x-ms-continuation"] == "" {
			return out
		}
	}
}

// scan reads all items.
func (l *feedLoad) scan() map[string]counted {
	out := map[string]counted{}
	for _, d := range l.ask(&restclient.Request{Method: http.MethodGet, Path: feedPath + "/docs",
		Headers: map[string]string{}}) {
		if _, twice := out[d.place()]; twice {
			l.f.t.Errorf("the scan has %s twice", d.place())
		}
		out[d.place()] = d
	}
	return out
}

// checkIndex compares index queries with a scan.
func (l *feedLoad) checkIndex(final map[string]counted) {
	check := func(where string, matches func(d *counted) bool) {
		want, got := 0, map[string]bool{}
		for _, d := range final {
			if matches(&d) {
				want++
			}
		}
		for _, d := range l.ask(&restclient.Request{Method: http.MethodPost, Path: feedPath + "/docs",
			Headers: queryHeaders(300), Body: map[string]any{"query": "SELECT * FROM c WHERE " + where,
				"parameters": []any{}}}) {
			if stored := final[d.place()]; !matches(&d) || stored.N != d.N || got[d.place()] {
				l.f.t.Errorf("%s returned %+v, stored is %+v", where, d, stored)
			}
			got[d.place()] = true
		}
		if len(got) != want {
			l.f.t.Errorf("%s finds %d items through the index, a scan finds %d", where, len(got), want)
		}
	}
	for g := range 7 {
		check(fmt.Sprintf("c.g = %d", g), func(d *counted) bool { return d.G == g })
	}
	for s := range 50 {
		text := fmt.Sprint("s", s)
		check(fmt.Sprintf("c.s = '%s'", text), func(d *counted) bool { return d.S == text })
	}
	least := *feedChanges / feedKeys / feedIDs
	check(fmt.Sprintf("c.n > %d", least), func(d *counted) bool { return int64(d.N) > least })
}
