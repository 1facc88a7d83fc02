// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// Standalone returns functions that read and change the records of a standalone store. A change is one batch and is
// durable when the function returns.
func Standalone(s *storage.Store) (Scan, Change) {
	a := &standalone{store: s}
	return a.scan, a.change
}

type standalone struct {
	store *storage.Store
	mu    sync.Mutex
}

// scan reads a consistent state of the records.
func (a *standalone) scan(fn func(key, value []byte) error) (version uint64, err error) {
	err = a.store.Scan(keys.MetaID, nil, func(key, value []byte) error {
		if string(key) == versionKey {
			version, err = decodeVersion(value)
			return err
		}
		return fn(key, value)
	})
	return version, err
}

func decodeVersion(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("version: %w", ErrMalformed)
	}
	return binary.BigEndian.Uint64(b), nil
}

func (a *standalone) change(_ context.Context, c command.Records) (version uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := a.store.Get(keys.MetaID, []byte(versionKey))
	if err == nil && b != nil {
		version, err = decodeVersion(b)
	}
	if err != nil {
		return 0, stopped(err)
	}
	if version != c.Expect {
		return 0, &partition.Conflict{Version: version}
	}
	version++
	batch := a.store.NewBatch()
	defer batch.Close()
	for _, r := range c.Put {
		if r.Value == nil {
			batch.Delete(keys.MetaID, r.Key)
		} else {
			batch.Set(keys.MetaID, r.Key, r.Value)
		}
	}
	batch.Set(keys.MetaID, []byte(versionKey), binary.BigEndian.AppendUint64(nil, version))
	if err := batch.Commit(); err != nil {
		return 0, stopped(err)
	}
	if err := a.store.Sync(); err != nil {
		return 0, stopped(err)
	}
	return version, nil
}

// stopped wraps a store error so that callers treat the error as permanent.
func stopped(err error) error { return fmt.Errorf("%w: %w", partition.ErrStopped, err) }
