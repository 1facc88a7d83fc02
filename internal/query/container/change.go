// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// The properties of what is made: those of a keyspace have to be given, but mean nothing here, as everything is kept
// in the replica sets of the cluster.
var replication = []schema.Property{{Name: "replication", IsMap: true, Map: []schema.Entry{
	{Key: "class", Value: "SimpleStrategy"}, {Key: "replication_factor", Value: "1"}}}}

func (e *Engine) stamp() schema.Stamp {
	return schema.Stamp{Version: schema.UUID(uuid.New()), At: e.opts.Now().UnixMicro()}
}

// apply makes a change of the schema.
func (e *Engine) apply(ctx context.Context, c schema.Change) error {
	_, _, err := e.opts.Store.Apply(ctx, c, "")
	return err
}

// CreateDatabase makes a database; 409 if it is there. Its throughput, if not zero, is shared by its containers.
func (e *Engine) CreateDatabase(ctx context.Context, id string, t Throughput) (*Database, error) {
	if err := checkName(id); err != nil {
		return nil, err
	}
	properties, err := t.properties()
	if err != nil {
		return nil, err
	}
	name := cqlName(id)
	if ks := e.schema().Keyspace(name); ks != nil {
		return nil, exists("database", id, name, ks.Database != nil && ks.Database.ID == id)
	}
	failure := e.apply(ctx, &schema.CreateKeyspace{Stamp: e.stamp(), Name: name,
		Properties: append(slices.Clip(replication), properties...),
		Database:   &schema.Database{ID: id, At: e.opts.Now().Unix(), Increment: t.Increment}})
	if failure != nil {
		return nil, refused(failure)
	}
	return e.Database(id)
}

// exists is why something cannot be made: it is there, or something else has its name in CQL.
func exists(what, id, name string, same bool) *Error {
	if same {
		return Errorf(409, 0, "Resource with specified id or name already exists: there is a %s %s.", what,
			strconv.Quote(id))
	}
	return Errorf(409, 0, "The %s %s cannot be made: its name in CQL would be %s, and that is taken.", what,
		strconv.Quote(id), strconv.Quote(name))
}

// DeleteDatabase drops a database with all that is in it; ifMatch as for ReplaceContainer.
func (e *Engine) DeleteDatabase(ctx context.Context, d *Database, ifMatch string) error {
	return refusedIf(e.apply(ctx, &schema.DropKeyspace{Stamp: e.stamp(), Name: d.keyspace.Name,
		Check: func(s *schema.Schema) error { _, err := d.in(s, ifMatch); return err }}))
}

// in finds a database in a schema: 404 if it was dropped, also if there is another one of its id, and 412 if its etag
// is not that of ifMatch.
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

// in is as Database.in.
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

// CreateContainer makes a container from the body of a request, a JSON object; 409 if it is there, 400 if the body is
// wrong. The zero Throughput is none of its own.
func (e *Engine) CreateContainer(ctx context.Context, d *Database, body []byte, t Throughput) (*Container, error) {
	def, bad := ParseDefinition(body)
	if bad != nil {
		return nil, bad
	}
	properties, bad := t.properties()
	if bad != nil {
		return nil, bad
	}
	name := cqlName(def.ID)
	if there := d.keyspace.Tables[name]; there != nil {
		return nil, exists("container", def.ID, name, there.Container != nil && there.Container.ID == def.ID)
	}
	err := e.apply(ctx, &schema.CreateContainer{Stamp: e.stamp(), Keyspace: d.keyspace.Name, Name: name,
		ID: schema.UUID(uuid.New()), Properties: properties, Unique: len(def.UniqueKeys),
		Indexed: !def.Index.None && e.opts.Indexes(),
		Container: schema.Container{ID: def.ID, Paths: def.Paths, Scheme: def.Hash, Definition: def.JSON,
			Keep: def.Keep, At: e.opts.Now().Unix(), Increment: t.Increment}})
	if err != nil {
		return nil, refused(err)
	}
	if d, err = e.Database(d.ID); err != nil {
		return nil, err
	}
	return e.Container(d, def.ID)
}

// ReplaceContainer changes what may be changed of a container: its policies and its time to live. ifMatch, if not
// empty, is the etag that it has to have (412).
func (e *Engine) ReplaceContainer(ctx context.Context, c *Container, body []byte, ifMatch string) (*Container, error) {
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
		return nil, Errorf(400, 0, "The id of a container cannot be changed: it is %s, the body has %s.",
			strconv.Quote(c.ID), strconv.Quote(def.ID))
	case !slices.Equal(def.Paths, old.Paths) || def.Hash != old.Hash:
		return nil, Errorf(400, 0, "The partition key of a container cannot be changed.")
	case !same("uniqueKeyPolicy") && len(def.UniqueKeys)+len(old.UniqueKeys) > 0:
		return nil, Errorf(400, 0, "The unique keys of a container cannot be changed.")
	}
	err := e.change(ctx, c, ifMatch, nil, func(t *schema.Container, in *schema.Replacing) error {
		if t.Keep == 0 && def.Keep > 0 {
			t.KeptGeneration = in.Revision
		}
		t.KeptSince = keptSince(t, def.Keep, e.opts.Now().Unix())
		t.Keep = def.Keep
		e.reindex(t, in, def)
		t.SetDefinition(def.JSON, e.opts.Now().Unix())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return e.again(c)
}

// beforeMax bounds the policies that were in force since an index was complete last. When there are more nothing is
// read by it until it is.
const beforeMax = 8

// reindex says what becomes of the index of a container that gets another definition.
func (e *Engine) reindex(t *schema.Container, in *schema.Replacing, def *Definition) {
	const member = "indexingPolicy"
	complete := in.Index == nil || !e.opts.Building(in.Index)
	switch {
	case def.Index.None || !e.opts.Indexes():
		in.Reindex(schema.DropItemIndex)
		t.Before = nil
	case in.Index == nil:
		in.Reindex(schema.BuildIndex)
		t.Before = []json.RawMessage{nothingIndexed}
	case !document.Equal(document.View(def.JSON).Get(member), document.View(t.Definition).Get(member)) ||
		!in.Index.Composites() && len(def.Index.Composites) > 0:
		in.Reindex(schema.BuildIndex)
		if complete {
			t.Before = nil
		}
		if t.Before = append(slices.Clip(t.Before), before(t.Definition, in.Index)); len(t.Before) > beforeMax {
			t.Before = []json.RawMessage{nothingIndexed}
		}
	}
}

// before is the definition by which an index was built.
func before(definition json.RawMessage, ix *schema.Index) json.RawMessage {
	const member = "indexingPolicy"
	if ix.Composites() {
		return definition
	}
	v := document.View(definition)
	return document.With(v, member, document.Without(v.Get(member), "compositeIndexes")).Append(nil)
}

// nothingIndexed is a definition with which nothing is indexed.
var nothingIndexed = json.RawMessage(`{"indexingPolicy":{"indexingMode":"none"}}`)

// table is the newest table of a container, nil if it was dropped or made anew.
func (e *Engine) table(c *Container) *schema.Table {
	t := e.schema().Table(c.table.Keyspace, c.table.Name)
	if t == nil || t.ID != c.table.ID {
		return nil
	}
	return t
}

// again is a container as it is now.
func (e *Engine) again(c *Container) (*Container, error) {
	d, err := e.Database(c.Database.ID)
	if err != nil {
		return nil, err
	}
	now, err := e.Container(d, c.ID)
	if err == nil && now.table.ID != c.table.ID {
		return nil, noContainer(c.ID)
	}
	return now, err
}

// change changes the descriptor or the properties of a container, whose etag is ifMatch if that is not empty.
func (e *Engine) change(ctx context.Context, c *Container, ifMatch string, properties []schema.Property,
	f func(*schema.Container, *schema.Replacing) error) error {
	return refusedIf(e.apply(ctx, &schema.ReplaceContainer{Stamp: e.stamp(), Keyspace: c.table.Keyspace,
		Name: c.table.Name, Properties: properties, Change: f,
		Check: func(s *schema.Schema) error { return c.in(s, ifMatch) }}))
}

// DeleteContainer drops a container with its items; ifMatch as for ReplaceContainer.
func (e *Engine) DeleteContainer(ctx context.Context, c *Container, ifMatch string) error {
	return refusedIf(e.apply(ctx, &schema.DropTable{Stamp: e.stamp(), Keyspace: c.table.Keyspace, Name: c.table.Name,
		Check: func(s *schema.Schema) error { return c.in(s, ifMatch) }}))
}

// matches reports whether an etag fulfils an If-Match header, which may be empty or *.
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
