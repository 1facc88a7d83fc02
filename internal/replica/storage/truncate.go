// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// Truncate is Batch.Truncate in a batch of its own.
func (s *Store) Truncate(span keys.Span, indexes []uint32) error {
	b := s.NewBatch()
	defer b.Close()
	if err := b.Truncate(span, indexes); err != nil {
		return err
	}
	return b.Commit()
}

// Truncate removes everything in a span of a table that was applied or added to this batch before, whatever its timestamps, and the
// entries of the given indexes that lie in it. It is meant for TRUNCATE, DROP and for replicas that leave; deletes of rows are mutations.
//
// What becomes of the rows depends on nothing but the span. Entries of a part of a table are found by reading the store, so those
// that this batch added before stay, which is harmless: they are hints.
func (b *Batch) Truncate(span keys.Span, indexes []uint32) error {
	lower, upper := span.Bounds()
	b.weakens = true
	_ = b.b.DeleteRange(lower, upper, nil) // fails for indexed batches only
	_ = b.b.DeleteRange(keys.AppendSystem(nil, keys.DeadID, lower), keys.AppendSystem(nil, keys.DeadID, upper), nil)
	for _, index := range indexes {
		if len(span.Begin) > 0 || len(span.End) > 0 {
			if err := b.deleteEntries(index, span); err != nil {
				return err
			}
			continue
		}
		lower, upper := indexBounds(index)
		_ = b.b.DeleteRange(lower, upper, nil)
	}
	return nil
}

// deleteEntries deletes the entries of an index in a part of the table, one by one: each value has its own stretch of keys.
func (b *Batch) deleteEntries(index uint32, span keys.Span) error {
	lower, upper := indexBounds(index)
	it, err := b.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return b.s.check(err)
	}
	err = eachEntry(it, span, func(key []byte) error { return b.b.DeleteSized(key, 0, nil) })
	return b.s.check(errors.Join(err, it.Close()))
}
