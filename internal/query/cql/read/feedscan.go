// SPDX-License-Identifier: Apache-2.0

package read

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/changefeed"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// feedScan is a scan that reads a change feed instead of the rows of a table.
type feedScan struct{ *scan }

// feedSource implements changefeed.Source.
type feedSource struct {
	*scan
	reader Reader
}

// Read implements changefeed.Source.
func (s feedSource) Read(ctx context.Context, q *command.Read, visitor func() command.Visitor) error {
	return s.reader.Read(ctx, q, &chargingVisitor{visitor(), s.scan})
}

// Holds implements changefeed.Source.
func (feedSource) Holds(token.Token, []byte) bool { return true }

// Late implements changefeed.Source.
func (s feedSource) Late() bool { return s.deadlinePassed() }

// maxUnpagedChanges is the maximum number of changes that an unpaged execution returns.
const maxUnpagedChanges = 10_000

// run reads a page of the change feed. The paging state is never empty. A client can resume the feed at the paging
// state at any time.
func (s feedScan) run(ctx context.Context, r Reader) error {
	if s.options.Clock != nil {
		// Retention is based on the server's clock. A client with a different clock could treat an unread change as
		// expired.
		s.options.Now = s.options.Clock.Wall().Unix()
		s.slots.now = s.options.Now
	}
	h := feedHistory{s.plan.table, s.plan.where.feed.allVersions, s.options.Now}
	at, err := h.position(s.options.PagingState, s.plan.where.feed.start, &s.bind)
	if err != nil {
		return err
	}
	changes := &changefeed.Reader{At: at, Max: s.options.PageSize, BytesMax: s.options.PageBytesMax,
		Source: feedSource{s.scan, r},
		Query: command.Read{Table: s.plan.table.ID,
			Statics: len(s.plan.table.Statics) > 0 && !s.plan.where.feed.allVersions,
			Now:     s.options.Now, Dropped: s.plan.dropped, Range: token.Full,
			Level: s.options.Level, Principal: s.options.Claimant, NoWait: s.options.NoWait,
			Deadline: s.request.deadline}}
	if changes.Query.Level.OneReplica() {
		changes.Query.Level = dberr.LocalQuorum // the read must return all changes that are known to be applied
	}
	none := false
	if s.plan.where.keyRange {
		changes.Query.Range, none, err = s.plan.where.tokens(&s.bind)
	} else {
		var key []partitionKey
		if key, _, err = s.request.singleKey(); err == nil {
			changes.Query.Key, changes.Query.Token = key[0].bytes, key[0].token
		}
	}
	if err != nil {
		return err
	}
	paged := s.options.PageSize > 0
	if !paged {
		changes.Max = maxUnpagedChanges
	}
	var entries []changefeed.Entry
	ended := true
	if !none {
		entries, ended, err = changes.Page(ctx)
	}
	switch {
	case errors.Is(err, changefeed.ErrScope):
		return dberr.Invalidf("The paging state belongs to the change feed of a different partition key or token " +
			"range. Use it with the statement that returned it or with a part of its range, " +
			"or start without a paging state")
	case errors.Is(err, changefeed.ErrUnknown):
		return &dberr.Overloaded{Message: "The physical partitions of the table are not known to this node. Retry the request"}
	case err != nil:
		return cmp.Or(s.err, err)
	case !paged && !ended:
		return dberr.Invalidf("There are more than %d changes, or more than the maximum result size. Set a page size: the "+
			"paging state resumes the change feed", maxUnpagedChanges)
	}
	if err := s.emitChanges(entries); err != nil {
		return err
	}
	s.page.PagingState, err = h.encode(s.page.PagingState, &changes.At)
	return err
}

// emitChanges emits the rows of changes.
func (s feedScan) emitChanges(entries []changefeed.Entry) error {
	s.options.VisitsMax, s.options.ResultBytesMax = math.MaxInt, math.MaxInt/2
	s.limits.page, s.out.paged = unlimited, false
	for i := range entries {
		e := &entries[i]
		var err error
		switch {
		case s.plan.where.feed.allVersions && s.plan.table.Container == nil:
			err = s.emitChange(e)
		case s.plan.where.feed.allVersions:
			if _, err = s.visitPartition(e.Token, e.Key, nil); err == nil {
				err = s.emitImages(e)
			}
		default:
			err = s.emitLatest(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// emitImages emits one row for a change. The row contains the operation, the time, and the images after and before the
// change.
func (s feedScan) emitImages(e *changefeed.Entry) error {
	s.operation(e, e.Changed().String())
	before := e.Before()
	return s.emitBoth(&e.Row, &before, func(image *row.Row) error { return s.slots.fillRow(e.Clustering, image) })
}

// operation emits the operation and the time. These are the first columns in a feed of all versions.
func (s feedScan) operation(e *changefeed.Entry, name string) {
	s.page.Cells = appendCell(s.page.Cells, []byte(name))
	s.page.Cells = appendCell(s.page.Cells, binary.BigEndian.AppendUint64(nil, uint64(e.Stamp/1000)))
}

// emitBoth adds the selected columns of both images to the row of a change. fill sets the slots from an image.
func (s feedScan) emitBoth(after, before *row.Row, fill func(image *row.Row) error) error {
	for _, image := range []*row.Row{after, before} {
		if err := fill(image); err != nil {
			return err
		}
		if err := s.applyMasks(); err != nil {
			return err
		}
		if err := s.out.emitCells(); err != nil {
			return err
		}
	}
	s.current.rowsSeen = true
	s.page.Visited++
	s.page.Rows++
	return nil
}

// isStatic reports whether a clustering key is the key of the static row.
func (s feedScan) isStatic(clustering []byte) bool {
	return len(clustering) == 0 && len(s.plan.table.Clustering) > 0
}

// emitLatest emits the current state of a changed row. The current state of a static row is returned like a partition
// that has only static columns.
func (s feedScan) emitLatest(e *changefeed.Entry) error {
	if s.plan.table.Container == nil && s.isStatic(e.Clustering) {
		if _, err := s.visitPartition(e.Token, e.Key, &e.Row); err != nil {
			return err
		}
		s.current.rowsSeen = true
		s.page.Visited++
		s.slots.fillNoRow()
		_, err := s.useRow(nil, false)
		return err
	}
	if _, err := s.visitPartition(e.Token, e.Key, e.Static); err != nil {
		return err
	}
	_, err := s.visitRow(e.Clustering, &e.Row)
	return err
}

// emitChange emits one row for a change. For a range deletion, it emits one row for each deleted range.
func (s feedScan) emitChange(e *changefeed.Entry) error {
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
		var text []byte // null if the condition would reveal masked values
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

// emitVersion emits the row of a change. The row contains the operation, the time, the deleted range, and the images
// after and before the change. If the change has no images, the slots of the row are null.
func (s feedScan) emitVersion(e *changefeed.Entry, operation string, deleted, timestamp []byte,
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
		s.current.rowsSeen = true // no static row is emitted for the previous partition
		if _, err := s.visitPartition(e.Token, e.Key, of); err != nil {
			return err
		}
		if image == nil || static {
			s.slots.fillNoRow()
			return nil
		}
		return s.slots.fillRow(key, image)
	})
}

// chargingVisitor forwards the charges of change feed reads to the scan.
type chargingVisitor struct {
	command.Visitor
	s *scan
}

// Charge implements ru.Charged.
func (c *chargingVisitor) Charge(u ru.Units) { c.s.Charge(u) }

// Passed implements command.ProgressVisitor.
func (c *chargingVisitor) Passed(t token.Token, key []byte, looked int) (command.Step, error) {
	return command.Passed(c.Visitor, t, key, looked)
}
