// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/vector"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// Installer applies changes of the metadata on this node. The caller must set the exported fields before use.
type Installer struct {
	Store interface {
		InstallTable(storage.Table)
		KnowIDs(next uint32)
		ForgetTable(id uint32)
		DropIndex(id uint32) error
		Indexes() ([]uint32, error)
	}
	// Replicas makes the replicas on this node match the topology. *reconcile.LocalReconciler implements it.
	Replicas interface {
		Create(old, next *topology.Snapshot) error
		Remove(old, next *topology.Snapshot) error
	}
	// Catalog holds the schema of this node. It is a *catalog.Catalog.
	Catalog interface {
		// WithSystem adds the system keyspaces to a schema from the metadata.
		WithSystem(s *schema.Schema) *schema.Schema
		// Publish makes this node plan statements with a new schema.
		Publish(s *schema.Schema, events ...schema.Event)
	}
	// Indexes describes indexes. It is a *container.Definitions.
	Indexes interface {
		// IndexValues returns the values under which an index contains a row.
		IndexValues(t *schema.Table, ix *schema.Index, key, clustering []byte, r *row.Row) ([][]byte, error)
		// Index returns the store's description of a container's index.
		Index(t *schema.Table, ix *schema.Index) storage.Index
	}
	// Router routes requests. It is a *coordinator.Coordinator.
	Router interface {
		SetTopology(s *topology.Snapshot)
	}
	// Standalone makes local partitions reject mutations that were planned for an older revision of their table. It is
	// nil in a cluster, because the index builder uses the log of each partition for this purpose.
	Standalone interface {
		Require(id topology.PartitionID, revision uint64)
	}
}

// Begin adds the system tables to the store, because no change creates them.
func (i *Installer) Begin() {
	whole := i.Catalog.WithSystem(schema.New())
	i.installTables(whole, tableChanges(schema.New(), whole))
}

// Install applies the difference between two states on this node in the order that SC1 to SC3 require. It continues
// after errors. The next start repairs the effects of errors.
func (i *Installer) Install(old, next *meta.State) error {
	var tables []tableChange
	if old.Schema != next.Schema {
		tables = tableChanges(i.Catalog.WithSystem(old.Schema), i.Catalog.WithSystem(next.Schema))
	}
	i.installTables(next.Schema, tables)
	i.Store.KnowIDs(next.Schema.NextID)
	created := i.Replicas.Create(old.Topology, next.Topology)
	i.Router.SetTopology(next.Topology)
	if old.Schema != next.Schema {
		i.require(tables, next.Topology)
		i.Catalog.Publish(next.Schema, i.events(old.Schema, next.Schema)...)
	}
	return errors.Join(created, i.Replicas.Remove(old.Topology, next.Topology), i.removeDropped(tables))
}

// events returns the events for clients. It omits the system keyspaces.
func (i *Installer) events(old, next *schema.Schema) []schema.Event {
	return schema.Compare(i.Catalog.WithSystem(old), i.Catalog.WithSystem(next))
}

// require makes the replicas of changed tables reject mutations that were planned for an earlier revision. Sessions
// then plan these mutations again. Otherwise, a write that was planned without a new index could be applied after the
// build of the index, and the index would lack the row.
func (i *Installer) require(tables []tableChange, m *topology.Snapshot) {
	if i.Standalone == nil {
		return
	}
	for _, t := range tables {
		if t.was == nil || t.is == nil || t.was.Revision == t.is.Revision {
			continue
		}
		for _, p := range m.Partitions(t.is.ID) {
			i.Standalone.Require(p.ID, t.is.Revision)
		}
	}
}

// installTables adds new and changed tables to the store.
func (i *Installer) installTables(s *schema.Schema, tables []tableChange) {
	for _, t := range tables {
		if t.is != nil {
			i.Store.InstallTable(i.storedTable(s, t.is))
		}
	}
}

// storedTable returns the store's description of a table.
func (i *Installer) storedTable(s *schema.Schema, t *schema.Table) storage.Table {
	st := storage.Table{ID: t.ID, Clustering: len(t.Clustering), GCGrace: int64(t.Options.GCGrace),
		Dropped: t.Removed(), StampsAbove: max(t.FeedAbove(false), t.FeedAbove(true))}
	if c := t.Container; c != nil {
		st.Lifetimes = c.Lifetimes()
	}
	if t.View != nil {
		st.GCGrace = max(st.GCGrace, viewGrace)
	}
	for _, ix := range t.SortedIndexes() {
		switch ix.Kind {
		case schema.DocumentKind:
			st.Indexes = append(st.Indexes, i.Indexes.Index(t, ix))
			continue
		case schema.ViewKind:
			st.Indexes = append(st.Indexes, storage.Index{ID: ix.ID, Hints: true, Holds: viewRowExists(s, t, ix)})
			continue
		}
		if c := t.ByName[ix.Column]; c != nil && ix.SupportsANN(c) {
			st.Indexes = append(st.Indexes, vectorIndex(ix, c))
			continue
		}
		st.Indexes = append(st.Indexes, storage.Index{ID: ix.ID, Holds: i.holds(t, ix)})
	}
	return st
}

// viewGrace is the minimum time, in seconds, for which deletions in a view are kept. It is necessary because earlier
// updates may arrive later.
const viewGrace = 3600

// holds returns a function that reports whether the row of an index entry has the entry's value.
func (i *Installer) holds(t *schema.Table, ix *schema.Index) func(r *row.Row, value []byte) bool {
	if c := t.Column(ix.Column); c != nil && c.Kind.IsKey() {
		return func(r *row.Row, _ []byte) bool { return r.Exists() } // a key column never changes
	}
	return func(r *row.Row, value []byte) bool {
		values, err := i.Indexes.IndexValues(t, ix, nil, nil, r)
		return err != nil || slices.ContainsFunc(values, func(v []byte) bool { return bytes.Equal(v, value) })
	}
}

// viewRowExists returns a function that reports whether a view may have a row for a hint entry. If the view's key has a
// column that is not in the base table's key, the base row must have the entry's value in this column. Otherwise, the
// base row must exist.
func viewRowExists(s *schema.Schema, base *schema.Table, ix *schema.Index) func(r *row.Row, value []byte) bool {
	ks := s.Keyspaces[base.Keyspace]
	if ks == nil || ks.Tables[ix.View()] == nil {
		return func(*row.Row, []byte) bool { return true }
	}
	column := base.ViewKey(ks.Tables[ix.View()])
	return func(r *row.Row, value []byte) bool {
		if column == nil {
			return true
		}
		cell := r.Cell(column.ID)
		return cell != nil && bytes.Equal(cell.Value, value)
	}
}

// vectorIndex returns the store's description of a vector index. Entries of newer lists are valid, because the node may
// apply entries before it receives the schema with which the entries were written.
func vectorIndex(ix *schema.Index, c *schema.Column) storage.Index {
	lists := ix.ListsOf(c)
	return storage.Index{ID: ix.ID, Lists: lists, Column: c.ID, Holds: func(r *row.Row, value []byte) bool {
		cell := r.Cell(c.ID)
		if cell == nil {
			return false
		}
		if len(lists) > 0 && lists[0].Newer(value) {
			return true
		}
		v, ok := c.Type.Floats(nil, cell.Value)
		return ok && slices.ContainsFunc(lists, func(l *vector.Lists) bool { return !l.None() && l.Holds(value, v) })
	}}
}

// removeDropped removes dropped tables and the entries of dropped indexes.
func (i *Installer) removeDropped(tables []tableChange) error {
	var errs []error
	for _, t := range tables {
		if t.is == nil {
			i.Store.ForgetTable(t.was.ID)
		}
		kept := idsOf(t.is)
		for id := range idsOf(t.was) {
			if kept[id] {
				continue
			}
			if err := i.Store.DropIndex(id); err != nil {
				errs = append(errs, fmt.Errorf("cannot drop index %d: %w", id, err))
			}
		}
	}
	return errors.Join(errs...)
}

// RemoveOrphans removes the entries of indexes that are not in the schema. These entries may remain after a crash.
func (i *Installer) RemoveOrphans(s *schema.Schema) error {
	known := indexIDs(s)
	found, err := i.Store.Indexes()
	if err != nil {
		return err
	}
	for _, id := range found {
		if known[id] {
			continue
		}
		if err := i.Store.DropIndex(id); err != nil {
			return err
		}
	}
	return nil
}
