// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
)

// This file checks followers and searches. Each change that a follower reads must be in the log and must occur once.
// The changes of a key must be in timestamp order. A feed of all versions must equal the log. A feed of latest
// versions must contain the last version. A page that reports the end of the feed must follow all earlier changes. A
// search must return only items that existed while a page was read. A search must return each item that existed during
// the whole search exactly once.

// never is a time that is later than all other times.
const never = time.Duration(math.MaxInt64)

// checkReads checks the pages that followers and searches have read.
func (w *simulation) checkReads() {
	settled := map[itemVersion]time.Duration{} // time of the acknowledgement
	for _, r := range w.items.requests {
		if !r.done || r.status != 0 {
			continue
		}
		for id, value := range r.writes() {
			settled[itemVersion{itemAt{r.key, id}, value}] = r.ended
		}
	}
	for _, f := range w.items.followers {
		w.checkFollower(f, settled)
	}
	for _, s := range append(slices.Clip(w.items.found), w.items.searches...) {
		w.checkSearch(s, settled)
	}
}

// comes holds the first and the last page in which a change occurs in a feed.
type comes struct {
	seenItem
	page int
}

func (w *simulation) checkFollower(f *follower, settled map[itemVersion]time.Duration) {
	came := map[itemAt][]comes{}
	stamps := map[string]int64{}
	mode := "latest versions"
	if f.request.AllVersions {
		mode = "all versions"
	}
	if n := len(f.pages); n == 0 || !f.pages[n-1].last {
		w.Fail("a feed of %s was not read to the end", mode)
		return
	}
	for i, p := range f.pages {
		for _, s := range p.items {
			if s.stamp < stamps[s.key] {
				w.Fail("%s: %v follows timestamp %d of its key", mode, s, stamps[s.key])
			}
			stamps[s.key] = s.stamp
			came[s.itemAt] = append(came[s.itemAt], comes{s, i})
		}
	}
	for at, list := range came {
		for i := 1; i < len(list); i++ {
			if list[i-1].stamp >= list[i].stamp {
				w.Fail("%s: %v follows %v", mode, list[i].seenItem, list[i-1].seenItem)
			}
		}
		for _, c := range list {
			if !slices.ContainsFunc(w.items.versions[at], func(v loggedItem) bool {
				return v.stamp == c.stamp && v.value == c.value
			}) {
				w.Fail("%s: %v is not in the log", mode, c.seenItem)
			}
		}
	}
	for at, versions := range w.items.versions {
		if f.holds(at.key) {
			w.checkComplete(f, mode, at, versions, came[at], settled)
		} else if f.request.Key != nil && len(came[at]) > 0 {
			w.Fail("%s of key %v contains %v", mode, f.request.Key, at)
		}
	}
}

// checkComplete checks that the expected changes of an item occurred. versions is the item's log; list holds the
// occurrences.
func (w *simulation) checkComplete(f *follower, mode string, at itemAt, versions []loggedItem, list []comes,
	settled map[itemVersion]time.Duration) {
	all := f.request.AllVersions
	next := 0
	for i, v := range versions {
		over := never // the time after which the version may have been overwritten
		if i+1 < len(versions) {
			over = versions[i+1].born
		}
		for next < len(list) && list[next].stamp < v.stamp {
			next++
		}
		came := next < len(list) && list[next].stamp == v.stamp
		expected := all || over == never && v.value != 0 && at.key != expiringKey
		switch {
		case expected && !came:
			w.Fail("%s, %s to %s (%s): %v with value %d and timestamp %d is missing", mode, f.request.MinEPK,
				f.request.MaxEPK, hexOf(at.key), at, v.value, v.stamp)
			return
		case !all && came && v.value == 0:
			w.Fail("%s: the deletion of %v occurs", mode, at)
		case all && at.key != expiringKey:
			w.checkImages(at, versions[:i+1], list[next].seenItem)
		}
		when, acked := settled[itemVersion{at, v.value}]
		if !acked || v.value == 0 {
			continue
		}
		for j := range f.pages {
			p := &f.pages[j]
			if p.last && p.called > when && (all || p.ended < over) && !(came && list[next].page <= j) {
				w.Fail("%s: %v with value %d was acknowledged at %v, but a page of %v to %v reports the end of the feed "+
					"without it", mode, at, v.value, when, p.called, p.ended)
				return
			}
		}
	}
}

// checkImages checks the images that a feed of all versions reports for the last element of versions.
func (w *simulation) checkImages(at itemAt, versions []loggedItem, s seenItem) {
	v, before := versions[len(versions)-1], uint64(0)
	if len(versions) > 1 {
		before = versions[len(versions)-2].value
	}
	kind := command.Replaced
	switch {
	case v.value == 0:
		kind = command.Deleted
	case before == 0:
		kind = command.Created
	}
	if s.before != before || s.value != v.value || s.kind != kind.String() {
		w.Fail("all versions: got %+v for %v, want %v of %d to %d", s, at, kind, before, v.value)
	}
}

// checkSearch checks the pages of a search.
func (w *simulation) checkSearch(s *search, settled map[itemVersion]time.Duration) {
	if len(s.pages) == 0 {
		return
	}
	times, last := map[itemVersion]int{}, uint64(0)
	places := map[itemAt]bool{}
	for _, p := range s.pages {
		for _, i := range p.items {
			if times[itemVersion{i.itemAt, i.value}]++; places[i.itemAt] && s.before == nil {
				w.Fail("%s returned %v twice", s.text, i.itemAt)
			}
			if places[i.itemAt] = true; s.before != nil && last != 0 && s.before(i.value, last) {
				w.Fail("%s returned %d after %d", s.text, i.value, last)
			}
			last = i.value
			versions := w.items.versions[i.itemAt]
			at := slices.IndexFunc(versions, func(v loggedItem) bool { return v.value == i.value })
			if at < 0 || versions[at].born > p.ended {
				w.Fail("%s returned %v, which did not exist at %v", s.text, i, p.ended)
			} else if at+1 < len(versions) {
				over := versions[at+1]
				when, acked := settled[itemVersion{i.itemAt, over.value}]
				if acked && over.value != 0 && when < p.called {
					w.Fail("%s returned %v at %v, which was overwritten at %v", s.text, i, p.called, when)
				}
			}
		}
	}
	begin, end := s.pages[0].called, s.pages[len(s.pages)-1].ended
	if !s.pages[len(s.pages)-1].last {
		return
	}
	for _, key := range stockKeys {
		for _, id := range stockIDs {
			at := itemAt{key, id}
			for i, v := range w.items.versions[at] {
				over := never
				if i+1 < len(w.items.versions[at]) {
					over = w.items.versions[at][i+1].born
				}
				when, acked := settled[itemVersion{at, v.value}]
				if v.value == 0 || !acked || when >= begin || over <= end || !s.matches(v.value) {
					continue
				}
				if n := times[itemVersion{at, v.value}]; n != 1 {
					w.Fail("%s returned %v with value %d %d times; it existed from %v to %v: pages from %v to %v", s.text, at,
						v.value, n, when, cmp.Or(over, never), begin, end)
				}
			}
		}
	}
}
