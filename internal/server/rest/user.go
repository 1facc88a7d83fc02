// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/query/container"
)

// resourceKinds maps path segments to kinds of database resources and the names of their lists.
var resourceKinds = map[kind]struct {
	kind dbresource.Kind
	list string
}{
	users:      {dbresource.User, "Users"},
	permits:    {dbresource.Permission, "Permissions"},
	clientKeys: {dbresource.EncryptionKey, "ClientEncryptionKeys"},
}

// userHandler serves users, permissions, and client encryption keys.
type userHandler struct {
	engine  resources
	account Account
	opts    *Options
	lists   lists
}

// routes returns the operations on users, permissions, and client encryption keys.
func (h *userHandler) routes(at *locator) routes {
	return routes{
		{"query users", post, users, true, isQuery, true, on(at.parentDatabase, h.list)},
		{"upsert user", post, users, true, isUpsert, false, on(at.parentDatabase, h.create)},
		{"create user", post, users, true, nil, false, on(at.parentDatabase, h.create)},
		{"list users", get, users, true, nil, true, on(at.parentDatabase, h.list)},
		{"read user", get, users, false, nil, true, on(at.parentDatabase, h.read)},
		{"replace user", put, users, false, nil, false, on(at.parentDatabase, h.replace)},
		{"delete user", del, users, false, nil, false, on(at.parentDatabase, h.remove)},

		{"query permissions", post, permits, true, isQuery, true, on(at.parentDatabase, h.list)},
		{"upsert permission", post, permits, true, isUpsert, false, on(at.parentDatabase, h.create)},
		{"create permission", post, permits, true, nil, false, on(at.parentDatabase, h.create)},
		{"list permissions", get, permits, true, nil, true, on(at.parentDatabase, h.list)},
		{"read permission", get, permits, false, nil, true, on(at.parentDatabase, h.read)},
		{"replace permission", put, permits, false, nil, false, on(at.parentDatabase, h.replace)},
		{"delete permission", del, permits, false, nil, false, on(at.parentDatabase, h.remove)},

		{"query client encryption keys", post, clientKeys, true, isQuery, true, on(at.parentDatabase, h.list)},
		{"create client encryption key", post, clientKeys, true, nil, false, on(at.parentDatabase, h.create)},
		{"list client encryption keys", get, clientKeys, true, nil, true, on(at.parentDatabase, h.list)},
		{"read client encryption key", get, clientKeys, false, nil, true, on(at.parentDatabase, h.read)},
		{"replace client encryption key", put, clientKeys, false, nil, false, on(at.parentDatabase, h.replace)},
	}
}

// owner returns the user in the path of permissions, or nil for other kinds of resources.
func (h *userHandler) owner(x *exchange, d *container.Database) (*container.DatabaseResource, error) {
	if x.target.kind != permits {
		return nil, nil //nolint:nilnil // other resources have no owner
	}
	u, err := h.find(x, d, dbresource.User, nil, x.target.of(users))
	return u, missing(err, true)
}

// find finds a resource. It returns 404 only after it has waited for the newest metadata.
func (h *userHandler) find(x *exchange, d *container.Database, k dbresource.Kind, owner *container.DatabaseResource,
	id string) (*container.DatabaseResource, error) {
	r, err := h.engine.DatabaseResource(d, k, owner, id, x.byRID)
	if err != nil && h.engine.Renewed(x.server.ctx) {
		return h.engine.DatabaseResource(d, k, owner, id, x.byRID)
	}
	return r, err
}

// target finds the resource of the path.
func (h *userHandler) target(x *exchange, d *container.Database) (*container.DatabaseResource, error) {
	owner, err := h.owner(x, d)
	if err != nil {
		return nil, err
	}
	return h.find(x, d, resourceKinds[x.target.kind].kind, owner, x.target.id())
}

// body returns the JSON of a resource. A permission contains a new resource token with the given validity.
func (h *userHandler) body(x *exchange, r *container.DatabaseResource, validity time.Duration) []byte {
	token := ""
	if r.Kind == dbresource.Permission {
		token = h.account.Keys().issue(r, x.signer, h.opts.Clock.Wall(), validity)
	}
	return r.JSON(token)
}

func (h *userHandler) list(ctx context.Context, x *exchange, d *container.Database) (*answer, error) {
	owner, err := h.owner(x, d)
	if err != nil {
		return nil, err
	}
	validity, refusal := x.validity()
	if refusal != nil {
		return nil, refusal
	}
	named := resourceKinds[x.target.kind]
	list := h.engine.DatabaseResources(d, named.kind, owner)
	all := make([]listed, len(list))
	for i, r := range list {
		all[i] = listed{key: r.ID, later: func() []byte { return h.body(x, r, validity) }}
	}
	rid := d.RID
	if owner != nil {
		rid = owner.RID()
	}
	x.setOwner(d, nil)
	return h.lists.serve(ctx, x, rid, named.list, all)
}

// create creates a resource, or replaces it if the request is an upsert.
func (h *userHandler) create(ctx context.Context, x *exchange, d *container.Database) (*answer, error) {
	owner, err := h.owner(x, d)
	if err != nil {
		return nil, err
	}
	validity, refusal := x.validity()
	if refusal != nil {
		return nil, refusal
	}
	r, created, err := h.engine.CreateDatabaseResource(ctx, d, resourceKinds[x.target.kind].kind, owner, x.body,
		isUpsert(x.header))
	if err != nil {
		return nil, err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	x.set(aETag, r.Etag())
	return &answer{status, h.body(x, r, validity)}, nil
}

func (h *userHandler) read(_ context.Context, x *exchange, d *container.Database) (*answer, error) {
	validity, refusal := x.validity()
	if refusal != nil {
		return nil, refusal
	}
	r, err := h.target(x, d)
	if err != nil {
		return nil, err
	}
	return x.found(http.StatusOK, r.Etag(), h.body(x, r, validity)), nil
}

func (h *userHandler) replace(ctx context.Context, x *exchange, d *container.Database) (*answer, error) {
	validity, refusal := x.validity()
	if refusal != nil {
		return nil, refusal
	}
	r, err := h.target(x, d)
	if err != nil {
		return nil, err
	}
	if r, err = h.engine.ReplaceDatabaseResource(ctx, r, x.body, x.header.Get(hIfMatch)); err != nil {
		return nil, err
	}
	x.set(aETag, r.Etag())
	return &answer{http.StatusOK, h.body(x, r, validity)}, nil
}

func (h *userHandler) remove(ctx context.Context, x *exchange, d *container.Database) (*answer, error) {
	r, err := h.target(x, d)
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusNoContent}, h.engine.DeleteDatabaseResource(ctx, r, x.header.Get(hIfMatch))
}
