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

// Raise raises the feature level of a cluster to the newest that each of its nodes understands, and returns it. There
// is no way back: builds that do not understand the level are refused from then on. The leaders of the partitions raise
// theirs soon after.
func Raise(ctx context.Context, records *meta.Keeper) (feature.Level, error) {
	s, err := records.Update(ctx, (*meta.State).Raised)
	if err != nil {
		return 0, err
	}
	return s.Map.Level(), nil
}

// RaiseAlone raises a node that stands alone, its directory first and then its partitions, and returns its level. It is
// also how a start carries on where a crash came between the two, with the level that the directory has.
func RaiseAlone(ctx context.Context, store *storage.Directory, host *partition.Host, to feature.Level) (feature.Level,
	error) {
	if err := store.Raise(to); err != nil {
		return 0, err
	}
	level := store.Level()
	for _, r := range host.Replicas() {
		if r.Level() >= level {
			continue
		}
		if err := r.RaiseLevel(ctx, level); err != nil {
			return 0, fmt.Errorf("raise partition %d to feature level %d: %w", r.ID(), level, err)
		}
	}
	return level, nil
}
