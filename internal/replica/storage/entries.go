// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// Index entries are hints that are local to a node. A lookup checks the row of each entry, and hashes exclude the
// entries. An entry may therefore become stale when its row changes, its partition is truncated, or its replica leaves.
// One scan of an index removes all stale entries without using a log. A stale entry never becomes valid on its own,
// because a write that restores the value also writes the entry.

const (
	// entryChunk is the maximum number of entries that are rechecked and removed while writers are blocked.
	entryChunk = 64
	// entryGrace is the minimum age, in seconds, of expired data before its entries are removed. The grace period is
	// necessary because the clocks of coordinators differ. It also applies to rows with a lifetime, because some nodes
	// may learn of a changed table setting only after the rows have expired.
	entryGrace = 60
)

// SweepEntries scans all entries of the indexes of installed tables once. It removes an entry if its row does not have
// the entry's value at the second now, or if no replica on this node owns the row. After each slice, SweepEntries calls
// pace with the number of examined entries.
func (s *Sweeper) SweepEntries(ctx context.Context, now int64, pace func(seen int)) error {
	if err := s.sweepDroppedIndexes(); err != nil {
		return s.check(fmt.Errorf("sweep dropped indexes: %w", err))
	}
	for _, t := range *s.byID.Load() {
		in := t.installed.Load()
		if in == nil {
			continue
		}
		for i := range in.Indexes {
			e := entrySweep{s: s, known: t, id: in.Indexes[i].ID, now: now}
			if err := e.run(ctx, pace); err != nil {
				return s.check(fmt.Errorf("sweep index %d: %w", e.id, err))
			}
		}
	}
	return nil
}

// sweepDroppedIndexes removes the entries of dropped indexes. Such entries exist if a write that was planned before the
// drop was applied after the drop.
func (s *Sweeper) sweepDroppedIndexes() error {
	next := s.next.Load() // read next before the tables, because indexes below next were installed earlier
	found, err := s.indexes()
	if err != nil || next == 0 {
		return err
	}
	installed := map[uint32]bool{}
	for _, t := range *s.byID.Load() {
		if in := t.installed.Load(); in != nil {
			for i := range in.Indexes {
				installed[in.Indexes[i].ID] = true
			}
		}
	}
	for _, id := range found {
		if installed[id] || id&^(keys.OrderedIndex|keys.HintSpace) >= next {
			continue
		}
		lower, upper := indexBounds(id)
		if err := s.db.DeleteRange(lower, upper, pebble.NoSync); err != nil {
			return err
		}
	}
	return nil
}

// entrySweep is the scan of one index. Each slice and each removal looks up the installed table, because the table and
// its vector lists may change during the scan.
type entrySweep struct {
	s     *Sweeper
	known *table
	id    uint32
	now   int64
	// early makes the sweep remove entries of expired data after entryGrace, even if the table's grace period is
	// longer.
	early bool
}

// installed returns the installed table and the installed index. The index is nil if it has been dropped.
func (e *entrySweep) installed() (*Table, *Index) {
	in := e.known.installed.Load()
	if in == nil {
		return nil, nil
	}
	return in, in.index(e.id)
}

func (e *entrySweep) run(ctx context.Context, pace func(seen int)) error {
	lower, upper := indexBounds(e.id)
	for lower != nil && ctx.Err() == nil {
		doomed, next, seen, err := e.slice(lower, upper)
		for len(doomed) > 0 && err == nil {
			n := min(entryChunk, len(doomed))
			err = e.remove(doomed[:n])
			doomed = doomed[n:]
		}
		if err != nil {
			return err
		}
		lower = next
		pace(seen)
	}
	return ctx.Err()
}

// slice examines some entries. It returns the entries to recheck and remove, and the key at which the next slice
// starts.
func (e *entrySweep) slice(lower, upper []byte) (doomed [][]byte, next []byte, seen int, err error) {
	it, err := e.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, nil, 0, err
	}
	// The iterator must be created before the spans and the table are looked up. Every visible entry then belongs to a
	// replica and a schema that are known or have been removed.
	spans, err := e.s.localSpans(e.known.id)
	in, index := e.installed()
	if index == nil {
		return nil, nil, 0, errors.Join(err, it.Close())
	}
	w := e.sweep(in)
	defer w.close()
	for it.First(); it.Valid() && err == nil; it.Next() {
		if seen == entrySlice {
			next = bytes.Clone(it.Key())
			break
		}
		seen++
		var good bool
		if good, err = w.leads(index, spans, it.Key()); err == nil && !good {
			doomed = append(doomed, bytes.Clone(it.Key()))
		}
	}
	e.s.m.entriesSeen.Add(uint64(seen))
	return doomed, next, seen, errors.Join(err, it.Error(), it.Close())
}

// entrySlice is the number of entries examined with one iterator.
const entrySlice = 1000

func (e *entrySweep) sweep(in *Table) *sweep {
	grace := int64(entryGrace)
	if !e.early {
		grace = max(in.GCGrace, grace)
	}
	horizon := e.now - grace
	return e.s.newSweep(&command.Sweep{Table: in.ID, Horizon: horizon, Dropped: in.Dropped,
		Expired: in.Lifetimes.At(e.now - entryGrace)})
}

// leads reports whether a replica on this node owns the entry's row and the row has the entry's value.
func (w *sweep) leads(index *Index, spans []keys.Span, key []byte) (bool, error) {
	entry, ok := keys.ParseIndex(key)
	if !ok {
		return false, nil
	}
	for i := range spans {
		if spans[i].Holds(entry.Position()) {
			if index.Hints {
				return w.holdsPlace(index, &entry)
			}
			return w.holds(index, &entry)
		}
	}
	return false, nil
}

// remove removes the entries that are still stale. It excludes concurrent writes and replica installations.
func (e *entrySweep) remove(doomed [][]byte) error {
	s := e.s
	s.ingestMu.Lock()
	defer s.ingestMu.Unlock()
	return e.removeNow(doomed)
}

// removeNow removes the entries that are still stale. The caller must exclude replica installations.
func (e *entrySweep) removeNow(doomed [][]byte) error {
	s := e.s
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	spans, err := s.localSpans(e.known.id)
	if err != nil {
		return err
	}
	in, index := e.installed()
	if index == nil {
		return nil // dropping the index removes the entries
	}
	w := e.sweep(in)
	defer w.close()
	b := s.db.NewBatch()
	defer b.Close()
	for _, key := range doomed {
		good, err := w.leads(index, spans, key)
		if err != nil {
			return err
		}
		if good {
			s.m.sweepsKept.Add(1)
			continue
		}
		s.m.swept.Add(1)
		if err := b.Delete(key, nil); err != nil {
			return err
		}
	}
	return b.Commit(pebble.NoSync)
}

// entryRounds is the number of sweeper rounds between two index scans. The next scan starts earlier if a partition was
// truncated.
const entryRounds = 12

// overloadShare is the divisor of the sweeper's rate while the machine is overloaded.
const overloadShare = 10

// paced returns a function that waits after a slice to limit the rate to perSecond keys per second.
func (o *SweeperOptions) paced(ctx context.Context, perSecond int) func(seen int) {
	return func(seen int) { wait(ctx, o.pause(seen, perSecond)) }
}

// pause returns the delay after a slice of seen keys.
func (o *SweeperOptions) pause(seen, perSecond int) time.Duration {
	if o.Node.Overloaded() {
		seen *= overloadShare
	}
	return time.Duration(seen) * time.Second / time.Duration(perSecond)
}

// staleChunk is the equivalent of entryChunk for RemoveStale, which may read large rows.
const staleChunk = 8

// RemoveStale removes entries that a lookup in one logical partition has found to be stale, unless the entries have
// become valid. The clustering keys of the rows identify the entries. RemoveStale removes no entries while a replica is
// being installed.
func (s *Sweeper) RemoveStale(q *command.Read, clusterings [][]byte) error {
	e := entrySweep{s: s, known: s.table(q.Table), id: q.Index.Index, now: q.Now, early: true}
	if _, index := e.installed(); index == nil || !s.ingestMu.TryLock() {
		return nil
	}
	defer s.ingestMu.Unlock()
	for part := range slices.Chunk(clusterings, staleChunk) {
		doomed := make([][]byte, len(part))
		for i, c := range part {
			doomed[i] = keys.AppendIndex(nil, q.Index.Index, q.Index.Value, q.Token, q.Key, c)
		}
		if err := e.removeNow(doomed); err != nil {
			return s.check(fmt.Errorf("remove stale entries of index %d: %w", q.Index.Index, err))
		}
	}
	return nil
}
