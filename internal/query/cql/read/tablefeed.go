// SPDX-License-Identifier: Apache-2.0

package read

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/changefeed"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// This file implements the change feed of CQL tables with cdc = true.

// tableFeedPosition returns the start position of a table's feed for a start time. The Unix epoch selects the oldest
// available change.
func (s *scan) tableFeedPosition(since time.Time) (at changefeed.Token, err error) {
	t, kept := s.plan.table, s.plan.where.allVersions
	oldest := t.Feed.Since
	if kept {
		oldest = max(oldest, t.Feed.KeptSince, s.options.Now-t.Options.Retention())
	}
	switch {
	case since.UnixMicro() <= 0:
		since = time.Unix(oldest, 0)
	case kept && since.Unix() < oldest:
		return at, changesExpired(since.Unix(), oldest)
	case since.Unix() < oldest:
		since = time.Unix(oldest, 0)
	}
	at = changefeed.Since(t.ID, kept, since)
	s.setGeneration(&at)
	if at.Generation == 0 {
		at.AsOf = max(at.AsOf, t.Feed.Since+1, t.Feed.KeptSince+1) // see checkTableRetention
	}
	return at, nil
}

// setGeneration assigns the current generation of the feed to a new token. The generation begins after all earlier
// changes.
func (s *scan) setGeneration(at *changefeed.Token) {
	at.Generation = s.plan.table.FeedGeneration(at.Kept)
	at.Above(s.plan.table.FeedAbove(at.Kept))
}

// checkTableRetention returns an error if changes after the position may not have been logged, or may have expired. A
// feed enabled by an older build has no generation. A token that has read everything up to the second in which its
// logging began may have missed earlier changes in that second.
func (s *scan) checkTableRetention(at *changefeed.Token) error {
	f := s.plan.table.Feed
	first := at.Generation == 0
	switch {
	case at.Generation != s.plan.table.FeedGeneration(at.Kept) && at.Kept:
		return s.feedInterrupted(max(f.Since, f.KeptSince))
	case at.Generation != s.plan.table.FeedGeneration(at.Kept), first && at.AsOf <= f.Since:
		return s.feedInterrupted(f.Since)
	}
	oldest := s.options.Now - s.plan.table.Options.Retention() - command.ChangeGrace
	if at.Kept && (first && at.AsOf <= f.KeptSince || at.AsOf < max(oldest, f.KeptSince)) {
		return changesExpired(at.AsOf, max(oldest, f.KeptSince))
	}
	return nil
}

// feedInterrupted returns the error for a token that is older than the start of the feed, a time in Unix seconds.
func (s *scan) feedInterrupted(began int64) error {
	at := time.Unix(began, 0).UTC().Format(time.RFC3339)
	return dberr.Invalidf("The change feed of %s was disabled or recreated after this paging state was returned: changes "+
		"before %s may be missing. Start without a paging state", s.plan.table, at)
}

// isStatic reports whether an entry with this clustering key is the static row.
func (s *scan) isStatic(clustering []byte) bool {
	return len(clustering) == 0 && len(s.plan.table.Clustering) > 0
}

// emitLatest emits the current state of a changed row. A static row is returned like the row of a partition that has
// only static columns.
func (s *scan) emitLatest(e *changefeed.Entry) error {
	if s.plan.table.Container == nil && s.isStatic(e.Clustering) {
		if _, err := s.partition(e.Token, e.Key, &e.Row); err != nil {
			return err
		}
		s.rowsSeen = true
		s.page.Visited++
		s.fillNoRow()
		_, err := s.useRow(nil, false)
		return err
	}
	if _, err := s.partition(e.Token, e.Key, e.Static); err != nil {
		return err
	}
	_, err := s.row(e.Clustering, &e.Row)
	return err
}

// fillNoRow sets the slots of a row to null.
func (s *scan) fillNoRow() {
	for _, i := range s.plan.sel.clusterings {
		if i >= 0 {
			s.values[i] = nil
		}
	}
	for i := range s.plan.sel.regulars {
		s.values[s.plan.sel.regulars[i].slot] = nil
	}
}

// emitChange emits one row for a change, or one row for each deleted range.
func (s *scan) emitChange(e *changefeed.Entry) error {
	if e.Changed() != command.RangesDeleted {
		after, before, err := e.Images()
		if err != nil {
			return err
		}
		operation := e.Changed().String()
		if !after.Exists() && !before.Exists() {
			operation += "_too_large" // the images were too large to be logged
		}
		return s.emitVersion(e, operation, nil, nil, &after, &before)
	}
	h, err := e.Deletions()
	if err != nil {
		return err
	}
	timestamp := func(at int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(at)) }
	if h.Deleted != row.NotDeleted {
		if err := s.emitVersion(e, "delete_partition", nil, timestamp(h.Deleted), nil, nil); err != nil {
			return err
		}
	}
	for i := range h.Ranges {
		r := &h.Ranges[i]
		var text []byte // null if it would reveal masked values
		if s.options.Clear || !slices.ContainsFunc(s.plan.table.Clustering, masked) {
			text = []byte(relation.RangeText(s.plan.table, r.Start, r.End))
		}
		if err := s.emitVersion(e, e.Changed().String(), text, timestamp(r.Timestamp), nil, nil); err != nil {
			return err
		}
	}
	return nil
}

func masked(c *schema.Column) bool { return c.Mask != nil }

// emitVersion emits the row of a change: the operation and its time, the deleted range, and the row after and before
// the change. Without images the slots of the row are null.
func (s *scan) emitVersion(e *changefeed.Entry, operation string, deleted, timestamp []byte,
	after, before *row.Row) error {
	key, err := e.RowKey()
	if err != nil {
		return err
	}
	s.operation(e, operation)
	s.page.Cells = appendCell(appendCell(s.page.Cells, deleted), timestamp)
	static := s.isStatic(key)
	return s.emitBoth(after, before, func(image *row.Row) error {
		var of *row.Row
		if static {
			of = image
		}
		s.rowsSeen = true // no static row is emitted for the previous partition
		if _, err := s.partition(e.Token, e.Key, of); err != nil {
			return err
		}
		if image == nil || static {
			s.fillNoRow()
			return nil
		}
		return s.fillRow(key, image)
	})
}
