// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"
	"strings"

	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/server/httpwire"
)

// operation is an operation of the API.
type operation struct {
	// name is the name of the operation in docs/compatibility-cosmos.md.
	name   string
	method string
	kind   kind
	feed   bool
	// when distinguishes operations with the same method and path by their headers. It is nil for the last of these
	// operations.
	when func(httpwire.Fields) bool
	// reads means that the read-only key allows the operation.
	reads bool
	do    handler
}

// handler executes an operation.
type handler func(ctx context.Context, x *exchange) (*answer, error)

// routes holds the operations of the API.
type routes []operation

const (
	get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
)

// These are the names of operations that a grant treats differently from the other operations of their kind.
const (
	queryPlan        = "query plan"
	bulkOperation    = "bulk"
	executeProcedure = "execute stored procedure"
)

// newRoutes returns the routing table. If several operations have the same method and path, the first operation with
// matching headers is used.
func newRoutes(s *Server) routes {
	e, tokens, lists := s.engine, sessions{s.engine}, lists{s.engine, &s.opts}
	at := &locator{e, s.ctx}
	root, database, offer := accountHandler{&s.opts}, &databaseHandler{e, lists}, &offerHandler{e, lists}
	coll, program := &containerHandler{e, tokens, lists}, &scriptHandler{e, s.scripts, tokens, lists}
	owned := &userHandler{e, s.opts.Account, &s.opts, lists}
	item, query := &itemHandler{e, s.scripts, tokens}, &queryHandler{e, e, s.scripts, tokens}
	return append(routes{
		{"read account", get, account, false, nil, true, root.read},

		{"query databases", post, databases, true, isQuery, true, database.list},
		{"create database", post, databases, true, nil, false, database.create},
		{"list databases", get, databases, true, nil, true, database.list},
		{"read database", get, databases, false, nil, true, on(at.database, database.read)},
		{"delete database", del, databases, false, nil, false, on(at.database, database.remove)},

		{"query containers", post, containers, true, isQuery, true, on(at.parentDatabase, coll.list)},
		{"create container", post, containers, true, nil, false, on(at.parentDatabase, coll.create)},
		{"list containers", get, containers, true, nil, true, on(at.parentDatabase, coll.list)},
		{"read container", get, containers, false, nil, true, on(at.container, coll.read)},
		{"replace container", put, containers, false, nil, false, on(at.container, coll.replace)},
		{"delete container", del, containers, false, nil, false, on(at.container, coll.remove)},

		{queryPlan, post, items, true, isQueryPlan, true, on(at.parentContainer, query.plan)},
		{"query items", post, items, true, isQuery, true, on(at.parentContainer, query.query)},
		{"batch", post, items, true, isAtomicBatch, false, on(at.parentContainer, item.batch)},
		{bulkOperation, post, items, true, isBatch, false, on(at.parentContainer, item.bulk)},
		{"upsert item", post, items, true, isUpsert, false, on(at.parentContainer, item.does(container.Upsert))},
		{"create item", post, items, true, nil, false, on(at.parentContainer, item.does(container.Create))},
		{"change feed", get, items, true, isChangeFeed, true, on(at.parentContainer, query.changes)},
		{"list items", get, items, true, nil, true, on(at.parentContainer, query.list)},
		{"read item", get, items, false, nil, true, on(at.parentContainer, item.read)},
		{"replace item", put, items, false, nil, false, on(at.parentContainer, item.does(container.Replace))},
		{"patch item", patch, items, false, nil, false, on(at.parentContainer, item.does(container.Patch))},
		{"delete item", del, items, false, nil, false, on(at.parentContainer, item.does(container.Delete))},
		{"delete items by key", post, byKey, true, nil, false, on(at.parentContainer, item.removeKey)},

		{"list partition key ranges", get, ranges, true, nil, true, on(at.parentContainer, rangeHandler{e}.list)},

		{"query offers", post, offers, true, isQuery, true, offer.list},
		{"list offers", get, offers, true, nil, true, offer.list},
		{"read offer", get, offers, false, nil, true, offer.read},
		{"replace offer", put, offers, false, nil, false, offer.replace},

		{"query conflicts", post, conflicts, true, isQuery, true, on(at.parentContainer, listConflicts)},
		{"list conflicts", get, conflicts, true, nil, true, on(at.parentContainer, listConflicts)},
		{"read conflict", get, conflicts, false, nil, true, on(at.parentContainer, noConflict)},
		{"delete conflict", del, conflicts, false, nil, false, on(at.parentContainer, noConflict)},

		{"query scripts", post, procedures, true, isQuery, true, on(at.parentContainer, program.list)},
		{"create script", post, procedures, true, nil, false, on(at.parentContainer, program.create)},
		{"list scripts", get, procedures, true, nil, true, on(at.parentContainer, program.list)},
		{"read script", get, procedures, false, nil, true, on(at.parentContainer, program.read)},
		{"replace script", put, procedures, false, nil, false, on(at.parentContainer, program.replace)},
		{"delete script", del, procedures, false, nil, false, on(at.parentContainer, program.remove)},
		{executeProcedure, post, procedures, false, nil, false, on(at.parentContainer, program.execute)},
	}, owned.routes(at)...)
}

// find returns the operation of a request.
func (r routes) find(method string, t *target, h httpwire.Fields) (*operation, *failure) {
	kind := t.kind
	if kind == triggers || kind == functions {
		kind = procedures
	}
	for i := range r {
		op := &r[i]
		if op.method == method && op.kind == kind && op.feed == t.feed && (op.when == nil || op.when(h)) {
			if op.kind == procedures && op.method == post && !op.feed && t.kind != procedures {
				break // triggers and functions cannot be executed directly
			}
			return op, nil
		}
	}
	return nil, &failure{status: http.StatusMethodNotAllowed,
		message: "The method " + method + " is not supported for this path."}
}

func isQuery(h httpwire.Fields) bool {
	return flag(h, hQuery) || flag(h, hQueryGo) ||
		strings.HasPrefix(strings.ToLower(h.Get(hContentType)), "application/query+json")
}

func isQueryPlan(h httpwire.Fields) bool   { return flag(h, hQueryPlan) }
func isUpsert(h httpwire.Fields) bool      { return flag(h, hUpsert) }
func isBatch(h httpwire.Fields) bool       { return flag(h, hBatch) }
func isAtomicBatch(h httpwire.Fields) bool { return isBatch(h) && flag(h, hBatchAtomic) }
func isChangeFeed(h httpwire.Fields) bool  { return h.Get(hIncremental) != "" }
