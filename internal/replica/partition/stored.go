// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"encoding/binary"
	"errors"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// Stored is the Store of a storage.Store.
type Stored struct{ *storage.Store }

// Apply implements Store.
func (s Stored) Apply(b *Batch) error {
	sb := s.NewBatch()
	defer sb.Close()
	for i, m := range b.Mutations {
		if err := sb.Mutate(m); err != nil {
			return refused(err)
		}
		if i == 0 && b.Result != nil {
			sb.PutDedupe(m.Table, m.Token, m.Key, m.Dedupe, b.Result)
		}
	}
	for i := range b.Metas {
		sb.PutMeta(&b.Metas[i])
	}
	return refused(sb.Commit())
}

// refused marks the errors after which the store goes on.
func refused(err error) error {
	if errors.Is(err, storage.ErrDiskFull) || errors.Is(err, storage.ErrDiskBrim) || errors.Is(err, storage.ErrUnstamped) || errors.Is(err, storage.ErrReadOnly) {
		return &refusal{err}
	}
	return err
}

// refusal marks an error with ErrRefused and adds nothing to what clients are told.
type refusal struct{ error }

func (r *refusal) Unwrap() []error { return []error{ErrRefused, r.error} }

// Result implements Store.
func (s Stored) Result(m *command.Mutation) ([]byte, error) {
	return s.Dedupe(m.Table, m.Token, m.Key, m.Dedupe)
}

// Sweep implements Store.
func (s Stored) Sweep(c *command.Sweep) error { return refused(s.ApplySweep(c)) }

// Metas implements Store.
func (s Stored) Metas() ([]keys.Meta, error) {
	var out []keys.Meta
	err := s.Store.Metas(func(m keys.Meta) error {
		out = append(out, m)
		return nil
	})
	return out, err
}

// Forget implements Store.
func (s Stored) Forget(ids ...topology.PartitionID) error {
	b := s.NewBatch()
	defer b.Close()
	for _, id := range ids {
		b.Delete(keys.PartitionID, binary.BigEndian.AppendUint64(nil, uint64(id)))
	}
	return b.Commit()
}
