// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// This file reads items in several pages, through followers of the change feed and searches in the index. Each page is
// requested from a random available node, with the continuation token of the previous page.

// itemPage holds the content of a page and the times of its request and response. It also indicates the last page.
type itemPage struct {
	called, ended time.Duration
	items         []seenItem
	last          bool
}

// seenItem is an item of a page. In a change feed, it includes the timestamp of the change. In a feed of all versions,
// it also includes the operation and the previous value.
type seenItem struct {
	itemAt
	value, before uint64
	stamp         int64
	kind          string
}

// paged is a read in pages. While a page is requested, a task owns the read. If the task ends, the read ends.
type paged struct {
	holder *simenv.Task
	at     string
	pages  []itemPage
}

func (p *paged) free() bool { return p.holder == nil || p.holder.Dead() }

// follower is a reader of the change feed. A follower sometimes returns to its last checkpoint.
type follower struct {
	paged
	request container.ChangesRequest
	saved   paged
}

// search is a query across the container that the index serves. It selects items by color or by a range of values, or
// it orders them by value or by the composite index.
type search struct {
	paged
	text    string
	matches func(value uint64) bool
	// before reports whether one value must precede another. before is nil for an unordered search.
	before func(a, b uint64) bool
}

// followersMax is the maximum number of followers.
const followersMax = 8

// beginItemReads creates followers in both modes for the whole container and for one key.
func (w *simulation) beginItemReads() {
	since := w.Machines[0].Wall().Add(-time.Hour)
	for _, all := range []bool{false, true} {
		if all && !w.items.kept {
			continue
		}
		for _, key := range []epk.Key{nil, nil, stockKey(stockKeys[0])} {
			w.items.followers = append(w.items.followers, &follower{request: container.ChangesRequest{AllVersions: all,
				Since: since, Scope: container.Scope{Key: key}}})
		}
	}
	for range searchKinds {
		w.items.searches = append(w.items.searches, w.newSearch(w.Rand.IntN(searchKinds)))
	}
}

// searchKinds is the number of kinds of searches.
const searchKinds = 4

// newSearch draws a search of a kind.
func (w *simulation) newSearch(kind int) *search {
	const fields = "SELECT c.id, c.k, c.v, c.c FROM c WHERE "
	switch n := uint64(w.Rand.IntN(colors)); kind {
	case 0:
		return &search{text: fmt.Sprint(fields, "c.c = ", n), matches: func(v uint64) bool { return v%colors == n }}
	case 1:
		from := w.hist.values
		if from = from - min(from, uint64(w.Rand.IntN(200))); w.OneIn(3) {
			from = 0
		}
		return &search{text: fmt.Sprint(fields, "c.v >= ", from), matches: func(v uint64) bool { return v >= from }}
	case 2:
		return &search{text: fmt.Sprint(fields, "c.v > 0 ORDER BY c.v"), matches: func(v uint64) bool { return v > 0 },
			before: func(a, b uint64) bool { return a < b }}
	default: // a query that uses the composite index
		return &search{text: fmt.Sprint(fields, "c.v > 0 ORDER BY c.c, c.v DESC"),
			matches: func(v uint64) bool { return v > 0 }, before: func(a, b uint64) bool {
				return a%colors < b%colors || a%colors == b%colors && a > b
			}}
	}
}

// startItemReaders starts the task that requests pages from a node.
func (n *node) startItemReaders() {
	w := n.w
	for range 2 {
		n.Spawn(func(t *simenv.Task) {
			for t.Sleep(w.Between(time.Millisecond, 250*time.Millisecond)) && !w.finished {
				if f := w.items.followers[w.Rand.IntN(len(w.items.followers))]; f.free() {
					w.follow(n, t, f)
				}
				if s := w.items.searches[w.Rand.IntN(len(w.items.searches))]; s.free() {
					w.search(n, t, s)
				}
			}
		})
	}
	n.startExpiring()
}

// follow reads a page for a follower. Sometimes, the follower saves a checkpoint, discards the pages read since the
// checkpoint, or divides into two followers with one part of the range each.
func (w *simulation) follow(n *node, t *simenv.Task, f *follower) {
	f.request.MaxItems = 1 + w.Rand.IntN(9)
	if !w.changesPage(n, t, f) {
		return
	}
	switch d := w.Rand.IntN(30); {
	case d < 6:
		f.saved = f.paged
	case d < 8: // return to the start if there is no checkpoint
		w.counts.Rereads += len(f.pages) - len(f.saved.pages)
		f.paged = f.saved
	case d == 8 && len(w.items.followers) < followersMax && f.request.Key == nil && f.request.MinEPK == "":
		other := *f
		f.request.MinEPK, f.request.MaxEPK = "00", middleEPK
		other.request.MinEPK, other.request.MaxEPK = middleEPK, epk.End
		w.items.followers = append(w.items.followers, &other)
		w.counts.FeedSplits++
	}
}

// middleEPK is the effective partition key at which the scope of a follower is divided.
const middleEPK = "20"

// holds reports whether a key is in the scope of a follower.
func (f *follower) holds(key string) bool {
	if f.request.Key != nil {
		return f.request.Key.Equal(stockKey(key))
	}
	r, err := epk.ParseRange(f.request.MinEPK, f.request.MaxEPK)
	if err != nil {
		panic(err) // cannot fail, because the constants are defined above
	}
	return r.Holds(epk.V2.Hash(nil, stockKey(key)))
}

// changesPage reads a page for a follower from a node. changesPage reports whether a page was read.
func (w *simulation) changesPage(n *node, t *simenv.Task, f *follower) bool {
	c := n.stocked()
	if c == nil {
		return false
	}
	f.holder = t
	q := f.request
	q.Continuation = f.at
	p := itemPage{called: w.Now}
	page, err := n.stock.Changes(context.Background(), c, &q)
	if t.Dead() {
		return false
	}
	if f.holder = nil; err != nil {
		w.itemsNotRead("changes", n, err)
		return false
	}
	p.ended, p.last = w.Now, page.Ended
	for _, d := range page.Documents {
		v := document.View(d)
		s := seenItem{value: numberOf(v.Get("v")), stamp: int64(numberOf(v.Get("_lsn")))}
		if q.AllVersions {
			meta := v.Get("metadata")
			s = seenItem{value: numberOf(v.Get("current").Get("v")), before: numberOf(v.Get("previous").Get("v")),
				stamp: int64(numberOf(meta.Get("lsn"))), kind: meta.Get("operationType").Str()}
			if v = v.Get("current"); s.kind == command.Deleted.String() {
				v = document.View(d).Get("previous")
			}
		}
		s.itemAt = itemAt{v.Get("k").Str(), v.Get("id").Str()}
		p.items = append(p.items, s)
	}
	f.at, f.pages = page.Continuation, append(f.pages[:len(f.pages):len(f.pages)], p)
	w.counts.ChangePages++
	return true
}

// search reads a page of a search from a node. search starts another search after the last page.
func (w *simulation) search(n *node, t *simenv.Task, s *search) {
	if w.searchPage(n, t, s, 1+w.Rand.IntN(4)) && s.at == "" {
		w.items.found = append(w.items.found, s)
		for i := range w.items.searches {
			if w.items.searches[i] == s {
				w.items.searches[i] = w.newSearch(w.Rand.IntN(searchKinds))
			}
		}
	}
}

// searchPage reads a page of up to size items from a node. searchPage reports whether a page was read.
func (w *simulation) searchPage(n *node, t *simenv.Task, s *search, size int) bool {
	c := n.stocked()
	if c == nil {
		return false
	}
	s.holder = t
	p := itemPage{called: w.Now}
	page, err := n.stock.Query(context.Background(), c, &container.QueryRequest{Text: s.text, CrossPartition: true,
		MaxItems: size, Continuation: s.at})
	if t.Dead() {
		return false
	}
	if s.holder = nil; err != nil {
		w.itemsNotRead(s.text, n, err)
		return false
	}
	for _, d := range page.Documents {
		v := document.View(d)
		i := seenItem{itemAt: itemAt{v.Get("k").Str(), v.Get("id").Str()}, value: numberOf(v.Get("v"))}
		if numberOf(v.Get("c")) != i.value%colors || !s.matches(i.value) {
			w.Fail("node %d: %s returned %s", n.ID, s.text, d)
		}
		p.items = append(p.items, i)
	}
	p.ended, p.last = w.Now, page.Continuation == ""
	s.at, s.pages = page.Continuation, append(s.pages, p)
	w.counts.Searches++
	w.counts.IndexHits += int(page.Metrics.IndexHits)
	return true
}

// itemsNotRead handles the error from a failed page request, which will be repeated.
func (w *simulation) itemsNotRead(what string, n *node, err error) {
	switch status := container.StatusOf(err); {
	case status == 503, status == 429, status == 408, strings.Contains(err.Error(), sched.ErrEnded.Error()):
		w.Note("node %d: %s: %v", n.ID, what, err)
	default:
		w.Fail("node %d: %s: status %d: %v", n.ID, what, status, err)
	}
}

// sweepItems makes a node remove invisible data of items, of their changes, and of their index entries.
func (n *node) sweepItems() {
	w := n.w
	if w.items.table == nil || !w.OneIn(3) || !n.sweepTable(w.items.table.ID,
		func(r *partition.Replica, s *command.Sweep, done command.Completion) error {
			return r.Control().Sweep(s, done)
		}) {
		return
	}
	if err := n.store.SweepEntries(context.Background(), n.plantPast().Unix()-1, func(int) {}); err != nil {
		w.Note("node %d: entries are not swept: %v", n.ID, err)
	}
	w.counts.ItemSweeps++
}

// sweepTable makes a node remove invisible data from the partitions of a table that it leads.
func (n *node) sweepTable(table uint32, sweep func(r *partition.Replica, s *command.Sweep,
	done command.Completion) error) bool {
	w, past := n.w, n.plantPast().Unix()-1
	for _, r := range n.parts.Replicas() {
		if r.Table() != table || !r.Leading() {
			continue
		}
		span, _ := r.Span()
		g, err := n.store.FindGarbage(context.Background(), span.Keys(table), nil, past, 120, 1000)
		if err != nil {
			w.Note("node %d: nothing to sweep: %v", n.ID, err)
			return false
		}
		for i := range g.Sweeps {
			if err := sweep(r, &g.Sweeps[i], ending(func(*command.CASResult, error) {})); err == nil {
				w.counts.Sweeps++
			}
		}
	}
	return true
}

// lastPages makes the followers read to the end after the faults have ended, and compares searches with scans.
func (w *simulation) lastPages() {
	for _, f := range w.items.followers {
		n := w.nodes[w.Rand.IntN(nodeCount)]
		n.Spawn(func(t *simenv.Task) {
			for f.request.MaxItems = 50; ; {
				ok := f.free() && w.changesPage(n, t, f)
				if p := len(f.pages) - 1; ok && f.pages[p].last && len(f.pages[p].items) == 0 {
					return
				}
				if !t.Sleep(time.Millisecond) {
					return
				}
			}
		})
	}
	for kind := range searchKinds {
		n := w.nodes[w.Rand.IntN(nodeCount)]
		n.Spawn(func(t *simenv.Task) { w.compareSearch(n, t, w.newSearch(kind)) })
	}
}

// compareSearch compares the result of a search with a scan.
func (w *simulation) compareSearch(n *node, t *simenv.Task, s *search) {
	for len(s.pages) == 0 || s.at != "" {
		if !w.searchPage(n, t, s, 2) {
			w.Fail("the final page of %s failed", s.text)
			return
		}
	}
	found := map[itemAt]uint64{}
	for _, p := range s.pages {
		for _, i := range p.items {
			if found[i.itemAt] != 0 {
				w.Fail("the final read of %s returned %v twice", s.text, i)
			}
			found[i.itemAt] = i.value
		}
	}
	page, err := n.stock.Feed(context.Background(), n.stocked(), container.Scope{}, "", 100, container.RequestOptions{})
	if err != nil || page.Continuation != "" {
		w.Fail("the final scan failed: %v", err)
		return
	}
	matching := 0
	for _, d := range page.Documents {
		v := document.View(d)
		at, value := itemAt{v.Get("k").Str(), v.Get("id").Str()}, numberOf(v.Get("v"))
		if at.key == expiringKey {
			w.Fail("%s has expired but exists", d)
		}
		if s.matches(value) {
			if matching++; found[at] != value {
				w.Fail("the final scan has %v with %d, %s finds %d", at, value, s.text, found[at])
			}
		}
	}
	if matching != len(found) {
		w.Fail("the final %s finds %d items, the scan %d", s.text, len(found), matching)
	}
	w.items.found = append(w.items.found, s)
}

// hexOf returns the effective partition key of a key in hexadecimal, for failure messages.
func hexOf(key string) string { return hex.EncodeToString(epk.V2.Hash(nil, stockKey(key))) }
