// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// Hints for materialized views (RFC 0030) are index entries whose value is the timestamp of the mutation that last
// wrote them. When a view reflects the state of a row at a timestamp, the row's hints up to this timestamp can be
// removed.

// settle removes a hint unless a mutation has written the hint again after stamp.
func (w *sweep) settle(b *pebble.Batch, key []byte, stamp int64) error {
	value, err := w.get(key)
	if err != nil || value == nil {
		return err
	}
	if hintStamp(value) > stamp {
		w.s.m.sweepsKept.Add(1)
		return nil
	}
	w.s.m.swept.Add(1)
	return b.DeleteSized(key, uint32(len(value)), nil)
}

func hintStamp(value []byte) int64 {
	if len(value) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(value))
}

// holdsPlace reports whether a hint is still needed on this node. A due hint is always needed. The hint of a view key
// is needed while the row has the hint's value, or while the logical partition has due data.
func (w *sweep) holdsPlace(index *Index, e *keys.Entry) (bool, error) {
	clustering, place, ok := keys.ParseViewRow(e.Clustering)
	if !bytes.Equal(e.Value, keys.HintViewRow) || !ok {
		return true, nil
	}
	lower := keys.AppendIndex(nil, e.Index, keys.HintStale, e.Token, e.Key, nil)
	it, err := w.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: keys.After(bytes.Clone(lower))})
	if err != nil {
		return false, err
	}
	due := it.First()
	if err := errors.Join(it.Error(), it.Close()); err != nil || due {
		return due, err
	}
	prefix := keys.AppendPartition(nil, w.table.ID, e.Token, e.Key)
	if err := w.loadHeader(prefix); err != nil {
		return false, err
	}
	covered, err := w.covering(clustering)
	if err != nil {
		return false, err
	}
	value, err := w.get(append(append(prefix, keys.Row), clustering...))
	if err != nil || value == nil {
		return false, err
	}
	exists, err := w.row.Resolve(value, covered, w.sw.Horizon, w.sw.Dropped)
	return exists && index.Holds(&w.row, place), err
}

// HintAt returns the timestamp of a hint. ok is false if the hint does not exist.
func (s *Statistics) HintAt(key []byte) (stamp int64, ok bool, err error) {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, s.check(fmt.Errorf("hint: %w", err))
	}
	stamp = hintStamp(value)
	return stamp, true, s.check(closer.Close())
}

// Hints calls fn for the hints in [lower, upper), in order, until fn returns false. A key is valid only during the call
// of fn.
func (s *Statistics) Hints(lower, upper []byte, fn func(key []byte, stamp int64) (more bool)) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return s.check(err)
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil && !fn(it.Key(), hintStamp(value)) {
			break
		}
	}
	return s.check(errors.Join(err, it.Error(), it.Close()))
}

// HasDeletions reports whether this node has ever deleted a logical partition of a table or a range of a logical
// partition. It returns true before a reader can see the first such deletion.
func (s *Statistics) HasDeletions(table uint32) bool { return s.lookupTable(table).may(flagDeletions) }
