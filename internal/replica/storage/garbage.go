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

// SweepNode is the node that runs a sweeper.
type SweepNode interface {
	// Now returns the time in seconds since the epoch.
	Now() int64
	// Spans returns the parts of tables to examine in a round. This node must lead the partitions of these parts.
	Spans() []keys.Span
	// Propose executes a sweep through the partition's log. It uses ApplySweep if the partition has no log.
	Propose(ctx context.Context, sw command.Sweep) error
	// Recorded returns a function that reports whether an atomic batch was in the batch log at some time after the
	// call. The sweeper keeps the dedupe records of these batches. If Recorded returns an error, the sweeper keeps the
	// records of all batches.
	Recorded(ctx context.Context) (Recorded, error)
	// Overloaded reports whether this machine is overloaded. If it is, the sweeper examines keys at a tenth of the
	// configured rate.
	Overloaded() bool
	// SweepFailed is called if the sweeper cannot read or propose a slice. The sweeper then continues with the next
	// span.
	SweepFailed(err error)
}

// SweeperOptions configure RunSweeper.
type SweeperOptions struct {
	Node SweepNode
	// KeysPerSecond is the maximum number of keys examined per second. The default is 20,000.
	KeysPerSecond int
	// SliceKeys is the maximum number of keys in a slice and in a sweep. The default is 1,000.
	SliceKeys int
	// Pause is the time between two rounds. The default is 5 minutes.
	Pause time.Duration
	// DuePerSecond is the maximum number of due keys examined per second. The default is 100,000. DuePause is the
	// minimum interval between the starts of two due sweeps. The default is 10 s.
	DuePerSecond int
	DuePause     time.Duration
	// DedupeSeconds is the retention time of dedupe records. The default is command.DedupeSeconds.
	DedupeSeconds int64
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

// Recorded reports whether an atomic batch is in the batch log.
type Recorded func(batch [16]byte) bool

// Sweeper finds and removes invisible data.
type Sweeper struct {
	*engine
	*rows
	*Records
}

// RunSweeper sweeps due keys and examines all other keys, slice by slice, until the context ends. It also moves deleted
// ranges to separate keys when a partition has too many ranges.
func (s *Sweeper) RunSweeper(ctx context.Context, o SweeperOptions) {
	o = o.withDefaults()
	var wg sync.WaitGroup
	wg.Go(func() { s.spreadRanges(ctx, &o) })
	wg.Go(func() { s.sweepDueAlways(ctx, &o) })
	for round := 0; ctx.Err() == nil; round++ {
		for _, span := range o.Node.Spans() {
			o.report(ctx, s.sweepSpan(ctx, span, &o))
		}
		if s.truncated.Swap(false) || round%entryRounds == 0 {
			o.report(ctx, s.SweepEntries(ctx, o.Node.Now(), o.paced(ctx, o.KeysPerSecond)))
		}
		wait(ctx, o.Pause)
	}
	wg.Wait()
}

// report reports an error to the node unless ctx has ended.
func (o *SweeperOptions) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		o.Node.SweepFailed(err)
	}
}

// spreadPause is the minimum interval between two checks for partitions with too many deleted ranges.
const spreadPause = 20 * time.Millisecond

// spreadRanges proposes sweeps of partitions that have too many deleted ranges.
func (s *Sweeper) spreadRanges(ctx context.Context, o *SweeperOptions) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.rangeCounts.wake:
		}
		for _, span := range o.Node.Spans() {
			for _, prefix := range s.rangeCounts.due(span) {
				sw := command.Sweep{Table: span.Table, Keys: [][]byte{append(prefix, keys.Deletions)}}
				o.report(ctx, o.Node.Propose(ctx, sw))
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
		g, err := s.FindGarbage(ctx, span, from, o.Node.Now(), o.DedupeSeconds, o.SliceKeys)
		if err != nil {
			return err
		}
		o.report(ctx, g.addParts(ctx, o.Node))
		for _, sw := range g.Sweeps {
			if err := o.Node.Propose(ctx, sw); err != nil {
				return err
			}
		}
		if from = g.Next; from == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		pace(g.Seen)
	}
}

// Garbage is the result of FindGarbage.
type Garbage struct {
	// Sweeps contains the sweeps to propose, one for each horizon.
	Sweeps []command.Sweep
	// Parts is a sweep of old dedupe records that may belong to atomic batches. Before the caller proposes the sweep,
	// it must remove the records of batches in the batch log (see AddParts).
	Parts command.Sweep
	// Seen is the number of keys examined.
	Seen int
	// Next is the start of the next slice, or nil at the end of the span.
	Next []byte
}

// FindGarbage examines up to limit keys of a span and finds data that may be swept at the second now. It starts at the
// key from, or at the beginning of the span if from is nil. The table must be installed.
func (s *Sweeper) FindGarbage(ctx context.Context, span keys.Span, from []byte, now, dedupeSeconds int64,
	limit int) (Garbage, error) {
	if err := s.Err(); err != nil {
		return Garbage{}, err
	}
	t := s.lookupTable(span.Table).installed.Load()
	if t == nil {
		return Garbage{}, nil
	}
	f := garbageFinder{s: s, t: t, span: span, horizon: now - t.GCGrace, dedupe: now - dedupeSeconds, limit: limit,
		expired: t.Lifetimes.At(now - entryGrace)}
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
	if len(f.lapsed) > 0 {
		f.add(f.lapsed, f.horizon)
		f.g.Sweeps[len(f.g.Sweeps)-1].Expired = f.expired
	}
	f.g.Parts = command.Sweep{Table: t.ID, Keys: f.parts, Horizon: f.dedupe, Dropped: t.Dropped}
	return f.g, ctx.Err()
}

// AddParts adds the sweep in Parts to Sweeps, without the records of batches in the batch log. The caller must obtain
// recorded after FindGarbage returns.
func (g *Garbage) AddParts(recorded Recorded) {
	g.Parts.Keys = slices.DeleteFunc(g.Parts.Keys, func(key []byte) bool { return partRecorded(key, recorded) })
	if len(g.Parts.Keys) > 0 {
		g.Sweeps = append(g.Sweeps, g.Parts)
	}
}

func (g *Garbage) addParts(ctx context.Context, n SweepNode) error {
	if len(g.Parts.Keys) == 0 {
		return nil
	}
	is, err := askRecorded(ctx, n)
	g.AddParts(is)
	return err
}

// askRecorded returns a function that reports whether a batch is in the batch log. If the batch log cannot be read, the
// function returns true for all batches.
func askRecorded(ctx context.Context, n SweepNode) (Recorded, error) {
	is, err := n.Recorded(ctx)
	if err != nil {
		return func([16]byte) bool { return true }, fmt.Errorf("look for recorded batches: %w", err)
	}
	return is, nil
}

// partRecorded reports whether the key is the key of a dedupe record of a batch in the batch log.
func partRecorded(key []byte, recorded Recorded) bool {
	id, ok := dedupeIDOf(key)
	return ok && recorded(id.Coordinator)
}

// dedupeIDOf returns the ID in the key of a dedupe record. ok is false if the record cannot belong to an atomic batch.
func dedupeIDOf(key []byte) (id command.DedupeID, ok bool) {
	p, ok := keys.Parse(key)
	if !ok || p.Kind != keys.Dedupe {
		return id, false
	}
	id, ok = keys.DedupeIDOf(p.Rest)
	return id, ok && id.MayBePart()
}

// garbageFinder is a FindGarbage in progress.
type garbageFinder struct {
	s               *Sweeper
	t               *Table
	span            keys.Span
	horizon, dedupe int64
	limit           int
	g               Garbage
	// found holds keys of rows and deletions. records holds keys of dedupe records and change log entries. parts holds
	// keys of dedupe records that may belong to atomic batches.
	found, records, parts [][]byte
	// lapsed holds keys of rows that have expired according to the field expired.
	lapsed  [][]byte
	expired row.Expired
	// log reads the rows of change log entries.
	log *sweep
}

func (f *garbageFinder) add(list [][]byte, horizon int64) {
	if len(list) > 0 {
		f.g.Sweeps = append(f.g.Sweeps, command.Sweep{Table: f.t.ID, Keys: list, Horizon: horizon,
			Dropped: f.t.Dropped})
	}
}

// full ends the slice at a key if enough keys have been examined.
func (f *garbageFinder) full(key []byte) bool {
	if f.g.Seen >= f.limit {
		f.g.Next = bytes.Clone(key)
		return true
	}
	f.g.Seen++
	return false
}

func (f *garbageFinder) rows(lower, upper []byte) error {
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

func (f *garbageFinder) row(w *sweep, key []byte, p *keys.Parts, value []byte) error {
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
	if f.s.lookupTable(f.t.ID).may(flagDeletions) {
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
	if f.expired.Covering(value, row.NotDeleted) != row.NotDeleted {
		f.lapsed = append(f.lapsed, bytes.Clone(key))
		return nil
	}
	oldest, err := row.Oldest(value, covered, f.t.Dropped)
	if err == nil && oldest < f.horizon {
		f.found = append(f.found, bytes.Clone(key))
	}
	return err
}

// deletions records the deletions of a partition if a deletion is old and no longer hides data, or if the partition has
// too many deleted ranges.
func (f *garbageFinder) deletions(w *sweep, key []byte, p *keys.Parts, value []byte) error {
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
