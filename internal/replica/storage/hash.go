// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc64"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

var hashTable = crc64.MakeTable(crc64.ECMA)

// HashSpan returns a hash of one state of a table's span. The hash covers the keys and the merged values of deletions,
// static rows, rows, and dedupe records. Two replicas have the same hash if they have applied the same log and have
// installed the same version of the table. The hash excludes index entries. It also excludes cells of dropped columns,
// because sweeps may have removed them on only some replicas.
func (s *Statistics) HashSpan(span keys.Span) (uint64, error) {
	if err := s.Err(); err != nil {
		return 0, err
	}
	lower, upper := span.Bounds()
	return s.hash(s.db, lower, upper)
}

// HashPartition returns a hash of one state of the data that a physical partition or keys.MetaPartition owns. It also
// returns the index of the last applied log entry.
func (s *Statistics) HashPartition(partition uint64) (applied, sum uint64, err error) {
	if err := s.Err(); err != nil {
		return 0, 0, err
	}
	st, err := s.snapshots.pin(partition)
	if err != nil {
		return 0, 0, err
	}
	sum, err = s.hash(st.snap, st.lower, st.upper)
	return st.meta.Applied, sum, errors.Join(err, st.snap.Close())
}

// hash hashes the keys in [lower, upper).
func (s *Statistics) hash(from pebble.Reader, lower, upper []byte) (uint64, error) {
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return 0, s.check(err)
	}
	h := hasher{sum: crc64.New(hashTable)}
	if t := s.lookupTable(keys.ID(lower)).installed.Load(); t != nil {
		h.dropped = t.Dropped
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			err = h.add(it.Key(), value)
		}
	}
	err = errors.Join(err, it.Error(), it.Close())
	return h.sum.Sum64(), s.check(err)
}

// hasher hashes keys and values.
type hasher struct {
	sum     hash.Hash64
	dropped []cqltype.Dropped
	m       row.Merger
	buf     []byte
}

func (h *hasher) add(key, value []byte) error {
	if p, ok := keys.Parse(key); ok && p.Kind < keys.Dedupe {
		h.m.Reset()
		if err := h.m.Add(value); err != nil {
			return err
		}
		var remains bool
		if p.Kind == keys.Deletions || p.Kind == keys.Range {
			remains = h.m.SweepDeletions(math.MinInt64, nil)
		} else {
			remains = h.m.Sweep(row.NotDeleted, math.MinInt64, h.dropped)
		}
		if !remains {
			return nil
		}
		h.buf = h.m.Append(h.buf[:0]) // the encodings of single and merged operands may differ
		value = h.buf
	}
	var lens [8]byte
	binary.LittleEndian.PutUint32(lens[:], uint32(len(key)))
	binary.LittleEndian.PutUint32(lens[4:], uint32(len(value)))
	for _, b := range [][]byte{lens[:], key, value} {
		_, _ = h.sum.Write(b) // Write never fails
	}
	return nil
}
