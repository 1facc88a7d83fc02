// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"

	"github.com/ilion-db/ilion/internal/query/container"
)

// locator finds the databases and containers of paths.
type locator struct {
	engine resources
	ctx    context.Context // context of the server
}

// database returns the database of the path. It returns 404 only after it has waited for the latest schema.
func (l *locator) database(x *exchange) (*container.Database, error) {
	d, err := l.knownDatabase(x)
	if err != nil && container.StatusOf(err) == http.StatusNotFound && l.engine.Renewed(l.ctx) {
		return l.knownDatabase(x)
	}
	return d, err
}

// knownDatabase finds the database of the path by its name. If no database has the name, it finds the database by its
// resource ID.
func (l *locator) knownDatabase(x *exchange) (*container.Database, error) {
	name := x.target.database()
	d, err := l.engine.Database(name)
	if err != nil && isRID(name) && container.StatusOf(err) == http.StatusNotFound {
		if byID, other := l.engine.DatabaseByRID(name); other == nil {
			x.byRID = true
			return byID, nil
		}
	}
	return d, err
}

// parentDatabase returns the database of the path for a request that concerns the database's containers. If the
// database is missing, the error reports a missing owner.
func (l *locator) parentDatabase(x *exchange) (*container.Database, error) {
	d, err := l.database(x)
	return d, missing(err, true)
}

// container returns the container of the path and sets the headers of its database.
func (l *locator) container(x *exchange) (*container.Container, error) { return l.find(x, false) }

// parentContainer returns the container of the path for a request that concerns a resource in the container. It also
// sets the headers of the container's database. If the container is missing, the error reports a missing owner.
func (l *locator) parentContainer(x *exchange) (*container.Container, error) { return l.find(x, true) }

func (l *locator) find(x *exchange, owner bool) (*container.Container, error) {
	d, c, err := l.renewedContainer(x, owner)
	switch rid := x.header.Get(hIntendedRID); {
	case x.granted != nil && (err != nil || !x.allowed(c)):
		return nil, forbidden()
	case err != nil:
		return nil, err
	case owner && rid != "" && rid != c.RID:
		return nil, &failure{status: http.StatusBadRequest, sub: container.SubOtherRID,
			message: "The container was dropped and re-created. Read it again."}
	}
	if !owner {
		x.setOwner(d, nil)
	} else {
		x.setOwner(d, c)
	}
	return c, nil
}

// renewedContainer returns the container of the path and its database. It returns 404 only after it has waited for the
// newest schema.
func (l *locator) renewedContainer(x *exchange, owner bool) (*container.Database, *container.Container, error) {
	d, err := l.parentDatabase(x)
	if err != nil {
		return nil, nil, err
	}
	c, err := l.knownContainer(x, d)
	if err != nil && container.StatusOf(err) == http.StatusNotFound && l.engine.Renewed(l.ctx) {
		if d, err = l.knownDatabase(x); err == nil {
			c, err = l.knownContainer(x, d)
		}
	}
	return d, c, missing(err, owner)
}

// knownContainer finds the container of the path in a database.
func (l *locator) knownContainer(x *exchange, d *container.Database) (*container.Container, error) {
	name := x.target.container()
	c, err := l.engine.Container(d, name)
	if err != nil && x.byRID && container.StatusOf(err) == http.StatusNotFound {
		return l.engine.ContainerByRID(name)
	}
	return c, err
}

// missing marks a 404 error as a missing owner if owner is set.
func missing(err error, owner bool) error {
	if owner && container.StatusOf(err) == http.StatusNotFound {
		return &failure{status: http.StatusNotFound, sub: container.SubOwnerMissing, message: err.Error()}
	}
	return err
}

// on returns a handler that finds the resource of the path and passes it to an operation.
func on[R any](find func(*exchange) (R, error),
	do func(context.Context, *exchange, R) (*answer, error)) handler {
	return func(ctx context.Context, x *exchange) (*answer, error) {
		r, err := find(x)
		if err != nil {
			return nil, err
		}
		return do(ctx, x, r)
	}
}
