// SPDX-License-Identifier: Apache-2.0

// Package sweep removes data that no read can see from the partitions that a node leads. Examples are deleted and
// expired rows.
package sweep

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Sweeper sweeps the partitions that this node leads. Set its fields before use.
type Sweeper struct {
	Store       *storage.Store
	Host        *partition.Host
	Coordinator *coordinator.Coordinator
	Catalog     *catalog.Catalog
	Clock       *peers.NodeClock
	// Clients reports whether sweeps must yield to requests.
	Clients interface{ Overloaded() bool }
	// KeysPerSecond is the maximum number of due entries that are swept per second.
	KeysPerSecond int
	Log           *slog.Logger
}

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	s.Store.RunSweeper(ctx, storage.SweeperOptions{
		Node: sweepNode{s},
		// The due entries are known, so a scan of other data would find little.
		DuePerSecond: s.KeysPerSecond, KeysPerSecond: s.KeysPerSecond / 5,
	})
}

// sweepNode implements storage.SweepNode.
type sweepNode struct{ *Sweeper }

// Now implements storage.SweepNode.
func (s sweepNode) Now() int64 { return s.Clock.EarliestSeconds() }

// Recorded implements storage.SweepNode.
func (s sweepNode) Recorded(ctx context.Context) (storage.Recorded, error) {
	all, err := s.Coordinator.RecordedBatches(ctx)
	return func(batch [16]byte) bool { return all[batch] }, err
}

// Overloaded implements storage.SweepNode.
func (s sweepNode) Overloaded() bool { return s.Clients.Overloaded() }

// Propose implements storage.SweepNode.
func (s sweepNode) Propose(ctx context.Context, sw command.Sweep) error {
	t := s.Catalog.Snapshot().TableByID(sw.Table)
	return s.Host.Sweep(ctx, &sw, t != nil && t.Logged())
}

// SweepFailed implements storage.SweepNode.
func (s sweepNode) SweepFailed(err error) {
	level := slog.LevelWarn
	if _, ok := errors.AsType[*partition.WrongRange](err); ok {
		level = slog.LevelDebug // the replica has been split or merged and will be swept later
	}
	s.Log.LogAttrs(context.Background(), level, "sweep failed", slog.String("error", err.Error()))
}

// Spans implements storage.SweepNode. It returns the spans of the replicas that lead their partitions.
func (s sweepNode) Spans() []keys.Span {
	var out []keys.Span
	for _, r := range s.Host.Replicas() {
		if r.ID() != topology.MetaPartition && r.Leading() {
			span, _ := r.Span()
			out = append(out, span.Keys(r.Table()))
		}
	}
	return out
}
