// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// A batch that writes a deletion or expiring data also writes a note, without reading any data. The note contains the
// second at which the data becomes due for a sweep. The sweeper reads due notes in order of time instead of scanning
// all live rows. Notes are local to a node. The leader sweeps through the log, and every other replica removes its
// notes after it has applied the sweep. Data from a snapshot and data of a dropped column have no notes. The rounds of
// RunSweeper find this data.

const (
	// dueSeconds and dedupeDueSeconds are rounding intervals, so that several writes of one key result in one note.
	dueSeconds       = 16
	dedupeDueSeconds = 64
	// duePause is the interval between the starts of two due sweeps.
	duePause = 10 * time.Second
	// dueSlices is the approximate number of concurrent sweeps. Each sweep has up to SweeperOptions.SliceKeys keys.
	dueSlices = 8
	// hiddenMax is the maximum number of hidden rows of one deletion that are swept at a time.
	hiddenMax = 1000
)

// note adds a note that requests a check of a key after a given second.
func (b *Batch) note(class byte, second int64, key []byte) {
	if second != row.NoExpiry {
		noteIn(b.b, class, dueAt(class, second), key)
	}
}

// dueAt returns the second of a note that requests a check after a given second.
func dueAt(class byte, second int64) int64 {
	every := int64(dueSeconds)
	if class == keys.SweepDedupe {
		every = dedupeDueSeconds
	}
	return max(second, 0)/every*every + every
}

func noteIn(b *pebble.Batch, class byte, due int64, key []byte) {
	d := b.SetDeferred(keys.SweepEntryLen(key), 0)
	keys.AppendSweepEntry(d.Key[:0], class, due, key)
	_ = d.Finish() // Finish fails only for indexed batches
}

// sweepDueAlways sweeps due keys until ctx ends.
func (s *Sweeper) sweepDueAlways(ctx context.Context, o *SweeperOptions) {
	for ctx.Err() == nil {
		begun := time.Now()
		o.report(ctx, s.SweepDue(ctx, o))
		wait(ctx, o.DuePause-time.Since(begun)) // this wait is shorter after a long sweep
	}
}

// SweepDue sweeps the due keys in the spans of o once. It processes only tables with notes.
func (s *Sweeper) SweepDue(ctx context.Context, o *SweeperOptions) error {
	opts := o.withDefaults()
	if err := s.forgetDropped(s.localSpans); err != nil {
		return s.check(err)
	}
	tables, err := s.noted()
	if err != nil {
		return s.check(fmt.Errorf("find due keys: %w", err))
	}
	var parts []dueParts
	led := map[uint32][]keys.Span{}
	for _, span := range opts.Node.Spans() {
		led[span.Table] = append(led[span.Table], span)
	}
	for _, table := range tables {
		if err := s.sweepDueOf(ctx, table, led[table], &opts, &parts); err != nil {
			return s.check(fmt.Errorf("sweep due keys of table %d: %w", table, err))
		}
	}
	opts.report(ctx, sweepParts(ctx, &opts, parts))
	s.m.sweepLag.Store(0)
	return ctx.Err()
}

// sweepDueOf sweeps the due keys of a table with notes. If the table no longer exists, sweepDueOf removes the notes.
func (s *Sweeper) sweepDueOf(ctx context.Context, table uint32, led []keys.Span, o *SweeperOptions,
	parts *[]dueParts) error {
	var in *Table
	if t := (*s.byID.Load())[table]; t != nil {
		in = t.installed.Load()
	}
	if in == nil {
		held, err := s.localSpans(table)
		if err == nil && len(held) == 0 {
			err = s.forgetDue(table)
		}
		return err
	}
	now := o.Node.Now()
	rows := now - in.GCGrace
	for _, d := range []*dueSweep{
		{class: keys.SweepRows, horizon: rows, until: rows},
		{class: keys.SweepDedupe, horizon: now - o.DedupeSeconds, until: now - o.DedupeSeconds},
		{class: keys.SweepItems, horizon: rows, until: now - entryGrace, expired: in.Lifetimes.At(now - entryGrace)},
	} {
		d.s, d.o, d.t, d.led, d.parts = s, o, in, led, parts
		if err := d.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// noted returns the tables with notes. It uses one seek for each table.
func (s *Sweeper) noted() (tables []uint32, err error) {
	prefix := keys.AppendSystem(nil, keys.SweepQueueID, nil)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: keys.After(bytes.Clone(prefix))})
	if err != nil {
		return nil, err
	}
	for valid := it.First(); valid; {
		s.m.dueTables.Add(1)
		table := keys.ID(it.Key()[len(prefix):])
		tables = append(tables, table)
		next := keys.After(keys.AppendTable(bytes.Clone(prefix), table))
		valid = next != nil && it.SeekGE(next)
	}
	return tables, errors.Join(it.Error(), it.Close())
}

// forgetDue removes the notes of a dropped table.
func (s *Sweeper) forgetDue(table uint32) error {
	lower := keys.AppendTable(keys.AppendSystem(nil, keys.SweepQueueID, nil), table)
	return s.db.DeleteRange(lower, keys.After(bytes.Clone(lower)), pebble.NoSync)
}

// dueSweep sweeps due keys of one class in one table.
type dueSweep struct {
	s       *Sweeper
	o       *SweeperOptions
	t       *Table
	class   byte
	horizon int64
	// until is the second before which notes are due. expired determines which rows have expired.
	until     int64
	expired   row.Expired
	led, held []keys.Span
	// parts collects the dedupe records that SweepDue sweeps at the end.
	parts *[]dueParts
}

// dueSlice is the result of examining some notes.
type dueSlice struct {
	// rows and deletions contain the keys to sweep, by the index of the span. Deletions are swept after the rows that
	// they hide.
	rows, deletions map[int][][]byte
	// done holds the notes that can be removed after the sweeps have been applied.
	done [][]byte
	next []byte
	seen int
	// parts holds old dedupe records that may belong to atomic batches.
	parts []duePart
}

func (d *dueSweep) run(ctx context.Context) error {
	lower, upper := keys.SweepBounds(d.t.ID, d.class, d.until)
	pace := d.o.paced(ctx, d.o.DuePerSecond)
	for lower != nil && ctx.Err() == nil {
		sl, err := d.slice(lower, upper)
		if err != nil {
			return err
		}
		d.deferParts(&sl)
		for _, list := range []map[int][][]byte{sl.rows, sl.deletions} {
			if err := d.propose(ctx, list); err != nil {
				return err
			}
		}
		b := d.s.db.NewBatch()
		for _, key := range sl.done {
			_ = b.Delete(key, nil) // Delete fails only for indexed batches
		}
		if err := errors.Join(b.Commit(pebble.NoSync), b.Close()); err != nil {
			return err
		}
		lower = sl.next
		pace(sl.seen)
	}
	return nil
}

// propose concurrently proposes sweeps of the given keys. It returns when all sweeps have been applied. Sequential
// proposals would be too slow on a busy node, because each proposal waits for the log.
func (d *dueSweep) propose(ctx context.Context, list map[int][][]byte) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for i := range d.led {
		for keys := range slices.Chunk(list[i], d.o.SliceKeys) {
			sw := command.Sweep{Table: d.t.ID, Keys: keys, Horizon: d.horizon, Dropped: d.t.Dropped, Expired: d.expired}
			wg.Go(func() {
				if err := d.o.Node.Propose(ctx, sw); err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}
			})
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// slice examines some notes.
func (d *dueSweep) slice(lower, upper []byte) (sl dueSlice, err error) {
	sl.rows, sl.deletions = map[int][][]byte{}, map[int][][]byte{}
	it, err := d.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return sl, err
	}
	// The iterator must be created before the spans are read, so that every visible note belongs to a known replica or
	// a removed replica.
	d.held, err = d.s.localSpans(d.t.ID)
	w := d.s.newSweep(&command.Sweep{Table: d.t.ID, Horizon: d.horizon, Dropped: d.t.Dropped})
	defer w.close()
	for it.First(); it.Valid() && err == nil; it.Next() {
		if sl.seen >= dueSlices*d.o.SliceKeys {
			sl.next = bytes.Clone(it.Key())
			break
		}
		if sl.seen++; sl.seen == 1 {
			d.s.m.sweepLag.Store(max(0, d.until-keys.SweepTime(it.Key())))
		}
		err = d.look(w, &sl, it.Key())
	}
	d.s.m.dueSeen.Add(uint64(sl.seen))
	return sl, errors.Join(err, it.Error(), it.Close())
}

// look determines how to process a note.
func (d *dueSweep) look(w *sweep, sl *dueSlice, note []byte) error {
	key := keys.AppendSweepTarget(nil, note)
	p, ok := keys.Parse(key)
	in := func(s keys.Span) bool { return s.Holds(p.Position()) }
	if !ok || !slices.ContainsFunc(d.held, in) {
		sl.done = append(sl.done, bytes.Clone(note))
		return nil
	}
	i := slices.IndexFunc(d.led, in)
	done := true
	var err error
	switch p.Kind {
	case keys.Dedupe:
		done, err = d.records(sl, i, key, note, dedupeSecond)
	case keys.Change:
		done, err = d.records(sl, i, key, note, changeSecond)
	case keys.Deletions, keys.Range:
		done, err = d.deletions(w, sl, i, key, &p)
	default:
		if i >= 0 { // the sweep reads the row
			d.sweep(sl.rows, i, key)
			break
		}
		var value []byte
		if value, err = w.get(key); err != nil || value == nil {
			break
		}
		var oldest int64
		covered := d.expired.Covering(value, row.NotDeleted)
		if oldest, err = row.Oldest(value, covered, d.t.Dropped); err == nil && oldest < d.horizon {
			done = d.sweep(sl.rows, i, key)
		}
	}
	if done && err == nil {
		sl.done = append(sl.done, bytes.Clone(note))
	}
	return err
}

// sweep adds a key to the sweeps and returns true if this node leads the key's partition. Otherwise, it returns false,
// because the leader sweeps the key.
func (d *dueSweep) sweep(list map[int][][]byte, led int, key []byte) bool {
	if led >= 0 {
		list[led] = append(list[led], key)
	}
	return led >= 0
}

// changeSecond returns the second at which a kept change expires.
func changeSecond(value []byte) (second int64, ok bool) {
	second, err := row.Oldest(value, row.NotDeleted, nil)
	return second, err == nil
}

// records sweeps the old dedupe records or the expired kept changes of a partition.
func (d *dueSweep) records(sl *dueSlice, led int, prefix, note []byte, secondOf func([]byte) (int64, bool)) (
	done bool, err error) {
	it, err := d.s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: keys.After(bytes.Clone(prefix))})
	if err != nil {
		return false, err
	}
	done = true
	for it.First(); it.Valid() && done && err == nil; it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		if second, ok := secondOf(value); !ok || second < d.horizon {
			sl.seen++
			key := bytes.Clone(it.Key())
			if _, ok := dedupeIDOf(key); ok {
				sl.parts = append(sl.parts, duePart{key, bytes.Clone(note), led})
			} else {
				done = d.sweep(sl.rows, led, key)
			}
			done = done && sl.seen < 10*d.o.SliceKeys
		}
	}
	return done, errors.Join(err, it.Error(), it.Close())
}

// deletions sweeps the rows hidden by old deletions, and then the deletions.
func (d *dueSweep) deletions(w *sweep, sl *dueSlice, led int, key []byte, p *keys.Parts) (done bool, err error) {
	value, err := w.get(key)
	if err != nil || value == nil {
		return err == nil, err
	}
	w.merger.Reset()
	if err := w.merger.Add(bytes.Clone(value)); err != nil {
		return false, err
	}
	old, done := false, true
	w.merger.SweepDeletions(d.horizon, func(start, end []byte, ts int64) bool {
		if old = true; led < 0 || !done || err != nil {
			return false
		}
		var hidden [][]byte
		if hidden, done, err = w.hidden(key[:p.PrefixLen], start, end, ts, hiddenMax); err == nil {
			sl.rows[led] = append(sl.rows[led], hidden...)
		}
		return false
	})
	if err != nil || !old {
		return err == nil, err
	}
	return d.sweep(sl.deletions, led, key) && done, nil
}
