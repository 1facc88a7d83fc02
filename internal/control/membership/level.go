// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"fmt"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// RaiseLevel raises the feature level of a cluster to the newest level that all nodes support, and returns this level.
// The change cannot be undone. The cluster then rejects versions that do not support the level. The leaders of
// partitions then raise the levels of their partitions.
func RaiseLevel(ctx context.Context, records *meta.Keeper) (feature.Level, error) {
	s, err := records.Update(ctx, (*meta.State).WithRaisedLevel)
	if err != nil {
		return 0, err
	}
	return s.Topology.Level(), nil
}

// RaiseStandaloneLevel raises the feature level of a standalone node's directory, then raises the levels of the
// partitions, and returns the level. At a start, the node calls it with the directory's level to complete an
// interrupted raise.
func RaiseStandaloneLevel(ctx context.Context, store *storage.Directory, host *partition.Host,
	to feature.Level) (feature.Level,
	error) {
	if err := store.Raise(to); err != nil {
		return 0, err
	}
	level := store.Level()
	for _, r := range host.Replicas() {
		if r.Level() >= level {
			continue
		}
		if err := r.Control().RaiseLevel(ctx, level); err != nil {
			return 0, fmt.Errorf("cannot raise partition %d to feature level %d: %w", r.ID(), level, err)
		}
	}
	return level, nil
}

// Levels determines the feature level with which nodes write data.
type Levels struct {
	Metadata *meta.Keeper
	// Store is the store of a standalone node. It is nil in a cluster, because the metadata contains the level of a
	// cluster.
	Store *storage.Store
}

// Of returns the feature level for a state of the metadata.
func (l Levels) Of(s *meta.State) feature.Level {
	if l.Store != nil {
		return l.Store.Level()
	}
	return s.Topology.Level()
}

// Current returns the current feature level.
func (l Levels) Current() feature.Level { return l.Of(l.Metadata.State()) }
