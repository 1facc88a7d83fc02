// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// Publication notifies a listener of a schema change.
type Publication struct {
	Old, New *schema.Schema
	// Events holds the results of Apply. If the schema was loaded or synchronized, Events is empty.
	Events []schema.Event
}

// Catalog holds the schema to which statements are bound. It is safe for concurrent use.
type Catalog struct {
	snapshot atomic.Pointer[schema.Schema]
	info     func() NodeInfo
	release  *compat.Release

	mu        sync.Mutex // serializes Publish and guards listeners
	listeners map[int]func(Publication)
	next      int
}

// New returns a catalog with the schema initial. It adds missing system keyspaces to the schema. info returns the
// content of system.local and similar tables. info is called once for every query of these tables, so it must be fast.
func New(initial *schema.Schema, info func() NodeInfo) *Catalog {
	return NewForRelease(compat.Cassandra40, initial, info)
}

// NewForRelease works like New but uses the system keyspaces of the given Cassandra release.
func NewForRelease(r *compat.Release, initial *schema.Schema, info func() NodeInfo) *Catalog {
	c := &Catalog{info: info, release: r, listeners: map[int]func(Publication){}}
	c.snapshot.Store(c.WithSystem(initial))
	return c
}

// Snapshot returns the current schema.
func (c *Catalog) Snapshot() *schema.Schema { return c.snapshot.Load() }

// WithSystem adds the missing system keyspaces of the catalog's release to a schema.
func (c *Catalog) WithSystem(s *schema.Schema) *schema.Schema { return WithSystemOf(c.release, s) }

// Datacenters returns the data centers of the cluster.
func (c *Catalog) Datacenters() []string {
	info := c.info()
	return info.Datacenters()
}

// TableName returns the name of a table including its keyspace. If the table does not exist, TableName returns the
// table's ID.
func (c *Catalog) TableName(id uint32) string {
	if t := c.Snapshot().TableByID(id); t != nil {
		return t.String()
	}
	return fmt.Sprint(id)
}

// UserTable returns the user table with the given ID, or nil if the table does not exist.
func (c *Catalog) UserTable(id uint32) *schema.Table {
	if t := c.Snapshot().TableByID(id); t != nil && id >= keys.FirstTable && !schema.IsSystem(t.Keyspace) {
		return t
	}
	return nil
}

// UserTableNamed returns the user table with the given qualified name, such as ks.t.
func (c *Catalog) UserTableNamed(name string) (*schema.Table, error) {
	ks, table, ok := strings.Cut(name, ".")
	if !ok {
		return nil, fmt.Errorf("invalid table name %q: the keyspace is missing. Use KEYSPACE.TABLE", name)
	}
	if schema.IsSystem(ks) {
		return nil, fmt.Errorf("%s is a system table. Specify a user table", name)
	}
	if k := c.Snapshot().Keyspaces[ks]; k != nil && k.Tables[table] != nil {
		return k.Tables[table], nil
	}
	return nil, fmt.Errorf("table %s does not exist", name)
}

// Info returns the information that the node provides about itself.
func (c *Catalog) Info() NodeInfo { return c.info() }

// Publish makes s the current schema and notifies the listeners in the order of their subscription. If s is not newer
// than the current schema, Publish has no effect.
func (c *Catalog) Publish(s *schema.Schema, events ...schema.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.snapshot.Load()
	if s.Revision <= old.Revision {
		return
	}
	s = c.WithSystem(s)
	c.snapshot.Store(s)
	for i := range c.next {
		if listener := c.listeners[i]; listener != nil {
			listener(Publication{Old: old, New: s, Events: events})
		}
	}
}

// Subscribe calls listener for every future publication until cancel is called. The listener must not call Publish,
// Subscribe, or cancel.
func (c *Catalog) Subscribe(listener func(Publication)) (cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.next
	c.next++
	c.listeners[id] = listener
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.listeners, id)
	}
}

// CheckWritable rejects modifications of virtual tables, of system tables, and of containers. The errors have
// Cassandra's error texts.
func CheckWritable(t *schema.Table) error {
	if schema.IsVirtualSystem(t.Keyspace) {
		return dberr.Invalidf("Modification is not supported by table %s", t)
	}
	if t.Virtual || schema.IsLocalSystem(t.Keyspace) {
		return dberr.Unauthorizedf("%s keyspace is not user-modifiable.", t.Keyspace)
	}
	return t.CheckWritable()
}

// IsCacheKeysTable reports whether a virtual table lists the keys of a Cassandra cache. In Cassandra, a role change
// takes effect immediately if the client deletes the cache key. In Ilion, role changes always take effect immediately,
// so the deletion has no effect.
func IsCacheKeysTable(t *schema.Table) bool {
	return schema.IsVirtualSystem(t.Keyspace) && strings.HasSuffix(t.Name, "_cache_keys")
}

// CheckTruncatable rejects TRUNCATE of virtual tables, except tables of cache keys.
func CheckTruncatable(t *schema.Table) error {
	if IsCacheKeysTable(t) {
		return nil
	}
	if schema.IsVirtualSystem(t.Keyspace) {
		return dberr.Invalidf("Truncation is not supported by table %s", t)
	}
	if t.View != nil {
		return dberr.Invalidf("Cannot TRUNCATE materialized view directly; must truncate base table instead")
	}
	return CheckWritable(t)
}
