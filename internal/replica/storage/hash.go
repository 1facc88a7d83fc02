// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"hash/crc64"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

var hashTable = crc64.MakeTable(crc64.ECMA)

// HashSpan hashes one state of a span of a table: keys and merged values of headers, rows and dedupe records. Two replicas that
// have applied the same log have the same hash, whatever was flushed, compacted, collapsed or installed. Index entries are not in it.
func (s *Store) HashSpan(span keys.Span) (uint64, error) {
	if err := s.Err(); err != nil {
		return 0, err
	}
	lower, upper := span.Bounds()
	return s.hash(s.db, lower, upper)
}

// HashPartition hashes what a physical partition, or keys.MetaPartition, owns at one state, and says which log entry was the last applied to it.
func (s *Store) HashPartition(partition uint64) (applied, hash uint64, err error) {
	if err := s.Err(); err != nil {
		return 0, 0, err
	}
	st, err := s.pin(partition)
	if err != nil {
		return 0, 0, err
	}
	hash, err = s.hash(st.snap, st.lower, st.upper)
	return st.meta.Applied, hash, errors.Join(err, st.snap.Close())
}

// hash hashes the keys of [lower, upper).
func (s *Store) hash(from pebble.Reader, lower, upper []byte) (uint64, error) {
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return 0, s.check(err)
	}
	h := crc64.New(hashTable)
	var m row.Merger
	var buf []byte
	for it.First(); it.Valid() && err == nil; it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		if p, ok := keys.Parse(it.Key()); ok && p.Kind != keys.Dedupe {
			m.Reset() // a lone operand need not look as if it had been merged
			if err = m.Add(value); err != nil {
				break
			}
			buf = m.Append(buf[:0])
			value = buf
		}
		_, _ = fmt.Fprintf(h, "%d %d ", len(it.Key()), len(value))
		_, _ = h.Write(it.Key())
		_, _ = h.Write(value)
	}
	err = errors.Join(err, it.Error(), it.Close())
	return h.Sum64(), s.check(err)
}
