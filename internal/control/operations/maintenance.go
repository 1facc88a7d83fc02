// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// Maintenance executes operators' requests for the data of a node. Its methods are safe for concurrent use. The caller
// must set the exported fields before use.
type Maintenance struct {
	Metadata *meta.Keeper
	Host     *partition.Host
	Store    *storage.Store
	// Data is the data directory. It is empty if the data is in memory.
	Data string
	// Keys copies the registry of data keys. It is nil if the data is not encrypted.
	Keys interface{ CopyRegistry(dir string) error }
	// Newest is the newest feature level that this version supports.
	Newest feature.Level
	// Standalone reports whether the node is standalone.
	Standalone bool

	copying sync.Mutex // held while a checkpoint is written
}

// Compact compacts all levels of the store.
func (m *Maintenance) Compact(ctx context.Context) error { return m.Store.Compact(ctx) }

// RaiseLevel raises the feature level to the newest level that all nodes support, and returns this level. The change
// cannot be undone. The cluster then rejects versions that do not support the level.
func (m *Maintenance) RaiseLevel(ctx context.Context) (feature.Level, error) {
	if m.Standalone {
		return membership.RaiseStandaloneLevel(ctx, m.Store.Directory, m.Host, m.Newest)
	}
	return membership.RaiseLevel(ctx, m.Metadata)
}

// Checkpoint writes a consistent copy of the data next to the data directory and returns the name of the copy. The copy
// shares files with the original if possible.
func (m *Maintenance) Checkpoint() (string, error) {
	if m.Data == "" {
		return "", errors.New("cannot create a checkpoint: the data is in memory")
	}
	if !m.copying.TryLock() {
		return "", errors.New("a checkpoint is already being created: retry when it is complete")
	}
	defer m.copying.Unlock()
	dir := filepath.Clean(m.Data) + ".checkpoint-" + time.Now().UTC().Format("20060102T150405.000Z")
	if err := m.Store.Checkpoint(dir); err != nil || m.Keys == nil {
		return dir, err
	}
	if err := m.Keys.CopyRegistry(dir); err != nil {
		return dir, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}
