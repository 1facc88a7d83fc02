// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
)

// DropIndex removes all entries of an index.
func (s *Writer) DropIndex(index uint32) error {
	b := s.NewBatch()
	defer b.Close()
	lower, upper := indexBounds(index)
	if err := b.b.DeleteRange(lower, upper, nil); err != nil {
		return s.check(fmt.Errorf("drop index %d: %w", index, err))
	}
	return b.Commit()
}

// Indexes returns the indexes that have entries, in ascending order.
func (s *Statistics) Indexes() ([]uint32, error) { return s.indexes() }
