// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"io"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// Store is what replicas need of the node's store: *storage.Store, which says what the methods do.
type Store interface {
	NewBatch() *storage.Batch
	Admit(m *command.Mutation) error
	Read(ctx context.Context, c *command.Read, v command.Visitor) error
	Dedupe(table uint32, tok token.Token, key []byte, id command.DedupeID) ([]byte, error)
	Newest(m *command.Mutation) (int64, error)
	Sync() error
	Raise(level feature.Level) error
	Level() feature.Level
	Metas(fn func(m keys.Meta) error) error
	Replicas() ([]keys.Replica, error)
	Get(id uint32, sub []byte) ([]byte, error)
	Scan(id uint32, prefix []byte, fn func(key, value []byte) error) error
	CaptureSnapshot(ctx context.Context, partition uint64) (*storage.Snapshot, error)
	ReceiveSnapshot(ctx context.Context, r io.Reader) (*storage.Snapshot, error)
	InstallSnapshot(ctx context.Context, own keys.Span, r io.Reader, change func(*keys.Meta) error) error
}

// Stored is the Store of a storage.Store.
type Stored struct{ *storage.Store }
