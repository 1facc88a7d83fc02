// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// progressKey is the one key of the record of progress.
var progressKey = keys.AppendSystem(nil, keys.ProgressID, nil)

// PutProgress merges what is in a record of progress into that of the store; the record is not kept.
func (b *Batch) PutProgress(record []byte) { _ = b.b.Merge(progressKey, record, nil) }

// progress is the record of progress, taken apart.
type progress map[uint64]keys.Progress

// readProgress reads the record of one state of the store.
func readProgress(from pebble.Reader) (progress, error) {
	p := progress{}
	value, closer, err := from.Get(progressKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	return p, errors.Join(p.add(value, true), closer.Close())
}

// decodeMeta decodes a meta and brings it up to the progress of its partition.
func (p progress) decodeMeta(b []byte) (keys.Meta, error) {
	m, err := keys.DecodeMeta(b)
	if err != nil {
		return keys.Meta{}, err
	}
	if of, ok := p[m.Partition]; ok {
		m.Advance(&of)
	}
	return m, nil
}

// add takes in another record, whose partitions count if it is newer, and if nothing is known of them yet if it is
// older.
func (p progress) add(record []byte, newer bool) error {
	return keys.DecodeProgress(record, func(of keys.Progress) {
		if _, known := p[of.Partition]; newer || !known {
			p[of.Partition] = of
		}
	})
}

// progressMerge is one merge of Pebble's. Unlike that of rows it depends on the order of operands.
type progressMerge struct {
	of  progress
	out []byte
}

func newProgressMerge(value []byte) (pebble.ValueMerger, error) {
	v := &progressMerge{of: progress{}}
	return v, v.of.add(value, true)
}

// MergeNewer implements pebble.ValueMerger.
func (v *progressMerge) MergeNewer(value []byte) error { return v.of.add(value, true) }

// MergeOlder implements pebble.ValueMerger.
func (v *progressMerge) MergeOlder(value []byte) error { return v.of.add(value, false) }

// Finish implements pebble.ValueMerger. Partitions that have left the node are in the record as long as there may be an
// older one that knows them.
func (v *progressMerge) Finish(oldest bool) ([]byte, io.Closer, error) {
	v.out = keys.BeginProgress(v.out[:0])
	for _, id := range slices.Sorted(maps.Keys(v.of)) {
		if of := v.of[id]; of.Applied > 0 || !oldest {
			v.out = keys.AppendProgress(v.out, &of)
		}
	}
	return v.out, nil, nil
}
