// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// This file contains followers of table feeds. A follower requests each page from any available node with the paging
// state of the previous page. From time to time, a follower returns to its last checkpoint or divides into two
// followers.

// rowFollower reads the feed of a table or of part of a table, with all changes or with latest versions.
type rowFollower struct {
	table string
	all   bool
	// scope is the restriction in the follower's statement. holds reports whether a key is in the scope. split is set
	// if the follower may divide.
	scope string
	holds func(key string) bool
	split bool

	holder *simenv.Task
	rowsRead
	saved rowsRead
}

// rowsRead holds the rows read so far and the paging state of the next page.
type rowsRead struct {
	at    []byte
	pages []rowPage
}

// rowPage is a page with the times of its request and response. A page without rows reports the end of the feed.
type rowPage struct {
	called, ended time.Duration
	lines         []feedLine
	last          bool
}

// only returns r without the rows of keys that other followers read.
func (r rowsRead) only(holds func(key string) bool) rowsRead {
	r.pages = slices.Clone(r.pages)
	for i := range r.pages {
		p := &r.pages[i]
		p.lines = slices.DeleteFunc(slices.Clone(p.lines), func(l feedLine) bool { return !holds(keyOfLine(l)) })
	}
	return r
}

func keyOfLine(l feedLine) string { return strings.Trim(l["k"], "'") }

func (f *rowFollower) String() string {
	mode := "latest versions"
	if f.all {
		mode = "all changes"
	}
	return fmt.Sprintf("the feed of %s of log.%s %s", mode, f.table, f.scope)
}

// statement returns the SELECT statement.
func (f *rowFollower) statement() string {
	columns := "k, c, s, v, w, writetime(s), writetime(v), writetime(w), ttl(v), ttl(w)"
	if f.table == "n" {
		columns = "k, n"
	}
	text := fmt.Sprintf("SELECT %s FROM log.%s WHERE %scosmos_changefeed_start_time() = 0", columns, f.table, f.scope)
	if f.all {
		text += " AND cosmos_changefeed_mode() = 'all'"
	}
	return text
}

// rowFollowersMax is the maximum number of followers.
const rowFollowersMax = 12

// beginFollowing creates followers in both modes for the whole table and for one key.
func (w *simulation) beginFollowing() {
	everything := func(string) bool { return true }
	add := func(f rowFollower) { w.feeds.followers = append(w.feeds.followers, &f) }
	for _, all := range []bool{false, true} {
		for range 2 {
			add(rowFollower{table: "t", all: all, holds: everything, split: true})
		}
		add(rowFollower{table: "t", all: all, scope: "k = 'q1' AND ", holds: func(k string) bool { return k == "q1" }})
		add(rowFollower{table: "n", all: all, holds: everything})
	}
}

// startFollowing starts the task that requests pages from a node.
func (n *node) startFollowing() {
	w := n.w
	for range 2 {
		n.Spawn(func(t *simenv.Task) {
			for t.Sleep(w.Between(time.Millisecond, 200*time.Millisecond)) && !w.finished {
				f := w.feeds.followers[w.Rand.IntN(len(w.feeds.followers))]
				if n.state().Version > 0 && (f.holder == nil || f.holder.Dead()) {
					w.followRows(n, t, f)
				}
			}
		})
	}
}

// followRows reads a page for a follower. Sometimes, the follower saves a checkpoint, discards the pages read since the
// checkpoint, or divides into two followers with one token range each.
func (w *simulation) followRows(n *node, t *simenv.Task, f *rowFollower) {
	if !w.feedPage(n, t, f, 1+w.Rand.IntN(9)) {
		return
	}
	switch d := w.Rand.IntN(30); {
	case d < 6:
		f.saved = f.rowsRead
	case d < 8: // return to the start if there is no checkpoint
		w.counts.FeedRereads += len(f.pages) - len(f.saved.pages)
		f.rowsRead = f.saved
	case d == 8 && f.split && len(w.feeds.followers) < rowFollowersMax:
		at := token.Hash([]byte(loggedKeys[w.Rand.IntN(len(loggedKeys))]))
		other, before := *f, f.holds
		f.split, other.split = false, false
		f.scope, other.scope = fmt.Sprintf("token(k) <= %d AND ", at), fmt.Sprintf("token(k) > %d AND ", at)
		f.holds = func(k string) bool { return before(k) && token.Hash([]byte(k)) <= at }
		other.holds = func(k string) bool { return before(k) && token.Hash([]byte(k)) > at }
		f.rowsRead, other.rowsRead = f.only(f.holds), other.only(other.holds)
		f.saved, other.saved = f.rowsRead, other.rowsRead // older checkpoints include the other part
		w.feeds.followers = append(w.feeds.followers, &other)
		w.counts.FeedDivisions++
	}
}

// feedPage reads a page for a follower from a node. feedPage reports whether a page was read.
func (w *simulation) feedPage(n *node, t *simenv.Task, f *rowFollower, size int) bool {
	f.holder = t
	p := rowPage{called: w.Now}
	lines, next, err := n.query(f.statement(), size, f.at)
	if t.Dead() {
		return false
	}
	if f.holder = nil; err != nil {
		w.notRead(n, f.String(), err)
		return false
	}
	p.ended, p.lines, p.last = w.Now, lines, len(lines) == 0
	f.at, f.pages = append([]byte(nil), next...), append(f.pages[:len(f.pages):len(f.pages)], p)
	w.counts.FeedPages++
	return true
}

// notRead handles the error from a failed read, which will be repeated.
func (w *simulation) notRead(n *node, what string, err error) {
	var (
		late        *dberr.ReadTimeout
		unavailable *dberr.Unavailable
		overloaded  *dberr.Overloaded
	)
	if !errors.As(err, &late) && !errors.As(err, &unavailable) && !errors.As(err, &overloaded) &&
		!errors.Is(err, sched.ErrEnded) && !errors.Is(err, coordinator.ErrRepeat) {
		w.Fail("node %d: %s: %v", n.ID, what, err)
		return
	}
	w.Note("node %d: %s: %v", n.ID, what, err)
}

// lastFeeds makes the followers read to the end after the faults have ended, and then reads the tables.
func (w *simulation) lastFeeds() {
	for _, f := range w.feeds.followers {
		n := w.nodes[w.Rand.IntN(nodeCount)]
		n.Spawn(func(t *simenv.Task) {
			for {
				free := f.holder == nil || f.holder.Dead()
				if free && w.feedPage(n, t, f, 50) && f.pages[len(f.pages)-1].last {
					return
				}
				if !t.Sleep(time.Millisecond) {
					return
				}
			}
		})
	}
	w.feeds.last = map[string][]feedLine{}
	for _, name := range []string{"t", "n"} {
		n := w.nodes[w.Rand.IntN(nodeCount)]
		f := rowFollower{table: name}
		text := f.statement()
		text = text[:len(text)-len(" WHERE cosmos_changefeed_start_time() = 0")]
		n.Spawn(func(t *simenv.Task) {
			for {
				lines, _, err := n.query(text, 0, nil)
				if err == nil {
					w.feeds.last[name] = lines
					return
				}
				w.notRead(n, text, err)
				if !t.Sleep(10 * time.Millisecond) {
					return
				}
			}
		})
	}
}

// sweepFeeds makes a node remove invisible data of the tables and of their changes.
func (n *node) sweepFeeds() {
	w := n.w
	for _, t := range w.feeds.tables {
		if !w.OneIn(3) {
			continue
		}
		n.Spawn(func(*simenv.Task) {
			if n.sweepTable(t.ID, func(r *partition.Replica, s *command.Sweep, done command.Completion) error {
				return r.Control().SweepLatched(context.Background(), s, done)
			}) {
				w.counts.FeedSweeps++
			}
		})
	}
}
