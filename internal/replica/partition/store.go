// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Batch is what one apply changes: all of it or nothing.
type Batch struct {
	// Mutations are stamped.
	Mutations []*command.Mutation
	// Result is stored as the dedupe record of Mutations[0] if that has a DedupeID.
	Result []byte
	// Metas are new values of partition metas.
	Metas []keys.Meta
}

// ErrRefused is wrapped by errors of Store.Apply about a batch that cannot be applied though the store is well: the disk is nearly
// full, or an operand is malformed.
var ErrRefused = errors.New("refused")

// Store is what replicas need of the node's store; Stored makes one of a storage.Store. Everything applied is visible at once
// and durable after the next Sync. It copies what it keeps and is safe for concurrent use.
type Store interface {
	// Apply commits a batch without syncing. An error that wraps ErrRefused changed nothing and concerns this batch alone; after
	// any other one the store is not used for writing again.
	Apply(b *Batch) error
	// Read passes on what c finds, in order; nothing but c restricts it.
	Read(ctx context.Context, c *command.Read, v command.Visitor) error
	// Result returns the dedupe record of a mutation, nil if there is none.
	Result(m *command.Mutation) ([]byte, error)
	// Sweep applies a sweep: it removes only what nobody can see, whoever writes at the same time.
	Sweep(s *command.Sweep) error
	// Truncate removes everything in the span, and the entries of these indexes that lead there.
	Truncate(span keys.Span, indexes []uint32) error
	// Metas returns all partition metas; Forget removes some of them.
	Metas() ([]keys.Meta, error)
	Forget(ids ...topology.PartitionID) error
	// Sync makes durable what was applied before.
	Sync() error
}
