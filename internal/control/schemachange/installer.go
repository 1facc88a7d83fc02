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

// Installer makes this node follow the records of the cluster, whoever changed them. Its fields are set before it is
// used.
type Installer struct {
	Store interface {
		InstallTable(storage.Table)
		KnowIDs(next uint32)
		ForgetTable(id uint32)
		DropIndex(id uint32) error
		Indexes() ([]uint32, error)
	}
	// Replicas are those of this node; reconcile.Local has them follow the map.
	Replicas interface {
		Make(old, next *topology.Snapshot) error
		Remove(old, next *topology.Snapshot) error
	}
	// Whole adds the system keyspaces, which are part of every schema, to that of the records.
	Whole func(*schema.Schema) *schema.Schema
	// Values are those by which a row is found in an index.
	Values func(t *schema.Table, ix *schema.Index, key, clustering []byte, r *row.Row) ([][]byte, error)
	// Items is what the store has to know of the index of a container's items.
	Items func(t *schema.Table, ix *schema.Index) storage.Index
	// Route has requests go by a new map.
	Route func(*topology.Snapshot)
	// Require makes a partition on this node refuse mutations that were planned for an older revision of its table. It
	// is nil in a cluster, where the builder of an index sees to that in the log of each partition.
	Require func(id topology.PartitionID, revision uint64)
	// Publish has statements planned by a new schema and tells clients what happened to it.
	Publish func(*schema.Schema, []schema.Event)
	// Failed is told what could not be done here. What the disk refused ends the node by itself; the rest is made good
	// at the next start.
	Failed func(what string, err error)
}

// Begin tells the store of the tables that are part of every schema: no change brings them.
func (i *Installer) Begin() {
	whole := i.Whole(schema.New())
	i.installTables(whole, tableChanges(schema.New(), whole))
}

// Install carries out what follows on this node from one state to the next, in the order that SC1 to SC3 ask for.
func (i *Installer) Install(old, next *meta.State) {
	var tables []tableChange
	if old.Schema != next.Schema {
		tables = tableChanges(i.Whole(old.Schema), i.Whole(next.Schema))
	}
	i.installTables(next.Schema, tables)
	i.Store.KnowIDs(next.Schema.NextID)
	i.check("make new replicas", i.Replicas.Make(old.Map, next.Map))
	i.Route(next.Map)
	if old.Schema != next.Schema {
		i.require(tables, next.Map)
		i.Publish(next.Schema, i.happened(old.Schema, next.Schema))
	}
	i.check("remove replicas", i.Replicas.Remove(old.Map, next.Map))
	i.check("remove dropped tables", i.clear(tables))
}

// happened is what clients are told of. The system keyspaces, which are in the records from the first change on, have
// always been there.
func (i *Installer) happened(old, next *schema.Schema) []schema.Event {
	return schema.Compare(i.Whole(old), i.Whole(next))
}

func (i *Installer) check(what string, err error) {
	if err != nil {
		i.Failed(what, err)
	}
}

// require makes the replicas of changed tables refuse mutations that were planned for an earlier revision. Their
// sessions plan again. Without it a write planned before a new index could be applied after the index was built, and be
// missing in it.
func (i *Installer) require(tables []tableChange, m *topology.Snapshot) {
	if i.Require == nil {
		return
	}
	for _, t := range tables {
		if t.was == nil || t.is == nil || t.was.Revision == t.is.Revision {
			continue
		}
		for _, p := range m.Partitions(t.is.ID) {
			i.Require(p.ID, t.is.Revision)
		}
	}
}

// installTables tells the store about the tables that are new or changed.
func (i *Installer) installTables(s *schema.Schema, tables []tableChange) {
	for _, t := range tables {
		if t.is != nil {
			i.Store.InstallTable(i.storedTable(s, t.is))
		}
	}
}

// storedTable is what the store has to know of a table.
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
			st.Indexes = append(st.Indexes, i.Items(t, ix))
			continue
		case schema.ViewKind:
			st.Indexes = append(st.Indexes, storage.Index{ID: ix.ID, Hints: true, Holds: hasPlace(s, t, ix)})
			continue
		}
		if c := t.ByName[ix.Column]; c != nil && ix.Near(c) {
			st.Indexes = append(st.Indexes, ofVectors(ix, c))
			continue
		}
		st.Indexes = append(st.Indexes, storage.Index{ID: ix.ID, Holds: i.holds(t, ix)})
	}
	return st
}

// viewGrace is how long deletions of a view are kept at least, in seconds: none of what was on its way to the view when
// they were made may come later.
const viewGrace = 3600

// holds returns what tells a sweep whether an entry is still true: that the row has the value.
func (i *Installer) holds(t *schema.Table, ix *schema.Index) func(r *row.Row, value []byte) bool {
	if c := t.Column(ix.Column); c != nil && c.Kind.IsKey() {
		return func(r *row.Row, _ []byte) bool { return r.Exists() } // a key column never changes
	}
	return func(r *row.Row, value []byte) bool {
		values, err := i.Values(t, ix, nil, nil, r)
		return err != nil || slices.ContainsFunc(values, func(v []byte) bool { return bytes.Equal(v, value) })
	}
}

// hasPlace returns what tells a sweep whether a view may have a row where an entry of its hints says: whether the row
// has the value in the column of the view's key that is no key column of the base table, or is there at all.
func hasPlace(s *schema.Schema, base *schema.Table, ix *schema.Index) func(r *row.Row, value []byte) bool {
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

// ofVectors returns what the store has to know about a vector index. An entry of newer lists than this schema has
// holds: the node may apply entries before it learns of the schema by which they were written.
func ofVectors(ix *schema.Index, c *schema.Column) storage.Index {
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

// clear forgets dropped tables and removes the entries of dropped indexes.
func (i *Installer) clear(tables []tableChange) error {
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
				errs = append(errs, fmt.Errorf("drop index %d: %w", id, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Orphans removes from the store the entries of indexes that a schema does not know: a crash has left them.
func (i *Installer) Orphans(s *schema.Schema) error {
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
