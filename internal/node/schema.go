// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/control/backfill"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/control/throughput"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/query/cql/write"
)

// newSchema creates the parts that change the schema, apply it to this node, and build indexes.
func (n *Node) newSchema() {
	n.builder = backfill.New(backfill.Options{
		Metadata: n.metadata, Table: write.BackfillTable{Coordinator: n.coordinator},
		Entries: backfill.Entries(view.BuildEntries(n.catalog.Snapshot, n.definitions.IndexOps)),
		Schema:  n.catalog.Snapshot, ExpiredBefore: n.earliestNow, Log: n.log,
		Overloaded:  n.overloaded,
		ShouldBuild: func() bool { return n.cluster == nil || n.cluster.member.LeadsMeta() },
		Listed:      func() bool { return n.levelOf(n.metadata.State()) >= schemachange.ListsLevel },
		Change:      n.setLists, ListsRows: n.opts.VectorListsRows, ListsPause: n.opts.VectorListsPause,
	})
	n.views = view.New(view.Options{Coordinator: n.coordinator, Schema: n.catalog.Snapshot, Replicas: n.host.Replicas,
		Now: n.clock(), Log: n.log})
	n.host.SetViews(n.views)
	n.changer = &schemachange.Changer{
		Metadata: n.metadata, Schema: n.catalog.Snapshot, WithSystemKeyspaces: catalog.System(n.compat),
		PlaceTable:   n.placeTable,
		AwaitIndexes: n.builder.Await,
		Level:        n.levelOf,
		Datacenters:  n.datacenters, IsConfiguredUser: n.configured,
		Newest: func(ctx context.Context, table uint32) (int64, error) {
			return n.coordinator.Newest(ctx, table, schemachange.Timeout)
		},
	}
	n.installer = &schemachange.Installer{
		Store: n.store, Replicas: n.local, WithSystemKeyspaces: catalog.System(n.compat),
		Values: n.definitions.IndexValues,
		Items:  n.definitions.Index,
		Route:  n.coordinator.SetTopology,
		Publish: func(s *schema.Schema, events []schema.Event) {
			n.catalog.Publish(s, events...)
			n.announceSchema(events)
		},
		Failed: func(what string, err error) {
			n.log.LogAttrs(context.Background(), slog.LevelError, what, slog.String("error", err.Error()))
		},
	}
	if n.cluster != nil {
		n.changer.AwaitAgreement = n.cluster.member.AwaitAgreement
		n.changer.Require = func(ctx context.Context, table uint32, revision uint64) error {
			return n.coordinator.Require(ctx, table, revision, schemachange.Timeout)
		}
		return
	}
	n.installer.Require = func(id topology.PartitionID, revision uint64) {
		if r := n.host.Replica(id); r != nil {
			// This fails only if nothing more is written: the replica is being dropped, or the store has stopped.
			_ = r.Require(context.Background(), r.Extent(), revision)
		}
	}
}

// pageVerifier returns the verifier of views and indexes.
func (n *Node) pageVerifier() *view.PageVerifier {
	return &view.PageVerifier{Rows: n.coordinator, Schema: n.catalog.Snapshot, Entries: n.definitions.IndexOps,
		Builds: n.builder, Now: n.clock()}
}

// setLists assigns lists to a vector index.
func (n *Node) setLists(ctx context.Context, c *schema.SetLists) error {
	c.Stamp = schema.Stamp{Version: schema.UUID(uuid.New()), At: time.Now().UnixMicro(), Release: n.compat}
	_, _, err := n.changer.Apply(ctx, c, "")
	return err
}

// awaitLatestMetadata returns when this node has applied every metadata change acknowledged before the call.
func (n *Node) awaitLatestMetadata(ctx context.Context) error {
	_, err := n.metadata.ReadBarrier(ctx)
	return err
}

// levelOf returns the feature level with which nodes write in a state.
func (n *Node) levelOf(s *meta.State) feature.Level {
	if n.cluster == nil {
		return n.store.Level()
	}
	return s.Topology.Level()
}

// followMetadata applies the metadata and all later changes to this node. It is the only subscriber.
func (n *Node) followMetadata() error {
	first := n.metadata.State()
	if first.Version > 0 || n.cluster == nil {
		if err := n.dropOrphans(first); err != nil {
			return fmt.Errorf("cannot apply the schema to the store: %w", err)
		}
	}
	n.installer.Begin()
	n.applyMetadata(meta.Empty(), first)
	if seen := n.metadata.Subscribe(n.applyMetadata); seen != first {
		n.applyMetadata(first, seen)
	}
	return nil
}

func (n *Node) applyMetadata(old, next *meta.State) {
	if n.authority != nil && old.Roles != next.Roles {
		n.authority.Set(next.Roles)
		n.endLogins()
	}
	n.installer.Install(old, next)
	n.host.SetThroughputs(throughput.DividePerPartition(next))
	n.builder.Wake()
	if n.cluster != nil {
		n.cluster.metadataChanged(old, next)
	}
}

// dropOrphans removes replicas and index entries left by a crash that are not in the metadata.
func (n *Node) dropOrphans(s *meta.State) error {
	var here []topology.PartitionID
	for _, r := range n.host.Replicas() {
		here = append(here, r.ID())
	}
	if err := n.local.local.RemoveOrphans(s.Topology, here); err != nil {
		return err
	}
	return n.installer.RemoveOrphans(s.Schema)
}
