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

// Records reads what the store keeps beside rows: system keys, metas, the registry of replicas, ids of commands.
type Records struct{ *engine }

// Get returns a copy of the value of a system key, nil if there is none.
func (s *Records) Get(id uint32, sub []byte) ([]byte, error) {
	return s.getCopy(keys.AppendSystem(nil, id, sub))
}

// Scan calls fn for every system key under id that begins with prefix, in order. Arguments are valid during the call.
func (s *Records) Scan(id uint32, prefix []byte, fn func(sub, value []byte) error) error {
	lower := keys.AppendSystem(nil, id, prefix)
	upper := keys.After(bytes.Clone(lower))
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return s.check(err)
	}
	// A seek for each key, not a step: the meta of a busy partition has a version for every batch since the last flush,
	// and a step goes through all of them.
	after := make([]byte, 0, 64)
	for ok := it.First(); ok && err == nil; ok = it.SeekGE(after) {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			after = append(append(after[:0], it.Key()...), 0)
			err = fn(it.Key()[4:], value)
		}
	}
	return s.check(errors.Join(err, it.Error(), it.Close()))
}

// Meta returns the meta of a physical partition; ok is false if there is none.
func (s *Records) Meta(partition uint64) (m keys.Meta, ok bool, err error) {
	b, err := s.getCopy(keys.AppendMeta(nil, keys.PartitionID, partition))
	if err != nil || b == nil {
		return keys.Meta{}, false, err
	}
	m, err = keys.DecodeMeta(b)
	return m, err == nil, s.check(err)
}

// Metas calls fn for every physical partition in the store, in order of id.
func (s *Records) Metas(fn func(m keys.Meta) error) error {
	return s.Scan(keys.PartitionID, nil, func(_, value []byte) error {
		m, err := keys.DecodeMeta(value)
		if err != nil {
			return err
		}
		return fn(m)
	})
}

// Dedupe returns a copy of a dedupe record, nil if there is none.
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
