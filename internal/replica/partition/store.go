// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"io"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// Store is the part of the node's store that replicas use. See storage.Store for the documentation of the methods.
type Store interface {
	rowStore
	recordStore
	snapshotStore
	Sync() error
	// Raise and Level access the directory's feature level.
	Raise(level feature.Level) error
	Level() feature.Level
}

// rowStore reads and writes rows and reads hints. *storage.Reader, *storage.Writer, and *storage.Statistics implement
// its methods.
type rowStore interface {
	NewBatch() *storage.Batch
	Admit(m *command.Mutation, crowded bool) error
	Read(ctx context.Context, c *command.Read, v command.Visitor) error
	Pin(table uint32, tok token.Token, key []byte) *storage.Pinned
	Images(m *command.Mutation, now int64, dropped []cqltype.Dropped, visit func(i *storage.Image) error) error
	HintAt(key []byte) (stamp int64, ok bool, err error)
	Hints(lower, upper []byte, fn func(key []byte, stamp int64) (more bool)) error
	HasDeletions(table uint32) bool
	StampsAbove(table uint32) int64
	RemoveStale(q *command.Read, clusterings [][]byte) error
}

// recordStore reads all data except rows. *storage.Records implements recordStore.
type recordStore interface {
	Dedupe(table uint32, tok token.Token, key []byte, id command.DedupeID) ([]byte, error)
	Meta(partition uint64) (m keys.Meta, ok bool, err error)
	Metas(fn func(m keys.Meta) error) error
	Replicas() ([]keys.Replica, error)
	Get(id uint32, sub []byte) ([]byte, error)
	Scan(id uint32, prefix []byte, fn func(key, value []byte) error) error
}

// snapshotStore moves whole partitions. *storage.Snapshots implements snapshotStore.
type snapshotStore interface {
	CaptureSnapshot(ctx context.Context, partition uint64) (*storage.SnapshotFile, error)
	OpenSnapshot(partition uint64) (*storage.Snapshot, error)
	ReceiveSnapshot(ctx context.Context, r io.Reader) (*storage.SnapshotFile, error)
	InstallSnapshot(ctx context.Context, own keys.Span, r io.Reader, change func(*keys.Meta) error,
		absorbed ...uint64) error
}

// Stored adapts a storage.Store to Store.
type Stored struct{ *storage.Store }
