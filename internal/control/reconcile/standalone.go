// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// standaloneTimeout is the time limit for executing the recorded operations of a standalone node.
const standaloneTimeout = 10 * time.Second

// Standalone executes the splits and merges of a standalone node, which has no Manager. Its methods are safe for
// concurrent use. The caller must set the exported fields before use.
type Standalone struct {
	Keeper *meta.Keeper
	Host   *partition.Host
	Store  *storage.Store
	Log    *slog.Logger

	mu sync.Mutex // held during an operation
}

// Require makes the replica of a partition reject mutations that were planned for an older revision of the table.
func (s *Standalone) Require(id topology.PartitionID, revision uint64) {
	if r := s.Host.Replica(id); r != nil {
		// The error is ignored, because Require fails only if the replica is being dropped or the store has stopped.
		_ = r.Require(context.Background(), r.Extent(), revision)
	}
}

// Level returns the feature level of the node.
func (s *Standalone) Level() feature.Level { return s.Store.Level() }

// Apply executes recorded splits and merges, for example after a crash.
func (s *Standalone) Apply(ctx context.Context) error {
	return errors.Join(s.ApplySplits(ctx), s.ApplyMerges(ctx))
}

// ApplySplits executes recorded splits, and completes the cancellation of canceled splits.
func (s *Standalone) ApplySplits(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), standaloneTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	splitter := &SplitReconciler{Keeper: s.Keeper, Store: s.Store, Log: s.Log}
	for p := range s.Keeper.State().Topology.All() {
		if p.Split == nil {
			continue
		}
		r := s.Host.Replica(p.ID)
		if r == nil {
			return fmt.Errorf("partition %d has no replica on this node", p.ID)
		}
		for i := range p.Sets {
			splitter.Region = p.Sets[i].Region // region of the node, because a standalone partition has one set
		}
		if err := splitter.Run(ctx, newLocalReplica(r), p); err != nil {
			return err
		}
	}
	return nil
}

// ApplyMerges executes recorded merges.
func (s *Standalone) ApplyMerges(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), standaloneTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	merger := &MergeReconciler{Keeper: s.Keeper, Store: s.Store, Log: s.Log}
	for p := range s.Keeper.State().Topology.InMotion() {
		if p.Merge == nil || p.Merge.Left != p.ID {
			continue
		}
		l, err := s.mergeable(p.ID)
		if err != nil {
			return err
		}
		right := func() (Mergeable, error) { return s.mergeable(p.Merge.Right) }
		if err := merger.RunStandalone(ctx, l, right, p); err != nil {
			return err
		}
	}
	return nil
}

// mergeable returns the local replica of a partition that is being merged.
func (s *Standalone) mergeable(id topology.PartitionID) (Mergeable, error) {
	if r := s.Host.Replica(id); r != nil {
		return newLocalReplica(r), nil
	}
	return nil, fmt.Errorf("partition %d has no replica on this node", id)
}
