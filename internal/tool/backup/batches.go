// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// batchesOf returns the table of atomic batches in progress.
func batchesOf(m *archive.Manifest) *archive.Table {
	for i := range m.Tables {
		if t := &m.Tables[i]; t.Keyspace == "system" && t.Name == "batches" {
			return t
		}
	}
	return nil
}

// listBatches finds the batches that were in progress when the backup was made.
func (r *Restorer) listBatches(ctx context.Context) error {
	t := batchesOf(r.Manifest)
	if t == nil {
		return nil
	}
	for _, p := range t.Partitions {
		for _, f := range p.Files {
			plain, err := read(ctx, r.Target, f)
			if err != nil {
				return err
			}
			whole := binary.BigEndian.AppendUint32(nil, t.ID)
			err = archive.EachRecord(plain, func(key, value []byte) error {
				whole = append(whole[:4], key...)
				return r.batch(whole, value)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// batch processes a change of a row of system.batches. A batch is in progress from the insertion of its record to the
// deletion of the record.
func (r *Restorer) batch(key, value []byte) error {
	if keyKind(key) != keys.Row {
		return nil
	}
	merged := slices.Clone(value)
	if had := r.batches[string(key)]; had != nil {
		var err error
		if merged, err = row.Merge(nil, had, value); err != nil {
			return err
		}
	}
	var found row.Row
	exists, err := found.Resolve(merged, row.NotDeleted, time.Now().Unix(), nil)
	if err != nil {
		return err
	}
	if exists {
		r.batches[string(key)] = merged
	} else {
		delete(r.batches, string(key))
	}
	return nil
}

// look records an applied part of a batch in progress. The key identifies the part.
func (r *Restorer) look(key []byte) {
	p, ok := keys.Parse(key)
	if !ok || p.Kind != keys.Dedupe || len(p.Rest) != 16+8 {
		return
	}
	id := p.Rest[:16]
	t := batchesOf(r.Manifest)
	if t == nil {
		return
	}
	row := keys.AppendRow(nil, t.ID, token.Hash(id), id, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.batches[string(row)] != nil {
		r.applied[archive.BatchPartName([16]byte(id), binary.BigEndian.Uint64(p.Rest[16:]))] = true
	}
}

// finishBatches completes the batches in progress.
func (r *Restorer) finishBatches(ctx context.Context, is map[uint32]uint32) error {
	o := archive.BatchReplay{Tables: is, Applied: slices.Sorted(maps.Keys(r.applied))}
	var b archive.Builder
	send := func() error {
		err := r.page(ctx, "restore/batches", &archive.FileResponse{File: b.File(), Batches: &o, Data: b.Data()})
		b = archive.Builder{}
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(r.batches)) {
		if err := b.Add([]byte(key)[4:], r.batches[key]); err != nil {
			return err
		}
		if b.Full() {
			if err := send(); err != nil {
				return err
			}
		}
	}
	if b.Records() == 0 {
		return nil
	}
	return send()
}
