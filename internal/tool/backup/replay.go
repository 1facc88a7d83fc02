// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/archive"
)

// replayBytes is the total size at which the collected changes are written. Several changes of one key are written as
// one change.
const replayBytes = 32 << 20

// replay writes the changes between the base and the restore point to the restored tables. The map is contains the new
// ID of each table by its original ID.
func (r *Restorer) replay(ctx context.Context, is map[uint32]uint32) error {
	var batches uint32
	if t := batchesOf(r.Manifest); t != nil {
		batches = t.ID
	}
	c := new(changes)
	err := r.Point.Each(ctx, func(list []change) error {
		// Batches are written first. A batch is recorded before its parts are applied, and its record is deleted after
		// all parts have been applied.
		for _, k := range list {
			if binary.BigEndian.Uint32(k.key) == batches {
				if err := r.batch(k.key, k.value); err != nil {
					return err
				}
			}
		}
		for _, k := range list {
			if _, ok := is[binary.BigEndian.Uint32(k.key)]; ok {
				c.add(k.key, k.value)
				r.look(k.key)
			}
		}
		if c.bytes < replayBytes {
			return nil
		}
		err := r.write(ctx, is, c)
		c = new(changes)
		return err
	})
	if err != nil {
		return err
	}
	return r.write(ctx, is, c)
}

// write writes changes in the format of backup files.
func (r *Restorer) write(ctx context.Context, is map[uint32]uint32, c *changes) error {
	var pieces []piece
	var b archive.Builder
	var was uint32
	end := func() {
		if b.Records() > 0 {
			data := b.Data()
			pieces = append(pieces, piece{was, b.File(), func(context.Context) ([]byte, error) { return data, nil }})
			b = archive.Builder{}
		}
	}
	err := c.each(func(key, value []byte) error {
		if table := binary.BigEndian.Uint32(key); table != was {
			end()
			was = table
		}
		if err := b.Add(key[4:], value); err != nil {
			return err
		}
		if b.Full() {
			end()
		}
		return nil
	})
	if err != nil {
		return err
	}
	end()
	return r.rows(ctx, is, pieces)
}
