// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// DatabaseResource is a user, a permission, or a client encryption key in one version of the metadata.
type DatabaseResource struct {
	Database *Database
	// User is the user to which a permission belongs. It is nil for other kinds.
	User *dbresource.Resource
	*dbresource.Resource
}

// resourceBytesMax is the maximum size of the JSON of a database resource. Every node keeps all resources in memory.
const resourceBytesMax = 16 << 10

// resourceMembers are the members of users, permissions, and client encryption keys that the server sets. The server
// ignores the values that a client sends for these members.
var resourceMembers = []string{"_rid", "_ts", "_self", "_etag", "_permissions", "_token"}

// resourceNames maps a kind to its name in errors.
var resourceNames = map[dbresource.Kind]string{dbresource.User: "user", dbresource.Permission: "permission",
	dbresource.EncryptionKey: "client encryption key"}

// Etag returns the quoted etag, which changes whenever the resource changes.
func (r *DatabaseResource) Etag() string { return etagOf(r.Revision) }

// RID returns the resource ID, which begins with the resource ID of the database. It has 8 bytes for a user, 12 bytes
// for a client encryption key, and 16 bytes for a permission. The ID of a permission begins with the ID of its user.
func (r *DatabaseResource) RID() string {
	b := ridOfDatabase(r.Resource.Database)
	switch r.Kind {
	case dbresource.Permission:
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, r.Owner), uint64(r.Number))
	case dbresource.EncryptionKey:
		b = binary.BigEndian.AppendUint64(b, uint64(r.Number))
	default:
		b = binary.BigEndian.AppendUint32(b, r.Number)
	}
	return encodeRID(b)
}

// Self returns the link to the resource by resource IDs.
func (r *DatabaseResource) Self() string {
	switch r.Kind {
	case dbresource.Permission:
		user := DatabaseResource{Database: r.Database, Resource: r.User}
		return user.Self() + "permissions/" + r.RID() + "/"
	case dbresource.EncryptionKey:
		return r.Database.Self() + "clientencryptionkeys/" + r.RID() + "/"
	}
	return r.Database.Self() + "users/" + r.RID() + "/"
}

// JSON returns the JSON of the resource with its system properties. token is the resource token of a permission, or
// empty.
func (r *DatabaseResource) JSON(token string) []byte {
	v := document.View(r.Definition)
	v = document.With(v, "_rid", text(r.RID()))
	v = document.With(v, "_self", text(r.Self()))
	v = document.With(v, "_etag", text(r.Etag()))
	v = document.With(v, "_ts", document.NumberValue(float64(r.At)))
	if r.Kind == dbresource.User {
		v = document.With(v, "_permissions", text("permissions/"))
	}
	if token != "" {
		v = document.With(v, "_token", text(token))
	}
	return v.Append(nil)
}

// parentIn returns the list of the resources of a kind in a database. user is the owner of permissions.
func parentIn(d *Database, kind dbresource.Kind, user *DatabaseResource) dbresource.Parent {
	p := dbresource.Parent{Kind: kind, Database: d.keyspace.Database.Number}
	if user != nil {
		p.Owner = user.Number
	}
	return p
}

// view returns the client view of a resource.
func (d *Database) view(r *dbresource.Resource, user *DatabaseResource) *DatabaseResource {
	v := &DatabaseResource{Database: d, Resource: r}
	if user != nil {
		v.User = user.Resource
	}
	return v
}

// DatabaseResources lists the resources of a kind, sorted by ID. user is the owner of permissions and nil for other
// kinds.
func (f *definer) DatabaseResources(d *Database, kind dbresource.Kind, user *DatabaseResource) []*DatabaseResource {
	state, _ := f.store.Resources()
	list := state.List(parentIn(d, kind, user))
	out := make([]*DatabaseResource, len(list))
	for i, r := range list {
		out[i] = d.view(r, user)
	}
	return out
}

// DatabaseResource finds a resource by its ID, or by its resource ID if byRID is set. DatabaseResource returns 404 if
// none exists.
func (f *definer) DatabaseResource(d *Database, kind dbresource.Kind, user *DatabaseResource, id string,
	byRID bool) (*DatabaseResource, error) {
	state, _ := f.store.Resources()
	parent := parentIn(d, kind, user)
	r := state.Find(parent, id)
	if byRID && r == nil {
		if b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(id, "-", "/")); err == nil && len(b) >= 8 {
			r = state.ByNumber(binary.BigEndian.Uint32(b[len(b)-4:]))
		}
		if r != nil && (r.Parent != parent || d.view(r, user).RID() != id) {
			r = nil
		}
	}
	if r == nil {
		return nil, noResource(kind, id)
	}
	return d.view(r, user), nil
}

func noResource(kind dbresource.Kind, id string) *Error {
	return Errorf(404, 0, "Resource Not Found: there is no %s %s.", resourceNames[kind], strconv.Quote(id))
}

// CreateDatabaseResource creates a resource from the JSON object in a request body. If a resource with its ID exists,
// CreateDatabaseResource replaces it if upsert is set, and returns 409 otherwise. created reports whether the resource
// is new. user is the owner of a permission.
func (f *definer) CreateDatabaseResource(ctx context.Context, d *Database, kind dbresource.Kind,
	user *DatabaseResource, body []byte, upsert bool) (_ *DatabaseResource, created bool, err error) {
	parsed, err := f.parseResource(d, kind, body)
	if err != nil {
		return nil, false, err
	}
	parent := parentIn(d, kind, user)
	err = f.changeResources(ctx, d, user, parsed, func(s *dbresource.State, fresh *dbresource.Resource) (
		*dbresource.State, error) {
		old := s.Find(parent, fresh.ID)
		if created = old == nil; old != nil {
			if !upsert {
				return nil, taken(kind, fresh.ID)
			}
			fresh.Number = old.Number
		}
		fresh.Parent = parent
		return s.With(fresh), checkGrant(s, fresh)
	})
	if err != nil {
		return nil, false, err
	}
	r, err := f.DatabaseResource(d, kind, user, parsed.ID, false)
	return r, created, err
}

func taken(kind dbresource.Kind, id string) *Error {
	return Errorf(409, 0, "Resource with specified id or name already exists: there is a %s %s.", resourceNames[kind],
		strconv.Quote(id))
}

// ReplaceDatabaseResource replaces a resource. It returns 412 if ifMatch is not empty and does not match the etag.
func (f *definer) ReplaceDatabaseResource(ctx context.Context, r *DatabaseResource, body []byte,
	ifMatch string) (*DatabaseResource, error) {
	parsed, err := f.parseResource(r.Database, r.Kind, body)
	if err != nil {
		return nil, err
	}
	if r.Kind == dbresource.EncryptionKey && parsed.ID != r.ID {
		return nil, Errorf(400, 0, "The id of a client encryption key cannot be changed from %s to %s.",
			strconv.Quote(r.ID), strconv.Quote(parsed.ID))
	}
	err = f.changeResources(ctx, r.Database, r.owner(), parsed, func(s *dbresource.State, fresh *dbresource.Resource) (
		*dbresource.State, error) {
		if e := r.in(s, ifMatch); e != nil {
			return nil, e
		}
		fresh.Parent, fresh.Number = r.Parent, r.Number
		if other := s.Find(r.Parent, fresh.ID); other != nil && other.Number != r.Number {
			return nil, taken(r.Kind, fresh.ID)
		}
		return s.With(fresh), checkGrant(s, fresh)
	})
	if err != nil {
		return nil, err
	}
	return f.DatabaseResource(r.Database, r.Kind, r.owner(), parsed.ID, false)
}

// DeleteDatabaseResource deletes a resource, and the permissions of a user. ifMatch works as in
// ReplaceDatabaseResource.
func (f *definer) DeleteDatabaseResource(ctx context.Context, r *DatabaseResource, ifMatch string) error {
	return refusedIf(f.store.ApplyResources(ctx, func(_ *schema.Schema, s *dbresource.State, _ uint64) (
		*dbresource.State, error) {
		if e := r.in(s, ifMatch); e != nil {
			return nil, e
		}
		return s.Without(s.ByNumber(r.Number)), nil
	}))
}

// owner returns the user to which a permission belongs, or nil.
func (r *DatabaseResource) owner() *DatabaseResource {
	if r.User == nil {
		return nil
	}
	return &DatabaseResource{Database: r.Database, Resource: r.User}
}

// in returns 404 if the resource does not exist in a state, and 412 if ifMatch does not match its etag.
func (r *DatabaseResource) in(s *dbresource.State, ifMatch string) error {
	now := s.ByNumber(r.Number)
	switch {
	case now == nil:
		return noResource(r.Kind, r.ID)
	case !matches(ifMatch, etagOf(now.Revision)):
		return preconditionFailed()
	}
	return nil
}

// changeResources changes the resources of a database. change receives a copy of the parsed resource.
func (f *definer) changeResources(ctx context.Context, d *Database, user *DatabaseResource,
	parsed *dbresource.Resource,
	change func(*dbresource.State, *dbresource.Resource) (*dbresource.State, error)) error {
	parsed.At, parsed.Nonce = f.clock.Wall().Unix(), rand.Uint64()
	return refusedIf(f.store.ApplyResources(ctx, func(s *schema.Schema, r *dbresource.State, revision uint64) (
		*dbresource.State, error) {
		if _, err := d.in(s, ""); err != nil {
			return nil, err
		}
		if user != nil && r.ByNumber(user.Number) == nil {
			return nil, noResource(dbresource.User, user.ID)
		}
		if c := parsed.Grant.Container; c != "" && !hasContainer(s, d, c) {
			return nil, noContainer(c)
		}
		fresh := *parsed
		fresh.Revision = revision
		return change(r, &fresh)
	}))
}

// parseResource parses the body of a request that creates or replaces a resource.
func (f *definer) parseResource(d *Database, kind dbresource.Kind, body []byte) (*dbresource.Resource, error) {
	v, err := document.Parse(body, document.Limits{Size: resourceBytesMax})
	if err != nil {
		return nil, bodyError(err)
	}
	if v.Kind() != document.Object {
		return nil, Errorf(400, 0, "The body of the request must be a JSON object.")
	}
	v = document.Without(v, resourceMembers...)
	r := &dbresource.Resource{ID: v.Get("id").Str()}
	if v.Get("id").Kind() != document.String {
		return nil, Errorf(400, 0, `The input content is invalid because the required property "id" is missing.`)
	}
	if e := checkName(r.ID); e != nil {
		return nil, e
	}
	switch kind {
	case dbresource.Permission:
		if r.Grant, err = f.parseGrant(d, v); err != nil {
			return nil, err
		}
	case dbresource.EncryptionKey:
		if e := checkEncryptionKey(v); e != nil {
			return nil, e
		}
	}
	r.Definition = v.Append(nil)
	return r, nil
}
