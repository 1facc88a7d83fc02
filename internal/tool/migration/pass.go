// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/bulk"
	"github.com/ilion-db/ilion/internal/tool/bulk/pipeline"
	"github.com/ilion-db/ilion/internal/tool/migration/rowdiff"
)

// table is a table to copy.
type table struct {
	state          *tableState
	layout         *rowdiff.Layout
	source, target *rowdiff.Query
}

// pass is one pass over all ranges.
type pass struct {
	o           *Options
	ledger      *ledger
	mode        string
	tables      []*table
	rows, bytes bulk.Pace
	progress    *bulk.Progress
	cancel      context.CancelCauseFunc
	mu          sync.Mutex // guards refused
	refused     int64
}

// job is a range of a table.
type job struct {
	table *table
	index int
}

// run processes all unfinished ranges and returns the total result.
func (p *pass) run(ctx context.Context) (Tally, error) {
	ctx, p.cancel = context.WithCancelCause(ctx)
	defer p.cancel(nil)
	if err := p.ledger.begin(p.mode); err != nil {
		return Tally{}, err
	}
	before, done := p.ledger.total()
	p.refused = before.Refused
	p.progress = p.o.Progress()
	p.progress.Rows.Store(before.Source)
	p.progress.Done.Store(int64(done))
	for _, t := range p.tables {
		p.progress.Total += int64(len(t.state.Ranges))
	}
	p.progress.Start()
	stop, saving := make(chan struct{}), sync.WaitGroup{}
	saving.Go(func() { p.ledger.keepSaving(stop, func(err error) { p.cancel(err) }) })
	jobs := make(chan job)
	var working sync.WaitGroup
	for i := range p.o.Target.Connections {
		working.Go(func() {
			w := &worker{pass: p, number: i}
			defer w.close()
			for j := range jobs {
				if err := w.work(ctx, j); err != nil {
					p.cancel(err)
					return
				}
				p.progress.Done.Add(1)
			}
		})
	}
	p.feed(ctx, jobs)
	close(jobs)
	working.Wait()
	err := context.Cause(ctx)
	close(stop)
	saving.Wait()
	p.progress.Stop()
	if err == nil {
		p.ledger.mu.Lock()
		p.ledger.state.Mode = ""
		p.ledger.mu.Unlock()
	}
	err = errors.Join(err, p.ledger.save())
	sum, _ := p.ledger.total()
	return sum, err
}

// feed sends the unfinished ranges to jobs.
func (p *pass) feed(ctx context.Context, jobs chan<- job) {
	for _, t := range p.tables {
		for i := range t.state.Ranges {
			p.ledger.mu.Lock()
			done := t.state.Ranges[i].Pass == p.ledger.state.Pass
			p.ledger.mu.Unlock()
			if done {
				continue
			}
			select {
			case jobs <- job{t, i}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// paced waits until the rows and bytes that are read from the source are within the rates.
func (p *pass) paced(ctx context.Context) func(rows, bytes int) {
	return func(rows, bytes int) {
		p.rows.Wait(ctx, rows)
		p.bytes.Wait(ctx, bytes)
	}
}

// tooMany counts rejected rows. It returns an error if the number is too high.
func (p *pass) tooMany(n int64, last string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused += n
	p.progress.Rejected.Store(p.refused)
	if p.o.MaxErrors >= 0 && p.refused > p.o.MaxErrors {
		return fmt.Errorf("too many rejected rows: %d (--max-errors %d), the last: %s", p.refused, p.o.MaxErrors,
			last)
	}
	return nil
}

// worker compares one range at a time. It reads both sides, prepares statements over one connection, and writes over
// another connection.
type worker struct {
	pass     *pass
	number   int
	source   *bulk.Reader
	target   *bulk.Reader
	preparer *bulk.Reader
	pipe     *pipeline.Pipeline
	prepared map[*table]*rowdiff.Prepared
}

func (w *worker) close() {
	for _, r := range []*bulk.Reader{w.source, w.target, w.preparer} {
		if r != nil {
			r.Close()
		}
	}
	if w.pipe != nil {
		w.pipe.Close()
	}
	w.source, w.target, w.preparer, w.pipe, w.prepared = nil, nil, nil, nil, nil
}

// open opens the connections that are not open.
func (w *worker) open(ctx context.Context) error {
	if w.pipe != nil {
		return nil
	}
	o := w.pass.o
	w.source = reader(&o.Source, w.number)
	w.target = reader(&o.Target, w.number)
	w.preparer = reader(&o.Target, w.number)
	w.prepared = map[*table]*rowdiff.Prepared{}
	// A statement that received no response is not sent again, because it may append to lists or add to counters. The
	// range is compared again instead.
	pipe, err := pipeline.Open(ctx, w.target.Addr, pipeline.Options{Options: o.Target.Options,
		InFlight: o.Target.InFlight, Retries: o.Target.Retries, OnlyRefused: true})
	if err != nil {
		return err
	}
	w.pipe = pipe
	w.pipe.Start()
	return nil
}

func reader(c *bulk.Client, n int) *bulk.Reader {
	return &bulk.Reader{Client: *c, Addr: c.Addrs[n%len(c.Addrs)]}
}

// work processes a range. If a connection fails or a write receives no response, it processes the range again.
func (w *worker) work(ctx context.Context, j job) error {
	w.pass.ledger.mu.Lock()
	bound := j.table.state.Ranges[j.index].Bound
	w.pass.ledger.mu.Unlock()
	for tries := 1; ; tries++ {
		err := w.open(ctx)
		if err == nil {
			err = w.compare(ctx, j, bound)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		w.close()
		if j.table.state.Fresh { // this attempt may have copied data that is as new as the current time
			bound = max(bound, time.Now().UnixMicro())
		}
		if fatal := (*fatalError)(nil); errors.As(err, &fatal) || tries > w.pass.o.Target.Retries {
			return fmt.Errorf("table %s: %w", j.table.state.name(), err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pipeline.Backoff(tries + 4)): // requests without a response may still be executed
		}
	}
}

// fatalError is an error after which a retry cannot succeed.
type fatalError struct{ error }

func (e *fatalError) Unwrap() error { return e.error }

// comparison is the comparison of a range.
type comparison struct {
	worker  *worker
	table   *table
	differ  rowdiff.Differ
	tally   Tally
	newest  int64
	listed  []Difference
	mu      sync.Mutex // guards refused and failed, which answer sets
	refused []refusal
	failed  error
}

// compare compares a range on both sides, and writes the differences.
func (w *worker) compare(ctx context.Context, j job, bound int64) error {
	p := w.pass
	tokens := bulk.Ring(len(j.table.state.Ranges))[j.index]
	c := &comparison{worker: w, table: j.table, newest: math.MinInt64,
		differ: rowdiff.Differ{Layout: j.table.layout, Bound: bound, Force: p.mode == modeRepair,
			Now: time.Now().UnixMicro(), ValuesOnly: p.o.ValuesOnly && p.mode != modeCopy}}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	source := j.table.source.Read(reading, w.source, tokens, p.paced(ctx))
	target := j.table.target.Read(reading, w.target, tokens, nil)
	err := rowdiff.Merge(source, target, func(s, t *rowdiff.Row) error { return c.row(ctx, s, t) })
	cancel()
	source.Drain()
	target.Drain()
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if err := w.pipe.Wait(); err != nil {
		return err
	}
	if c.failed != nil {
		return c.failed
	}
	return c.end(j, bound)
}

// end records the result of the range.
func (c *comparison) end(j job, bound int64) error {
	p := c.worker.pass
	c.tally.Refused = int64(len(c.refused))
	r := rangeState{Bound: bound, Tally: c.tally}
	if j.table.state.Fresh && p.mode != modeVerify && c.tally.Kept == 0 {
		r.Bound = max(bound, c.newest, time.Now().UnixMicro())
	}
	if n := len(c.refused); n > 0 {
		last := c.refused[n-1]
		if err := p.tooMany(int64(n), last.Table+": "+last.Key+": "+last.Reason); err != nil {
			return &fatalError{err}
		}
	}
	return p.ledger.done(j.table.state, j.index, r, c.refused, c.listed)
}

// name returns the name of the table.
func (c *comparison) name() string { return c.table.state.name().String() }

// errEnough ends a range if too many rows have been rejected.
var errEnough = errors.New("too many rejected rows")

// tooMany reports whether the number of rejected rows in this range alone exceeds the total limit.
func (c *comparison) tooMany() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := c.worker.pass.o.MaxErrors
	return most >= 0 && int64(len(c.refused)) > most
}

// row compares a row, and writes the differences.
func (c *comparison) row(ctx context.Context, s, t *rowdiff.Row) error {
	if err := c.worker.pipe.Err(); err != nil {
		return err
	}
	if c.tooMany() { // the remaining rows would also be rejected
		return errEnough
	}
	for _, r := range []*rowdiff.Row{s, t} {
		if r != nil && r.Err != nil {
			c.refuse(r, r.Err)
			return nil
		}
	}
	if s != nil {
		c.tally.Source++
		c.tally.SourceDigest.Add(s.Digest())
		c.newest = max(c.newest, s.Newest())
		c.worker.pass.progress.Rows.Add(1)
	}
	if t != nil {
		c.tally.Target++
		c.tally.TargetDigest.Add(t.Digest())
	}
	change := c.differ.Diff(s, t)
	if change.What == "" {
		return nil
	}
	c.tally.Different++
	row := s
	if row == nil {
		row = t
	}
	mode := c.worker.pass.mode
	if mode != modeCopy || change.Kept {
		if len(c.listed) < listed {
			c.listed = append(c.listed, Difference{c.name(), c.table.layout.KeyText(row), change.What})
		}
	}
	if change.Kept {
		c.tally.Kept++
	}
	if mode == modeVerify || len(change.Statements) == 0 {
		return nil
	}
	if change.Deletes {
		c.tally.Deleted++
	} else {
		c.tally.Written++
	}
	return c.send(ctx, row, change.Statements)
}

// send writes the statements of a row as one mutation.
func (c *comparison) send(ctx context.Context, row *rowdiff.Row, statements []rowdiff.Statement) error {
	w := c.worker
	if w.prepared[c.table] == nil {
		conn, err := w.preparer.Conn(ctx)
		if err != nil {
			return err
		}
		w.prepared[c.table] = c.table.layout.Prepare(conn)
	}
	bound := make([]rowdiff.Bound, len(statements))
	for i := range statements {
		var err error
		bound[i], err = w.prepared[c.table].Bind(&statements[i])
		if bulk.Rejected(err) || errors.Is(err, rowdiff.ErrPrefix) {
			c.refuse(row, err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	level := w.pass.o.Target.Consistency
	done := func(err error) { c.answer(row, err) }
	if len(bound) == 1 {
		e := cqlwire.Execute{ID: bound[0].ID}
		e.Consistency, e.Values, e.Unset = level, bound[0].Values, bound[0].Unset
		w.pipe.Send(cqlwire.OpExecute, func(dst []byte) []byte { return e.Append(dst, cqlwire.V4) }, done)
		return nil
	}
	b := cqlwire.Batch{Kind: 1}
	b.Consistency = level
	for _, s := range bound {
		b.Statements = append(b.Statements, cqlwire.BatchStatement{ID: s.ID, Values: s.Values, Unset: s.Unset})
	}
	w.pipe.Send(cqlwire.OpBatch, func(dst []byte) []byte { return b.Append(dst, cqlwire.V4) }, done)
	return nil
}

// answer processes the response for the statements of a row.
func (c *comparison) answer(row *rowdiff.Row, err error) {
	if bulk.Rejected(err) {
		c.refuse(row, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = cmp.Or(c.failed, err)
}

// refuse records a row that cannot be copied. The row is written to the error file.
func (c *comparison) refuse(row *rowdiff.Row, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if most := c.worker.pass.o.MaxErrors; most < 0 || int64(len(c.refused)) <= most {
		c.refused = append(c.refused, refusal{c.name(), c.table.layout.KeyText(row), err.Error()})
	}
}
