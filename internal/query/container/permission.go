// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// ItemKind is the kind of grants that apply to an item. It is the path segment of items.
const ItemKind = "docs"

// grantedScripts maps path segments to kinds of scripts to which a grant can apply.
var grantedScripts = map[string]ScriptKind{"sprocs": StoredProcedure, "triggers": Trigger, "udfs": UserFunction}

// parseGrant parses the body of a permission.
func (f *definer) parseGrant(d *Database, v document.Value) (g dbresource.Grant, err error) {
	mode := v.Get("permissionMode")
	switch strings.ToLower(mode.Str()) {
	case "all":
		g.All = true
	case "read":
	default:
		return g, Errorf(400, 0, "The value of 'permissionMode' must be Read or All, not %v.", mode)
	}
	link := v.Get("resource")
	if link.Kind() != document.String {
		return g, Errorf(400, 0, "The required property 'resource' is missing. Specify a path such as dbs/ID/colls/ID.")
	}
	c, err := f.grantResource(d, link.Str(), &g)
	if err != nil {
		return g, err
	}
	key := v.Get("resourcePartitionKey")
	if !key.IsDefined() || key.Kind() == document.Null {
		return g, nil
	}
	if key.Kind() != document.Array || key.Len() == 0 {
		return g, Errorf(400, 0, "Partition key supplied is not valid. The value of 'resourcePartitionKey' must be an array "+
			"with a value for each path of the partition key or for the first paths, as in [\"a\"], not %v.", key)
	}
	values, err := c.ParseKey(key.Text())
	if err != nil {
		return g, err
	}
	g.Key, g.KeyValues = string(epk.AppendKey(nil, values)), len(values)
	return g, nil
}

// grantResource finds the resource of a permission by its path, which consists of IDs or of resource IDs, and sets it
// in g. It returns the container.
func (f *definer) grantResource(d *Database, link string, g *dbresource.Grant) (*Container, error) {
	parts := strings.SplitN(strings.Trim(link, "/"), "/", 6)
	bad := Errorf(400, 0, "A permission applies to a container, an item, or a script. The resource must be a path such as "+
		"dbs/ID/colls/ID or dbs/ID/colls/ID/docs/ID, not %s.", strconv.Quote(link))
	if len(parts) != 4 && len(parts) != 6 || parts[0] != "dbs" || parts[2] != "colls" {
		return nil, bad
	}
	byRID := false
	if parts[1] != d.ID {
		if byRID = parts[1] == d.RID; !byRID {
			return nil, Errorf(400, 0, "The resource %s does not belong to the database %s of the permission.",
				strconv.Quote(link), strconv.Quote(d.ID))
		}
	}
	now, err := f.Database(d.ID)
	if err != nil {
		return nil, err
	}
	c, err := f.Container(now, parts[3])
	if err != nil && byRID {
		c, err = f.ContainerByRID(parts[3])
	}
	if err != nil {
		return nil, err
	}
	g.Container = c.RID
	if len(parts) == 4 {
		return c, nil
	}
	if g.Kind, g.Target = parts[4], parts[5]; g.Kind == ItemKind {
		g.ByRID = byRID && strings.HasPrefix(string(decodeRID(g.Target)), string(c.rid))
		return c, nil
	}
	kind, ok := grantedScripts[g.Kind]
	if !ok {
		return nil, bad
	}
	s, err := c.Script(kind, g.Target)
	if err != nil {
		return nil, err
	}
	g.Target = s.RID
	return c, nil
}

// checkGrant returns 409 if the user of a permission has another permission on the same resource and partition key.
func checkGrant(s *dbresource.State, fresh *dbresource.Resource) error {
	if fresh.Kind != dbresource.Permission {
		return nil
	}
	for r := range s.All(fresh.Parent) {
		if r.Number != fresh.Number && r.Grant.SameResource(fresh.Grant) {
			return Errorf(409, 0, "The user has the permission %s on the same resource and partition key. Replace that "+
				"permission instead.", strconv.Quote(r.ID))
		}
	}
	return nil
}

// hasContainer reports whether a database has a container with a resource ID in a schema.
func hasContainer(s *schema.Schema, d *Database, rid string) bool {
	ks := s.Keyspaces[d.keyspace.Name]
	for _, t := range ks.Tables {
		if t.Container != nil && encodeRID(ridOfContainer(ks.Database.Number, t.ID)) == rid {
			return true
		}
	}
	return false
}

// Permission returns the permission with a number and a nonce, as in a resource token. revision is the version of the
// metadata in which the permission was written. If this node does not know that version yet, Permission waits for it.
// Permission returns nil if the permission was replaced or deleted.
func (f *definer) Permission(ctx context.Context, number uint32, nonce, revision uint64) *DatabaseResource {
	state, version := f.store.Resources()
	if version < revision && f.Renewed(ctx) {
		state, _ = f.store.Resources()
	}
	r := state.ByNumber(number)
	if r == nil || r.Kind != dbresource.Permission || r.Nonce != nonce {
		return nil
	}
	user := state.ByNumber(r.Owner)
	d := f.databaseByNumber(r.Database)
	if user == nil || d == nil {
		return nil
	}
	return &DatabaseResource{Database: d, User: user, Resource: r}
}

// databaseByNumber returns the database with a number, or nil.
func (r *directory) databaseByNumber(number uint32) *Database {
	for ks := range r.schema().All() {
		if ks.Database != nil && ks.Database.Number == number {
			return r.database(ks)
		}
	}
	return nil
}

// Within reports whether a partition key satisfies the limit of a grant.
func Within(g *dbresource.Grant, key epk.Key) bool {
	if g.KeyValues == 0 {
		return true
	}
	return len(key) >= g.KeyValues && string(epk.AppendKey(nil, key[:g.KeyValues])) == g.Key
}

// Names reports whether a grant applies to the item with a partition key and an ID, or a resource ID if byRID is set.
func (c *Container) Names(g *dbresource.Grant, key epk.Key, id string, byRID bool) bool {
	if g.ByRID == byRID {
		return g.Target == id
	}
	known := id
	if g.ByRID {
		id = g.Target
	} else {
		known = g.Target
	}
	return id == encodeRID(appendItemRID(nil, c.rid, epk.AppendKey(nil, key), known))
}

// Address identifies a container by the number of its database and the ID of its table.
type Address struct{ Database, Table uint32 }

func (a Address) rid() []byte { return ridOfContainer(a.Database, a.Table) }

// Moved returns a permission for another container, to which the contents of the permission's container have been
// restored from a backup. ok is false if the permission does not apply to the container from.
func Moved(p *dbresource.Resource, from, to Address) (moved dbresource.Resource, ok bool) {
	moved = *p
	g := &moved.Grant
	if g.Container != encodeRID(from.rid()) {
		return moved, false
	}
	g.Container = encodeRID(to.rid())
	if b := decodeRID(g.Target); len(b) == itemRID && (g.ByRID || g.Kind != "" && g.Kind != ItemKind) {
		g.Target = encodeRID(append(to.rid(), b[containerRID:]...))
	}
	v := document.View(p.Definition)
	parts := strings.Split(strings.Trim(v.Get("resource").Str(), "/"), "/")
	if len(parts) > 3 && parts[1] == encodeRID(ridOfDatabase(from.Database)) {
		parts[1] = encodeRID(ridOfDatabase(to.Database))
		if parts[3] == p.Grant.Container {
			parts[3] = g.Container
		}
		if len(parts) == 6 && parts[5] == p.Grant.Target {
			parts[5] = g.Target
		}
		moved.Definition = document.With(v, "resource", text(strings.Join(parts, "/")+"/")).Append(nil)
	}
	return moved, true
}
