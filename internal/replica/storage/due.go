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

// Whatever is to be swept one day, a deletion or what expires, is noted under its second by the batch that writes it,
// blindly. So the sweeper reads what is due, in order of time, and not the live rows between. Notes are a node's own:
// the replica that leads sweeps through the log, all others take their notes away once they see that done. What has no
// note, because a snapshot brought it or because a column was dropped, is found by the rounds of RunSweeper.

const (
	// dueSeconds and dedupeDueSeconds round times up, so that writes of one key within them leave one note.
	dueSeconds       = 16
	dedupeDueSeconds = 64
	// duePause is the time between the beginnings of two looks at what is due.
	duePause = 10 * time.Second
	// dueSlices is how many sweeps of SweeperOptions.SliceKeys keys are under way at once, or a few more.
	dueSlices = 8
	// hiddenMax bounds the rows that a deletion hides which are swept at a time.
	hiddenMax = 1000
)

// note adds a note that a key is to be looked at some time after a second.
func (b *Batch) note(class byte, second int64, key []byte) {
	if second != row.NoExpiry {
		noteIn(b.b, class, dueAt(class, second), key)
	}
}

// dueAt is the second of the note of something that is to be looked at some time after a second.
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
	_ = d.Finish() // fails for indexed batches only
}

// sweepDueAlways sweeps what is due until ctx ends.
func (s *Sweeper) sweepDueAlways(ctx context.Context, o *SweeperOptions) {
	for ctx.Err() == nil {
		begun := time.Now()
		o.report(ctx, s.SweepDue(ctx, o))
		wait(ctx, o.DuePause-time.Since(begun)) // what took long has left more to do
	}
}

// SweepDue sweeps what is due in the spans of o once. Its work is bounded by the tables that have notes.
func (s *Sweeper) SweepDue(ctx context.Context, o *SweeperOptions) error {
	opts := o.withDefaults()
	if err := s.forgetDropped(s.held); err != nil {
		return s.check(err)
	}
	tables, err := s.noted()
	if err != nil {
		return s.check(fmt.Errorf("look for what is due: %w", err))
	}
	var parts []dueParts
	led := map[uint32][]keys.Span{}
	for _, span := range opts.Spans() {
		led[span.Table] = append(led[span.Table], span)
	}
	for _, table := range tables {
		if err := s.sweepDueOf(ctx, table, led[table], &opts, &parts); err != nil {
			return s.check(fmt.Errorf("sweep what is due in table %d: %w", table, err))
		}
	}
	opts.report(ctx, sweepParts(ctx, &opts, parts))
	s.m.sweepLag.Store(0)
	return ctx.Err()
}

// sweepDueOf sweeps what is due in a table with notes, or removes the notes if the table is gone.
func (s *Sweeper) sweepDueOf(ctx context.Context, table uint32, led []keys.Span, o *SweeperOptions,
	parts *[]dueParts) error {
	var in *Table
	if t := (*s.byID.Load())[table]; t != nil {
		in = t.installed.Load()
	}
	if in == nil {
		held, err := s.held(table)
		if err == nil && len(held) == 0 {
			err = s.forgetDue(table)
		}
		return err
	}
	now := o.Now()
	for class, horizon := range map[byte]int64{keys.SweepRows: now - in.GCGrace,
		keys.SweepDedupe: now - o.DedupeSeconds} {
		d := &dueSweep{s: s, o: o, t: in, class: class, horizon: horizon, led: led, parts: parts}
		if err := d.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// noted lists the tables that have notes, with one seek for each.
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

// forgetDue removes the notes of a table that is gone.
func (s *Sweeper) forgetDue(table uint32) error {
	lower := keys.AppendTable(keys.AppendSystem(nil, keys.SweepQueueID, nil), table)
	return s.db.DeleteRange(lower, keys.After(bytes.Clone(lower)), pebble.NoSync)
}

// dueSweep sweeps what is due of one class in one table.
type dueSweep struct {
	s         *Sweeper
	o         *SweeperOptions
	t         *Table
	class     byte
	horizon   int64
	led, held []keys.Span
	// parts collects what is swept in the end.
	parts *[]dueParts
}

// dueSlice is what came of a look at some notes.
type dueSlice struct {
	// sweeps are the keys to sweep of each span that is led; deletions go after the rows they hide.
	rows, deletions map[int][][]byte
	// done are the notes that need no further look once the sweeps are applied.
	done [][]byte
	next []byte
	seen int
	// parts are the keys of old dedupe records of what may be parts of atomic batches.
	parts []duePart
}

func (d *dueSweep) run(ctx context.Context) error {
	lower, upper := keys.SweepBounds(d.t.ID, d.class, d.horizon)
	pace := d.o.paced(ctx, d.o.DuePerSecond)
	for lower != nil && ctx.Err() == nil {
		sl, err := d.slice(lower, upper)
		if err != nil {
			return err
		}
		d.putOff(&sl)
		for _, list := range []map[int][][]byte{sl.rows, sl.deletions} {
			if err := d.propose(ctx, list); err != nil {
				return err
			}
		}
		b := d.s.db.NewBatch()
		for _, key := range sl.done {
			_ = b.Delete(key, nil) // fails for indexed batches only
		}
		if err := errors.Join(b.Commit(pebble.NoSync), b.Close()); err != nil {
			return err
		}
		lower = sl.next
		pace(sl.seen)
	}
	return nil
}

// propose proposes sweeps of some keys, all at once: one after the other each would wait for the log by itself, and a
// busy node would not keep up with what expires. It returns when all are applied.
func (d *dueSweep) propose(ctx context.Context, list map[int][][]byte) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for i := range d.led {
		for keys := range slices.Chunk(list[i], d.o.SliceKeys) {
			sw := command.Sweep{Table: d.t.ID, Keys: keys, Horizon: d.horizon, Dropped: d.t.Dropped}
			wg.Go(func() {
				if err := d.o.Propose(ctx, sw); err != nil {
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

// slice looks at some notes.
func (d *dueSweep) slice(lower, upper []byte) (sl dueSlice, err error) {
	sl.rows, sl.deletions = map[int][][]byte{}, map[int][][]byte{}
	it, err := d.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return sl, err
	}
	// The iterator is made first: the notes it sees belong to a replica of then or before.
	d.held, err = d.s.held(d.t.ID)
	w := d.s.newSweep(&command.Sweep{Table: d.t.ID, Horizon: d.horizon, Dropped: d.t.Dropped})
	defer w.close()
	for it.First(); it.Valid() && err == nil; it.Next() {
		if sl.seen >= dueSlices*d.o.SliceKeys {
			sl.next = bytes.Clone(it.Key())
			break
		}
		if sl.seen++; sl.seen == 1 {
			d.s.m.sweepLag.Store(max(0, d.horizon-keys.SweepTime(it.Key())))
		}
		err = d.look(w, &sl, it.Key())
	}
	d.s.m.dueSeen.Add(uint64(sl.seen))
	return sl, errors.Join(err, it.Error(), it.Close())
}

// look finds out what is to be done about a note.
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
		if i >= 0 { // the sweep looks at the row anyhow
			d.sweep(sl.rows, i, key)
			break
		}
		var value []byte
		if value, err = w.get(key); err != nil || value == nil {
			break
		}
		var oldest int64
		if oldest, err = row.Oldest(value, row.NotDeleted, d.t.Dropped); err == nil && oldest < d.horizon {
			done = d.sweep(sl.rows, i, key)
		}
	}
	if done && err == nil {
		sl.done = append(sl.done, bytes.Clone(note))
	}
	return err
}

// sweep notes a key to be swept if its partition is led here, and reports whether it is: otherwise the replica that
// leads has yet to do it.
func (d *dueSweep) sweep(list map[int][][]byte, led int, key []byte) bool {
	if led >= 0 {
		list[led] = append(list[led], key)
	}
	return led >= 0
}

// changeSecond is when a change that is kept expires.
func changeSecond(value []byte) (second int64, ok bool) {
	second, err := row.Oldest(value, row.NotDeleted, nil)
	return second, err == nil
}

// records has the old dedupe records of a partition swept, or the changes that were kept long enough.
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

// deletions has the rows that old deletions hide swept, and then the deletions.
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
