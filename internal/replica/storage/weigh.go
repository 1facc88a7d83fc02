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

// Weight is what a logical partition holds.
type Weight struct {
	// Key is the partition key, nil if there is nothing.
	Key []byte
	// Bytes are logical: keys and values of rows that are there, before compression. Values are the cells of them.
	Bytes, Values int64
}

// Weigh reads the logical partition at a token, as of a second. Of one with more than most bytes only the beginning is
// read; the rest is taken to be as long, and as full of values, in proportion to its size on disk.
func (s *Statistics) Weigh(ctx context.Context, table uint32, at token.Token, now, most int64) (Weight, error) {
	span := TokenOnly(table, at)
	v := weigher{most: most}
	r := command.Read{Table: table, Range: span.Tokens(), Statics: true, Now: now}
	if t := s.table(table).installed.Load(); t != nil {
		r.Dropped = t.Dropped
	}
	if err := s.reader.Read(ctx, &r, &v); err != nil || !v.cut {
		return v.Weight, err
	}
	whole, err := s.DiskBytes(span)
	if err != nil {
		return v.Weight, err
	}
	lower, _ := span.Bounds()
	part, err := s.db.EstimateDiskUsage(lower, keys.AppendRow(nil, table, at, v.Key, v.last))
	if err != nil {
		return v.Weight, s.check(err)
	}
	if part > 0 && whole > part {
		scale := float64(whole) / float64(part)
		v.Bytes, v.Values = int64(float64(v.Bytes)*scale), int64(float64(v.Values)*scale)
	}
	return v.Weight, nil
}

// weigher is the visitor of Weigh.
type weigher struct {
	Weight
	most int64
	last []byte // the clustering of the last row
	cut  bool   // there is more than was read
}

func (w *weigher) Partition(_ token.Token, key []byte, static *row.Row) (command.Step, error) {
	if w.Key != nil {
		return command.Stop, nil // two keys of one token
	}
	w.Key = bytes.Clone(key)
	if static != nil {
		w.Bytes += int64(len(key) + static.Size())
		w.Values += int64(len(static.Cells))
	}
	return command.More, nil
}

func (w *weigher) Row(clustering []byte, r *row.Row) (command.Step, error) {
	if w.Bytes >= w.most {
		w.cut = true
		return command.Stop, nil
	}
	w.last = append(w.last[:0], clustering...)
	w.Bytes += int64(len(w.Key) + len(clustering) + r.Size())
	w.Values += int64(len(r.Cells))
	return command.More, nil
}
