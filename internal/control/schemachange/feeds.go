// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"context"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// A change feed that is enabled again has a new generation (RFC 0024). All entries of the previous generation have
// lower timestamps than the entries of the new generation. Before the feed is enabled, every partition rejects writes
// that were planned for the previous generation, and reports its highest timestamp. Leaders then assign timestamps
// above the maximum.

// newest maps revisions of tables to a timestamp that no partition exceeded while the feed was disabled.
type newest map[tableAt]int64

type tableAt struct {
	id       uint32
	revision uint64
}

// unknownNewest means that a change enables the feed of a table whose partitions have not reported their timestamps.
type unknownNewest struct{ table *schema.Table }

func (u *unknownNewest) Error() string { return "the stamps of " + u.table.String() + " are not known" }

// beginFeeds sets the timestamps above which enabled feeds begin. The error is *unknownNewest.
func (c *Changer) beginFeeds(s *meta.State, tables []tableChange, above newest) error {
	for _, t := range tables {
		if t.was == nil || t.is == nil || !t.feedBegins() {
			continue
		}
		if c.Levels.Of(s) < feature.FeedGenerations {
			t.withoutGenerations()
			continue
		}
		stamp, ok := above[tableAt{t.was.ID, t.was.Revision}]
		if !ok {
			return &unknownNewest{t.was}
		}
		t.setFeedAbove(stamp)
	}
	return nil
}

// feedBegins reports whether the change starts a generation of the table's change feed.
func (t *tableChange) feedBegins() bool {
	begins := func(kept bool) bool {
		g := t.is.FeedGeneration(kept)
		return g != 0 && g != t.was.FeedGeneration(kept)
	}
	return begins(false) || begins(true)
}

// withoutGenerations removes the generation from a feed that the change enables, because builds below feature level 8
// do not support generations. The new table must not be shared.
func (t *tableChange) withoutGenerations() {
	if f := t.is.Feed; f != nil {
		f.Generation, f.KeptGeneration = t.was.FeedGeneration(false), t.was.FeedGeneration(true)
	}
	if c := t.is.Container; c != nil {
		c.KeptGeneration = t.was.FeedGeneration(true)
	}
}

// setFeedAbove sets the timestamp that all entries of new generations exceed. The new table must not be shared.
func (t *tableChange) setFeedAbove(stamp int64) {
	if f := t.is.Feed; f != nil && f.Generation != t.was.FeedGeneration(false) {
		f.Above = stamp
	}
	if f := t.is.Feed; f != nil && f.KeptGeneration != t.was.FeedGeneration(true) {
		f.KeptAbove = stamp
	}
	if c := t.is.Container; c != nil && c.KeptGeneration != t.was.FeedGeneration(true) {
		c.KeptAbove = stamp
	}
}

// newestPause is the pause before the retry of a throttled request.
const newestPause = 50 * time.Millisecond

// askNewest makes the partitions of a table reject writes that were planned for an older revision, and then requests
// their highest timestamp.
func (c *Changer) askNewest(ctx context.Context, t *schema.Table, above newest) error {
	var err error
	if c.Member != nil {
		err = c.Partitions.Require(ctx, t.ID, t.Revision, c.timeout())
	}
	for err == nil {
		var stamp int64
		var busy *dberr.Overloaded
		if stamp, err = c.Partitions.Newest(ctx, t.ID, c.timeout()); err == nil {
			above[tableAt{t.ID, t.Revision}] = stamp
			return nil
		}
		if errors.As(err, &busy) {
			err = c.Sched.Sleep(ctx, newestPause)
		}
	}
	return dberr.Serverf("The change feed of %s was not enabled: some of its physical partitions have no leader that "+
		"responds (%v). Repeat the statement when all partitions have a leader", t, err)
}

// newlyLogged returns the tables whose change logs or feeds the change enables.
func newlyLogged(tables []tableChange) (out []*schema.Table) {
	for _, t := range tables {
		if t.was != nil && t.is != nil && (!t.was.Logged() && t.is.Logged() || t.feedBegins()) {
			out = append(out, t.is)
		}
	}
	return out
}

// requireLogged waits until all writes that were planned without the change logs of the tables have ended.
func (c *Changer) requireLogged(ctx context.Context, tables []*schema.Table) error {
	if c.Member == nil {
		return nil
	}
	for _, t := range tables {
		now := c.Catalog.Snapshot().TableByID(t.ID)
		if now == nil {
			continue
		}
		if err := c.Partitions.Require(ctx, t.ID, now.Revision, c.timeout()); err != nil {
			again := "Set cdc = false and then true again"
			if t.Container != nil {
				again = "Remove the change feed policy and set it again"
			}
			return dberr.Serverf("The change feed of %s is enabled, but writes in progress may be missing from it: "+
				"some "+
				"of its physical partitions have not confirmed the change (%v). %s", t, err, again)
		}
	}
	return nil
}
