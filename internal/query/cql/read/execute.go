// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

const (
	withoutPartitionKey   = "Aggregation query used without partition key"
	multiplePartitionKeys = "Aggregation query used on multiple partition keys (IN restriction)"
)

// scans is a pool of scans. Pooled scans retain their buffers.
var scans = sync.Pool{New: func() any { return new(scan) }}

// Execute resets page and then reads one result page into page. b holds the values of the bind markers. Errors are from
// package dberr or from the Reader.
func (p *Plan) Execute(ctx context.Context, r Reader, b *expr.Bindings, o Options, page *Page) error {
	page.Reset()
	if o.Level == dberr.Any {
		return dberr.Invalidf("ANY ConsistencyLevel is only supported for writes")
	}
	s := scans.Get().(*scan)
	err := s.begin(ctx, p, b, o.withDefaults(), page)
	if err == nil && o.Guard.On() && o.Guard.Reads {
		err = s.checkGuardrails()
	}
	if err == nil {
		err = s.run(ctx, r)
	}
	if s.bind.Meter == &s.meter {
		s.spend(r)
		s.meter.Close()
	}
	s.release()
	scans.Put(s)
	return err
}

// evaluate sets the limits for the evaluation of expressions.
func (s *scan) evaluate(ctx context.Context) {
	o := &s.options
	l := meter.Limits{Pool: o.Evaluation.Pool, Bytes: o.Evaluation.Bytes, Slots: o.Evaluation.Slots,
		Who: o.Evaluation.Who, Deadline: o.Evaluation.Deadline, Clock: o.Clock}
	if l.Deadline.IsZero() {
		l.Deadline = o.Deadline
	}
	if o.Clock != nil {
		l.Late = &dberr.ReadTimeout{Level: o.Level, BlockFor: 1}
	}
	s.meter.Reset(ctx, l)
	s.bind.Meter = &s.meter
}

// Spender deducts the price of evaluating rows from the balance of the partition that contains the rows. The Reader of
// stored tables implements Spender.
type Spender interface {
	Spend(table uint32, t token.Token, key []byte, who fairshare.Principal, u ru.Units)
}

// spend charges the evaluation work that exceeds the allowance. It deducts the price from the balance of the partition
// that was read last.
func (s *scan) spend(r Reader) {
	price := ru.Evaluation(s.meter.Excess())
	if price <= 0 {
		return
	}
	s.page.Charge += price
	if to, ok := r.(Spender); ok {
		t, key := s.request.cmd.Token, s.request.cmd.Key
		if key == nil {
			t = s.cursor.at.token
		}
		to.Spend(s.plan.table.ID, t, key, s.options.Claimant, price)
	}
}

// begin prepares a scan for one execution.
func (s *scan) begin(ctx context.Context, p *Plan, b *expr.Bindings, o Options, page *Page) error {
	s.plan, s.options, s.page, s.bind = p, o, page, *b
	if p.evaluates {
		s.evaluate(ctx)
	}
	s.request.plan, s.request.options, s.request.bind = p, &s.options, &s.bind
	s.out.sel, s.out.options, s.out.page, s.out.bind = &p.sel, &s.options, page, &s.bind
	s.out.room = min(memoryStep, o.ResultBytesMax)
	if err := s.beginLimits(); err != nil {
		return err
	}
	if len(o.PagingState) > 0 && p.where.feed.start == nil && p.ann == nil {
		from, err := readState(o.PagingState, p.table)
		if err != nil {
			return err
		}
		from.token = p.table.Token(from.key)
		s.cursor.from, s.cursor.resumed, s.limits.remaining = from, true, from.remaining
	}
	s.slots.begin(&p.sel, o.Now)
	s.bind.Row = s.slots.values
	if p.groups.aggregated {
		s.group.begin(p, &s.bind)
	}
	return nil
}

// beginLimits evaluates the limits of the statement and the timeout.
func (s *scan) beginLimits() error {
	p, o := s.plan, &s.options
	limit, err := evalLimit(p.limits.rows, &s.bind)
	if err != nil {
		return err
	}
	s.limits = limits{remaining: unlimited, page: unlimited}
	if s.limits.perPartition, err = evalLimit(p.limits.perPartition, &s.bind); err != nil {
		return err
	}
	if p.limits.timeout != nil {
		if err := s.applyTimeout(); err != nil {
			return err
		}
	}
	if p.distinct {
		s.limits.perPartition = 1
	}
	if p.groups.aggregated {
		s.warn()
	}
	if len(p.order.sort) > 0 && o.PageSize > 0 {
		return dberr.Invalidf("Cannot page queries with both ORDER BY and a IN restriction on the partition key; " +
			"you must either remove the ORDER BY or the IN and sort client side, or disable paging for this query")
	}
	switch {
	case p.ann != nil:
		return s.beginANN(limit)
	case p.groups.aggregated && !p.groups.grouped: // no limit excludes a single row
	case len(p.order.sort) > 0:
		s.sorter.by, s.sorter.out, s.sorter.limit = &p.order, &s.out, limit
	default:
		s.limits.remaining = limit
	}
	if o.PageSize > 0 {
		s.out.paged = !p.groups.aggregated || p.groups.grouped && !p.distinct
		if s.out.paged && (p.groups.aggregated || limit > int64(o.PageSize) || len(o.PagingState) > 0) {
			s.limits.page = int64(o.PageSize) // the page ends at the LIMIT
		}
	}
	return nil
}

func (s *scan) warn() {
	w := &s.plan.where
	switch {
	case w.pkEmpty():
		s.page.Warnings = append(s.page.Warnings, withoutPartitionKey)
	case w.pk.Has(relation.In) && !w.onToken():
		s.page.Warnings = append(s.page.Warnings, multiplePartitionKeys)
	}
}

func grow(v [][]byte, n int) [][]byte {
	v = slices.Grow(v[:0], n)[:n]
	clear(v)
	return v
}

// run reads rows until the page is full or no rows remain.
func (s *scan) run(ctx context.Context, r Reader) error {
	w := &s.plan.where
	if o := s.plan.baseTimes; o != nil {
		r = baseTimesReader{r, o}
	}
	if w.feed.start != nil {
		return feedScan{s}.run(ctx, r)
	}
	if w.keyRange {
		return s.runRange(ctx, r)
	}
	if key, ok, err := s.request.singleKey(); err != nil {
		return err
	} else if ok {
		return s.runKeys(ctx, r, key)
	}
	keys, err := w.keys(&s.bind)
	if err != nil {
		return err
	}
	if s.options.Level.IsSerial() && len(keys) > 1 {
		return dberr.Invalidf("SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time")
	}
	return s.runKeys(ctx, r, keys)
}

// prepare evaluates the parts of the WHERE clause that the commands of all partitions share. none is true if no row can
// match.
func (s *scan) prepare() (none bool, err error) {
	w := &s.plan.where
	if none, err = s.request.bounds(); none || err != nil {
		return none, err
	}
	if len(w.filtered) > 0 {
		if s.partitionFilters, s.rowFilters, err = w.filters(&s.bind); err != nil {
			return false, err
		}
	}
	if w.lookup.index != nil {
		return false, s.request.lookup()
	}
	return false, nil
}

// runRange reads the partitions of a token range.
func (s *scan) runRange(ctx context.Context, r Reader) error {
	none, err := s.prepare()
	if none || err != nil {
		return s.finish(false, err)
	}
	if s.request.cmd.Range, none, err = s.plan.where.tokens(&s.bind); none || err != nil {
		return s.finish(false, err)
	}
	s.request.cmd.Slices = s.request.slices
	if s.plan.ann != nil {
		return s.runANN(ctx, r)
	}
	if s.cursor.resumed {
		s.resumeRange(&s.cursor.from)
	}
	for {
		if err := s.read(ctx, r); err != nil {
			return err
		}
		if s.full || s.done || !s.cursor.paused {
			return s.finish(s.full, nil)
		}
		if s.out.paged && !s.group.open && s.cursor.visitedOnPage >= s.options.PageVisitsMax {
			return s.finish(true, nil)
		}
		s.resumeRange(&s.cursor.at)
		s.request.cmd.Continued = true
	}
}

func (s *scan) resumeRange(at *position) {
	s.request.afterPosition(at)
	if !at.afterPartition {
		s.current.resume(at)
	}
}

// runKeys reads the given partitions sequentially.
func (s *scan) runKeys(ctx context.Context, r Reader, keys []partitionKey) error {
	none, err := s.prepare()
	if none || err != nil {
		return s.finish(false, err)
	}
	first := 0
	if s.cursor.resumed {
		first = slices.IndexFunc(keys, func(k partitionKey) bool { return bytes.Equal(k.bytes, s.cursor.from.key) })
		if first < 0 {
			return errState // the paging state belongs to a read of other keys
		}
		if s.cursor.from.afterPartition {
			first++
		}
	}
	for i := first; i < len(keys); i++ {
		s.request.cmd.Key, s.request.cmd.Token, s.request.cmd.Slices = keys[i].bytes, keys[i].token, s.request.slices
		more := true
		if s.cursor.resumed && bytes.Equal(keys[i].bytes, s.cursor.from.key) {
			more = s.resumeKey(&s.cursor.from)
		}
		if err := s.runKey(ctx, r, more); err != nil {
			return err
		}
		if s.full || s.done {
			last := i == len(keys)-1
			return s.finish(s.full && !(last && s.cursor.at.afterPartition), nil)
		}
	}
	return s.finish(false, nil)
}

// runKey reads one partition. If more is false, the partition has no more rows.
func (s *scan) runKey(ctx context.Context, r Reader, more bool) error {
	for more {
		if err := s.read(ctx, r); err != nil {
			return err
		}
		if s.full || s.done || !s.cursor.paused {
			return nil
		}
		more = !s.cursor.at.afterPartition && s.resumeKey(&s.cursor.at)
		s.request.cmd.Continued = true
	}
	s.request.cmd.Continued = false // reset for the next partition
	return s.endPartition()
}

// resumeKey makes the command resume after a row of the partition. If no rows remain, resumeKey returns false.
func (s *scan) resumeKey(at *position) bool {
	s.current.resume(at)
	return s.request.afterRow(at)
}

// applyTimeout sets the deadline according to USING TIMEOUT. The timeout begins at the start of the request. It
// replaces the deadline in the options, even if the new deadline is later. The read timeout still limits each command.
func (s *scan) applyTimeout() error {
	timeout, err := expr.EvalTimeout(s.plan.limits.timeout, &s.bind)
	if err != nil || timeout == 0 {
		return err
	}
	s.options.Deadline = s.bind.Now.Add(timeout)
	s.request.deadline = s.options.Deadline
	return nil
}

// deadlinePassed reports whether the deadline of the execution has passed.
func (s *scan) deadlinePassed() bool {
	return s.options.Clock != nil && s.options.Clock.Wall().After(s.options.Deadline)
}

// read sends one command.
func (s *scan) read(ctx context.Context, r Reader) error {
	if s.cursor.commands++; s.cursor.commands > 1 && s.deadlinePassed() {
		return &dberr.ReadTimeout{Level: s.options.Level, BlockFor: 1}
	}
	s.cursor.paused, s.cursor.visits = false, 0
	s.request.cmd.Limit = s.commandLimit()
	if s.options.MaxCharge > 0 {
		return s.readCapped(ctx, r)
	}
	if err := r.Read(ctx, &s.request.cmd, s); err != nil {
		return cmp.Or(s.err, err)
	}
	return s.endCommand()
}

// endCommand ends the current partition unless the command has paused within the partition.
func (s *scan) endCommand() error {
	if s.full || s.done || s.cursor.paused {
		return nil
	}
	return s.endPartition()
}

// commandLimit returns the maximum number of rows that the execution needs, or 0 if this number is unknown.
func (s *scan) commandLimit() int {
	p := s.plan
	if p.groups.aggregated || p.distinct || p.ann != nil || len(s.partitionFilters)+len(s.rowFilters) > 0 ||
		s.request.cmd.Index != nil {
		return 0
	}
	n := min(s.limits.page, s.limits.remaining)
	if s.request.cmd.Key != nil {
		left := s.limits.perPartition
		if s.current.continuing {
			left = s.current.left
		}
		n = min(n, left)
	}
	if n > int64(s.options.VisitsMax) {
		return 0
	}
	return int(n)
}

// finish ends the page. more reports whether another page exists.
func (s *scan) finish(more bool, err error) error {
	if err != nil {
		return err
	}
	if s.plan.groups.aggregated && !s.plan.groups.grouped {
		if _, err := s.closeGroup(); err != nil {
			return err
		}
	} else if len(s.plan.order.sort) > 0 {
		if err := s.sorter.sort(); err != nil {
			return err
		}
	} else if s.plan.ann != nil {
		return s.ann.emit()
	}
	if more {
		s.page.PagingState, err = appendState(s.page.PagingState[:0], s.plan.table, &s.cursor.at)
	}
	return err
}
