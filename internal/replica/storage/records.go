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

// Records reads system keys, metas, the registry of replicas, and dedupe records.
type Records struct{ *engine }

// Get returns a copy of the value of a system key, or nil if the key does not exist.
func (s *Records) Get(id uint32, sub []byte) ([]byte, error) {
	return s.getCopy(keys.AppendSystem(nil, id, sub))
}

// Scan calls fn in order for every system key under id with the given prefix. The arguments of fn are valid only during
// the call.
func (s *Records) Scan(id uint32, prefix []byte, fn func(sub, value []byte) error) error {
	return s.check(scan(s.db, id, prefix, fn))
}

// scan is the equivalent of Scan for any reader.
func scan(from pebble.Reader, id uint32, prefix []byte, fn func(sub, value []byte) error) error {
	lower := keys.AppendSystem(nil, id, prefix)
	upper := keys.After(bytes.Clone(lower))
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	// A seek avoids stepping over all versions of the previous key in the memtable.
	after := make([]byte, 0, 64)
	for ok := it.First(); ok && err == nil; ok = it.SeekGE(after) {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			after = append(append(after[:0], it.Key()...), 0)
			err = fn(it.Key()[4:], value)
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}

// Meta returns the meta of a physical partition. ok is false if the partition does not exist.
func (s *Records) Meta(partition uint64) (m keys.Meta, ok bool, err error) {
	if err := s.Err(); err != nil {
		return keys.Meta{}, false, err
	}
	state := s.db.NewSnapshot()
	m, ok, err = readMeta(state, partition)
	return m, ok, s.check(errors.Join(err, state.Close()))
}

// readMeta is the equivalent of Meta for any reader.
func readMeta(from pebble.Reader, partition uint64) (m keys.Meta, ok bool, err error) {
	ahead, err := readProgress(from)
	if err != nil {
		return keys.Meta{}, false, err
	}
	value, closer, err := from.Get(keys.AppendMeta(nil, keys.PartitionID, partition))
	if errors.Is(err, pebble.ErrNotFound) {
		return keys.Meta{}, false, nil
	}
	if err != nil {
		return keys.Meta{}, false, err
	}
	m, err = ahead.decodeMeta(value)
	return m, err == nil, errors.Join(err, closer.Close())
}

// Metas calls fn for every physical partition in the store, in order of ID.
func (s *Records) Metas(fn func(m keys.Meta) error) error {
	if err := s.Err(); err != nil {
		return err
	}
	state := s.db.NewSnapshot()
	ahead, err := readProgress(state)
	if err == nil {
		err = scan(state, keys.PartitionID, nil, func(_, value []byte) error {
			m, err := ahead.decodeMeta(value)
			if err != nil {
				return err
			}
			return fn(m)
		})
	}
	return s.check(errors.Join(err, state.Close()))
}

// Dedupe returns a copy of a dedupe record, or nil if the record does not exist.
func (s *Records) Dedupe(table uint32, tok token.Token, pk []byte, id command.DedupeID) ([]byte, error) {
	value, err := s.getCopy(keys.AppendDedupe(nil, table, tok, pk, id))
	if err != nil || value == nil {
		return nil, err
	}
	if _, ok := dedupeSecond(value); !ok {
		return nil, s.check(fmt.Errorf("dedupe record: %w", errDamage))
	}
	return value[8:], nil
}
