// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/ilion-db/ilion/internal/model/command"
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

// scans is a pool of scans, which reuse their buffers.
var scans = sync.Pool{New: func() any { return new(scan) }}

// Execute reads one page into page, which it resets first. b holds the values of the bind markers. Errors are from
// package dberr, or from the Reader.
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

// evaluate sets the limits of the evaluation.
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

// Spender deducts the price of evaluating rows from the balance of the partition from which they were read. The Reader
// of stored tables implements it.
type Spender interface {
	Spend(table uint32, t token.Token, key []byte, who fairshare.Principal, u ru.Units)
}

// spend charges the work beyond the allowance. The price is deducted from the balance of the partition read last.
func (s *scan) spend(r Reader) {
	price := ru.Evaluation(s.meter.Excess())
	if price <= 0 {
		return
	}
	s.page.Charge += price
	if to, ok := r.(Spender); ok {
		t, key := s.cmd.Token, s.cmd.Key
		if key == nil {
			t = s.at.token
		}
		to.Spend(s.plan.table.ID, t, key, s.options.Claimant, price)
	}
}

// begin prepares a scan for one execution.
func (s *scan) begin(ctx context.Context, p *Plan, b *expr.Bindings, o Options, page *Page) error {
	s.plan, s.options, s.page, s.bind = p, o, page, *b
	s.room = min(memoryStep, o.ResultBytesMax)
	if p.evaluates {
		s.evaluate(ctx)
	}
	s.remaining, s.partitionLimit, s.pageLeft = unlimited, unlimited, unlimited
	limit, err := evalLimit(p.limit, &s.bind)
	if err != nil {
		return err
	}
	if s.partitionLimit, err = evalLimit(p.partitionLimit, &s.bind); err != nil {
		return err
	}
	if p.timeout != nil {
		if err := s.applyTimeout(); err != nil {
			return err
		}
	}
	if p.distinct {
		s.partitionLimit = 1
	}
	if p.aggregated {
		s.warn()
	}
	if len(p.sort) > 0 && o.PageSize > 0 {
		return dberr.Invalidf("Cannot page queries with both ORDER BY and a IN restriction on the partition key; " +
			"you must either remove the ORDER BY or the IN and sort client side, or disable paging for this query")
	}
	switch {
	case p.aggregated && !p.grouped:
		s.trim = limit // applies to the single row; a partition limit was rejected
	case len(p.sort) > 0:
		s.trim = limit
	default:
		s.trim, s.remaining = unlimited, limit
	}
	if p.ann != nil {
		if err := s.beginANN(limit); err != nil {
			return err
		}
	} else if o.PageSize > 0 {
		s.paged = !p.aggregated || p.grouped && !p.distinct
		if s.paged && (p.aggregated || limit > int64(o.PageSize) || len(o.PagingState) > 0) {
			s.pageLeft = int64(o.PageSize) // a LIMIT within one page is reached before the page is full
		}
	}
	if len(o.PagingState) > 0 && p.where.feedStart == nil && p.ann == nil {
		if s.from, err = readState(o.PagingState, p.table); err != nil {
			return err
		}
		s.from.token = p.table.Token(s.from.key)
		s.resumed, s.remaining = true, s.from.remaining
	}
	s.values = grow(s.values, len(p.sel.slots))
	s.bind.Row = s.values
	if p.aggregated {
		s.beginGroups()
	}
	return nil
}

func (s *scan) warn() {
	w := &s.plan.where
	switch {
	case w.pkEmpty():
		s.page.Warnings = append(s.page.Warnings, withoutPartitionKey)
	case w.pk.Has(relation.In):
		s.page.Warnings = append(s.page.Warnings, multiplePartitionKeys)
	}
}

func grow(v [][]byte, n int) [][]byte {
	v = slices.Grow(v[:0], n)[:n]
	clear(v)
	return v
}

// run reads until the page is full or no rows are left.
func (s *scan) run(ctx context.Context, r Reader) error {
	w := &s.plan.where
	if o := s.plan.baseTimes; o != nil {
		r = baseTimesReader{r, o}
	}
	if w.feedStart != nil {
		return s.runFeed(ctx, r)
	}
	if w.keyRange {
		return s.runRange(ctx, r)
	}
	if key, ok, err := s.singleKey(); err != nil {
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

// singleKey evaluates a partition key that consists of equalities only, without allocating.
func (s *scan) singleKey() ([]partitionKey, bool, error) {
	w := &s.plan.where
	if w.token != nil {
		return nil, false, nil
	}
	s.components = s.components[:0]
	for _, r := range w.pk.List {
		if r.Kind != relation.Equal {
			return nil, false, nil
		}
	}
	for _, r := range w.pk.List {
		v, err := relation.EvalKey(r.Value.Terms[0], r.First(), &s.bind)
		if err != nil {
			return nil, false, err
		}
		s.components = append(s.components, v)
	}
	var err error
	if s.keyBytes, err = appendPartitionKey(s.keyBytes[:0], s.components); err != nil {
		return nil, false, err
	}
	s.oneKey[0] = partitionKey{bytes: s.keyBytes, token: w.table.Token(s.keyBytes)}
	return s.oneKey[:], true, nil
}

// bounds evaluates the parts that the commands of all partitions share. none is true if no row can match.
func (s *scan) bounds() (none bool, err error) {
	p, w := s.plan, &s.plan.where
	s.cmd = command.Read{
		Table: p.table.ID, Reversed: p.reversed, NoRows: p.distinct, Now: s.options.Now, Dropped: p.dropped,
		Level:    s.options.Level,
		Deadline: s.deadline,
		Statics:  p.statics, Principal: s.options.Claimant, NoWait: s.options.NoWait,
	}
	s.slices = s.slices[:0]
	if p.simple {
		s.start, s.end, none, err = w.simpleInterval(s.start, s.end, &s.bind)
		s.slices = append(s.slices, command.Slice{Start: s.start, End: s.end})
	} else {
		var all bool
		var list []command.Slice
		list, all, err = w.intervals(&s.bind)
		s.slices = append(s.slices, list...)
		none = !all && len(list) == 0
	}
	if none || err != nil {
		return none, err
	}
	if len(w.filtered) > 0 {
		if s.partitionFilters, s.rowFilters, err = w.filters(&s.bind, p.filterSlots); err != nil {
			return false, err
		}
	}
	if w.index != nil {
		return false, s.lookup()
	}
	return false, nil
}

// lookup evaluates the index lookup.
func (s *scan) lookup() error {
	w := &s.plan.where
	if len(w.terms) > 0 {
		return s.lookupTerms()
	}
	if err := s.available(w.index); err != nil {
		return err
	}
	v, _, err := w.lookup.Eval(&s.bind)
	if err != nil {
		return err
	}
	if w.lookupEntry != nil {
		value, _, err := w.lookupEntry.Eval(&s.bind)
		if err != nil {
			return err
		}
		v = expr.EntryValue(v, value)
	}
	if len(v) > keyBytesMax {
		return dberr.Invalidf("Index expression values may not be larger than 64K")
	}
	s.index = command.IndexLookup{Index: w.index.ID, Value: v}
	s.cmd.Index = &s.index
	return nil
}

// runRange reads the partitions of a token range.
func (s *scan) runRange(ctx context.Context, r Reader) error {
	none, err := s.bounds()
	if none || err != nil {
		return s.finish(false, err)
	}
	if s.cmd.Range, none, err = s.plan.where.tokens(&s.bind); none || err != nil {
		return s.finish(false, err)
	}
	s.cmd.Slices = s.slices
	if s.plan.ann != nil {
		return s.runANN(ctx, r)
	}
	if s.resumed {
		s.resumeRange(&s.from)
	}
	for {
		if err := s.read(ctx, r); err != nil {
			return err
		}
		if s.full || s.done || !s.paused {
			return s.finish(s.full, nil)
		}
		if s.paged && !s.group.open && s.visitedOnPage >= s.options.PageVisitsMax {
			return s.finish(true, nil)
		}
		s.resumeRange(&s.at)
		s.cmd.Continued = true
	}
}

// resumeRange makes the command resume after a position.
func (s *scan) resumeRange(at *position) {
	s.afterKey = keyIn(s.afterKey, at.key) // nil would be the beginning
	s.afterClustering = append(s.afterClustering[:0], at.clustering...)
	s.cmd.AfterKey, s.cmd.AfterToken, s.cmd.AfterClustering = s.afterKey, at.token, s.afterClustering
	s.cmd.AfterPartition = at.afterPartition
	if !at.afterPartition {
		s.reenterPartition(at)
	}
}

// runKeys reads the given partitions sequentially.
func (s *scan) runKeys(ctx context.Context, r Reader, keys []partitionKey) error {
	none, err := s.bounds()
	if none || err != nil {
		return s.finish(false, err)
	}
	first := 0
	if s.resumed {
		first = slices.IndexFunc(keys, func(k partitionKey) bool { return bytes.Equal(k.bytes, s.from.key) })
		if first < 0 {
			return errState // the paging state belongs to different keys
		}
		if s.from.afterPartition {
			first++
		}
	}
	for i := first; i < len(keys); i++ {
		s.cmd.Key, s.cmd.Token, s.cmd.Slices = keys[i].bytes, keys[i].token, s.slices
		more := true
		if s.resumed && bytes.Equal(keys[i].bytes, s.from.key) {
			more = s.resumeKey(&s.from)
		}
		if err := s.runKey(ctx, r, more); err != nil {
			return err
		}
		if s.full || s.done {
			last := i == len(keys)-1
			return s.finish(s.full && !(last && s.at.afterPartition), nil)
		}
	}
	return s.finish(false, nil)
}

// runKey reads one partition. more is false if it has no rows left.
func (s *scan) runKey(ctx context.Context, r Reader, more bool) error {
	for more {
		if err := s.read(ctx, r); err != nil {
			return err
		}
		if s.full || s.done || !s.paused {
			return nil
		}
		more = !s.at.afterPartition && s.resumeKey(&s.at)
		s.cmd.Continued = true
	}
	s.cmd.Continued = false // for the next partition
	return s.endPartition()
}

// resumeKey makes the command resume after a row of its partition. It returns false if no rows can be left.
func (s *scan) resumeKey(at *position) bool {
	s.afterClustering = append(s.afterClustering[:0], at.clustering...)
	s.cmd.Slices = relation.After(s.slices, s.afterClustering, s.plan.reversed)
	s.reenterPartition(at)
	return len(s.cmd.Slices) > 0
}

// reenterPartition restores the state of the partition at a position.
func (s *scan) reenterPartition(at *position) {
	if !s.open {
		s.key = keyIn(s.key, at.key)
		s.token, s.leftInPartition = at.token, at.inPartition
	}
	s.open, s.rowsSeen, s.continuing = true, true, true
}

// applyTimeout sets the deadline of USING TIMEOUT, counted from the start of the request. It replaces the deadline in
// the options, even if it is later. A single command is still limited by the read timeout.
func (s *scan) applyTimeout() error {
	timeout, err := expr.EvalTimeout(s.plan.timeout, &s.bind)
	if err != nil || timeout == 0 {
		return err
	}
	s.options.Deadline = s.bind.Now.Add(timeout)
	s.deadline = s.options.Deadline
	return nil
}

// read sends one command.
func (s *scan) read(ctx context.Context, r Reader) error {
	if s.commands++; s.commands > 1 && s.options.Clock != nil && s.options.Clock().After(s.options.Deadline) {
		return &dberr.ReadTimeout{Level: s.options.Level, BlockFor: 1}
	}
	s.paused, s.visits = false, 0
	s.cmd.Limit = s.commandLimit()
	if s.options.MaxCharge > 0 {
		return s.readCapped(ctx, r)
	}
	if err := r.Read(ctx, &s.cmd, s); err != nil {
		return cmp.Or(s.err, err)
	}
	return s.endCommand()
}

// endCommand ends the current partition unless the command paused within it.
func (s *scan) endCommand() error {
	if s.full || s.done || s.paused {
		return nil
	}
	return s.endPartition()
}

// commandLimit returns the maximum number of rows that can be used, or 0 if it is not known.
func (s *scan) commandLimit() int {
	p := s.plan
	if p.aggregated || p.distinct || p.ann != nil || len(s.partitionFilters)+len(s.rowFilters) > 0 ||
		s.cmd.Index != nil {
		return 0
	}
	n := min(s.pageLeft, s.remaining)
	if s.cmd.Key != nil {
		left := s.partitionLimit
		if s.continuing {
			left = s.leftInPartition
		}
		n = min(n, left)
	}
	if n > int64(s.options.VisitsMax) {
		return 0
	}
	return int(n)
}

// finish ends the page. more reports whether a further page exists.
func (s *scan) finish(more bool, err error) error {
	if err != nil {
		return err
	}
	if s.plan.aggregated && !s.plan.grouped {
		if _, err := s.closeGroup(); err != nil {
			return err
		}
	} else if len(s.plan.sort) > 0 {
		if err := s.sortRows(); err != nil {
			return err
		}
	} else if s.plan.ann != nil {
		return s.emitANN()
	}
	if more {
		s.page.PagingState, err = appendState(s.page.PagingState[:0], s.plan.table, &s.at)
	}
	return err
}
