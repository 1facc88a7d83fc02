// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// PartitionSize is the size of a logical partition.
type PartitionSize struct {
	// Key is the partition key, or nil if the partition is empty.
	Key []byte
	// Bytes is the size of the keys and values of live rows, before compression. Values is the number of cells in live
	// rows.
	Bytes, Values int64
}

// MeasurePartition returns the size of the logical partition at a token, as of the second now. It reads up to most
// bytes, and extrapolates the size of a larger partition from its size on disk.
func (s *Statistics) MeasurePartition(ctx context.Context, table uint32, at token.Token, now,
	most int64) (PartitionSize, error) {
	span := TokenOnly(table, at)
	v := sizeVisitor{most: most}
	r := command.Read{Table: table, Range: span.Tokens(), Statics: true, Now: now}
	if t := s.lookupTable(table).installed.Load(); t != nil {
		r.Dropped = t.Dropped
	}
	if err := s.reader.Read(ctx, &r, &v); err != nil || !v.cut {
		return v.PartitionSize, err
	}
	whole, err := s.DiskBytes(span)
	if err != nil {
		return v.PartitionSize, err
	}
	lower, _ := span.Bounds()
	part, err := s.db.EstimateDiskUsage(lower, keys.AppendRow(nil, table, at, v.Key, v.last))
	if err != nil {
		return v.PartitionSize, s.check(err)
	}
	if part > 0 && whole > part {
		scale := float64(whole) / float64(part)
		v.Bytes, v.Values = int64(float64(v.Bytes)*scale), int64(float64(v.Values)*scale)
	}
	return v.PartitionSize, nil
}

// sizeVisitor is the visitor of MeasurePartition.
type sizeVisitor struct {
	PartitionSize
	most int64
	last []byte // clustering key of the last row
	cut  bool   // only a part of the partition was read
}

func (w *sizeVisitor) Partition(_ token.Token, key []byte, static *row.Row) (command.Step, error) {
	if w.Key != nil {
		return command.Stop, nil // the next partition has the same token
	}
	w.Key = bytes.Clone(key)
	if static != nil {
		w.Bytes += int64(len(key) + static.Size())
		w.Values += int64(len(static.Cells))
	}
	return command.More, nil
}

func (w *sizeVisitor) Row(clustering []byte, r *row.Row) (command.Step, error) {
	if w.Bytes >= w.most {
		w.cut = true
		return command.Stop, nil
	}
	w.last = append(w.last[:0], clustering...)
	w.Bytes += int64(len(w.Key) + len(clustering) + r.Size())
	w.Values += int64(len(r.Cells))
	return command.More, nil
}
