// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

const (
	// changeWait bounds a change of the schema.
	changeWait = 10 * time.Second
	// agreeWait is how long a change of the schema waits for the other nodes to have it.
	agreeWait = time.Second
)

// schemaKeeper makes schema changes: it computes the next schema and map, and has them recorded. What follows from a change on every
// node is the installer's business.
type schemaKeeper struct {
	records *meta.Keeper
	catalog *catalog.Catalog
	builder *indexBuilder
	// place says how a new table is cut and where its parts live.
	place func(s *meta.State, t *schema.Table) ([]topology.Piece, error)
	// agree waits until the other nodes have a version of the records, nil if there are none.
	agree func(ctx context.Context, version uint64)
}

// Apply makes a schema change. When it returns, the change is durable and every later statement sees it, on all nodes that answer.
func (k *schemaKeeper) Apply(ctx context.Context, c schema.Change) (*schema.Schema, []schema.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, changeWait)
	defer cancel()
	var events []schema.Event
	var fresh []tableIndex
	state, err := k.records.Update(ctx, func(s *meta.State) (*meta.State, error) {
		old := catalog.WithSystem(s.Schema)
		next, happened, err := schema.Apply(old, c)
		events, fresh = happened, nil
		if err != nil || next == old {
			return s, err
		}
		changes := tableChanges(old, next)
		fresh = newIndexes(changes)
		return k.next(s, next, changes, fresh)
	})
	if err != nil {
		return nil, nil, changeError(err)
	}
	if k.agree != nil {
		k.agree(ctx, state.Version)
	}
	if k.builder.wait(ctx, fresh); k.agree != nil && len(fresh) > 0 {
		k.agree(ctx, k.records.State().Version) // that the index can be used is told like any change
	}
	return k.catalog.Snapshot(), events, nil
}

// next is the state with another schema, a map that fits to it, and the indexes that are to be built.
func (k *schemaKeeper) next(s *meta.State, next *schema.Schema, changes []tableChange, fresh []tableIndex) (*meta.State, error) {
	out := *s
	out.Schema = next
	for _, c := range changes {
		switch {
		case c.was == nil:
			pieces, err := k.place(s, c.is)
			if err == nil {
				out.Map, err = out.Map.CutTable(c.is.ID, pieces)
			}
			if err != nil {
				return nil, fmt.Errorf("create table %s: %w", c.is, err)
			}
		case c.is == nil:
			out.Map = out.Map.DropTable(c.was.ID)
		}
	}
	building := &out
	if len(s.Building) > 0 {
		known := indexIDs(next)
		for id := range s.Building {
			if !known[id] {
				building = building.WithBuilding(id, false)
			}
		}
	}
	for _, ti := range fresh {
		building = building.WithBuilding(ti.index.ID, true)
	}
	return building, nil
}

// ensure makes the stored tables that are part of every schema, if they are not there yet.
func (k *schemaKeeper) ensure(ctx context.Context) error {
	_, err := k.records.Update(ctx, func(s *meta.State) (*meta.State, error) {
		whole := catalog.WithSystem(s.Schema)
		out := *s
		for _, t := range sortedTables(whole) {
			if s.Map.Partitions(t.ID) != nil {
				continue
			}
			pieces, err := k.place(s, t)
			if err == nil {
				out.Map, err = out.Map.CutTable(t.ID, pieces)
			}
			if err != nil {
				return nil, fmt.Errorf("create table %s: %w", t, err)
			}
		}
		if out.Map == s.Map {
			return s, nil
		}
		return &out, nil
	})
	return err
}

// changeError is what a client is told about a change that was not made, or perhaps was.
func changeError(err error) error {
	switch {
	case errors.Is(err, meta.ErrUncertain), errors.Is(err, meta.ErrUnseen):
		return dberr.Serverf("It is not known whether the schema was changed: %s. Look before you repeat the statement.", err)
	case errors.Is(err, context.DeadlineExceeded):
		return dberr.Serverf("The schema was not changed: the meta partition has no leader that answers. Data can be read and written meanwhile.")
	}
	return err
}

// installer makes this node follow the records of the cluster, whoever changed them. It is their one subscriber.
type installer struct{ n *Node }

// install carries out what follows on this node from one state to the next.
//
// Order: (K1) the replicas of a new table are here before anybody can name it; (K2) mutations planned for an older revision of a table are refused
// before statements can be planned for the new one; (K3) a dropped table is gone from schema and map before its rows are. A crash at
// any point is made good at the next start, which installs all from nothing.
func (i installer) install(old, next *meta.State) {
	n := i.n
	var changes []tableChange
	if old.Schema != next.Schema {
		changes = tableChanges(catalog.WithSystem(old.Schema), catalog.WithSystem(next.Schema))
	}
	installTables(n.store, changes)
	i.check("make new replicas", n.local.Make(old.Map, next.Map))
	n.coordinator.SetTopology(next.Map)
	if old.Schema != next.Schema {
		i.require(changes, next.Map)
		events := happened(old.Schema, next.Schema)
		n.catalog.Publish(next.Schema, events...)
		n.announce(events)
	}
	i.check("remove replicas", n.local.Remove(old.Map, next.Map))
	i.check("remove dropped tables", clearDropped(n.store, changes))
	n.builder.look()
	if n.cluster != nil {
		n.cluster.installed(old, next)
	}
}

// happened is what clients are told of. The system keyspaces, which are in the records from the first change on, have always been there.
func happened(old, next *schema.Schema) []schema.Event {
	return schema.Compare(catalog.WithSystem(old), catalog.WithSystem(next))
}

// check reports what went wrong. What the disk refused ends the node by itself; the rest is made good at the next start.
func (i installer) check(what string, err error) {
	if err != nil {
		i.n.log.LogAttrs(context.Background(), slog.LevelError, what, slog.String("error", err.Error()))
	}
}

// require makes the replicas of changed tables refuse mutations that were planned for an earlier revision. Their sessions plan again.
// Without it a write planned before a new index could be applied after the index was built, and be missing in it. In a cluster the builder of the
// index sees to that, in the log of each partition.
func (i installer) require(changes []tableChange, m *topology.Snapshot) {
	if i.n.cluster != nil {
		return
	}
	for _, c := range changes {
		if c.was == nil || c.is == nil || c.was.Revision == c.is.Revision {
			continue
		}
		for _, p := range m.Partitions(c.is.ID) {
			if r := i.n.host.Replica(p.ID); r != nil {
				r.RequireSchema(c.is.Revision)
			}
		}
	}
}

// installTables tells the store about the tables that are new or changed.
func installTables(s *storage.Store, changes []tableChange) {
	for _, c := range changes {
		if c.is != nil {
			s.InstallTable(storedTable(c.is))
		}
	}
}

// clearDropped forgets dropped tables and removes the entries of dropped indexes.
func clearDropped(s *storage.Store, changes []tableChange) error {
	var errs []error
	for _, c := range changes {
		if c.is == nil {
			s.ForgetTable(c.was.ID)
		}
		kept := idsOf(c.is)
		for id := range idsOf(c.was) {
			if kept[id] {
				continue
			}
			if err := s.DropIndex(id); err != nil {
				errs = append(errs, fmt.Errorf("drop index %d: %w", id, err))
			}
		}
	}
	return errors.Join(errs...)
}

// dropOrphans removes what a crash has left: replicas that are not in the map and the entries of indexes that the schema does not know.
func (n *Node) dropOrphans(s *meta.State) error {
	var orphans []topology.PartitionID
	for _, r := range n.host.Replicas() {
		if r.ID() != topology.MetaPartition && s.Map.Partition(r.ID()) == nil {
			orphans = append(orphans, r.ID())
		}
	}
	if len(orphans) > 0 {
		if err := n.host.Drop(orphans...); err != nil {
			return err
		}
	}
	known := indexIDs(s.Schema)
	found, err := n.store.Indexes()
	if err != nil {
		return err
	}
	for _, id := range found {
		if known[id] {
			continue
		}
		if err := n.store.DropIndex(id); err != nil {
			return err
		}
	}
	return nil
}
