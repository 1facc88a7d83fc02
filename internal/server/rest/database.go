// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"

	"github.com/ilion-db/ilion/internal/query/container"
)

// databaseHandler serves databases.
type databaseHandler struct {
	engine resources
	lists  lists
}

func (h *databaseHandler) all() (out []listed) {
	for _, d := range h.engine.Databases() {
		out = append(out, listed{key: d.ID, body: d.Resource()})
	}
	return out
}

func (h *databaseHandler) list(ctx context.Context, x *exchange) (*answer, error) {
	return h.lists.serve(ctx, x, "", "Databases", h.all())
}

func (h *databaseHandler) create(ctx context.Context, x *exchange) (*answer, error) {
	id, err := idOf(x.body)
	if err != nil {
		return nil, err
	}
	t, err := throughput(x.header)
	if err != nil {
		return nil, err
	}
	d, err := h.engine.CreateDatabase(ctx, id, t)
	if err != nil {
		return nil, err
	}
	return x.found(http.StatusCreated, d.Etag, d.Resource()), nil
}

func (h *databaseHandler) read(_ context.Context, x *exchange, d *container.Database) (*answer, error) {
	return x.found(http.StatusOK, d.Etag, d.Resource()), nil
}

func (h *databaseHandler) remove(ctx context.Context, x *exchange, d *container.Database) (*answer, error) {
	return &answer{status: http.StatusNoContent}, h.engine.DeleteDatabase(ctx, d, x.header.Get(hIfMatch))
}
