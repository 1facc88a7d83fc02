// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// DropIndex removes all entries of an index.
func (s *Store) DropIndex(index uint32) error {
	b := s.NewBatch()
	defer b.Close()
	lower := keys.AppendTable(nil, index|keys.IndexSpace)
	if err := b.b.DeleteRange(lower, keys.After(bytes.Clone(lower)), nil); err != nil {
		return s.check(fmt.Errorf("drop index %d: %w", index, err))
	}
	return b.Commit()
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
