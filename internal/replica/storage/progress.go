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

// progressKey is the single key of the progress record.
var progressKey = keys.AppendSystem(nil, keys.ProgressID, nil)

// PutProgress merges a progress record into the store's record. PutProgress does not keep a reference to record.
func (b *Batch) PutProgress(record []byte) {
	b.progress += len(record)
	_ = b.b.Merge(progressKey, record, nil)
}

// Every batch adds an operand to the progress record, and each reader of a meta merges all operands. When the number of
// operands exceeds a limit, the batch therefore replaces them with the merged record. progressBytes is the minimum
// size, in bytes, of operands that are replaced. A larger record is replaced when the operands reach progressGrowth
// times its size.
const (
	progressBytes  = 64 << 10
	progressGrowth = 4
)

// compactProgress counts the operands of a committed batch and replaces them if there are too many.
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

// decodeMeta decodes a meta and updates it with the progress of its partition.
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

// add adds another record. If the added record is newer, its partitions replace existing partitions. If it is older,
// only new partitions are added.
func (p progress) add(record []byte, newer bool) error {
	return keys.DecodeProgress(record, func(of keys.Progress) {
		if _, known := p[of.Partition]; newer || !known {
			p[of.Partition] = of
		}
	})
}

// progressMerge is a Pebble merge. Unlike the merge of rows, it depends on the order of operands.
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

// Finish implements pebble.ValueMerger. Partitions that have left the node remain in the record while an older record
// that contains them may exist.
func (v *progressMerge) Finish(oldest bool) ([]byte, io.Closer, error) {
	v.out = keys.BeginProgress(v.out[:0])
	for _, id := range slices.Sorted(maps.Keys(v.of)) {
		if of := v.of[id]; of.Applied > 0 || !oldest {
			v.out = keys.AppendProgress(v.out, &of)
		}
	}
	return v.out, nil, nil
}
