// SPDX-License-Identifier: Apache-2.0

package container

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
)

// Database is a database in one version of the schema.
type Database struct {
	// ID is the name that the client specified. RID is the resource ID, which is 4 bytes in base64.
	ID, RID string
	// Etag is quoted and changes whenever the database changes. TS is the creation time in seconds since the epoch.
	Etag string
	TS   int64

	keyspace *schema.Keyspace
}

// Container is a container in one version of the schema. Look it up again for each request.
type Container struct {
	Database *Database
	// ID is the name that the client specified. RID is the resource ID, which is 8 bytes in base64. It begins with the
	// 4 bytes of the database.
	ID, RID string
	Etag    string
	TS      int64
	// Definition is the container's definition, including defaults.
	Definition *Definition

	table   *schema.Table
	columns columns
	rid     []byte
	// self is the result of Self, or empty if it has not been computed.
	self string
}

// Self returns the link dbs/<rid>/, which contains the resource ID of the database.
func (d *Database) Self() string { return "dbs/" + d.RID + "/" }

// Self returns the link dbs/<rid>/colls/<rid>/, which contains the resource IDs of the database and the container.
func (c *Container) Self() string {
	if c.self != "" {
		return c.self
	}
	return c.Database.Self() + "colls/" + c.RID + "/"
}

// Keyspace returns the CQL name of the database.
func (d *Database) Keyspace() string { return d.keyspace.Name }

// Table returns the CQL name of the container within its keyspace.
func (c *Container) Table() string { return c.table.Name }

func text(s string) document.Value { return document.StringValue(s) }

// Resource returns the JSON of the database with its system properties.
func (d *Database) Resource() []byte {
	return document.ObjectValue([]document.Member{
		{Name: "id", Value: text(d.ID)}, {Name: "_rid", Value: text(d.RID)}, {Name: "_self", Value: text(d.Self())},
		{Name: "_etag", Value: text(d.Etag)}, {Name: "_colls", Value: text("colls/")},
		{Name: "_users", Value: text("users/")}, {Name: "_ts", Value: document.NumberValue(float64(d.TS))},
	}).Append(nil)
}

// Resource returns the JSON of the container with its system properties.
func (c *Container) Resource() []byte {
	v := document.View(c.Definition.JSON)
	for _, m := range []document.Member{
		{Name: "_rid", Value: text(c.RID)}, {Name: "_ts", Value: document.NumberValue(float64(c.TS))},
		{Name: "_self", Value: text(c.Self())}, {Name: "_etag", Value: text(c.Etag)},
		{Name: "_docs", Value: text("docs/")}, {Name: "_sprocs", Value: text("sprocs/")},
		{Name: "_triggers", Value: text("triggers/")}, {Name: "_udfs", Value: text("udfs/")},
		{Name: "_conflicts", Value: text("conflicts/")},
	} {
		v = document.With(v, m.Name, m.Value)
	}
	return v.Append(nil)
}

// etagOf returns a quoted etag for a number.
func etagOf(n uint64) string { return fmt.Sprintf("\"%08x-%04x\"", n>>16, n&0xffff) }

// database returns the client view of a keyspace.
func database(ks *schema.Keyspace) *Database {
	d := ks.Database
	return &Database{ID: d.ID, RID: encodeRID(ridOfDatabase(d.Number)), Etag: etagOf(uint64(d.Number)), TS: d.At,
		keyspace: ks}
}

// directory finds databases and containers in the current schema.
type directory struct {
	catalog     *catalog.Catalog
	definitions *Definitions
	metadata    Metadata // nil if the schema is always current
	views       atomic.Pointer[clientViews]
	// names caches the results of tableByID: tableName by uint32. nameCount counts its entries.
	names     sync.Map
	nameCount atomic.Int64
}

// clientViews caches the client views of the databases and containers in one schema. The views are created on first
// use.
type clientViews struct {
	of         *schema.Schema
	databases  sync.Map // *Database by *schema.Keyspace
	containers sync.Map // *Container by *schema.Table
}

// currentViews returns the cache of the newest schema.
func (r *directory) currentViews() *clientViews {
	now, is := r.schema(), r.views.Load()
	if is == nil || is.of != now {
		is = &clientViews{of: now}
		r.views.Store(is)
	}
	return is
}

// database returns the client view of a keyspace, from the cache if possible.
func (r *directory) database(ks *schema.Keyspace) *Database {
	s := r.currentViews()
	if d, ok := s.databases.Load(ks); ok {
		return d.(*Database)
	}
	d := database(ks)
	s.databases.Store(ks, d)
	return d
}

// container returns the client view of a table, from the cache if possible.
func (r *directory) container(d *Database, t *schema.Table) *Container {
	s := r.currentViews()
	if c, ok := s.containers.Load(t); ok && c.(*Container).Database.keyspace == d.keyspace {
		return c.(*Container)
	}
	rid := ridOfContainer(d.keyspace.Database.Number, t.ID)
	c := &Container{Database: d, ID: t.Container.ID, RID: encodeRID(rid), Etag: etagOf(t.Revision),
		TS:         t.Container.At,
		Definition: r.definitions.of(t), table: t, columns: columnsOf(t), rid: rid}
	c.self = c.Self()
	s.containers.Store(t, c)
	return c
}

func (r *directory) schema() *schema.Schema { return r.catalog.Snapshot() }

// newestWait limits the wait for the newest schema before the engine reports that a resource does not exist.
const newestWait = time.Second

// Renewed waits until this node knows every database and container whose creation was acknowledged before the call.
// Renewed returns false if the schema cannot have changed or no node answered within a second.
func (r *directory) Renewed(ctx context.Context) bool {
	if r.metadata == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, newestWait)
	defer cancel()
	return r.metadata.AwaitLatest(ctx) == nil
}

func noDatabase(id string) *Error {
	return Errorf(404, 0, "Owner resource does not exist: there is no database %s.", strconv.Quote(id))
}

func noContainer(id string) *Error {
	return Errorf(404, 0, "Resource Not Found: there is no container %s.", strconv.Quote(id))
}

// Databases lists the databases sorted by ID.
func (r *directory) Databases() (out []*Database) {
	for ks := range r.schema().All() {
		if ks.Database != nil {
			out = append(out, r.database(ks))
		}
	}
	slices.SortFunc(out, func(a, b *Database) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Database finds a database by its ID. Database returns 404 if none exists.
func (r *directory) Database(id string) (*Database, error) {
	ks := r.schema().Keyspace(cqlName(id))
	if ks == nil || ks.Database == nil || ks.Database.ID != id {
		return nil, noDatabase(id)
	}
	return r.database(ks), nil
}

// DatabaseByRID finds a database by its resource ID. DatabaseByRID returns 404 if none exists.
func (r *directory) DatabaseByRID(rid string) (*Database, error) {
	for _, d := range r.Databases() {
		if d.RID == rid {
			return d, nil
		}
	}
	return nil, noDatabase(rid)
}

// Containers lists the containers of a database sorted by ID.
func (r *directory) Containers(d *Database) (out []*Container) {
	for _, t := range d.keyspace.Tables {
		if t.Container != nil {
			out = append(out, r.container(d, t))
		}
	}
	slices.SortFunc(out, func(a, b *Container) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Container finds a container by its ID. Container returns 404 if none exists.
func (r *directory) Container(d *Database, id string) (*Container, error) {
	t := d.keyspace.Tables[cqlName(id)]
	if t == nil || t.Container == nil || t.Container.ID != id {
		return nil, noContainer(id)
	}
	return r.container(d, t), nil
}

// ContainerByName finds a container by its CQL names. ContainerByName returns 404 if none exists.
func (r *directory) ContainerByName(keyspace, table string) (*Container, error) {
	ks := r.schema().Keyspace(keyspace)
	if ks == nil || ks.Database == nil || ks.Tables[table] == nil || ks.Tables[table].Container == nil {
		return nil, noContainer(keyspace + "." + table)
	}
	return r.container(r.database(ks), ks.Tables[table]), nil
}

// ContainerByRID finds a container by its resource ID. ContainerByRID returns 404 if none exists.
func (r *directory) ContainerByRID(rid string) (*Container, error) {
	b := decodeRID(rid)
	if len(b) != containerRID {
		return nil, noContainer(rid)
	}
	d, err := r.DatabaseByRID(encodeRID(b[:databaseRID]))
	if err != nil {
		return nil, err
	}
	for _, t := range d.keyspace.Tables {
		if t.Container != nil {
			if c := r.container(d, t); c.RID == rid {
				return c, nil
			}
		}
	}
	return nil, noContainer(rid)
}
