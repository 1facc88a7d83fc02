// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Get returns a copy of the value of a system key, nil if there is none.
func (s *Store) Get(id uint32, sub []byte) ([]byte, error) {
	return s.getCopy(keys.AppendSystem(nil, id, sub))
}

func (s *Store) getCopy(key []byte) ([]byte, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, s.check(fmt.Errorf("get %x: %w", key, err))
	}
	out := append([]byte{}, value...)
	return out, closer.Close()
}

// Scan calls fn for every system key under id that begins with prefix, in order. Arguments are valid during the call.
func (s *Store) Scan(id uint32, prefix []byte, fn func(sub, value []byte) error) error {
	lower := keys.AppendSystem(nil, id, prefix)
	upper := keys.After(bytes.Clone(lower))
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return s.check(err)
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			err = fn(it.Key()[4:], value)
		}
	}
	return s.check(errors.Join(err, it.Error(), it.Close()))
}

// Set stores one system key, durably.
func (s *Store) Set(id uint32, sub, value []byte) error {
	b := s.NewBatch()
	defer b.Close()
	b.Set(id, sub, value)
	if err := b.Commit(); err != nil {
		return err
	}
	return s.Sync()
}

// Meta returns the meta of a physical partition; ok is false if there is none.
func (s *Store) Meta(partition uint64) (m keys.Meta, ok bool, err error) {
	b, err := s.getCopy(keys.AppendMeta(nil, keys.PartitionID, partition))
	if err != nil || b == nil {
		return keys.Meta{}, false, err
	}
	m, err = keys.DecodeMeta(b)
	return m, err == nil, s.check(err)
}

// Metas calls fn for every physical partition in the store, in order of id.
func (s *Store) Metas(fn func(m keys.Meta) error) error {
	return s.Scan(keys.PartitionID, nil, func(_, value []byte) error {
		m, err := keys.DecodeMeta(value)
		if err != nil {
			return err
		}
		return fn(m)
	})
}

// Dedupe returns a copy of a dedupe record, nil if there is none.
func (s *Store) Dedupe(table uint32, tok token.Token, pk []byte, id command.DedupeID) ([]byte, error) {
	value, err := s.getCopy(keys.AppendDedupe(nil, table, tok, pk, id))
	if err != nil || value == nil {
		return nil, err
	}
	if _, ok := dedupeSecond(value); !ok {
		return nil, s.check(fmt.Errorf("dedupe record: %w", errDamage))
	}
	return value[8:], nil
}

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
