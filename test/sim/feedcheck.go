// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// This file checks table feeds.
//
// A reader of all changes must be able to reproduce the table from the feed alone. Each change must begin with the
// state that the previous change produced. Every acknowledged change occurs once, before the first page that reports
// the end of the feed. Rejected changes do not occur. The changes of a key occur in commit order.
//
// Each version in a feed of latest versions must also occur in the feed of all changes, and must occur only once. The
// last versions must equal the table.

// rowImage is a row as a feed shows it. It holds the values of two columns with their write times. The first position
// also holds the single column of a static row. fading reports for each value whether the value expires.
type rowImage struct {
	values [4]string
	fading [2]bool
}

func imageOf(l feedLine, static, previous bool) (r rowImage) {
	names := [...]string{"v", "w", "writetime(v)", "writetime(w)", "ttl(v)", "ttl(w)"}
	if static {
		names = [...]string{"s", "", "writetime(s)", "", "", ""}
	}
	for i, name := range names {
		if static && i%2 == 1 {
			if i < 4 {
				r.values[i] = "-"
			}
			continue
		}
		if previous {
			name = "previous(" + name + ")"
		}
		if i < 4 {
			r.values[i] = l[name]
		} else if v, ok := l[name]; ok {
			r.fading[i-4] = v != "-"
		}
	}
	return r
}

// becomes reports whether a row may have changed into next only because cells have expired.
func (r rowImage) becomes(next rowImage) bool {
	for i := range 2 {
		if r.fading[i] && next.values[i] == "-" && next.values[2+i] == "-" {
			r.values[i], r.values[2+i] = "-", "-"
		}
	}
	return r.values == next.values
}

// lasts reports whether a row has a cell that does not expire.
func (r rowImage) lasts() bool {
	return r.values[2] != "-" && !r.fading[0] || r.values[3] != "-" && !r.fading[1]
}

// full reports whether a row has all cells. A full row never repeats, because no value and no write time is used
// twice.
func (r rowImage) full() bool { return r.values[2] != "-" && r.values[3] != "-" }

// rowOf returns the row that a line of a feed describes, and reports whether it is the static row.
func rowOf(l feedLine) (id loggedRow, static bool) {
	id = loggedRow{keyOfLine(l), l["c"]}
	return id, id.c == "-"
}

// tableCopy is the copy of a table that a follower of all changes maintains.
type tableCopy map[loggedRow]rowImage

// take applies a change. take returns an error if the change is inconsistent.
func (m tableCopy) take(l feedLine) error {
	id, static := rowOf(l)
	op := strings.Trim(l["operation"], "'")
	if strings.HasPrefix(op, "delete_") {
		return m.erase(l, id.k)
	}
	was, there := m[id]
	before, now := imageOf(l, static, true), imageOf(l, static, false)
	switch {
	case op == "create" && there && (id.k != fleeting || was.lasts()):
		return fmt.Errorf("%v is created, but already exists as %v", id, was)
	case op != "create" && !there:
		return fmt.Errorf("%s of %v, which does not exist", op, id)
	case op != "create" && !was.becomes(before):
		return fmt.Errorf("%s of %v has the previous image %v, want %v", op, id, before, was)
	}
	if m[id] = now; op == "delete" {
		delete(m, id)
	}
	return nil
}

// erase deletes all rows that are not newer than a range deletion or a partition deletion.
func (m tableCopy) erase(l feedLine, k string) error {
	from, to, whole := "", "z", l["deleted_range"] == "-"
	if !whole {
		for part := range strings.SplitSeq(strings.Trim(l["deleted_range"], "'"), " AND ") {
			switch f := strings.Fields(part); f[1] {
			case ">=":
				from = f[2]
			case "<=":
				to = f[2]
			case "=":
				from, to = f[2], f[2]
			default:
				return fmt.Errorf("the range is %s", l["deleted_range"])
			}
		}
	}
	at, err := strconv.ParseInt(l["deleted_timestamp"], 10, 64)
	if err != nil {
		return err
	}
	for id, r := range m {
		static := id.c == "-"
		if id.k != k || static && !whole || !static && (id.c < from || id.c > to) {
			continue
		}
		marker := r.values[2] == "-" && r.values[3] == "-"
		for i := range 2 {
			if t, err := strconv.ParseInt(r.values[2+i], 10, 64); err == nil && t <= at {
				r.values[i], r.values[2+i] = "-", "-"
			}
		}
		// The server assigns the timestamps of markers, which are far above the timestamps that statements specify.
		if m[id] = r; r.values[2] == "-" && r.values[3] == "-" && (!marker || at > 1000) {
			delete(m, id)
		}
	}
	return nil
}

// feedValue identifies a statement by a row and the value that the statement wrote to the row.
type feedValue struct {
	loggedRow
	value uint64
}

// cameIn records the page of a feed in which a write first occurred, and the number of its occurrences.
type cameIn struct{ page, times int }

// checkFeeds checks the pages that followers have read.
func (w *simulation) checkFeeds() {
	if !w.plan.With.Feeds {
		return
	}
	if len(w.feeds.last) < len(w.feeds.tables) {
		w.Fail("the final read of the tables with feeds failed")
		return
	}
	versions := map[string]bool{}
	for _, f := range w.feeds.followers {
		if n := len(f.pages); n == 0 || !f.pages[n-1].last {
			w.Fail("%v was not read to the end", f)
			return
		}
		switch {
		case f.all && f.table == "n":
			w.checkAdding(f)
		case f.all:
			w.checkChanges(f, versions)
		}
	}
	for _, f := range w.feeds.followers {
		if !f.all {
			w.checkLatest(f, versions)
		}
	}
}

// checkChanges checks a feed of all changes and records the versions that it contains.
func (w *simulation) checkChanges(f *rowFollower, versions map[string]bool) {
	copied, came := tableCopy{}, map[feedValue]cameIn{}
	committed := map[string]string{}
	for i, p := range f.pages {
		for _, l := range p.lines {
			id, static := rowOf(l)
			if !f.holds(id.k) {
				w.Fail("%v has %v", f, l)
			}
			if err := copied.take(l); err != nil {
				w.Fail("%v: %v: %v", f, err, l)
				return
			}
			if l["committed"] < committed[id.k] {
				w.Fail("%v: %v follows a change committed at %s", f, l, committed[id.k])
			}
			committed[id.k] = l["committed"]
			before, now := imageOf(l, static, true), imageOf(l, static, false)
			if versions[versionOf(id, now)] = true; now.values[0] != before.values[0] {
				value, _ := strconv.ParseUint(now.values[0], 10, 64)
				c := came[feedValue{id, value}]
				if c.times++; c.times == 1 {
					c.page = i
				}
				came[feedValue{id, value}] = c
			}
		}
	}
	for _, done := range w.feeds.writes {
		for id, value := range done.wrote {
			if f.holds(id.k) {
				w.checkCame(f, done, came[feedValue{id, value}])
			}
		}
	}
	is := tableCopy{}
	for _, l := range w.feeds.last["t"] {
		if s := l["s"]; s != "-" && f.holds(keyOfLine(l)) {
			is[loggedRow{keyOfLine(l), "-"}] = imageOf(l, true, false)
		}
		if id, static := rowOf(l); !static && f.holds(id.k) {
			is[id] = imageOf(l, false, false)
		}
	}
	fades := func(id loggedRow, r rowImage) bool { return id.k == fleeting && !r.lasts() && id.c != "-" }
	for _, m := range []tableCopy{is, copied} {
		maps.DeleteFunc(m, fades)
	}
	for id, r := range copied {
		if now, there := is[id]; !there || !r.becomes(now) {
			w.Fail("%v: final row %v is %v (%v), the feed has %v", f, id, now, there, r)
		}
	}
	for id, r := range is {
		if _, there := copied[id]; !there {
			w.Fail("%v: final row %v is %v, the feed has no such row", f, id, r)
		}
	}
}

// versionOf returns the name of a row version.
func versionOf(id loggedRow, r rowImage) string { return fmt.Sprint(id, r.values) }

// checkCame checks how often a write occurred in a feed.
func (w *simulation) checkCame(f *rowFollower, done *feedWrite, c cameIn) {
	switch {
	case c.times > 1:
		w.Fail("%v: the write of %v occurs %d times", f, done, c.times)
	case done.done && !done.applied && c.times > 0:
		w.Fail("%v: %v occurs although it was not applied", f, done)
	case done.done && done.applied && c.times == 0:
		w.Fail("%v: %v is missing", f, done)
	}
	if !done.done || !done.applied {
		return
	}
	for i := range f.pages {
		if p := &f.pages[i]; p.last && p.called > done.ended && c.page > i {
			w.Fail("%v: %v was acknowledged, but the page of %v to %v reports the end of the feed without it", f, done, p.called,
				p.ended)
			return
		}
	}
}

// checkLatest checks a feed of latest versions.
func (w *simulation) checkLatest(f *rowFollower, versions map[string]bool) {
	last, counters := map[loggedRow]rowImage{}, map[string]string{}
	for _, p := range f.pages {
		for _, l := range p.lines {
			if id, static := rowOf(l); !f.holds(id.k) {
				w.Fail("%v has %v", f, l)
			} else if f.table == "n" {
				if counters[id.k] == l["n"] {
					w.Fail("%v: %v occurs twice", f, l)
				}
				counters[id.k] = l["n"]
			} else {
				r := imageOf(l, static, false)
				if was, there := last[id]; there && was.values == r.values && id.k != fleeting && was.full() {
					w.Fail("%v: %v occurs twice", f, l)
				}
				if last[id] = r; !versions[versionOf(id, r)] && id.k != fleeting {
					w.Fail("%v: %v is not in the feed of all changes", f, l)
				}
			}
		}
	}
	for _, l := range w.feeds.last[f.table] {
		id, static := rowOf(l)
		switch {
		case !f.holds(id.k):
		case f.table == "n":
			if counters[id.k] != l["n"] {
				w.Fail("%v: final value of %s is %s, the last version in the feed is %s", f, id.k, l["n"], counters[id.k])
			}
		default:
			if s := l["s"]; s != "-" && last[loggedRow{id.k, "-"}].values[0] != s {
				w.Fail("%v: the final static row of %s has %s, the last version in the feed is %v", f, id.k, s, last[loggedRow{id.k, "-"}])
			}
			if static {
				continue
			}
			if is, was := imageOf(l, false, false), last[id]; !was.becomes(is) {
				w.Fail("%v: final row %v is %v, the last version in the feed is %v", f, id, is, was)
			}
		}
	}
}

// checkAdding checks a feed of all changes of counters. Each change must add one to the previous value, and every
// acknowledged addition must occur.
func (w *simulation) checkAdding(f *rowFollower) {
	counts := map[string]int{}
	for _, p := range f.pages {
		for _, l := range p.lines {
			k := keyOfLine(l)
			n, before := l["n"], l["previous(n)"]
			want := strconv.Itoa(counts[k])
			if counts[k]++; counts[k] == 1 {
				want = "-"
			}
			if before != want || n != strconv.Itoa(counts[k]) {
				w.Fail("%v: %v is change %d", f, l, counts[k])
				return
			}
		}
	}
	acked, asked := map[string]int{}, map[string]int{}
	for _, d := range w.feeds.writes {
		if asked[d.adds]++; d.done && d.applied {
			acked[d.adds]++
		}
	}
	for _, k := range loggedKeys {
		if n := counts[k]; n < acked[k] || n > asked[k] {
			w.Fail("%v: %s has %d changes; %d of %d writes were acknowledged", f, k, n, acked[k], asked[k])
		}
	}
}
