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
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/view"
	"github.com/ilion-db/ilion/internal/query/write"
)

// newSchema builds what changes the schema, what has this node follow it, and what builds indexes.
func (n *Node) newSchema() {
	n.builder = backfill.New(backfill.Options{
		Records: n.records, Table: write.BackfillTable{Coordinator: n.coordinator}, Entries: n.entries,
		Schema: n.catalog.Snapshot, Past: n.past, Log: n.log,
		Pressed: n.short,
		Mine:    func() bool { return n.cluster == nil || n.cluster.member.LeadsMeta() },
		Listed:  func() bool { return n.levelOf(n.records.State()) >= schemachange.ListsLevel },
		Change:  n.setLists, ListsRows: n.opts.VectorListsRows, ListsPause: n.opts.VectorListsPause,
	})
	n.views = view.New(view.Options{Coordinator: n.coordinator, Schema: n.catalog.Snapshot, Replicas: n.host.Replicas,
		Now: n.clock(), Log: n.log})
	n.host.SetViews(n.views)
	n.changer = &schemachange.Changer{
		Records: n.records, Schema: n.catalog.Snapshot, Whole: catalog.System(n.answers), Place: n.place,
		Built:       n.builder.Await,
		Level:       n.levelOf,
		Datacenters: n.datacenters, Configured: n.configured,
		Newest: func(ctx context.Context, table uint32) (int64, error) {
			return n.coordinator.Newest(ctx, table, schemachange.Wait)
		},
	}
	n.installer = &schemachange.Installer{
		Store: n.store, Replicas: n.local, Whole: catalog.System(n.answers), Values: n.definitions.IndexValues,
		Items: n.definitions.Index,
		Route: n.coordinator.SetTopology,
		Publish: func(s *schema.Schema, events []schema.Event) {
			n.catalog.Publish(s, events...)
			n.announce(events)
		},
		Failed: func(what string, err error) {
			n.log.LogAttrs(context.Background(), slog.LevelError, what, slog.String("error", err.Error()))
		},
	}
	if n.cluster != nil {
		n.changer.Agree = n.cluster.member.Agree
		n.changer.Require = func(ctx context.Context, table uint32, revision uint64) error {
			return n.coordinator.Require(ctx, table, revision, schemachange.Wait)
		}
		return
	}
	n.installer.Require = func(id topology.PartitionID, revision uint64) {
		if r := n.host.Replica(id); r != nil {
			// It fails only where nothing more is written: the replica is being dropped, or the store has stopped.
			_ = r.Require(context.Background(), r.Extent(), revision)
		}
	}
}

// setLists gives an index of vectors other lists.
func (n *Node) setLists(ctx context.Context, c *schema.SetLists) error {
	c.Stamp = schema.Stamp{Version: schema.UUID(uuid.New()), At: time.Now().UnixMicro(), Release: n.answers}
	_, _, err := n.changer.Apply(ctx, c, "")
	return err
}

// newest returns when this node has carried out every change of the records that was acknowledged before.
func (n *Node) newest(ctx context.Context) error {
	_, err := n.records.Refresh(ctx)
	return err
}

// levelOf is the feature level by which the nodes of a state write.
func (n *Node) levelOf(s *meta.State) feature.Level {
	if n.cluster == nil {
		return n.store.Level()
	}
	return s.Map.Level()
}

// followRecords makes the node what the records say, now and from now on. It is their one subscriber.
func (n *Node) followRecords() error {
	first := n.records.State()
	if first.Version > 0 || n.cluster == nil {
		if err := n.dropOrphans(first); err != nil {
			return fmt.Errorf("bring the store in line with its schema: %w", err)
		}
	}
	n.installer.Begin()
	n.install(meta.Empty(), first)
	if seen := n.records.Subscribe(n.install); seen != first {
		n.install(first, seen)
	}
	return nil
}

func (n *Node) install(old, next *meta.State) {
	if n.authority != nil && old.Roles != next.Roles {
		n.authority.Set(next.Roles)
		n.endLogins()
	}
	n.installer.Install(old, next)
	n.host.SetThroughputs(throughput.Divide(next))
	n.builder.Look()
	if n.cluster != nil {
		n.cluster.installed(old, next)
	}
}

// dropOrphans removes what a crash has left: replicas and entries of indexes that are not in the records.
func (n *Node) dropOrphans(s *meta.State) error {
	var here []topology.PartitionID
	for _, r := range n.host.Replicas() {
		here = append(here, r.ID())
	}
	if err := n.local.local.Orphans(s.Map, here); err != nil {
		return err
	}
	return n.installer.Orphans(s.Schema)
}
