// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Keys of the meta partition's own key space (keys.MetaID).
const (
	schemaPrefix = "schema/"
	topologyKey  = "topology"
)

// schemaKeeper carries schema changes out, one after the other.
//
// Order within a change: (K1) physical partitions of new tables are durable before the schema that names them; (K2) the new schema and
// the new map are durable, in one batch, before anybody sees them; (K3) a dropped table is gone from schema and map before its rows
// are. So after a crash at any point a partition whose table is not in the map is an orphan, as are the entries of an index that is not
// in the schema; they are removed at the next start.
type schemaKeeper struct {
	store       *storage.Store
	host        *partition.Host
	coordinator *coordinator.Coordinator
	catalog     *catalog.Catalog
	builder     *indexBuilder
	place       []topology.Place
	partitions  int // of a new table
	log         *slog.Logger

	mu sync.Mutex // one change at a time
}

// loadSchema reads the schema and the map that the last change left; both are empty in a new store.
func loadSchema(s *storage.Store) (*schema.Schema, *topology.Snapshot, error) {
	var scanErr error
	sch, err := schema.FromObjects(schemaObjects(s, &scanErr))
	if scanErr != nil {
		err = scanErr
	}
	if err != nil {
		return nil, nil, fmt.Errorf("load the schema: %w", err)
	}
	b, err := s.Get(keys.MetaID, []byte(topologyKey))
	if err != nil {
		return nil, nil, fmt.Errorf("load the topology: %w", err)
	}
	if b == nil {
		return sch, topology.New(), nil
	}
	topo, err := topology.Decode(b)
	if err == nil {
		err = topo.Validate()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("load the topology: %w", err)
	}
	return sch, topo, nil
}

// schemaObjects yields the stored schema objects by their keys; what goes wrong is left in *failed.
func schemaObjects(s *storage.Store, failed *error) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		more := true
		*failed = s.Scan(keys.MetaID, []byte(schemaPrefix), func(sub, value []byte) error {
			if more {
				more = yield(string(sub[len(schemaPrefix):]), value)
			}
			return nil
		})
	}
}

// Apply makes a schema change. When it returns, the change is durable and every later statement sees it.
func (k *schemaKeeper) Apply(_ context.Context, c schema.Change) (*schema.Schema, []schema.Event, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.catalog.Snapshot()
	next, events, err := schema.Apply(old, c)
	if err != nil || next == old {
		return old, nil, err
	}
	created, dropped := tableChanges(old, next)
	topo, err := k.reshape(created, dropped)
	if err != nil {
		return nil, nil, err
	}
	k.install(old, next)
	if err := k.persist(old, next, topo); err != nil {
		return nil, nil, err
	}
	was := k.coordinator.Topology()
	k.coordinator.SetTopology(topo)
	k.requireSchema(next, topo)
	builds := k.builder.begin(old, next)
	k.catalog.Publish(next, events...)
	if err := k.clear(old, next, was, dropped); err != nil {
		// The change is made; what could not be removed is removed at the next start.
		k.log.LogAttrs(context.Background(), slog.LevelError, "remove dropped data", slog.String("error", err.Error()))
	}
	k.builder.run(builds)
	return next, events, nil
}

// tableChanges lists the stored tables that a change added and removed.
func tableChanges(old, next *schema.Schema) (created, dropped []*schema.Table) {
	before, after := storedTables(old), storedTables(next)
	for id, t := range after {
		if before[id] == nil {
			created = append(created, t)
		}
	}
	for id, t := range before {
		if after[id] == nil {
			dropped = append(dropped, t)
		}
	}
	return created, dropped
}

// storedTables lists the tables that have rows in the store, by id.
func storedTables(s *schema.Schema) map[uint32]*schema.Table {
	out := map[uint32]*schema.Table{}
	for ks := range s.All() {
		for _, t := range ks.Tables {
			if !t.Virtual {
				out[t.ID] = t
			}
		}
	}
	return out
}

// reshape makes the next map, and the physical partitions of new tables (K1).
func (k *schemaKeeper) reshape(created, dropped []*schema.Table) (*topology.Snapshot, error) {
	topo := k.coordinator.Topology()
	var err error
	for _, t := range created {
		n := k.partitions
		if schema.IsSystem(t.Keyspace) {
			n = 1
		}
		if topo, err = topo.AddTable(t.ID, n, k.place); err != nil {
			return nil, fmt.Errorf("create table %s: %w", t, err)
		}
		if err := k.host.Create(topo.Partitions(t.ID)...); err != nil {
			return nil, fmt.Errorf("create table %s: %w", t, err)
		}
	}
	for _, t := range dropped {
		topo = topo.DropTable(t.ID)
	}
	return topo, nil
}

// persist writes schema and map in one batch, durably (K2).
func (k *schemaKeeper) persist(old, next *schema.Schema, topo *topology.Snapshot) error {
	put, gone, err := schema.Objects(old, next)
	if err != nil {
		return fmt.Errorf("encode the schema: %w", err)
	}
	b := k.store.NewBatch()
	defer b.Close()
	for key, value := range put {
		b.Set(keys.MetaID, []byte(schemaPrefix+key), value)
	}
	for _, key := range gone {
		b.Delete(keys.MetaID, []byte(schemaPrefix+key))
	}
	for _, ix := range newIndexes(old, next) {
		b.Set(keys.MetaID, ix.key(), []byte{})
	}
	b.Set(keys.MetaID, []byte(topologyKey), topo.Append(nil))
	if err := b.Commit(); err != nil {
		return fmt.Errorf("store the schema: %w", err)
	}
	if err := k.store.Sync(); err != nil {
		return fmt.Errorf("store the schema: %w", err)
	}
	return nil
}

// install tells the store about the tables that are new or changed.
func (k *schemaKeeper) install(old, next *schema.Schema) {
	before := storedTables(old)
	for id, t := range storedTables(next) {
		if before[id] != t {
			k.store.InstallTable(storedTable(t))
		}
	}
}

// requireSchema makes the replicas of changed tables refuse mutations that were planned for an earlier revision. Their sessions plan again.
// Without it a write planned before a new index could be applied after the index was built, and be missing in it.
func (k *schemaKeeper) requireSchema(next *schema.Schema, topo *topology.Snapshot) {
	for id, t := range storedTables(next) {
		if t.Revision != next.Revision {
			continue
		}
		for _, p := range topo.Partitions(id) {
			if r := k.host.Replica(p.ID); r != nil {
				r.RequireSchema(t.Revision)
			}
		}
	}
}

func storedTable(t *schema.Table) storage.Table {
	st := storage.Table{ID: t.ID, Clustering: len(t.Clustering), GCGrace: int64(t.Options.GCGrace), Dropped: t.DroppedIDs()}
	for _, ix := range t.SortedIndexes() {
		st.Indexes = append(st.Indexes, storage.Index{ID: ix.ID, Holds: indexHolds(t, ix)})
	}
	return st
}

// clear removes the rows of dropped tables and the entries of dropped indexes (K3).
func (k *schemaKeeper) clear(old, next *schema.Schema, was *topology.Snapshot, dropped []*schema.Table) error {
	var ids []topology.PartitionID
	for _, t := range dropped {
		for _, p := range was.Partitions(t.ID) {
			ids = append(ids, p.ID)
		}
	}
	if err := k.host.Drop(ids...); err != nil {
		return fmt.Errorf("drop the partitions of %d tables: %w", len(dropped), err)
	}
	for _, t := range dropped {
		k.store.ForgetTable(t.ID)
	}
	after := indexIDs(next)
	for id := range indexIDs(old) {
		if !after[id] {
			if err := k.store.DropIndex(id); err != nil {
				return fmt.Errorf("drop index %d: %w", id, err)
			}
		}
	}
	return nil
}

func indexIDs(s *schema.Schema) map[uint32]bool {
	out := map[uint32]bool{}
	for _, t := range storedTables(s) {
		for _, ix := range t.Indexes {
			out[ix.ID] = true
		}
	}
	return out
}

// adopt brings a store that was just opened in line with its schema: it removes orphans (K3), and makes the stored tables that
// are part of every schema.
func (k *schemaKeeper) adopt(s *schema.Schema) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	topo := k.coordinator.Topology()
	var orphans []topology.PartitionID
	for _, r := range k.host.Replicas() {
		if topo.Partition(r.ID()) == nil {
			orphans = append(orphans, r.ID())
		}
	}
	if len(orphans) > 0 {
		if err := k.host.Drop(orphans...); err != nil {
			return err
		}
	}
	if err := k.dropOrphans(s); err != nil {
		return err
	}
	var missing []*schema.Table
	for id, t := range storedTables(s) {
		k.store.InstallTable(storedTable(t))
		if topo.Partitions(id) == nil {
			missing = append(missing, t)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	topo, err := k.reshape(missing, nil)
	if err != nil {
		return err
	}
	if err := k.persist(s, s, topo); err != nil {
		return err
	}
	k.coordinator.SetTopology(topo)
	return nil
}

// dropOrphans removes the entries of indexes that the schema does not know.
func (k *schemaKeeper) dropOrphans(s *schema.Schema) error {
	known := indexIDs(s)
	found, err := k.store.Indexes()
	if err != nil {
		return err
	}
	for _, id := range found {
		if known[id] {
			continue
		}
		if err := k.store.DropIndex(id); err != nil {
			return err
		}
	}
	return nil
}
