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

// setFeed gives the table, which was made from another one, the change feed that its options ask for: at is the second
// of the change, made says that the table is new. can is false where nodes of an older build could not follow; then it
// gets none, and may be given one later.
func (t *Table) setFeed(was *Table, at int64, can bool) {
	switch {
	case !t.Options.CDC:
		t.Feed = nil
		return
	case was == nil && can:
		t.Feed = &Feed{}
		return
	case t.Feed == nil:
		if can {
			t.Feed = &Feed{Since: at, KeptSince: at}
		}
		return
	}
	before, now := was.Options.Retention(), t.Options.Retention()
	next := *t.Feed
	switch {
	case now == 0:
		next.KeptSince = 0
	case before == 0:
		next.KeptSince = at
	case now > before:
		next.KeptSince = max(next.KeptSince, at-before)
	}
	t.Feed = &next
}

// Logged reports whether changes of the table's rows are entered in its change log by whoever writes them.
func (t *Table) Logged() bool { return t.Feed != nil }
