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

// progressKey is the key of the progress record.
var progressKey = keys.AppendSystem(nil, keys.ProgressID, nil)

// PutProgress merges a progress record into the store's record. It does not retain record.
func (b *Batch) PutProgress(record []byte) {
	b.progress += len(record)
	_ = b.b.Merge(progressKey, record, nil)
}

// Every batch adds an operand to the progress record, and each read of a meta merges all operands. When the operands
// exceed a size limit, a batch therefore replaces them with the merged record. The limit is the maximum of
// progressBytes and progressGrowth times the size of the record.
const (
	progressBytes  = 64 << 10
	progressGrowth = 4
)

// compactProgress counts the operands of a committed batch, and replaces all operands if they exceed the limit.
func (s *Writer) compactProgress(added int) {
	n := s.progressed.Add(int64(added))
	if n < max(progressBytes, progressGrowth*s.progressSize.Load()) || !s.progressed.CompareAndSwap(n, 0) {
		return
	}
	size, err := s.replace(progressKey)
	if s.progressSize.Store(int64(size)); err != nil {
		_ = s.check(fmt.Errorf("compact the record of progress: %w", err)) // check stops the store if data is damaged
	}
}

// progress is the decoded progress record.
type progress map[uint64]keys.Progress

// readProgress reads the record from one state of the store.
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

// decodeMeta decodes a meta and adds the progress of the meta's partition.
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

// add merges another record. If newer is true, the entries of the other record replace existing entries. Otherwise, add
// adds only the entries of new partitions.
func (p progress) add(record []byte, newer bool) error {
	return keys.DecodeProgress(record, func(of keys.Progress) {
		if _, known := p[of.Partition]; newer || !known {
			p[of.Partition] = of
		}
	})
}

// progressMerge is a Pebble merge. Unlike the merge of rows, its result depends on the order of operands.
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

// Finish implements pebble.ValueMerger. Removed partitions remain in the record until no older record can contain them.
func (v *progressMerge) Finish(oldest bool) ([]byte, io.Closer, error) {
	v.out = keys.BeginProgress(v.out[:0])
	for _, id := range slices.Sorted(maps.Keys(v.of)) {
		if of := v.of[id]; of.Applied > 0 || !oldest {
			v.out = keys.AppendProgress(v.out, &of)
		}
	}
	return v.out, nil, nil
}
