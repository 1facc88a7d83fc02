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
	"github.com/ilion-db/ilion/internal/query/relation"
)

// The change feed of CQL tables with cdc = true.

// tableFrom is where the feed of a table begins that is asked for from a time on. The first second of all times is the
// oldest that there is.
func (s *scan) tableFrom(since time.Time) (at changefeed.Token, err error) {
	t, kept := s.plan.table, s.plan.where.kept
	oldest := t.Feed.Since
	if kept {
		oldest = max(oldest, t.Feed.KeptSince, s.options.Now-t.Options.Retention())
	}
	switch {
	case since.UnixMicro() <= 0:
		since = time.Unix(oldest, 0)
	case kept && since.Unix() < oldest:
		return at, tooOld(since.Unix(), oldest)
	case since.Unix() < oldest:
		since = time.Unix(oldest, 0)
	}
	at = changefeed.Since(t.ID, kept, since)
	s.generation(&at)
	if at.Generation == 0 {
		at.AsOf = max(at.AsOf, t.Feed.Since+1, t.Feed.KeptSince+1) // see tableKept
	}
	return at, nil
}

// generation makes a new token one of the present generation of the feed, which begins above all earlier changes.
func (s *scan) generation(at *changefeed.Token) {
	at.Generation = s.plan.table.FeedGeneration(at.Kept)
	at.Above(s.plan.table.FeedAbove(at.Kept))
}

// tableKept refuses to go on where changes that were not read were not logged, or may have expired. A feed that an
// older build has turned on has no generation: then a token that has read everything up to the second in which the log
// was begun may have missed what came before in that second.
func (s *scan) tableKept(at *changefeed.Token) error {
	f := s.plan.table.Feed
	first := at.Generation == 0
	switch {
	case at.Generation != s.plan.table.FeedGeneration(at.Kept) && at.Kept:
		return s.wasOff(max(f.Since, f.KeptSince))
	case at.Generation != s.plan.table.FeedGeneration(at.Kept), first && at.AsOf <= f.Since:
		return s.wasOff(f.Since)
	}
	oldest := s.options.Now - s.plan.table.Options.Retention() - command.ChangeGrace
	if at.Kept && (first && at.AsOf <= f.KeptSince || at.AsOf < max(oldest, f.KeptSince)) {
		return tooOld(at.AsOf, max(oldest, f.KeptSince))
	}
	return nil
}

// wasOff is the refusal of a token that was given before the feed was turned on at a second.
func (s *scan) wasOff(began int64) error {
	at := time.Unix(began, 0).UTC().Format(time.RFC3339)
	return dberr.Invalidf("The change feed of %s was off, or is new, since this paging state was given: what was "+
		"changed before %s may be missing. Begin without it", s.plan.table, at)
}

// isStatic reports whether an entry with a clustering key is of the static row.
func (s *scan) isStatic(clustering []byte) bool {
	return len(clustering) == 0 && len(s.plan.table.Clustering) > 0
}

// emitLatest makes a row of a row that has changed, as it is. The static row comes as in partitions that have no other.
func (s *scan) emitLatest(e *changefeed.Entry) error {
	if s.plan.table.Container == nil && s.isStatic(e.Clustering) {
		if _, err := s.partition(e.Token, e.Key, &e.Row); err != nil {
			return err
		}
		s.rowsSeen = true
		s.page.Visited++
		s.fillNoRow()
		_, err := s.take(nil, false)
		return err
	}
	if _, err := s.partition(e.Token, e.Key, e.Static); err != nil {
		return err
	}
	_, err := s.row(e.Clustering, &e.Row)
	return err
}

// fillNoRow makes the slots of a row null.
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

// emitChange makes rows of a change: one, or one for each range that it has deleted.
func (s *scan) emitChange(e *changefeed.Entry) error {
	if e.Changed() != command.RangesDeleted {
		after, before, err := e.Images()
		if err != nil {
			return err
		}
		operation := e.Changed().String()
		if !after.Exists() && !before.Exists() {
			operation += "_too_large" // the images were not kept
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
		var text []byte // null where it would say what a mask hides
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

// emitVersion makes the row of a change: what was done when, what was deleted, and the row after it and before. Without
// images no row is meant.
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
		s.rowsSeen = true // nothing is emitted for the partition before
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
