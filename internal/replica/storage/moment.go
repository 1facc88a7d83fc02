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

// Moment is one state of a physical partition, kept for as long as it is needed, whatever becomes of the partition
// meanwhile: written to, split, moved away. It keeps the files on disk that the state is in, and has to be closed
// before the store is. Its methods may be called concurrently, but for Close.
type Moment struct {
	s  *Snapshots
	st *state
}

// HoldMoment keeps the state that a partition has now; ErrNoPartition if there is none.
func (s *Snapshots) HoldMoment(partition uint64) (*Moment, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	st, err := s.pin(partition)
	if err != nil {
		return nil, fmt.Errorf("keep a state of partition %d: %w", partition, err)
	}
	return &Moment{s, st}, nil
}

// Meta is that of the state; its Applied and Term are the position in the log.
func (m *Moment) Meta() keys.Meta { return m.st.meta }

// momentEvery is how many keys are passed on between two looks at the context.
const momentEvery = 1024

// Each passes on what the partition owns alone, all but entries of indexes, in ascending order of keys, from a key on;
// a nil one is the first. Arguments are valid during the call. It ends with its context, or with the error of fn.
func (m *Moment) Each(ctx context.Context, from []byte, fn func(key, value []byte) error) error {
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
		if n++; n%momentEvery == 0 && ctx.Err() != nil {
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

// Close lets the state go.
func (m *Moment) Close() error { return m.s.check(m.st.snap.Close()) }
