// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// Snapshot is one state of a physical partition. It remains readable until it is closed, even if the partition is
// written to, split, or moved to another node. An open Snapshot keeps the files of its state on disk. The caller must
// close all Snapshots before it closes the store. All methods except Close are safe for concurrent use.
type Snapshot struct {
	s  *Snapshots
	st *state
}

// OpenSnapshot returns the current state of a partition, or ErrNoPartition if the partition does not exist.
func (s *Snapshots) OpenSnapshot(partition uint64) (*Snapshot, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	st, err := s.pin(partition)
	if err != nil {
		return nil, fmt.Errorf("open snapshot of partition %d: %w", partition, err)
	}
	return &Snapshot{s, st}, nil
}

// Meta returns the meta of the state. The fields Applied and Term are the log position of the state.
func (m *Snapshot) Meta() keys.Meta { return m.st.meta }

// snapshotCheckEvery is the number of keys between two checks of the context.
const snapshotCheckEvery = 1024

// Each calls fn for the data of the partition, except index entries, in ascending order of keys. It starts at the key
// from, or at the first key if from is nil. The arguments of fn are valid only during the call. Each returns an error
// if its context ends or fn returns an error.
func (m *Snapshot) Each(ctx context.Context, from []byte, fn func(key, value []byte) error) error {
	lower := m.st.lower
	if bytes.Compare(from, lower) > 0 {
		lower = from
	}
	it, err := m.st.snap.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: lower, UpperBound: m.st.upper})
	if err != nil {
		return m.s.check(err)
	}
	n := 0
	for it.First(); it.Valid() && err == nil; it.Next() {
		if n++; n%snapshotCheckEvery == 0 && ctx.Err() != nil {
			err = ctx.Err()
			break
		}
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			err = fn(it.Key(), value)
		}
	}
	return errors.Join(err, m.s.check(errors.Join(it.Error(), it.Close())))
}

// Close releases the state.
func (m *Snapshot) Close() error { return m.s.check(m.st.snap.Close()) }
