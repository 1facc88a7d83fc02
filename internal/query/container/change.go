// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// replication holds the required replication options of a keyspace. The options have no effect, because all data is
// stored in the replica sets of the cluster.
var replication = []schema.Property{{Name: "replication", IsMap: true, Map: []schema.Entry{
	{Key: "class", Value: "SimpleStrategy"}, {Key: "replication_factor", Value: "1"}}}}

// definer creates, changes, and deletes databases, containers, their throughput, and their scripts.
type definer struct {
	*directory
	store  Store
	builds IndexBuilds
	levels Levels
	clock  sched.Clock
}

// indexes reports whether all nodes of the cluster support item indexes.
func (f *definer) indexes() bool { return f.levels.Current() >= IndexLevel }

// texts reports whether a container has full-text indexes that all nodes of the cluster support.
func (f *definer) texts(d *Definition) bool {
	return len(d.Index.texts) > 0 && f.levels.Current() >= feature.FullTextIndexes
}

func (f *definer) stamp() schema.Stamp {
	return schema.Stamp{Version: schema.UUID(uuid.New()), At: f.clock.Wall().UnixMicro()}
}

// apply applies a schema change.
func (f *definer) apply(ctx context.Context, c schema.Change) error {
	_, _, err := f.store.Apply(ctx, c, "")
	return err
}

// CreateDatabase creates a database. CreateDatabase returns 409 if the database exists. The containers of the database
// share the throughput t if it is not zero.
func (f *definer) CreateDatabase(ctx context.Context, id string, t Throughput) (*Database, error) {
	if err := checkName(id); err != nil {
		return nil, err
	}
	properties, err := t.properties()
	if err != nil {
		return nil, err
	}
	name := cqlName(id)
	if ks := f.schema().Keyspace(name); ks != nil {
		return nil, exists("database", id, name, ks.Database != nil && ks.Database.ID == id)
	}
	failure := f.apply(ctx, &schema.CreateKeyspace{Stamp: f.stamp(), Name: name,
		Properties: append(slices.Clip(replication), properties...),
		Database:   &schema.Database{ID: id, At: f.clock.Wall().Unix(), Increment: t.Increment}})
	if failure != nil {
		return nil, refused(failure)
	}
	return f.Database(id)
}

// exists returns the error for a resource that cannot be created because its ID or its CQL name is taken.
func exists(what, id, name string, same bool) *Error {
	if same {
		return Errorf(409, 0, "Resource with specified id or name already exists: there is a %s %s.", what,
			strconv.Quote(id))
	}
	return Errorf(409, 0, "Cannot create %s %s: its CQL name %s is taken. Use another id.", what,
		strconv.Quote(id), strconv.Quote(name))
}

// DeleteDatabase drops a database with all of its containers. ifMatch works as in ReplaceContainer.
func (f *definer) DeleteDatabase(ctx context.Context, d *Database, ifMatch string) error {
	return refusedIf(f.apply(ctx, &schema.DropKeyspace{Stamp: f.stamp(), Name: d.keyspace.Name,
		Check: func(s *schema.Schema) error { _, err := d.in(s, ifMatch); return err }}))
}

// in finds the database in the given schema. It returns 404 if the database was dropped, even if it was created again
// with the same ID. It returns 412 if ifMatch does not match the etag.
func (d *Database) in(s *schema.Schema, ifMatch string) (*schema.Keyspace, error) {
	ks := s.Keyspaces[d.keyspace.Name]
	switch {
	case ks == nil || ks.Database == nil || ks.Database.Number != d.keyspace.Database.Number:
		return nil, noDatabase(d.ID)
	case !matches(ifMatch, etagOf(uint64(ks.Database.Number))):
		return nil, preconditionFailed()
	}
	return ks, nil
}

// in works like Database.in, but finds the container.
func (c *Container) in(s *schema.Schema, ifMatch string) error {
	t := s.Table(c.table.Keyspace, c.table.Name)
	switch {
	case t == nil || t.ID != c.table.ID:
		return noContainer(c.ID)
	case !matches(ifMatch, etagOf(t.Revision)):
		return preconditionFailed()
	}
	return nil
}

// CreateContainer creates a container from the JSON object in a request body. CreateContainer returns 409 if the
// container exists and 400 if the body is invalid. A zero Throughput means that the container has no dedicated
// throughput.
func (f *definer) CreateContainer(ctx context.Context, d *Database, body []byte, t Throughput) (*Container, error) {
	def, bad := ParseDefinition(body)
	if bad != nil {
		return nil, bad
	}
	properties, bad := t.properties()
	if bad != nil {
		return nil, bad
	}
	if bad := f.checkEncryptionKeys(d, def); bad != nil && (!f.Renewed(ctx) || f.checkEncryptionKeys(d, def) != nil) {
		return nil, bad
	}
	name := cqlName(def.ID)
	if there := d.keyspace.Tables[name]; there != nil {
		return nil, exists("container", def.ID, name, there.Container != nil && there.Container.ID == def.ID)
	}
	err := f.apply(ctx, &schema.CreateContainer{Stamp: f.stamp(), Keyspace: d.keyspace.Name, Name: name,
		ID: schema.UUID(uuid.New()), Properties: properties, Unique: len(def.UniqueKeys),
		Indexed: !def.Index.None && f.indexes(), Texts: f.texts(def),
		Container: schema.Container{ID: def.ID, Paths: def.Paths, Scheme: def.Hash, Definition: def.JSON,
			Keep: def.Keep, At: f.clock.Wall().Unix(), Increment: t.Increment}})
	if err != nil {
		return nil, refused(err)
	}
	if d, err = f.Database(d.ID); err != nil {
		return nil, err
	}
	return f.Container(d, def.ID)
}

// ReplaceContainer changes the policies and the time to live of a container. ReplaceContainer returns 412 if ifMatch
// is not empty and does not match the etag.
func (f *definer) ReplaceContainer(ctx context.Context, c *Container, body []byte, ifMatch string) (*Container, error) {
	def, bad := ParseDefinition(body)
	if bad != nil {
		return nil, bad
	}
	old := c.Definition
	same := func(member string) bool {
		return document.Equal(document.View(def.JSON).Get(member), document.View(old.JSON).Get(member))
	}
	switch {
	case def.ID != c.ID:
		return nil, Errorf(400, 0, "The id of a container cannot be changed from %s to %s.",
			strconv.Quote(c.ID), strconv.Quote(def.ID))
	case !slices.Equal(def.Paths, old.Paths) || def.Hash != old.Hash:
		return nil, Errorf(400, 0, "The partition key of a container cannot be changed.")
	case !same("uniqueKeyPolicy") && len(def.UniqueKeys)+len(old.UniqueKeys) > 0:
		return nil, Errorf(400, 0, "The unique keys of a container cannot be changed.")
	case !same("vectorEmbeddingPolicy") && isSet(document.View(old.JSON).Get("vectorEmbeddingPolicy")):
		return nil, Errorf(400, 0, "The vector embedding policy of a container cannot be changed.")
	case !same(encryptionPolicy) && isSet(document.View(old.JSON).Get(encryptionPolicy)),
		!same(encryptionPolicy) && isSet(document.View(def.JSON).Get(encryptionPolicy)):
		return nil, Errorf(400, 0, "The client encryption policy of a container cannot be changed.")
	}
	err := f.change(ctx, c, ifMatch, nil, func(t *schema.Container, in *schema.Replacing) error {
		if t.Keep == 0 && def.Keep > 0 {
			t.KeptGeneration = in.Revision
		}
		t.KeptSince = keptSince(t, def.Keep, f.clock.Wall().Unix())
		t.Keep = def.Keep
		f.reindex(t, in, def)
		t.SetDefinition(def.JSON, f.clock.Wall().Unix())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f.again(c)
}

// beforeMax is the maximum number of policies that are recorded while the index is incomplete. Above this limit, the
// index is not used until it is complete.
const beforeMax = 8

// reindex determines how a change of a container's definition affects its index.
func (f *definer) reindex(t *schema.Container, in *schema.Replacing, def *Definition) {
	const member = "indexingPolicy"
	complete := in.Index == nil || !f.builds.Building(in.Index)
	in.Texts = f.texts(def)
	switch {
	case def.Index.None || !f.indexes():
		in.Reindex(schema.DropItemIndex)
		t.Before = nil
	case in.Index == nil:
		in.Reindex(schema.BuildIndex)
		t.Before = []json.RawMessage{nothingIndexed}
	case !document.Equal(document.View(def.JSON).Get(member), document.View(t.Definition).Get(member)) ||
		!in.Index.Composites() && len(def.Index.Composites) > 0 ||
		!in.Index.Texts() && in.Texts ||
		!sameTexts(def.Index.texts, viewDefinition(t.Definition).Index.texts):
		in.Reindex(schema.BuildIndex)
		if complete {
			t.Before = nil
		}
		if t.Before = append(slices.Clip(t.Before), before(t.Definition, in.Index)); len(t.Before) > beforeMax {
			t.Before = []json.RawMessage{nothingIndexed}
		}
	}
}

// before returns the definition from which an index was built.
func before(definition json.RawMessage, ix *schema.Index) json.RawMessage {
	const member = "indexingPolicy"
	v := document.View(definition)
	if !ix.Composites() {
		v = document.With(v, member, document.Without(v.Get(member), "compositeIndexes"))
	}
	if !ix.Texts() {
		v = document.With(v, member, document.Without(v.Get(member), textIndexesMember))
	}
	return v.Append(nil)
}

// nothingIndexed is a definition that disables indexing.
var nothingIndexed = json.RawMessage(`{"indexingPolicy":{"indexingMode":"none"}}`)

// table returns the current table of a container, or nil if the container was dropped or re-created.
func (r *directory) table(c *Container) *schema.Table {
	t := r.schema().Table(c.table.Keyspace, c.table.Name)
	if t == nil || t.ID != c.table.ID {
		return nil
	}
	return t
}

// again returns the current version of a container.
func (r *directory) again(c *Container) (*Container, error) {
	d, err := r.Database(c.Database.ID)
	if err != nil {
		return nil, err
	}
	now, err := r.Container(d, c.ID)
	if err == nil && now.table.ID != c.table.ID {
		return nil, noContainer(c.ID)
	}
	return now, err
}

// change changes the descriptor or the properties of a container. If ifMatch is not empty, it must match the etag of
// the container.
func (f *definer) change(ctx context.Context, c *Container, ifMatch string, properties []schema.Property,
	change func(*schema.Container, *schema.Replacing) error) error {
	return refusedIf(f.apply(ctx, &schema.ReplaceContainer{Stamp: f.stamp(), Keyspace: c.table.Keyspace,
		Name: c.table.Name, Properties: properties, Change: change,
		Check: func(s *schema.Schema) error { return c.in(s, ifMatch) }}))
}

// DeleteContainer drops a container with its items. ifMatch works as in ReplaceContainer.
func (f *definer) DeleteContainer(ctx context.Context, c *Container, ifMatch string) error {
	return refusedIf(f.apply(ctx, &schema.DropTable{Stamp: f.stamp(), Keyspace: c.table.Keyspace, Name: c.table.Name,
		Check: func(s *schema.Schema) error { return c.in(s, ifMatch) }}))
}

// matches reports whether an etag satisfies an If-Match header, which may be empty or *.
func matches(header, etag string) bool { return header == "" || header == "*" || header == etag }

func preconditionFailed() *Error {
	return Errorf(412, 0, "One of the specified pre-condition is not met.")
}

func refusedIf(err error) error {
	if err == nil {
		return nil
	}
	return refused(err)
}
