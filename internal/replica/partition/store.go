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

// Store is what replicas need of the node's store; the parts of a storage.Store say what the methods do.
type Store interface {
	rowStore
	recordStore
	snapshotStore
	Sync() error
	// Raise and Level are of the directory's feature level.
	Raise(level feature.Level) error
	Level() feature.Level
}

// rowStore reads and changes rows, and reads hints: *storage.Reader, *storage.Writer and *storage.Statistics.
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

// recordStore reads what is kept beside rows: *storage.Records.
type recordStore interface {
	Dedupe(table uint32, tok token.Token, key []byte, id command.DedupeID) ([]byte, error)
	Meta(partition uint64) (m keys.Meta, ok bool, err error)
	Metas(fn func(m keys.Meta) error) error
	Replicas() ([]keys.Replica, error)
	Get(id uint32, sub []byte) ([]byte, error)
	Scan(id uint32, prefix []byte, fn func(key, value []byte) error) error
}

// snapshotStore moves whole partitions: *storage.Snapshots.
type snapshotStore interface {
	CaptureSnapshot(ctx context.Context, partition uint64) (*storage.Snapshot, error)
	HoldMoment(partition uint64) (*storage.Moment, error)
	ReceiveSnapshot(ctx context.Context, r io.Reader) (*storage.Snapshot, error)
	InstallSnapshot(ctx context.Context, own keys.Span, r io.Reader, change func(*keys.Meta) error,
		absorbed ...uint64) error
}

// Stored is the Store of a storage.Store.
type Stored struct{ *storage.Store }
