// SPDX-License-Identifier: Apache-2.0

package schema

import "github.com/ilion-db/ilion/internal/model/dberr"

// retentionProperty is the name of an Ilion option for tables with cdc = true. Its value is the number of seconds for
// which all changes are kept.
const retentionProperty = "cdc_retention_seconds"

// RetentionDefault is the default of cdc_retention_seconds. It is 7 days, like the default retention of Azure's
// continuous backup.
const RetentionDefault = 7 * 24 * 3600

// retentionNone is the value of TableOptions.CDCRetention for cdc_retention_seconds = 0.
const retentionNone = -1

// Feed describes the change log of a CQL table with cdc = true (RFC 0024). The log contains all changes of the table.
// A container's descriptor describes the change log of the container.
type Feed struct {
	// Since is the second at which the log was started. It is 0 if the log was started with the table. KeptSince is
	// the second since which changes and their images have been kept for the time that the options specify.
	Since     int64 `json:"since,omitempty"`
	KeptSince int64 `json:"keptSince,omitempty"`
	// Generation is the Schema.Revision of the change that started the log. KeptGeneration is the Schema.Revision of
	// the change since which changes are kept. The value 0 represents the change that created the table, or a change
	// by a build without generations.
	Generation     uint64 `json:"generation,omitempty"`
	KeptGeneration uint64 `json:"keptGeneration,omitempty"`
	// Above and KeptAbove are timestamps. The entries of a generation have higher timestamps, and all older entries
	// have lower or equal timestamps.
	Above     int64 `json:"above,omitempty"`
	KeptAbove int64 `json:"keptAbove,omitempty"`
}

// setRetention parses cdc_retention_seconds.
func (o *TableOptions) setRetention(p *Property) error {
	n, err := p.int32()
	if err != nil {
		return err
	}
	switch {
	case n < 0 || n > ttlMax:
		return dberr.Configf("%s must be from 0 to %d, not %d. It is the time in seconds for which all changes of a "+
			"table with cdc = true are "+
			"kept. With 0, only the keys of changed rows are kept", retentionProperty, ttlMax, n)
	case n == 0:
		o.CDCRetention = retentionNone
	case n == RetentionDefault:
		o.CDCRetention = 0
	default:
		o.CDCRetention = n
	}
	return nil
}

// Retention returns the number of seconds for which the changes of a table with cdc = true are kept with their images.
// Retention returns 0 if the changes are not kept.
func (o *TableOptions) Retention() int64 {
	switch o.CDCRetention {
	case 0:
		return RetentionDefault
	case retentionNone:
		return 0
	}
	return int64(o.CDCRetention)
}

// setFeed sets the change feed of a table according to its options. was is the table before the change, or nil if the
// table is new. at is the second of the change. revision is the schema's revision after the change. can is false if
// nodes of an older build do not support change feeds. In this case, the table gets no change feed now, but it can get
// one later.
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

// Logged reports whether writers add changes of the table's rows to its change log.
func (t *Table) Logged() bool { return t.Feed != nil }

// FeedGeneration identifies a period during which the table's change feed is complete. Enabling the feed again starts
// another generation. kept selects the feed of all changes.
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

// FeedAbove returns the timestamp above which the change log is complete.
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
