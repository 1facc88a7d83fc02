// SPDX-License-Identifier: Apache-2.0

package schema

import "github.com/ilion-db/ilion/internal/model/dberr"

// retentionProperty is Ilion's own option of tables with cdc = true: for how many seconds all their changes are kept.
const retentionProperty = "cdc_retention_seconds"

// RetentionDefault is cdc_retention_seconds where a table does not say: 7 days, as Azure keeps all versions by default.
const RetentionDefault = 7 * 24 * 3600

// retentionNone is TableOptions.CDCRetention where cdc_retention_seconds = 0 was given.
const retentionNone = -1

// Feed makes a CQL table one whose changes are entered in the change log (RFC 0024): it has cdc = true. Containers have
// their own descriptor.
type Feed struct {
	// Since is the second in which the log was begun, 0 with the table; KeptSince is the one in which keeping changes
	// with their images began, for as long as the options say.
	Since     int64 `json:"since,omitempty"`
	KeptSince int64 `json:"keptSince,omitempty"`
	// Generation is the Schema.Revision of the change that began the log, KeptGeneration that of the change since which
	// changes are kept; 0 is the change that created the table, or one made by a build without generations.
	Generation     uint64 `json:"generation,omitempty"`
	KeptGeneration uint64 `json:"keptGeneration,omitempty"`
	// Above and KeptAbove are stamps: the entries of a generation have higher stamps, all older entries have not.
	Above     int64 `json:"above,omitempty"`
	KeptAbove int64 `json:"keptAbove,omitempty"`
}

// setRetention reads cdc_retention_seconds.
func (o *TableOptions) setRetention(p *Property) error {
	n, err := p.int32()
	if err != nil {
		return err
	}
	switch {
	case n < 0 || n > ttlMax:
		return dberr.Configf("%s must be 0 to %d, got %d: for how many seconds all changes of a table with cdc = true are "+
			"kept. 0 keeps no images, only which rows have changed", retentionProperty, ttlMax, n)
	case n == 0:
		o.CDCRetention = retentionNone
	case n == RetentionDefault:
		o.CDCRetention = 0
	default:
		o.CDCRetention = n
	}
	return nil
}

// Retention is for how many seconds all changes of a table with cdc = true are kept with their images, 0 if they are
// not.
func (o *TableOptions) Retention() int64 {
	switch o.CDCRetention {
	case 0:
		return RetentionDefault
	case retentionNone:
		return 0
	}
	return int64(o.CDCRetention)
}

// setFeed gives the table, which was made from was, or is new if was is nil, the change feed that its options ask for:
// at is the second of the change, revision the schema's revision after it. can is false where nodes of an older build
// could not follow; then the table gets no feed, and may be given one later.
func (t *Table) setFeed(was *Table, at int64, revision uint64, can bool) {
	switch {
	case !t.Options.CDC:
		t.Feed = nil
		return
	case was == nil && can:
		t.Feed = &Feed{}
		return
	case t.Feed == nil:
		if can {
			t.Feed = &Feed{Since: at, KeptSince: at, Generation: revision, KeptGeneration: revision}
		}
		return
	}
	before, now := was.Options.Retention(), t.Options.Retention()
	next := *t.Feed
	switch {
	case now == 0:
		next.KeptSince = 0
	case before == 0:
		next.KeptSince, next.KeptGeneration = at, revision
	case now > before:
		next.KeptSince = max(next.KeptSince, at-before)
	}
	t.Feed = &next
}

// Logged reports whether changes of the table's rows are entered in its change log by whoever writes them.
func (t *Table) Logged() bool { return t.Feed != nil }

// FeedGeneration tells apart the times for which the table's change feed is complete: whenever the feed is turned on
// again, it has another generation. kept asks for the feed of all changes.
func (t *Table) FeedGeneration(kept bool) uint64 {
	switch {
	case t.Container != nil && kept:
		return t.Container.KeptGeneration
	case t.Feed != nil && kept:
		return t.Feed.KeptGeneration
	case t.Feed != nil:
		return t.Feed.Generation
	}
	return 0
}

// FeedAbove returns the stamp above which the change log is complete.
func (t *Table) FeedAbove(kept bool) int64 {
	switch {
	case t.Container != nil && kept:
		return t.Container.KeptAbove
	case t.Feed != nil && kept:
		return t.Feed.KeptAbove
	case t.Feed != nil:
		return t.Feed.Above
	}
	return 0
}

// FeedBegins reports whether the change that made t from was begins a generation of its change feed.
func (t *Table) FeedBegins(was *Table) bool {
	begins := func(kept bool) bool {
		g := t.FeedGeneration(kept)
		return g != 0 && g != was.FeedGeneration(kept)
	}
	return begins(false) || begins(true)
}

// WithoutGenerations makes the feed that the change that made t from was has turned on one without a generation, as
// builds below feature level 8 know it. The table must not be shared yet.
func (t *Table) WithoutGenerations(was *Table) {
	if f := t.Feed; f != nil {
		f.Generation, f.KeptGeneration = was.FeedGeneration(false), was.FeedGeneration(true)
	}
	if c := t.Container; c != nil {
		c.KeptGeneration = was.FeedGeneration(true)
	}
}

// SetFeedAbove sets the stamp above which the entries of the generations are that the change that made t from was has
// begun. The table must not be shared yet.
func (t *Table) SetFeedAbove(was *Table, stamp int64) {
	if f := t.Feed; f != nil && f.Generation != was.FeedGeneration(false) {
		f.Above = stamp
	}
	if f := t.Feed; f != nil && f.KeptGeneration != was.FeedGeneration(true) {
		f.KeptAbove = stamp
	}
	if c := t.Container; c != nil && c.KeptGeneration != was.FeedGeneration(true) {
		c.KeptAbove = stamp
	}
}
