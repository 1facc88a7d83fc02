// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/control/backfill"
	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/metadata"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/query/cql/write"
)

// newSchema creates the parts that change the schema, apply it to this node, and build indexes. It returns the follower
// that applies the metadata.
func (n *Node) newSchema() *metadata.Follower {
	n.featureLevel.Metadata = n.metadata
	if n.cluster == nil {
		n.featureLevel.Store = n.store
	}
	n.builder = backfill.New(backfill.Options{
		Metadata: n.metadata, Table: write.BackfillTable{Coordinator: n.coordinator},
		Entries: backfill.Entries(view.BuildEntries(n.catalog.Snapshot, n.definitions.IndexOps)),
		Schema:  n.catalog.Snapshot, ExpiredBefore: n.clock.EarliestSeconds, Log: n.log,
		Overloaded:  n.clients.overloaded,
		ShouldBuild: func() bool { return n.cluster == nil || n.cluster.member.LeadsMeta() },
		Listed:      func() bool { return n.featureLevel.Current() >= schemachange.ListsLevel },
		Change: func(ctx context.Context, c *schema.SetLists) error {
			return setLists(ctx, n.changer, n.compat, c)
		},
		ListsRows: n.opts.Testing.VectorListsRows, ListsPause: n.opts.Testing.VectorListsPause,
	})
	n.views = view.New(view.Options{Coordinator: n.coordinator, Schema: n.catalog.Snapshot, Replicas: n.host.Replicas,
		Now: n.clock.Now, Log: n.log})
	n.host.SetViews(n.views)
	placer := membership.TablePlacer{Node: n.store.Identity().Node, Region: n.opts.Region,
		Partitions: n.opts.InitialPartitions}
	if n.cluster != nil {
		placer.Member = n.cluster.member
	}
	n.changer = &schemachange.Changer{
		Metadata: n.metadata, Schema: n.catalog.Snapshot, WithSystemKeyspaces: catalog.System(n.compat),
		PlaceTable:   placer.Place,
		AwaitIndexes: n.builder.Await,
		Level:        n.featureLevel.Of,
		Datacenters: func() []string {
			info := n.nodeInfo()
			return info.Datacenters()
		},
		IsConfiguredUser: func(name string) bool { return n.logins != nil && n.logins.Configured(name) },
		Newest: func(ctx context.Context, table uint32) (int64, error) {
			return n.coordinator.Newest(ctx, table, schemachange.Timeout)
		},
	}
	installer := &schemachange.Installer{
		Store: n.store, Replicas: n.local, WithSystemKeyspaces: catalog.System(n.compat),
		Values: n.definitions.IndexValues,
		Items:  n.definitions.Index,
		Route:  n.coordinator.SetTopology,
		Publish: func(s *schema.Schema, events []schema.Event) {
			n.catalog.Publish(s, events...)
			n.clients.announceSchema(events)
		},
		Failed: func(what string, err error) {
			n.log.LogAttrs(context.Background(), slog.LevelError, what, slog.String("error", err.Error()))
		},
	}
	follower := &metadata.Follower{Metadata: n.metadata, Host: n.host, Installer: installer, Local: n.local,
		Builder: n.builder, Clients: &n.clients}
	if n.cluster != nil {
		follower.Cluster = n.cluster
		n.changer.AwaitAgreement = n.cluster.member.AwaitAgreement
		n.changer.Require = func(ctx context.Context, table uint32, revision uint64) error {
			return n.coordinator.Require(ctx, table, revision, schemachange.Timeout)
		}
		return follower
	}
	installer.Require = func(id topology.PartitionID, revision uint64) {
		if r := n.host.Replica(id); r != nil {
			// This fails only if nothing more is written: the replica is being dropped, or the store has stopped.
			_ = r.Require(context.Background(), r.Extent(), revision)
		}
	}
	return follower
}

// pageVerifier returns the verifier of views and indexes.
func (n *Node) pageVerifier() *view.PageVerifier {
	return &view.PageVerifier{Rows: n.coordinator, Schema: n.catalog.Snapshot, Entries: n.definitions.IndexOps,
		Builds: n.builder, Now: n.clock.Now}
}

// setLists assigns lists to a vector index.
func setLists(ctx context.Context, changer *schemachange.Changer, r *compat.Release, c *schema.SetLists) error {
	c.Stamp = schema.Stamp{Version: schema.UUID(uuid.New()), At: time.Now().UnixMicro(), Release: r}
	_, _, err := changer.Apply(ctx, c, "")
	return err
}

// ensureRoles creates role records for the configured users, so that they are listed and can be granted permissions. A
// standalone node does this before the first client; a cluster does it as soon as the meta partition has a leader. The
// users can log in before.
func (n *Node) ensureRoles() error {
	users := slices.Sorted(maps.Keys(n.opts.Auth.Users))
	switch {
	case len(users) == 0:
		return nil
	case n.cluster == nil:
		return n.changer.EnsureRoles(context.Background(), users)
	}
	n.life.Background(func(ctx context.Context) { n.changer.RetryEnsureRoles(ctx, users, n.log) })
	return nil
}
