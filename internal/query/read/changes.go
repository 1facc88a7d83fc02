// SPDX-License-Identifier: Apache-2.0

package read

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/feed"
	"github.com/ilion-db/ilion/internal/query/parser"
	"github.com/ilion-db/ilion/internal/query/relation"
)

// bindChanges binds cosmos_changefeed_start_time() = value.
func (w *where) bindChanges(r *parser.Relation, env *expr.Env) (err error) {
	switch {
	case r.Op != parser.Equal:
		return dberr.Invalidf("%s() can only be restricted by an equality: the time from which on changes are wanted",
			parser.ChangeFeedStart)
	case w.changes != nil:
		return dberr.Invalidf("%s() cannot be restricted by more than one relation", parser.ChangeFeedStart)
	case w.table.Container == nil:
		return dberr.Invalidf("Table %s has no change feed: those of containers have one, which the REST interface makes",
			w.table)
	case !w.table.Container.Feed:
		return dberr.Invalidf("The container %s has no change feed: it was made before feature level 4. One that is made "+
			"now, and filled from it, has one", w.table)
	}
	w.changes, err = expr.Bind(r.Value, expr.Receiver{Name: parser.ChangeFeedStart + "()",
		Type: cqltype.Native(cqltype.Timestamp)}, env)
	return err
}

// notOfChanges is the refusal of what a change feed cannot be asked for.
func notOfChanges(what string) error {
	return dberr.Invalidf("A SELECT of the change feed takes the whole partition key or nothing, and pages: %s cannot be "+
		"combined with %s()", what, parser.ChangeFeedStart)
}

// checkChanges refuses what else a change feed cannot be restricted by.
func (w *where) checkChanges() error {
	switch {
	case w.changes == nil:
	case w.token != nil || w.pk.Has(relation.In) || w.pkNeedsFiltering():
		return notOfChanges("a part of the partition key, an IN or a token")
	case !w.clustering.Empty() || !w.others.Empty():
		return notOfChanges("other columns")
	}
	return nil
}

// checkChanges refuses what the rows of a change feed cannot be made to.
func (p *Plan) checkChanges(stmt *parser.Select) error {
	if p.where.changes != nil && (p.distinct || p.aggregated || len(stmt.OrderBy) > 0 || p.limit != nil ||
		p.partitionLimit != nil) {
		return notOfChanges("DISTINCT, GROUP BY, ORDER BY, an aggregate or a LIMIT")
	}
	return nil
}

// unpagedMax bounds the changes of an execution that has no pages.
const unpagedMax = 10_000

// runChanges reads a page of the change feed. Its paging state is never empty: it is where the feed goes on, at once or
// later.
func (s *scan) runChanges(ctx context.Context, r Reader) error {
	at, err := s.changesFrom()
	if err != nil {
		return err
	}
	f := &feed.Reader{At: at, Max: s.options.PageSize, BytesMax: s.options.PageBytesMax, Late: s.late,
		Query: command.Read{Table: s.plan.table.ID, Now: s.options.Now, Dropped: s.plan.dropped, Range: token.Full,
			Level: s.options.Level, Claimant: s.options.Claimant, NoWait: s.options.NoWait},
		Read: func(ctx context.Context, q *command.Read, visitor func() command.Visitor) error {
			return r.Read(ctx, q, &charging{visitor(), s})
		}}
	if f.Query.Level.OneReplica() {
		f.Query.Level = dberr.LocalQuorum // what is known to be applied has to be seen
	}
	if !s.plan.where.keyRange {
		key, _, err := s.singleKey()
		if err != nil {
			return err
		}
		f.Query.Key, f.Query.Token = key[0].bytes, key[0].token
	}
	paged := s.options.PageSize > 0
	if !paged {
		f.Max = unpagedMax
	}
	entries, ended, err := f.Page(ctx)
	switch {
	case errors.Is(err, feed.ErrUnknown):
		return &dberr.Overloaded{Message: "The physical partitions of the table are not known to this node yet"}
	case err != nil:
		return cmp.Or(s.err, err)
	case !paged && !ended:
		return dberr.Invalidf("There are more than %d changes, or more than fit into one result: ask for pages, whose "+
			"paging state is where the change feed goes on", unpagedMax)
	}
	s.options.VisitsMax, s.pageLeft, s.paged = math.MaxInt, unlimited, false
	s.options.ResultBytesMax = math.MaxInt
	for i := range entries {
		e := &entries[i]
		if _, err := s.partition(e.Token, e.Key, nil); err != nil {
			return err
		}
		if _, err := s.row(e.Clustering, &e.Row); err != nil {
			return err
		}
	}
	b := f.At.Append(s.page.PagingState[:0])
	s.page.PagingState = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return nil
}

// changesFrom is where the page begins.
func (s *scan) changesFrom() (at feed.Token, err error) {
	table := s.plan.table.ID
	if b := s.options.PagingState; len(b) > 0 {
		if len(b) < 4 || crc32.Checksum(b[:len(b)-4], castagnoli) != binary.BigEndian.Uint32(b[len(b)-4:]) {
			return at, errState
		}
		at, err = feed.DecodeToken(b[:len(b)-4])
		if err != nil || at.Table != table || at.Kept {
			return at, errState
		}
		return at, nil
	}
	v, state, err := s.plan.where.changes.Eval(&s.bind)
	if err != nil {
		return at, err
	}
	if state == expr.Unset || len(v) != 8 {
		return at, dberr.Invalidf("%s() needs a time: the changes of it and later are read", parser.ChangeFeedStart)
	}
	since := time.UnixMilli(int64(binary.BigEndian.Uint64(v)))
	if since.UnixMicro() <= 0 {
		return feed.Beginning(table, false), nil
	}
	return feed.Since(table, false, since), nil
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
