// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/backfill"
	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/node/metadata"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/query/cql/write"
)

// newSchema creates the parts that change the schema, apply the schema to this node, and build indexes. It returns the
// follower that applies the metadata.
func (n *Node) newSchema() *metadata.Follower {
	n.featureLevel.Metadata = n.metadata
	if n.cluster == nil {
		n.featureLevel.Store = n.store
	}
	n.builder = backfill.New(backfill.Options{
		Metadata: n.metadata, Table: write.BackfillTable{Coordinator: n.coordinator},
		Entries: backfill.Entries(view.BuildEntries(n.catalog.Snapshot, n.definitions.IndexOps)),
		Catalog: n.catalog, Clock: n.clock, Clients: &n.clients, Log: n.log,
		ListsRows: n.opts.Testing.VectorListsRows, ListsPause: n.opts.Testing.VectorListsPause,
	})
	n.views = view.New(view.Options{Coordinator: n.coordinator, Catalog: n.catalog, Host: n.host,
		Clock: n.clock, Log: n.log})
	n.host.SetViews(n.views)
	placer := membership.TablePlacer{Node: n.store.Identity().Node, Region: n.opts.Region,
		Partitions: n.opts.InitialPartitions}
	if n.cluster != nil {
		placer.Member, n.builder.Member = n.cluster.member, n.cluster.member
	}
	n.changer = &schemachange.Changer{
		Metadata: n.metadata, Catalog: n.catalog, Placer: &placer, Partitions: n.coordinator, Builder: n.builder,
		Release: n.compat, Users: n.opts.Auth.Users, Levels: n.featureLevel, Timeout: n.schemaTimeout(),
	}
	n.builder.Lists = n.changer
	installer := &schemachange.Installer{
		Store: n.store, Replicas: n.local, Catalog: n.catalog, Indexes: &n.definitions, Router: n.coordinator,
	}
	follower := &metadata.Follower{Metadata: n.metadata, Host: n.host, Installer: installer, Local: n.local,
		Builder: n.builder, Clients: &n.clients, Log: n.log}
	if n.cluster != nil {
		follower.Cluster, n.changer.Member = n.cluster, n.cluster.member
	} else {
		installer.Standalone = n.standalone
	}
	return follower
}

// pageVerifier returns the verifier of views and indexes.
func (n *Node) pageVerifier() *view.PageVerifier {
	return &view.PageVerifier{Rows: n.coordinator, Catalog: n.catalog, Entries: n.definitions.IndexOps,
		Builds: n.builder, Clock: n.clock}
}

// ensureRoles creates role records for the configured users. These users can then be listed and can be granted
// permissions. A standalone node does this before the first client connects. A cluster does this as soon as the meta
// partition has a leader. The users can log in even before that.
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

// schemaTimeout returns the timeout of a schema change.
func (n *Node) schemaTimeout() time.Duration {
	return cmp.Or(n.opts.Testing.SchemaTimeout, schemachange.Timeout)
}
