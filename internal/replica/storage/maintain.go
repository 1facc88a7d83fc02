// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
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

// Indexes lists the indexes that have entries, in ascending order.
func (s *Statistics) Indexes() ([]uint32, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: keys.AppendTable(nil, keys.IndexSpace),
		UpperBound: keys.AppendTable(nil, 2*keys.IndexSpace)})
	if err != nil {
		return nil, s.check(err)
	}
	var out []uint32
	for valid := it.First(); valid; {
		id := keys.ID(it.Key())
		out = append(out, id&^keys.IndexSpace)
		valid = it.SeekGE(keys.AppendTable(nil, id+1))
	}
	return out, s.check(errors.Join(it.Error(), it.Close()))
}
