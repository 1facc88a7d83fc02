// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/release"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// Publication tells a listener that the schema changed.
type Publication struct {
	Old, New *schema.Schema
	// Events are what Apply returned; empty when the schema was loaded or caught up with.
	Events []schema.Event
}

// Catalog holds the schema that statements are bound to. It is safe for concurrent use.
type Catalog struct {
	snapshot  atomic.Pointer[schema.Schema]
	info      func() NodeInfo
	addSystem func(*schema.Schema) *schema.Schema

	mu        sync.Mutex // serialises Publish; guards listeners
	listeners map[int]func(Publication)
	next      int
}

// New makes a catalog. The system keyspaces are added to initial if they are missing. info says what system.local and
// its like show; it is called once for every query of them and must be cheap, as copying what was put together when it
// last changed.
func New(initial *schema.Schema, info func() NodeInfo) *Catalog {
	return NewForRelease(release.Cassandra40, initial, info)
}

// Of is New with the system keyspaces of a release.
func NewForRelease(r *release.Release, initial *schema.Schema, info func() NodeInfo) *Catalog {
	c := &Catalog{info: info, addSystem: System(r), listeners: map[int]func(Publication){}}
	c.snapshot.Store(c.addSystem(initial))
	return c
}

// Snapshot is the present schema.
func (c *Catalog) Snapshot() *schema.Schema { return c.snapshot.Load() }

// Info is what the node says of itself.
func (c *Catalog) Info() NodeInfo { return c.info() }

// Publish makes s the present schema and tells the listeners, in the order in which they subscribed. A schema that is
// not newer than the present one is ignored.
func (c *Catalog) Publish(s *schema.Schema, events ...schema.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.snapshot.Load()
	if s.Revision <= old.Revision {
		return
	}
	s = c.addSystem(s)
	c.snapshot.Store(s)
	for i := range c.next {
		if listener := c.listeners[i]; listener != nil {
			listener(Publication{Old: old, New: s, Events: events})
		}
	}
}

// Subscribe calls listener for every publication from now on, until cancel. The listener must not call the catalog's
// Publish, Subscribe or cancel.
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

// CheckWritable refuses data modifications of computed tables, and of stored ones that are the cluster's own, with
// Cassandra's errors, and of containers.
func CheckWritable(t *schema.Table) error {
	if schema.IsVirtualSystem(t.Keyspace) {
		return dberr.Invalidf("Modification is not supported by table %s", t)
	}
	if t.Virtual || schema.IsLocalSystem(t.Keyspace) {
		return dberr.Unauthorizedf("%s keyspace is not user-modifiable.", t.Keyspace)
	}
	return t.CheckWritable()
}

// KeysOfCache reports whether a computed table shows the keys of one of Cassandra's caches. There they are deleted to
// have a change of roles or permissions noticed at once, as it always is here: a deletion has nothing to do.
func IsCacheKeysTable(t *schema.Table) bool {
	return schema.IsVirtualSystem(t.Keyspace) && strings.HasSuffix(t.Name, "_cache_keys")
}

// CheckTruncatable refuses TRUNCATE of computed tables, but for the keys of caches.
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
