// SPDX-License-Identifier: Apache-2.0

// Package operations handles operators' requests to split, merge, and move physical partitions, and to cancel these
// operations. It records the requests in the metadata, and the reconcilers execute them. Start reading at Partitions.
package operations

import (
	"context"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/reconcile"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

const (
	// requestTimeout is the maximum wait for recording a request.
	requestTimeout = 10 * time.Second
	// completionTimeout is the maximum wait for a split or merge. moveTimeout is the maximum wait for a move. The
	// operation continues after the timeout.
	completionTimeout = 45 * time.Second
	moveTimeout       = 10 * time.Minute
	// cancelTimeout is the maximum wait for the outcome of a canceled split.
	cancelTimeout = 2 * time.Second
)

// Partitions handles operators' requests for physical partitions. Its methods return messages for the operator. The
// caller must set the exported fields before use.
type Partitions struct {
	Metadata *meta.Keeper
	// Tables finds the tables of requests.
	Tables Tables
	Host   *partition.Host
	Store  *storage.Store
	// Member represents this node in its cluster. It is nil on a standalone node.
	Member *membership.Member
	// Standalone executes the operations of a standalone node. It is nil in a cluster.
	Standalone *reconcile.Standalone
	Log        *slog.Logger
}

// Tables finds user tables. It is a *catalog.Catalog.
type Tables interface {
	// UserTableNamed returns the table with the given name, which includes the keyspace.
	UserTableNamed(name string) (*schema.Table, error)
}

// level returns the feature level that a standalone node must check. It returns 0 in a cluster, because the metadata
// contains the level of a cluster.
func (o *Partitions) level() feature.Level {
	if o.Standalone == nil {
		return 0
	}
	return o.Store.Level()
}

// update changes the metadata with a timeout.
func (o *Partitions) update(ctx context.Context, change func(s *meta.State) (*meta.State, error)) (*meta.State, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return o.Metadata.Update(ctx, change)
}
