// SPDX-License-Identifier: Apache-2.0

// Package metadata applies the cluster metadata to a node. The metadata includes the schema, the replicas, the
// throughput, and the roles.
package metadata

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/ilion-db/ilion/internal/control/backfill"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/reconcile"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/control/throughput"
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// Follower applies the metadata and all later changes to this node. It is the only subscriber of the metadata. Set its
// fields before use.
type Follower struct {
	Metadata *meta.Keeper
	Host     *partition.Host
	// Installer applies the schema, and Local applies the topology. Builder builds new indexes.
	Installer *schemachange.Installer
	Local     *reconcile.LocalReconciler
	Builder   *backfill.Builder
	// Clients receives new roles.
	Clients interface {
		RolesChanged(roles *access.State)
	}
	// Cluster applies the metadata to the connections to other nodes. It is nil on a standalone node.
	Cluster interface {
		MetadataChanged(old, next *meta.State)
	}
	Log *slog.Logger
}

// Run applies the current metadata, and subscribes to later changes.
func (f *Follower) Run() error {
	first := f.Metadata.State()
	if first.Version > 0 || f.Cluster == nil {
		if err := f.removeOrphans(first); err != nil {
			return fmt.Errorf("cannot apply the schema to the store: %w", err)
		}
	}
	f.Installer.Begin()
	f.apply(meta.Empty(), first)
	if seen := f.Metadata.Subscribe(f.apply); seen != first {
		f.apply(first, seen)
	}
	return nil
}

func (f *Follower) apply(old, next *meta.State) {
	if old.Roles != next.Roles {
		f.Clients.RolesChanged(next.Roles)
	}
	if err := f.Installer.Install(old, next); err != nil {
		f.Log.LogAttrs(context.Background(), slog.LevelError, "cannot apply the metadata", slog.String("error",
			err.Error()))
	}
	f.Host.SetThroughputs(throughput.DividePerPartition(next))
	f.Builder.Wake()
	if f.Cluster != nil {
		f.Cluster.MetadataChanged(old, next)
	}
}

// removeOrphans removes replicas and index entries that are not in the metadata. A crash may have left them behind.
func (f *Follower) removeOrphans(s *meta.State) error {
	var here []topology.PartitionID
	for _, r := range f.Host.Replicas() {
		here = append(here, r.ID())
	}
	if err := f.Local.RemoveOrphans(s.Topology, here); err != nil {
		return err
	}
	return f.Installer.RemoveOrphans(s.Schema)
}
