// SPDX-License-Identifier: Apache-2.0

package read

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/changefeed"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// The modes of a change feed: the values of cosmos_changefeed_mode().
const (
	modeLatest = "latest"
	modeAll    = "all"
)

// bindFeedStart binds cosmos_changefeed_start_time() = value and cosmos_changefeed_mode() = 'all'.
func (w *where) bindFeedStart(r *parser.Relation, env *expr.Env) (err error) {
	name := r.Columns[0].Name
	again := w.feedStart != nil
	if name == parser.ChangeFeedMode {
		again = w.hasMode
	}
	switch {
	case r.Op != parser.Equal:
		return dberr.Invalidf("%s() can only be restricted by an equality", name)
	case again:
		return dberr.Invalidf("%s() cannot be restricted by more than one relation", name)
	case w.table.View != nil:
		return dberr.Invalidf("%s is a materialized view, which has no change feed. Read the change feed of its base table %s.%s",
			w.table, w.table.Keyspace, w.table.View.Base)
	case w.table.Container == nil && !w.table.Logged():
		return dberr.Invalidf("Table %s has no change feed: enable it with ALTER TABLE %[1]s WITH cdc = true",
			w.table)
	case w.table.Container != nil && !w.table.Container.Feed:
		return dberr.Invalidf("The container %s has no change feed: it was created before feature level 4. Create a new "+
			"container and copy the items to it", w.table)
	}
	if name == parser.ChangeFeedMode {
		return w.bindMode(r.Value)
	}
	w.feedStart, err = expr.Bind(r.Value, expr.Receiver{Name: name + "()", Type: cqltype.Native(cqltype.Timestamp)},
		env)
	return err
}

// bindMode binds the mode, which determines the columns of the result.
func (w *where) bindMode(value parser.Term) error {
	mode := ""
	if c, ok := value.(*parser.Constant); ok && c.Kind == parser.StringConstant {
		mode = strings.ToLower(c.Text)
	}
	w.hasMode, w.allVersions = true, mode == modeAll
	switch {
	case mode != modeAll && mode != modeLatest:
		return dberr.Invalidf("%s() must be the constant '%s' or '%s'", parser.ChangeFeedMode, modeLatest, modeAll)
	case w.allVersions && w.table.Container == nil && w.table.Options.Retention() == 0:
		return dberr.Invalidf("The change feed of %s has no retention: its cdc_retention_seconds is 0", w.table)
	case w.allVersions && w.table.Container != nil && w.table.Container.Keep == 0:
		return dberr.Invalidf("The container %s does not retain all versions and deletes: set a change feed policy "+
			"with a retention period", w.table)
	}
	return nil
}

// unsupportedInFeed returns the error for a clause that a change feed does not support.
func unsupportedInFeed(what string) error {
	return dberr.Invalidf("A SELECT of the change feed can be restricted only by the whole partition key or by a token range: "+
		"%s cannot be combined with %s()", what, parser.ChangeFeedStart)
}

// checkFeed rejects restrictions that a change feed does not support.
func (w *where) checkFeed() error {
	switch {
	case w.feedStart == nil && w.hasMode:
		return dberr.Invalidf("%s() requires %s(), the start time of the change feed", parser.ChangeFeedMode,
			parser.ChangeFeedStart)
	case w.feedStart == nil:
	case w.pk.Has(relation.In) || w.pkNeedsFiltering():
		return unsupportedInFeed("a part of the partition key, or an IN,")
	case w.token != nil && !w.pk.Empty():
		return unsupportedInFeed("the partition key together with its token")
	case !w.clustering.Empty() || !w.others.Empty():
		return unsupportedInFeed("other columns")
	}
	return nil
}

// checkFeed rejects clauses that a change feed does not support.
func (p *Plan) checkFeed(stmt *parser.Select) error {
	if p.where.feedStart != nil && (stmt.JSON && p.where.allVersions || p.distinct || p.aggregated ||
		len(stmt.OrderBy) > 0 ||
		p.limit != nil || p.partitionLimit != nil) {
		return unsupportedInFeed("DISTINCT, GROUP BY, ORDER BY, an aggregate, a LIMIT, or JSON of all versions")
	}
	return nil
}

// maxUnpagedChanges limits the changes of an unpaged execution.
const maxUnpagedChanges = 10_000

// runFeed reads a page of the change feed. Its paging state is never empty. It is the position at which the feed can be
// resumed at any time.
func (s *scan) runFeed(ctx context.Context, r Reader) error {
	if s.options.Clock != nil {
		// Retention is based on the server's clock. By the client's clock, an unread change could have expired already.
		s.options.Now = s.options.Clock().Unix()
	}
	at, err := s.feedPosition()
	if err != nil {
		return err
	}
	f := &changefeed.Reader{At: at, Max: s.options.PageSize, BytesMax: s.options.PageBytesMax, Late: s.deadlinePassed,
		Query: command.Read{Table: s.plan.table.ID,
			Statics: len(s.plan.table.Statics) > 0 && !s.plan.where.allVersions,
			Now:     s.options.Now, Dropped: s.plan.dropped, Range: token.Full,
			Level: s.options.Level, Principal: s.options.Claimant, NoWait: s.options.NoWait, Deadline: s.deadline},
		Read: func(ctx context.Context, q *command.Read, visitor func() command.Visitor) error {
			return r.Read(ctx, q, &chargingVisitor{visitor(), s})
		}}
	if f.Query.Level.OneReplica() {
		f.Query.Level = dberr.LocalQuorum // the read must see the changes that are known to be applied
	}
	none := false
	if s.plan.where.keyRange {
		f.Query.Range, none, err = s.plan.where.tokens(&s.bind)
	} else {
		var key []partitionKey
		if key, _, err = s.singleKey(); err == nil {
			f.Query.Key, f.Query.Token = key[0].bytes, key[0].token
		}
	}
	if err != nil {
		return err
	}
	paged := s.options.PageSize > 0
	if !paged {
		f.Max = maxUnpagedChanges
	}
	var entries []changefeed.Entry
	ended := true
	if !none {
		entries, ended, err = f.Page(ctx)
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
	b := f.At.Append(s.page.PagingState[:0])
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if t := s.plan.table; t.SealsPages() { // it may contain a key
		if b, err = encrypt([]byte{encryptedVersion}, b, t.Secret); err != nil {
			return err
		}
	}
	s.page.PagingState = b
	return nil
}

// emitChanges emits the rows of changes.
func (s *scan) emitChanges(entries []changefeed.Entry) error {
	s.options.VisitsMax, s.options.ResultBytesMax = math.MaxInt, math.MaxInt/2
	s.pageLeft, s.paged = unlimited, false
	for i := range entries {
		e := &entries[i]
		var err error
		switch {
		case s.plan.where.allVersions && s.plan.table.Container == nil:
			err = s.emitChange(e)
		case s.plan.where.allVersions:
			if _, err = s.partition(e.Token, e.Key, nil); err == nil {
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

// emitImages emits one row for a change: the operation, the time, the row after the change, and the row before it.
func (s *scan) emitImages(e *changefeed.Entry) error {
	s.operation(e, e.Changed().String())
	before := e.Before()
	return s.emitBoth(&e.Row, &before, func(image *row.Row) error { return s.fillRow(e.Clustering, image) })
}

// operation emits the first columns of every row of a feed of all versions: the operation and its time.
func (s *scan) operation(e *changefeed.Entry, name string) {
	s.page.Cells = appendCell(s.page.Cells, []byte(name))
	s.page.Cells = appendCell(s.page.Cells, binary.BigEndian.AppendUint64(nil, uint64(e.Stamp/1000)))
}

// emitBoth completes the row of a change with the selected columns after the change and before it. fill sets the slots
// from an image.
func (s *scan) emitBoth(after, before *row.Row, fill func(image *row.Row) error) error {
	for _, image := range []*row.Row{after, before} {
		if err := fill(image); err != nil {
			return err
		}
		if err := s.applyMasks(); err != nil {
			return err
		}
		if err := s.emitCells(); err != nil {
			return err
		}
	}
	s.rowsSeen = true
	s.page.Visited++
	s.page.Rows++
	return nil
}

// describeFeed sets the columns of the result if all versions are requested. They match the output of emitImages.
func (p *Plan) describeFeed() {
	if !p.where.allVersions {
		return
	}
	column := func(name string, t *cqltype.Type) Column { return Column{p.table.Keyspace, p.table.Name, name, t} }
	columns := []Column{column("operation", cqltype.Native(cqltype.Text)),
		column("committed", cqltype.Native(cqltype.Timestamp))}
	if p.table.Container == nil {
		columns = append(columns, column("deleted_range", cqltype.Native(cqltype.Text)),
			column("deleted_timestamp", cqltype.Native(cqltype.Bigint)))
	}
	for _, name := range []string{"%s", "previous(%s)"} {
		for _, c := range p.columns {
			columns = append(columns, column(fmt.Sprintf(name, c.Name), c.Type))
		}
	}
	p.columns = columns
}

// feedPosition returns the position at which the page begins.
func (s *scan) feedPosition() (at changefeed.Token, err error) {
	table, kept := s.plan.table.ID, s.plan.where.allVersions
	if b := s.options.PagingState; len(b) > 0 {
		if t := s.plan.table; t.SealsPages() {
			if b[0] != encryptedVersion {
				return at, errState
			}
			if b, err = decrypt(b[1:], t.Secret); err != nil {
				return at, errState
			}
		}
		if len(b) < 4 || crc32.Checksum(b[:len(b)-4], castagnoli) != binary.BigEndian.Uint32(b[len(b)-4:]) {
			return at, errState
		}
		at, err = changefeed.DecodeToken(b[:len(b)-4])
		if err != nil || at.Table != table || at.Kept != kept {
			return at, errState
		}
		return at, s.checkRetention(&at)
	}
	v, state, err := s.plan.where.feedStart.Eval(&s.bind)
	if err != nil {
		return at, err
	}
	if state == expr.Unset || len(v) != 8 {
		return at, dberr.Invalidf("%s() must be a timestamp: changes at this time and later are read", parser.ChangeFeedStart)
	}
	since := time.UnixMilli(int64(binary.BigEndian.Uint64(v)))
	if s.plan.table.Container == nil {
		return s.tableFeedPosition(since)
	}
	at = changefeed.Beginning(table, kept)
	if since.UnixMicro() > 0 {
		at = changefeed.Since(table, kept, since)
	}
	s.setGeneration(&at)
	return at, s.checkRetention(&at)
}

// checkRetention returns an error if changes after the position may have been removed before they were read.
func (s *scan) checkRetention(at *changefeed.Token) error {
	var oldest int64
	switch c := s.plan.table.Container; {
	case c == nil:
		return s.checkTableRetention(at)
	case at.Kept && at.Generation != c.KeptGeneration:
		return s.feedInterrupted(c.KeptSince)
	case at.Kept:
		oldest = max(s.options.Now-c.Keep, c.KeptSince)
	}
	if at.Kept && at.AsOf < oldest {
		return changesExpired(at.AsOf, oldest)
	}
	return nil
}

// changesExpired returns the error for a feed that would omit changes.
func changesExpired(from, oldest int64) error {
	return dberr.Invalidf("The change feed of all versions cannot start at %s: changes before %s are not "+
		"retained. Specify a later time", time.Unix(from, 0).UTC().Format(time.RFC3339),
		time.Unix(oldest, 0).UTC().Format(time.RFC3339))
}

// deadlinePassed reports whether the deadline of the execution has passed.
func (s *scan) deadlinePassed() bool {
	return s.options.Clock != nil && s.options.Clock().After(s.options.Deadline)
}

// chargingVisitor forwards the charges of a feed's reads to the scan.
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
