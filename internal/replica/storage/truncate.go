// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// Truncate executes Batch.Truncate in a separate batch.
func (s *Writer) Truncate(span keys.Span, indexes []uint32) error {
	b := s.NewBatch()
	defer b.Close()
	if err := b.Truncate(span, indexes); err != nil {
		return err
	}
	return b.Commit()
}

// Truncate implements TRUNCATE. It removes all previously applied rows and deletions in a span of a table, regardless
// of their timestamps. If the span is the whole table, it also removes the entries of the given indexes. It is
// undefined whether Truncate removes data that is in the same batch.
//
// Truncate keeps previously applied dedupe records by writing them again in the batch. These records prevent a retry
// from applying an earlier request again. Their number is the number of conditional writes in the span during the last
// SweeperOptions.DedupeSeconds.
//
// The effect on rows depends only on the span. If the span is only a part of a table, SweepEntries later removes the
// index entries.
func (b *Batch) Truncate(span keys.Span, indexes []uint32) error {
	kept := b.s.db.NewBatch()
	defer func() { _ = kept.Close() }()
	if err := b.s.dedupeRecords(kept, span); err != nil {
		return b.s.check(fmt.Errorf("truncate %v: %w", span, err))
	}
	b.Remove(span, indexes)
	return b.b.Apply(kept, nil)
}

// dedupeRecords adds the dedupe records of a span and their due notes to a batch. Every dedupe record has a note.
func (s *rows) dedupeRecords(into *pebble.Batch, span keys.Span) error {
	lower, upper := keys.SweepBounds(span.Table, keys.SweepDedupe, math.MaxInt64)
	notes, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	for notes.First(); notes.Valid() && err == nil; notes.Next() {
		prefix := keys.AppendSweepTarget(nil, notes.Key())
		p, ok := keys.Parse(prefix)
		if !ok || p.Kind != keys.Dedupe || !span.Holds(p.Position()) {
			continue
		}
		_ = into.Set(notes.Key(), nil, nil) // Set fails only for indexed batches
		err = s.copyDedupe(into, prefix, keys.SweepTime(notes.Key()))
	}
	return errors.Join(err, notes.Error(), notes.Close())
}

// copyDedupe adds the dedupe records that have a given prefix and are due at a given second to a batch.
func (s *rows) copyDedupe(into *pebble.Batch, prefix []byte, due int64) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: keys.After(bytes.Clone(prefix))})
	if err != nil {
		return err
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		if second, ok := dedupeSecond(value); ok && dueAt(keys.SweepDedupe, second) == due {
			_ = into.Set(it.Key(), value, nil)
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}

// Remove implements DROP and the removal of replicas. It removes all data in a span of a table that was previously
// applied or previously added to this batch. If the span is the whole table, it also removes the entries of the given
// indexes.
func (b *Batch) Remove(span keys.Span, indexes []uint32) {
	lower, upper := span.Bounds()
	b.weakens = true
	_ = b.b.DeleteRange(lower, upper, nil) // DeleteRange fails only for indexed batches
	_ = b.b.DeleteRange(keys.AppendSystem(nil, keys.TombstoneCacheID, lower),
		keys.AppendSystem(nil, keys.TombstoneCacheID, upper), nil)
	if len(span.Begin) > 0 || len(span.End) > 0 {
		b.s.truncated.Store(true)
		return
	}
	notes := keys.AppendTable(keys.AppendSystem(nil, keys.SweepQueueID, nil), span.Table)
	_ = b.b.DeleteRange(notes, keys.After(bytes.Clone(notes)), nil)
	for _, index := range indexes {
		lower, upper := indexBounds(index)
		_ = b.b.DeleteRange(lower, upper, nil)
	}
}
