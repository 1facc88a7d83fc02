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

// SweeperOptions tune RunSweeper.
type SweeperOptions struct {
	// Now is the clock, in seconds since the epoch.
	Now func() int64
	// Spans are the parts of tables to look at in a round, those that this replica leads.
	Spans func() []keys.Span
	// Propose carries a sweep out: through the log of the partition, or with ApplySweep where there is none.
	Propose func(ctx context.Context, sw command.Sweep) error
	// KeysPerSecond bounds how fast keys are looked at, 20,000 by default.
	KeysPerSecond int
	// SliceKeys is how many keys are looked at in one go and so the most keys of a sweep, 1,000 by default.
	SliceKeys int
	// Pause is the time between two rounds, 5 minutes by default.
	Pause time.Duration
	// DuePerSecond bounds how fast what is due is looked at, 100,000 by default; DuePause is the least time between the
	// beginnings of two looks, 10 s by default.
	DuePerSecond int
	DuePause     time.Duration
	// DedupeSeconds is how long dedupe records are kept, command.DedupeSeconds by default.
	DedupeSeconds int64
	// Recorded returns a function that reports whether an atomic batch is recorded, as of a moment after the call.
	// Dedupe records of the parts of a batch that is recorded are kept, and those of all batches if it returns an
	// error. Nil: no batch is.
	Recorded func(ctx context.Context) (Recorded, error)
	// Pressed reports whether this machine is asked for more than it does: keys are looked at at a tenth of the pace
	// then. Nil: never.
	Pressed func() bool
	// Error is called when a slice cannot be read or proposed; the sweeper goes on with the next span.
	Error func(error)
}

func (o SweeperOptions) withDefaults() SweeperOptions {
	if o.KeysPerSecond == 0 {
		o.KeysPerSecond = 20_000
	}
	if o.SliceKeys == 0 {
		o.SliceKeys = 1000
	}
	if o.Pause == 0 {
		o.Pause = 5 * time.Minute
	}
	if o.DuePerSecond == 0 {
		o.DuePerSecond = 100_000
	}
	if o.DuePause == 0 {
		o.DuePause = duePause
	}
	if o.DedupeSeconds == 0 {
		o.DedupeSeconds = command.DedupeSeconds
	}
	return o
}

// Recorded reports whether an atomic batch is recorded.
type Recorded func(batch [16]byte) bool

// Sweeper finds what nobody can see any more, and has it removed.
type Sweeper struct {
	*engine
	*rows
	*Records
}

// RunSweeper sweeps what is due, and looks slice by slice for what else may be swept, until the context ends. Deleted
// ranges are spread as soon as there are too many.
func (s *Sweeper) RunSweeper(ctx context.Context, o SweeperOptions) {
	o = o.withDefaults()
	var wg sync.WaitGroup
	wg.Go(func() { s.spreadRanges(ctx, &o) })
	wg.Go(func() { s.sweepDueAlways(ctx, &o) })
	for round := 0; ctx.Err() == nil; round++ {
		for _, span := range o.Spans() {
			o.report(ctx, s.sweepSpan(ctx, span, &o))
		}
		if s.truncated.Swap(false) || round%entryRounds == 0 {
			o.report(ctx, s.SweepEntries(ctx, o.Now(), o.paced(ctx, o.KeysPerSecond)))
		}
		wait(ctx, o.Pause)
	}
	wg.Wait()
}

// report tells of an error that is not the end of ctx.
func (o *SweeperOptions) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && o.Error != nil {
		o.Error(err)
	}
}

// spreadPause is the least time between two looks for partitions with too many deleted ranges together.
const spreadPause = 20 * time.Millisecond

// spreadRanges proposes sweeps of partitions with too many deleted ranges together, as it hears of them.
func (s *Sweeper) spreadRanges(ctx context.Context, o *SweeperOptions) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.piles.wake:
		}
		for _, span := range o.Spans() {
			for _, prefix := range s.piles.due(span) {
				sw := command.Sweep{Table: span.Table, Keys: [][]byte{append(prefix, keys.Deletions)}}
				o.report(ctx, o.Propose(ctx, sw))
			}
		}
		wait(ctx, spreadPause)
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// sweepSpan sweeps a span once.
func (s *Sweeper) sweepSpan(ctx context.Context, span keys.Span, o *SweeperOptions) error {
	var from []byte
	pace := o.paced(ctx, o.KeysPerSecond)
	for {
		g, err := s.FindGarbage(ctx, span, from, o.Now(), o.DedupeSeconds, o.SliceKeys)
		if err != nil {
			return err
		}
		o.report(ctx, g.addParts(ctx, o.Recorded))
		for _, sw := range g.Sweeps {
			if err := o.Propose(ctx, sw); err != nil {
				return err
			}
		}
		if from = g.Next; from == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		pace(g.Seen)
	}
}

// Garbage is what FindGarbage found.
type Garbage struct {
	// Sweeps are to be proposed; there is one per horizon.
	Sweeps []command.Sweep
	// Parts, if it has keys, is a sweep of old dedupe records of what may be parts of atomic batches. It must not be
	// proposed with those of batches that are recorded; see AddParts.
	Parts command.Sweep
	// Seen is the number of keys looked at.
	Seen int
	// Next is where the next slice begins, nil at the end of the span.
	Next []byte
}

// FindGarbage looks at up to limit keys of a span, from a key on (nil: from the beginning), for what may be swept at
// the second now. The table must be installed.
func (s *Sweeper) FindGarbage(ctx context.Context, span keys.Span, from []byte, now, dedupeSeconds int64,
	limit int) (Garbage, error) {
	if err := s.Err(); err != nil {
		return Garbage{}, err
	}
	t := s.table(span.Table).installed.Load()
	if t == nil {
		return Garbage{}, nil
	}
	f := finder{s: s, t: t, span: span, horizon: now - t.GCGrace, dedupe: now - dedupeSeconds, limit: limit}
	lower, upper := span.Bounds()
	if from != nil {
		lower = from
	}
	err := f.rows(lower, upper)
	if err != nil {
		return Garbage{}, s.check(fmt.Errorf("look for garbage in %v: %w", span, err))
	}
	if f.log != nil {
		f.log.close()
	}
	f.add(f.found, f.horizon)
	f.add(f.records, f.dedupe)
	f.g.Parts = command.Sweep{Table: t.ID, Keys: f.parts, Horizon: f.dedupe, Dropped: t.Dropped}
	return f.g, ctx.Err()
}

// AddParts adds a sweep of Parts to Sweeps, without those of batches that are recorded. recorded was asked for after
// the garbage was found.
func (g *Garbage) AddParts(recorded Recorded) {
	g.Parts.Keys = slices.DeleteFunc(g.Parts.Keys, func(key []byte) bool { return partRecorded(key, recorded) })
	if len(g.Parts.Keys) > 0 {
		g.Sweeps = append(g.Sweeps, g.Parts)
	}
}

func (g *Garbage) addParts(ctx context.Context, recorded func(context.Context) (Recorded, error)) error {
	if len(g.Parts.Keys) == 0 {
		return nil
	}
	is, err := askRecorded(ctx, recorded)
	g.AddParts(is)
	return err
}

// askRecorded asks which batches are recorded. If that is not known, all are.
func askRecorded(ctx context.Context, recorded func(context.Context) (Recorded, error)) (Recorded, error) {
	if recorded == nil {
		return func([16]byte) bool { return false }, nil
	}
	is, err := recorded(ctx)
	if err != nil {
		return func([16]byte) bool { return true }, fmt.Errorf("look for recorded batches: %w", err)
	}
	return is, nil
}

// partRecorded reports whether the key is that of the dedupe record of a part of a batch that is recorded.
func partRecorded(key []byte, recorded Recorded) bool {
	id, ok := dedupeIDOf(key)
	return ok && recorded(id.Coordinator)
}

// dedupeIDOf returns the id of the key of a dedupe record, if it may be that of a part of an atomic batch.
func dedupeIDOf(key []byte) (id command.DedupeID, ok bool) {
	p, ok := keys.Parse(key)
	if !ok || p.Kind != keys.Dedupe {
		return id, false
	}
	id, ok = keys.DedupeIDOf(p.Rest)
	return id, ok && id.MayBePart()
}

// finder is one FindGarbage under way.
type finder struct {
	s               *Sweeper
	t               *Table
	span            keys.Span
	horizon, dedupe int64
	limit           int
	g               Garbage
	// found are keys of rows and deletions, records those of dedupe records and of the change log; parts are those of
	// dedupe records of what may be parts of batches.
	found, records, parts [][]byte
	// log looks at the rows of the change log.
	log *sweep
}

func (f *finder) add(list [][]byte, horizon int64) {
	if len(list) > 0 {
		f.g.Sweeps = append(f.g.Sweeps, command.Sweep{Table: f.t.ID, Keys: list, Horizon: horizon,
			Dropped: f.t.Dropped})
	}
}

// full stops the slice at a key once enough were seen.
func (f *finder) full(key []byte) bool {
	if f.g.Seen >= f.limit {
		f.g.Next = bytes.Clone(key)
		return true
	}
	f.g.Seen++
	return false
}

func (f *finder) rows(lower, upper []byte) error {
	it, err := f.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	w := f.s.newSweep(&command.Sweep{Table: f.t.ID, Horizon: f.horizon, Dropped: f.t.Dropped})
	defer w.close()
	for it.First(); it.Valid() && err == nil && !f.full(it.Key()); it.Next() {
		p, ok := keys.Parse(it.Key())
		if !ok {
			err = fmt.Errorf("key %x: %w", it.Key(), errDamage)
			break
		}
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			err = f.row(w, it.Key(), &p, value)
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}

func (f *finder) row(w *sweep, key []byte, p *keys.Parts, value []byte) error {
	switch p.Kind {
	case keys.Dedupe:
		if second, ok := dedupeSecond(value); ok && second >= f.dedupe {
			return nil
		}
		if id, ok := keys.DedupeIDOf(p.Rest); ok && id.MayBePart() {
			f.parts = append(f.parts, bytes.Clone(key))
		} else {
			f.records = append(f.records, bytes.Clone(key))
		}
		return nil
	case keys.Deletions, keys.Range:
		return f.deletions(w, key, p, value)
	case keys.Latest, keys.Change:
		return f.change(key, p, value)
	case keys.Static, keys.Row:
	default:
		return nil
	}
	covered := row.NotDeleted
	if f.s.table(f.t.ID).may(flagDeletions) {
		err := w.loadHeader(key[:p.PrefixLen])
		if err != nil {
			return err
		}
		if covered = w.header.Deleted; p.Kind == keys.Row {
			if covered, err = w.covering(p.Rest); err != nil {
				return err
			}
		}
	}
	oldest, err := row.Oldest(value, covered, f.t.Dropped)
	if err == nil && oldest < f.horizon {
		f.found = append(f.found, bytes.Clone(key))
	}
	return err
}

// deletions notes deletions if one of them is old and hides nothing any more, or if too many ranges are together.
func (f *finder) deletions(w *sweep, key []byte, p *keys.Parts, value []byte) error {
	w.merger.Reset()
	if err := w.merger.Add(value); err != nil {
		return err
	}
	var failed error
	remains := w.merger.SweepDeletions(f.horizon, func(start, end []byte, ts int64) bool {
		clean, err := w.hidesNothing(key[:p.PrefixLen], start, end, ts)
		failed = errors.Join(failed, err)
		return clean
	})
	if failed != nil {
		return failed
	}
	goes := !remains || !bytes.Equal(w.merger.Append(nil), value) || len(w.merger.Ranges()) > f.s.together
	if !goes && w.merger.HasMoreRanges() && p.Kind == keys.Deletions {
		some, err := w.hasRanges(key[:p.PrefixLen])
		if err != nil {
			return err
		}
		goes = !some
	}
	if goes {
		f.found = append(f.found, bytes.Clone(key))
	}
	return nil
}
