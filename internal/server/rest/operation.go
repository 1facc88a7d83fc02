// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"
	"strings"

	"github.com/ilion-db/ilion/internal/server/httpwire"
)

// operation is an operation of the API.
type operation struct {
	// name is the name in docs/compatibility-cosmos.md.
	name   string
	method string
	kind   kind
	feed   bool
	// when distinguishes operations with the same method and path by their headers. It is nil for the last of them.
	when func(httpwire.Fields) bool
	// reads reports that the read-only key allows the operation.
	reads bool
	do    func(*exchange, context.Context) (*answer, error)
}

const (
	get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
)

// operations is the routing table. If several operations have the same method and path, the first one whose headers
// match is used.
var operations = []operation{
	{"read account", get, account, false, nil, true, (*exchange).readAccount},

	{"query databases", post, databases, true, isQuery, true, (*exchange).queryDatabases},
	{"create database", post, databases, true, nil, false, (*exchange).createDatabase},
	{"list databases", get, databases, true, nil, true, (*exchange).listDatabases},
	{"read database", get, databases, false, nil, true, (*exchange).readDatabase},
	{"delete database", del, databases, false, nil, false, (*exchange).deleteDatabase},

	{"query containers", post, containers, true, isQuery, true, (*exchange).queryContainers},
	{"create container", post, containers, true, nil, false, (*exchange).createContainer},
	{"list containers", get, containers, true, nil, true, (*exchange).listContainers},
	{"read container", get, containers, false, nil, true, (*exchange).readContainer},
	{"replace container", put, containers, false, nil, false, (*exchange).replaceContainer},
	{"delete container", del, containers, false, nil, false, (*exchange).deleteContainer},

	{"query plan", post, items, true, isQueryPlan, true, (*exchange).planQuery},
	{"query items", post, items, true, isQuery, true, (*exchange).queryItems},
	{"batch", post, items, true, isAtomicBatch, false, (*exchange).batch},
	{"bulk", post, items, true, isBatch, false, (*exchange).bulk},
	{"upsert item", post, items, true, isUpsert, false, (*exchange).upsertItem},
	{"create item", post, items, true, nil, false, (*exchange).createItem},
	{"change feed", get, items, true, isChangeFeed, true, (*exchange).changeFeed},
	{"list items", get, items, true, nil, true, (*exchange).listItems},
	{"read item", get, items, false, nil, true, (*exchange).readItem},
	{"replace item", put, items, false, nil, false, (*exchange).replaceItem},
	{"patch item", patch, items, false, nil, false, (*exchange).patchItem},
	{"delete item", del, items, false, nil, false, (*exchange).deleteItem},
	{"delete items by key", post, byKey, true, nil, false, (*exchange).deleteByKey},

	{"list partition key ranges", get, ranges, true, nil, true, (*exchange).listRanges},

	{"query offers", post, offers, true, isQuery, true, (*exchange).queryOffers},
	{"list offers", get, offers, true, nil, true, (*exchange).listOffers},
	{"read offer", get, offers, false, nil, true, (*exchange).readOffer},
	{"replace offer", put, offers, false, nil, false, (*exchange).replaceOffer},

	{"query conflicts", post, conflicts, true, isQuery, true, (*exchange).listConflicts},
	{"list conflicts", get, conflicts, true, nil, true, (*exchange).listConflicts},
	{"read conflict", get, conflicts, false, nil, true, (*exchange).noConflict},
	{"delete conflict", del, conflicts, false, nil, false, (*exchange).noConflict},

	{"query scripts", post, procedures, true, isQuery, true, (*exchange).queryScripts},
	{"create script", post, procedures, true, nil, false, (*exchange).createScript},
	{"list scripts", get, procedures, true, nil, true, (*exchange).listScripts},
	{"read script", get, procedures, false, nil, true, (*exchange).readScript},
	{"replace script", put, procedures, false, nil, false, (*exchange).replaceScript},
	{"delete script", del, procedures, false, nil, false, (*exchange).deleteScript},
	{"execute stored procedure", post, procedures, false, nil, false, (*exchange).executeProcedure},
}

// operationOf returns the operation of a request.
func operationOf(method string, t *target, h httpwire.Fields) (*operation, *failure) {
	switch t.kind {
	case users, permits:
		return nil, badRequest("Users and permissions are not supported. Sign requests with the read-only key of the " +
			"account for clients that only read.")
	case clientKeys:
		return nil, badRequest("Client encryption keys are not supported.")
	}
	kind := t.kind
	if kind == triggers || kind == functions {
		kind = procedures
	}
	for i := range operations {
		op := &operations[i]
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
