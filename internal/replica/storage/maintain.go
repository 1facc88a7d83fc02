// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// DropIndex removes all entries of an index.
func (s *Store) DropIndex(index uint32) error {
	b := s.NewBatch()
	defer b.Close()
	lower, upper := indexBounds(index)
	if err := b.b.DeleteRange(lower, upper, nil); err != nil {
		return s.check(fmt.Errorf("drop index %d: %w", index, err))
	}
	return b.Commit()
}

// Indexes lists the indexes that have entries, in ascending order.
func (s *Store) Indexes() ([]uint32, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: keys.AppendTable(nil, keys.IndexSpace), UpperBound: keys.AppendTable(nil, 2*keys.IndexSpace)})
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

// Compact flushes the memtable and merges all levels; it takes as long as the store is large.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.Flush(); err != nil {
		return err
	}
	if err := s.db.Compact(ctx, []byte{0}, bytes.Repeat([]byte{0xff}, 8), true); err != nil {
		return s.check(fmt.Errorf("compact: %w", err))
	}
	return nil
}
