// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// Truncate is Batch.Truncate in a batch of its own.
func (s *Writer) Truncate(span keys.Span, indexes []uint32) error {
	b := s.NewBatch()
	defer b.Close()
	if err := b.Truncate(span, indexes); err != nil {
		return err
	}
	return b.Commit()
}

// Truncate removes everything in a span of a table that was applied or added to this batch before, whatever its
// timestamps, and the entries of the given indexes if the span is the whole table. It is meant for TRUNCATE, DROP and
// for replicas that leave; deletes of rows are mutations.
//
// What becomes of the rows depends on nothing but the span. Entries of a part of a table stay for SweepEntries: they
// are hints, and each value has its own stretch of keys, so finding them takes a walk over the index.
func (b *Batch) Truncate(span keys.Span, indexes []uint32) error {
	lower, upper := span.Bounds()
	b.weakens = true
	_ = b.b.DeleteRange(lower, upper, nil) // fails for indexed batches only
	_ = b.b.DeleteRange(keys.AppendSystem(nil, keys.DeadID, lower), keys.AppendSystem(nil, keys.DeadID, upper), nil)
	if len(span.Begin) > 0 || len(span.End) > 0 {
		b.s.truncated.Store(true)
		return nil
	}
	notes := keys.AppendTable(keys.AppendSystem(nil, keys.DueID, nil), span.Table)
	_ = b.b.DeleteRange(notes, keys.After(bytes.Clone(notes)), nil)
	for _, index := range indexes {
		lower, upper := indexBounds(index)
		_ = b.b.DeleteRange(lower, upper, nil)
	}
	return nil
}
