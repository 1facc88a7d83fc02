// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// progressKey is the one key of the record of progress.
var progressKey = keys.AppendSystem(nil, keys.ProgressID, nil)

// PutProgress merges what is in a record of progress into that of the store; the record is not kept.
func (b *Batch) PutProgress(record []byte) {
	b.progress += len(record)
	_ = b.b.Merge(progressKey, record, nil)
}

// Every batch adds an operand to the record of progress, and each reader of a meta merges them all. So the batch that
// adds one too many replaces them by the merged record. progressBytes is the least size in bytes of the operands that
// are replaced; a record that is larger than that is replaced when operands of progressGrowth times its size have come.
const (
	progressBytes  = 64 << 10
	progressGrowth = 4
)

// compactProgress counts the operands of a batch that was committed, and replaces them if there are too many.
func (s *Writer) compactProgress(added int) {
	n := s.progressed.Add(int64(added))
	if n < max(progressBytes, progressGrowth*s.progressSize.Load()) || !s.progressed.CompareAndSwap(n, 0) {
		return
	}
	size, err := s.replace(progressKey)
	if s.progressSize.Store(int64(size)); err != nil {
		_ = s.check(fmt.Errorf("compact the record of progress: %w", err)) // damage stops the store
	}
}

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
