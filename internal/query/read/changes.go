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
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/parser"
	"github.com/ilion-db/ilion/internal/query/relation"
)

// The modes of a change feed, as cosmos_changefeed_mode() has them.
const (
	modeLatest = "latest"
	modeAll    = "all"
)

// bindChanges binds cosmos_changefeed_start_time() = value, and cosmos_changefeed_mode() = 'all'.
func (w *where) bindChanges(r *parser.Relation, env *expr.Env) (err error) {
	name := r.Columns[0].Name
	again := w.changes != nil
	if name == parser.ChangeFeedMode {
		again = w.mode
	}
	switch {
	case r.Op != parser.Equal:
		return dberr.Invalidf("%s() can only be restricted by an equality", name)
	case again:
		return dberr.Invalidf("%s() cannot be restricted by more than one relation", name)
	case w.table.View != nil:
		return dberr.Invalidf("%s is a materialized view, which has no change feed: follow that of its base table %s.%s",
			w.table, w.table.Keyspace, w.table.View.Base)
	case w.table.Container == nil && !w.table.Logged():
		return dberr.Invalidf("Table %s has no change feed: its changes are logged after ALTER TABLE %[1]s WITH cdc = true",
			w.table)
	case w.table.Container != nil && !w.table.Container.Feed:
		return dberr.Invalidf("The container %s has no change feed: it was made before feature level 4. One that is made "+
			"now, and filled from it, has one", w.table)
	}
	if name == parser.ChangeFeedMode {
		return w.bindMode(r.Value)
	}
	w.changes, err = expr.Bind(r.Value, expr.Receiver{Name: name + "()", Type: cqltype.Native(cqltype.Timestamp)}, env)
	return err
}

// bindMode binds the mode: the columns of the result depend on it.
func (w *where) bindMode(value parser.Term) error {
	mode := ""
	if c, ok := value.(*parser.Constant); ok && c.Kind == parser.StringConstant {
		mode = strings.ToLower(c.Text)
	}
	w.mode, w.kept = true, mode == modeAll
	switch {
	case mode != modeAll && mode != modeLatest:
		return dberr.Invalidf("%s() has to be '%s' or '%s', as a constant", parser.ChangeFeedMode, modeLatest, modeAll)
	case w.kept && w.table.Container == nil && w.table.Options.Retention() == 0:
		return dberr.Invalidf("All changes of %s are not kept: it has cdc_retention_seconds = 0", w.table)
	case w.kept && w.table.Container != nil && w.table.Container.Keep == 0:
		return dberr.Invalidf("All versions and deletes of %s are not kept: its container needs a change feed policy, "+
			"which says for how long they are", w.table)
	}
	return nil
}

// notOfChanges is the refusal of what a change feed cannot be asked for.
func notOfChanges(what string) error {
	return dberr.Invalidf("A SELECT of the change feed takes the whole partition key, a range of tokens or nothing, and "+
		"pages: %s cannot be combined with %s()", what, parser.ChangeFeedStart)
}

// checkChanges refuses what else a change feed cannot be restricted by.
func (w *where) checkChanges() error {
	switch {
	case w.changes == nil && w.mode:
		return dberr.Invalidf("%s() goes with %s(), which says where the change feed begins", parser.ChangeFeedMode,
			parser.ChangeFeedStart)
	case w.changes == nil:
	case w.pk.Has(relation.In) || w.pkNeedsFiltering():
		return notOfChanges("a part of the partition key, or an IN,")
	case w.token != nil && !w.pk.Empty():
		return notOfChanges("the partition key together with its token")
	case !w.clustering.Empty() || !w.others.Empty():
		return notOfChanges("other columns")
	}
	return nil
}

// checkChanges refuses what the rows of a change feed cannot be made to.
func (p *Plan) checkChanges(stmt *parser.Select) error {
	if p.where.changes != nil && (stmt.JSON && p.where.kept || p.distinct || p.aggregated || len(stmt.OrderBy) > 0 ||
		p.limit != nil || p.partitionLimit != nil) {
		return notOfChanges("DISTINCT, GROUP BY, ORDER BY, an aggregate, a LIMIT, or JSON of all versions")
	}
	return nil
}

// unpagedMax bounds the changes of an execution that has no pages.
const unpagedMax = 10_000

// runChanges reads a page of the change feed. Its paging state is never empty: it is where the feed goes on, at once or
// later.
func (s *scan) runChanges(ctx context.Context, r Reader) error {
	if s.options.Clock != nil {
		// What is kept expires by the server's clock. By that of a client it could have expired already, unread.
		s.options.Now = s.options.Clock().Unix()
	}
	at, err := s.changesFrom()
	if err != nil {
		return err
	}
	f := &changefeed.Reader{At: at, Max: s.options.PageSize, BytesMax: s.options.PageBytesMax, Late: s.late,
		Query: command.Read{Table: s.plan.table.ID,
			Statics: len(s.plan.table.Statics) > 0 && !s.plan.where.kept,
			Now:     s.options.Now, Dropped: s.plan.dropped, Range: token.Full,
			Level: s.options.Level, Claimant: s.options.Claimant, NoWait: s.options.NoWait, Deadline: s.deadline},
		Read: func(ctx context.Context, q *command.Read, visitor func() command.Visitor) error {
			return r.Read(ctx, q, &charging{visitor(), s})
		}}
	if f.Query.Level.OneReplica() {
		f.Query.Level = dberr.LocalQuorum // what is known to be applied has to be seen
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
		f.Max = unpagedMax
	}
	var entries []changefeed.Entry
	ended := true
	if !none {
		entries, ended, err = f.Page(ctx)
	}
	switch {
	case errors.Is(err, changefeed.ErrScope):
		return dberr.Invalidf("The paging state is that of the change feed of another partition key, or of another range " +
			"of tokens, and knows nothing of this one. Go on with the statement that it was given for, or a part of its " +
			"range; or begin without it")
	case errors.Is(err, changefeed.ErrUnknown):
		return &dberr.Overloaded{Message: "The physical partitions of the table are not known to this node yet"}
	case err != nil:
		return cmp.Or(s.err, err)
	case !paged && !ended:
		return dberr.Invalidf("There are more than %d changes, or more than fit into one result: ask for pages, whose "+
			"paging state is where the change feed goes on", unpagedMax)
	}
	if err := s.emitChanges(entries); err != nil {
		return err
	}
	b := f.At.Append(s.page.PagingState[:0])
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if t := s.plan.table; t.SealsPages() { // there may be a key in it
		if b, err = seal([]byte{sealedVersion}, b, t.Secret); err != nil {
			return err
		}
	}
	s.page.PagingState = b
	return nil
}

// emitChanges makes rows of changes.
func (s *scan) emitChanges(entries []changefeed.Entry) error {
	s.options.VisitsMax, s.options.ResultBytesMax = math.MaxInt, math.MaxInt/2
	s.pageLeft, s.paged = unlimited, false
	for i := range entries {
		e := &entries[i]
		var err error
		switch {
		case s.plan.where.kept && s.plan.table.Container == nil:
			err = s.emitChange(e)
		case s.plan.where.kept:
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

// emitImages makes one row of a change: what was done when, the row after it, and the row before.
func (s *scan) emitImages(e *changefeed.Entry) error {
	s.operation(e, e.Changed().String())
	before := e.Before()
	return s.emitBoth(&e.Row, &before, func(image *row.Row) error { return s.fillRow(e.Clustering, image) })
}

// operation emits what every row of all changes begins with: what was done, and when.
func (s *scan) operation(e *changefeed.Entry, name string) {
	s.page.Cells = appendCell(s.page.Cells, []byte(name))
	s.page.Cells = appendCell(s.page.Cells, binary.BigEndian.AppendUint64(nil, uint64(e.Stamp/1000)))
}

// emitBoth ends the row of a change with the selected columns after it and before; fill makes the slots those of an
// image.
func (s *scan) emitBoth(after, before *row.Row, fill func(image *row.Row) error) error {
	for _, image := range []*row.Row{after, before} {
		if err := fill(image); err != nil {
			return err
		}
		if err := s.show(); err != nil {
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

// describeChanges makes the columns of the result those of all versions, if these are asked for: what emitImages emits.
func (p *Plan) describeChanges() {
	if !p.where.kept {
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

// changesFrom is where the page begins.
func (s *scan) changesFrom() (at changefeed.Token, err error) {
	table, kept := s.plan.table.ID, s.plan.where.kept
	if b := s.options.PagingState; len(b) > 0 {
		if t := s.plan.table; t.SealsPages() {
			if b[0] != sealedVersion {
				return at, errState
			}
			if b, err = unseal(b[1:], t.Secret); err != nil {
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
		return at, s.stillKept(&at)
	}
	v, state, err := s.plan.where.changes.Eval(&s.bind)
	if err != nil {
		return at, err
	}
	if state == expr.Unset || len(v) != 8 {
		return at, dberr.Invalidf("%s() needs a time: the changes of it and later are read", parser.ChangeFeedStart)
	}
	since := time.UnixMilli(int64(binary.BigEndian.Uint64(v)))
	if s.plan.table.Container == nil {
		return s.tableFrom(since)
	}
	at = changefeed.Beginning(table, kept)
	if since.UnixMicro() > 0 {
		at = changefeed.Since(table, kept, since)
	}
	s.generation(&at)
	return at, s.stillKept(&at)
}

// stillKept refuses to go on where changes may be missing that were not read.
func (s *scan) stillKept(at *changefeed.Token) error {
	var oldest int64
	switch c := s.plan.table.Container; {
	case c == nil:
		return s.tableKept(at)
	case at.Kept && at.Generation != c.KeptGeneration:
		return s.wasOff(c.KeptSince)
	case at.Kept:
		oldest = max(s.options.Now-c.Keep, c.KeptSince)
	}
	if at.Kept && at.AsOf < oldest {
		return tooOld(at.AsOf, oldest)
	}
	return nil
}

// tooOld is the refusal of a feed that would leave something out.
func tooOld(from, oldest int64) error {
	return dberr.Invalidf("The change feed of all versions is to begin at %s, and what was changed before %s is not "+
		"kept any more. Begin with a later time", time.Unix(from, 0).UTC().Format(time.RFC3339),
		time.Unix(oldest, 0).UTC().Format(time.RFC3339))
}

// late tells that the execution has taken its time.
func (s *scan) late() bool {
	return s.options.Clock != nil && s.options.Clock().After(s.options.Deadline)
}

// charging hears of the charges of a scan's reads.
type charging struct {
	command.Visitor
	s *scan
}

// Charge implements ru.Charged.
func (c *charging) Charge(u ru.Units) { c.s.Charge(u) }

// Passed implements command.Walker.
func (c *charging) Passed(t token.Token, key []byte, looked int) (command.Step, error) {
	return command.Passed(c.Visitor, t, key, looked)
}
